/* SPDX-License-Identifier: Apache-2.0 */
/* What an operation does, in steps that never wait. A collective goes chunk by chunk:
 * every rank writes its own into its slot once all have read the previous chunk, and
 * reads the others' slots once all have written theirs. A send and its receive move
 * letters through the mailbox between two ranks. */
#include "tests/support/cuda_host/nccl_state.h"

#include <algorithm>
#include <cstring>

using namespace cadre_nccl;
using cadre_host::open_memory;

namespace
{

/* ---- collectives ---- */

bool same(const call &a, const call &b)
{
    return a.kind == b.kind && a.type == b.type && a.op == b.op && a.root == b.root &&
           a.count == b.count;
}

call call_of(const part &p)
{
    return {p.kind, (int32_t)p.type, (int32_t)p.op, p.root, p.count};
}

void tell_difference(part &p, int rank, int other, const call &theirs)
{
    if (p.told)
        return;
    p.told = true;
    say("rank %d and rank %d differ in collective %llu, which hangs: %s of %llu, type "
        "%d, op %d, root %d; %s of %llu, type %d, op %d, root %d",
        rank, other, (unsigned long long)p.number, kind_name(p.kind),
        (unsigned long long)p.count, (int)p.type, (int)p.op, p.root,
        kind_name(theirs.kind), (unsigned long long)theirs.count, theirs.type,
        theirs.op, theirs.root);
}

/* All ranks have begun it, with the same arguments. */
bool agree(ncclComm &c, part &p)
{
    segment &s = c.shared();
    if (!p.begun) {
        s.ranks[c.rank].calls[p.number % 2] = call_of(p);
        s.ranks[c.rank].begun.store(p.number + 1, std::memory_order_release);
        p.begun = true;
    }
    for (int r = 0; r < c.size; r++)
        if (s.ranks[r].begun.load(std::memory_order_acquire) <= p.number)
            return false;
    for (int r = 0; r < c.size; r++) {
        const call theirs = s.ranks[r].calls[p.number % 2];
        if (!same(theirs, call_of(p))) {
            tell_difference(p, c.rank, r, theirs);
            return false;
        }
    }
    return p.agreed = true;
}

bool all_have(const ncclComm &c, counter rank_slot::*what, uint64_t least)
{
    for (int r = 0; r < c.size; r++)
        if ((c.shared().ranks[r].*what).load(std::memory_order_acquire) < least)
            return false;
    return true;
}

/* Elements of a chunk from p.at on. */
size_t chunk_elements(const ncclComm &c, const part &p)
{
    size_t room = chunk_bytes / type_bytes(p.type);
    if (p.kind == reduce_scatter)
        room /= (size_t)c.size;
    return std::min(room, (size_t)(p.count - p.at));
}

void put_chunk(ncclComm &c, const part &p, size_t n)
{
    open_memory open;
    const size_t bytes = type_bytes(p.type);
    unsigned char *to = c.shared().ranks[c.rank].data;
    const auto *in = (const unsigned char *)p.in;
    if (p.kind == broadcast && p.root != c.rank)
        return;
    if (p.kind != reduce_scatter) {
        memcpy(to, in + p.at * bytes, n * bytes);
        return;
    }
    for (size_t r = 0; r < (size_t)c.size; r++)
        memcpy(to + r * n * bytes, in + (r * p.count + p.at) * bytes, n * bytes);
}

/* The chunk of an all_reduce: the vector has a part for each rank, and the sum of part
 * r begins at rank r + 1. */
void take_parts(ncclComm &c, const part &p, size_t n)
{
    const size_t bytes = type_bytes(p.type), size = (size_t)c.size;
    for (size_t done = 0; done < n;) {
        const uint64_t each = (p.count + size - 1) / size;
        const uint64_t of = (p.at + done) / each;
        const size_t m =
            (size_t)std::min<uint64_t>(n - done, (of + 1) * each - p.at - done);
        std::vector<const void *> rows;
        for (int r = 0; r < c.size; r++)
            rows.push_back(c.shared().ranks[r].data + done * bytes);
        reduce_ring((unsigned char *)p.out + (p.at + done) * bytes, rows,
                    (of + 1) % size, m, p.type, p.op);
        done += m;
    }
}

void take_chunk(ncclComm &c, const part &p, size_t n)
{
    open_memory open;
    const size_t bytes = type_bytes(p.type), size = (size_t)c.size;
    const size_t rank = (size_t)c.rank;
    auto *out = (unsigned char *)p.out;
    const rank_slot *slots = c.shared().ranks;
    std::vector<const void *> rows;
    switch (p.kind) {
    case all_reduce:
        take_parts(c, p, n);
        break;
    case reduce:
    case reduce_scatter: {
        const bool scatter = p.kind == reduce_scatter;
        const size_t skip = scatter ? rank * n * bytes : 0;
        const size_t last = scatter ? rank : (size_t)p.root;
        for (size_t r = 0; r < size; r++)
            rows.push_back(slots[r].data + skip);
        if (last == rank)
            reduce_ring(out + p.at * bytes, rows, (last + 1) % size, n, p.type, p.op);
        break;
    }
    case all_gather:
        for (size_t r = 0; r < size; r++)
            memcpy(out + (r * p.count + p.at) * bytes, slots[r].data, n * bytes);
        break;
    default:
        memcpy(out + p.at * bytes, slots[p.root].data, n * bytes);
    }
}

bool step_collective(ncclComm &c, part &p)
{
    rank_slot &mine = c.shared().ranks[c.rank];
    if (!p.agreed && !agree(c, p))
        return false;
    while (p.at < p.count) {
        const size_t n = chunk_elements(c, p);
        if (!p.written) {
            if (!all_have(c, &rank_slot::took, c.rounds))
                return false;
            put_chunk(c, p, n);
            mine.put.store(c.rounds + 1, std::memory_order_release);
            p.written = true;
        }
        if (!all_have(c, &rank_slot::put, c.rounds + 1))
            return false;
        take_chunk(c, p, n);
        mine.took.store(++c.rounds, std::memory_order_release);
        p.written = false;
        p.at += n;
    }
    return p.finished = true;
}

/* ---- sends and receives ---- */

mailbox &box_of(const ncclComm &c, const part &p)
{
    return p.kind == send ? c.shared().mail[c.rank][p.root]
                          : c.shared().mail[p.root][c.rank];
}

/* Both sides have begun it, with the same number of bytes. */
bool meet(ncclComm &c, part &p)
{
    mailbox &box = box_of(c, p);
    const size_t entry = p.number % 2;
    if (!p.begun) {
        (p.kind == send ? box.sent : box.wanted)[entry] = p.count;
        (p.kind == send ? box.sends : box.recvs)
            .store(p.number + 1, std::memory_order_release);
        p.begun = true;
    }
    const counter &other = p.kind == send ? box.recvs : box.sends;
    if (other.load(std::memory_order_acquire) <= p.number)
        return false;
    const uint64_t theirs = (p.kind == send ? box.wanted : box.sent)[entry];
    if (theirs == p.count)
        return p.agreed = true;
    if (!p.told)
        say("rank %d and rank %d differ in %s %llu, which hangs: %llu bytes, and %llu",
            c.rank, p.root, kind_name(p.kind), (unsigned long long)p.number,
            (unsigned long long)p.count, (unsigned long long)theirs);
    p.told = true;
    return false;
}

/* Move a letter; true: one was moved. */
bool move_letter(ncclComm &c, part &p)
{
    mailbox &box = box_of(c, p);
    const uint64_t put = box.put.load(std::memory_order_acquire);
    const uint64_t took = box.took.load(std::memory_order_acquire);
    const size_t n = (size_t)std::min<uint64_t>(letter_bytes, p.count - p.at);
    if (n == 0 || (p.kind == send) != (put == took))
        return false;
    open_memory open;
    if (p.kind == send) {
        memcpy(box.data, (const unsigned char *)p.in + p.at, n);
        box.put.store(put + 1, std::memory_order_release);
    } else {
        memcpy((unsigned char *)p.out + p.at, box.data, n);
        box.took.store(took + 1, std::memory_order_release);
    }
    p.at += n;
    return true;
}

/* A send is done when the receiver has everything. */
bool step_letter(ncclComm &c, part &p)
{
    if (!p.agreed && !meet(c, p))
        return false;
    while (move_letter(c, p))
        ;
    const mailbox &box = box_of(c, p);
    if (p.kind == send && box.put.load(std::memory_order_acquire) !=
                              box.took.load(std::memory_order_acquire))
        return false;
    return p.finished = p.at == p.count;
}

/* One pass over a group's exchanges: of those in one direction with one peer, the first
 * that is not done. True: there was progress. */
bool step_letters(ncclComm &c, batch &b)
{
    bool moved = false;
    uint32_t busy[2] = {0, 0};
    for (part &p : b.parts) {
        if (p.kind < send || p.finished || (busy[p.kind == recv] >> p.root & 1))
            continue;
        busy[p.kind == recv] |= 1u << p.root;
        const uint64_t before = p.at;
        if (step_letter(c, p) || p.at != before)
            moved = true;
    }
    return moved;
}

} // namespace

