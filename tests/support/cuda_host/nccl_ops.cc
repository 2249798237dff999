/* SPDX-License-Identifier: Apache-2.0 */
/* Operations and groups of them: what is checked at the call, and how they get into
 * their streams. */
#include "tests/support/cuda_host/nccl_state.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

using namespace cadre_nccl;
using cadre_host::locked;

namespace
{

/* The calls of one communicator in a group. */
struct gathered {
    std::shared_ptr<ncclComm> comm;
    std::vector<part> parts;
    std::vector<cudaStream_t> streams; /* each once */
};
struct waiting_job {
    std::shared_ptr<ncclComm> comm;
    std::function<ncclResult_t()> go;
};
struct group {
    int depth = 0;
    ncclResult_t error = ncclSuccess;
    std::vector<gathered> calls;
    std::vector<waiting_job> jobs;
};
thread_local group open_group;

int setting(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text && *text ? atoi(text) : otherwise;
}

/* Is this the operation that a test makes fail? */
bool chosen(const ncclComm &c)
{
    const char *told = getenv("CADRE_HOST_NCCL_FAIL");
    return told && strcmp(told, "async") == 0 &&
           (uint64_t)setting("CADRE_HOST_NCCL_FAIL_AT", 1) == c.posted &&
           setting("CADRE_HOST_NCCL_FAIL_RANK", c.rank) == c.rank;
}

/* ---- into the streams ---- */

void number(ncclComm &c, part &p)
{
    if (p.kind == send)
        p.number = c.sends[p.root]++;
    else if (p.kind == recv)
        p.number = c.recvs[p.root]++;
    else
        p.number = c.collectives++;
}

/* The first stream runs the batch, after the previous work of all streams and after the
 * communicator's last batch; the others continue after it. */
ncclResult_t launch(const gathered &calls)
{
    ncclComm &c = *calls.comm;
    auto b = std::make_shared<batch>();
    b->comm = calls.comm;
    b->parts = calls.parts;
    std::stable_partition(b->parts.begin(), b->parts.end(),
                          [](const part &p) { return p.kind < send; });
    for (part &p : b->parts)
        number(c, p);
    c.posted++;
    b->faulty = chosen(c);
    int device;
    cudaGetDevice(&device);
    cudaSetDevice(c.device);
    const cudaStream_t stream = calls.streams[0];
    cudaEventCreate(&b->end);
    for (size_t i = 1; i < calls.streams.size(); i++) {
        cudaEventRecord(b->end, calls.streams[i]);
        cudaStreamWaitEvent(stream, b->end, 0);
    }
    if (!c.batches.empty())
        cudaStreamWaitEvent(stream, c.batches.back()->end, 0);
    cadre_host::enqueue_steps(stream, [b] { return step(*b); });
    cudaEventRecord(b->end, stream);
    for (size_t i = 1; i < calls.streams.size(); i++)
        cudaStreamWaitEvent(calls.streams[i], b->end, 0);
    cudaSetDevice(device);
    c.batches.push_back(b);
    return ncclSuccess;
}

ncclResult_t launch_all(const group &done)
{
    ncclResult_t rc = ncclSuccess;
    for (const gathered &calls : done.calls) {
        const ncclResult_t one =
            give_job(calls.comm, true, [calls] { return launch(calls); });
        rc = one != ncclSuccess ? one : rc;
    }
    return rc;
}

/* Communicators made or split in a group wait for their peers together. */
ncclResult_t finish_jobs(std::vector<waiting_job> jobs)
{
    for (waiting_job &w : jobs)
        if (!w.comm->blocking)
            give_job(w.comm, false, w.go);
    for (unsigned turn = 0;; turn++) {
        bool all = true, background = false;
        for (waiting_job &w : jobs) {
            background |= !w.comm->blocking;
            if (!w.go || !w.comm->blocking)
                continue;
            const ncclResult_t rc = w.go();
            if (rc != ncclSuccess && rc != ncclInProgress)
                return rc;
            if (rc == ncclSuccess)
                w.go = nullptr;
            else
                all = false;
        }
        if (all)
            return background ? ncclInProgress : ncclSuccess;
        cadre_host::relax(turn);
    }
}

ncclResult_t end_group()
{
    group done;
    if (--open_group.depth > 0)
        return ncclSuccess;
    std::swap(done, open_group);
    if (done.error != ncclSuccess)
        return done.error;
    ncclResult_t rc = finish_jobs(done.jobs);
    if (rc == ncclSuccess || rc == ncclInProgress) {
        const ncclResult_t launched = launch_all(done);
        rc = launched != ncclSuccess ? launched : rc;
    }
    return rc;
}

/* ---- checks ---- */

/* Elements that a call reads at `in` and writes at `out` on this rank. */
void extents(const ncclComm &c, const part &p, uint64_t *reads, uint64_t *writes)
{
    const uint64_t all = p.count * (uint64_t)c.size;
    const bool root = p.root == c.rank;
    *reads = p.kind == reduce_scatter ? all : p.count;
    *writes = p.kind == all_gather ? all : p.count;
    if (p.kind == recv || (p.kind == broadcast && !root))
        *reads = 0;
    if (p.kind == send || (p.kind == reduce && !root))
        *writes = 0;
}

ncclResult_t check(const ncclComm &c, const part &p, ncclDataType_t type,
                   cudaStream_t stream)
{
    const char *name = kind_name(p.kind);
    uint64_t reads, writes;
    extents(c, p, &reads, &writes);
    const size_t bytes = p.kind >= send ? 1 : type_bytes(type);
    const bool reduces =
        p.kind == all_reduce || p.kind == reduce || p.kind == reduce_scatter;
    const char *wrong = nullptr;
    if (c.finalized)
        wrong = "the communicator was finalized";
    else if (type_bytes(type) == 0 || (reduces && !reducible(type, p.op)))
        wrong = "the stand-in has no such type, or reduction of it";
    else if (p.root < 0 || p.root >= c.size)
        wrong = "Invalid root, or peer";
    else if (reads && !cadre_host::is_reachable(p.in, (size_t)reads * bytes))
        wrong = "what it reads is not all memory of the device";
    else if (writes && !cadre_host::is_reachable(p.out, (size_t)writes * bytes))
        wrong = "what it writes is not all memory of the device";
    else if (cadre_host::capturing(stream))
        wrong = "the stand-in has no captures of NCCL";
    if (!wrong)
        return ncclSuccess;
    say("rank %d: %s of %llu, type %d, op %d, root %d: %s", c.rank, name,
        (unsigned long long)p.count, (int)type, (int)p.op, p.root, wrong);
    return ncclInvalidArgument;
}

void gather(const std::shared_ptr<ncclComm> &comm, const part &p, cudaStream_t stream)
{
    auto &calls = open_group.calls;
    auto found = std::find_if(calls.begin(), calls.end(),
                              [&](const gathered &g) { return g.comm == comm; });
    if (found == calls.end()) {
        calls.push_back({comm, {}, {}});
        found = calls.end() - 1;
    }
    found->parts.push_back(p);
    auto &streams = found->streams;
    if (std::find(streams.begin(), streams.end(), stream) == streams.end())
        streams.push_back(stream);
}

ncclResult_t post(ncclComm_t handle, part p, cudaStream_t stream)
{
    locked hold;
    std::shared_ptr<ncclComm> comm;
    open_group.depth++;
    ncclResult_t rc = find_ready(handle, kind_name(p.kind), comm);
    const ncclDataType_t type = p.type;
    if (p.kind >= send) { /* both sides count bytes */
        p.count *= type_bytes(type);
        p.type = ncclInt8;
    }
    if (rc == ncclSuccess)
        rc = check(*comm, p, type, stream);
    if (rc == ncclSuccess && (p.count > 0 || p.kind >= send))
        gather(comm, p, stream);
    if (rc != ncclSuccess && open_group.error == ncclSuccess)
        open_group.error = rc;
    const ncclResult_t ended = end_group();
    return rc != ncclSuccess ? rc : ended;
}

} // namespace

bool cadre_nccl::group_keeps(const std::shared_ptr<ncclComm> &comm,
                             const std::function<ncclResult_t()> &go)
{
    if (open_group.depth == 0)
        return false;
    open_group.jobs.push_back({comm, go});
    return true;
}

ncclResult_t ncclGroupStart(void)
{
    open_group.depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    locked hold;
    if (open_group.depth == 0) {
        say("ncclGroupEnd: not in a group call.");
        return ncclInvalidUsage;
    }
    return end_group();
}

ncclResult_t ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return post(comm, {all_reduce, in, out, count, type, op, 0}, stream);
}

ncclResult_t ncclReduce(const void *in, void *out, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
    return post(comm, {reduce, in, out, count, type, op, root}, stream);
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count,
                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream)
{
    return post(comm, {reduce_scatter, in, out, count, type, op, 0}, stream);
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
    return post(comm, {all_gather, in, out, count, type, ncclSum, 0}, stream);
}

ncclResult_t ncclBroadcast(const void *in, void *out, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream)
{
    return post(comm, {broadcast, in, out, count, type, ncclSum, root}, stream);
}

ncclResult_t ncclSend(const void *in, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    return post(comm, {send, in, nullptr, count, type, ncclSum, peer}, stream);
}

ncclResult_t ncclRecv(void *out, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    return post(comm, {recv, nullptr, out, count, type, ncclSum, peer}, stream);
}