/* ---- a batch ---- */

const char *cadre_nccl::kind_name(int kind)
{
    static const char *const names[] = {"all_reduce", "reduce",    "reduce_scatter",
                                        "all_gather", "broadcast", "send",
                                        "recv"};
    return kind >= 0 && kind <= recv ? names[kind] : "?";
}

batch::~batch()
{
    if (end)
        cudaEventDestroy(end);
}

bool cadre_nccl::step(batch &b)
{
    ncclComm &c = *b.comm;
    if (c.aborted)
        return true;
    if (b.faulty && !b.begun) {
        c.async = ncclRemoteError;
        say("rank %d: a fault was requested: %s ends as ncclRemoteError and hangs",
            c.rank, kind_name(b.parts[0].kind));
    }
    b.begun = true;
    if (b.faulty)
        return false;
    for (part &p : b.parts)
        if (p.kind < send && !p.finished && !step_collective(c, p))
            return false;
    while (step_letters(c, b))
        ;
    for (const part &p : b.parts)
        if (!p.finished)
            return false;
    c.batches.pop_front();
    return true;
}

bool cadre_nccl::demanded(const batch &b)
{
    const ncclComm &c = *b.comm;
    if (b.begun)
        return true;
    for (const part &p : b.parts) {
        if (p.kind < send) {
            for (int r = 0; r < c.size; r++)
                if (c.shared().ranks[r].begun.load() > p.number)
                    return true;
            continue;
        }
        const mailbox &box = box_of(c, p);
        if ((p.kind == send ? box.recvs : box.sends).load() > p.number)
            return true;
    }
    return false;
}
