/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of NCCL's stand-in. Everything here is under the runtime's one lock
 * (cadre_host::locked); what ranks share lies in `segment`, a file mapped by each. */
#ifndef CADRE_TESTS_CUDA_HOST_NCCL_STATE_H
#define CADRE_TESTS_CUDA_HOST_NCCL_STATE_H

#include "tests/support/cuda_host/nccl.h"
#include "tests/support/cuda_host/runtime.h"

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace cadre_nccl
{

constexpr int most_ranks = 16;
constexpr size_t chunk_bytes = (size_t)64 << 10, letter_bytes = (size_t)16 << 10;

/* ---- what ranks share: zero at first ---- */

typedef std::atomic<uint64_t> counter;

/* What must be equal on all ranks of a collective. */
struct call {
    int32_t kind, type, op, root;
    uint64_t count;
};

/* What a rank publishes: written only by that rank. Of doubled fields, entry n % 2
 * belongs to number n: no rank is more than one ahead of another. */
struct rank_slot {
    std::atomic<int32_t> joined; /* the size of the world, once the rest is written */
    int32_t device;
    uint64_t host;
    counter begun; /* collectives */
    call calls[2];
    counter put, took; /* chunks, of all collectives one after the other */
    counter splits;
    int32_t color[2], key[2];
    alignas(64) unsigned char data[chunk_bytes];
};

/* From one rank to one other, or to itself. */
struct mailbox {
    counter sends, recvs; /* begun */
    uint64_t sent[2], wanted[2];
    counter put, took; /* letters */
    alignas(64) unsigned char data[letter_bytes];
};

struct segment {
    std::atomic<int32_t> arrived;
    rank_slot ranks[most_ranks];
    mailbox mail[most_ranks][most_ranks]; /* from, to */
};

/* A segment's mapping; unmapped with the last reference. */
struct mapping {
    segment *at = nullptr;
    std::string path;
    ~mapping();
};

/* The file's mapping, or null with errno; `make` it where it does not exist. */
std::shared_ptr<mapping> map_segment(const std::string &path, bool make);

/* A path that no other file has; it is removed at the process's end. */
std::string new_path();

/* ---- what a rank knows ---- */

enum kind { all_reduce, reduce, reduce_scatter, all_gather, broadcast, send, recv };
const char *kind_name(int kind);

/* One call of the API, and its progress. */
struct part {
    int kind;
    const void *in;
    void *out;
    uint64_t count; /* as in the call; of send and recv: bytes */
    ncclDataType_t type;
    ncclRedOp_t op;
    int root; /* or the peer */
    uint64_t number = 0, at = 0;
    bool begun = false, agreed = false, written = false, finished = false;
    bool told = false; /* that it does not fit its peers' */
};

/* One kernel of NCCL: a call, or a group's calls of one communicator. */
struct batch {
    std::shared_ptr<ncclComm> comm;
    std::vector<part> parts; /* collectives first */
    cudaEvent_t end = nullptr;
    bool begun = false, faulty = false;
    ~batch();
};

/* Continue a batch that is next; true: it is done, or its communicator was aborted. */
bool step(batch &b);

/* Does a peer wait for this batch, or has it begun? */
bool demanded(const batch &b);

bool reducible(ncclDataType_t type, ncclRedOp_t op);
size_t type_bytes(ncclDataType_t type); /* 0: no such type here */

/* out[0..n) = reduction of rows[r][0..n) over r = first, first + 1, ..., first - 1. */
void reduce_ring(void *out, const std::vector<const void *> &rows, size_t first,
                 size_t n, ncclDataType_t type, ncclRedOp_t op);

/* Continued in the background: what was begun without waiting. */
struct job {
    std::function<ncclResult_t()> go; /* ncclInProgress: call it again */
    bool launches = false; /* late: not before it was queried twice */
    unsigned asked = 0, turns = 0;
};

} // namespace cadre_nccl

struct ncclComm {
    int rank = 0, size = 0, device = 0;
    bool blocking = true, aborted = false, finalized = false;
    ncclResult_t async = ncclSuccess;
    /* its last call was left in progress, and nobody has been told that it ended; the
     * thread that asks for it */
    bool unseen = false;
    std::thread::id asker;
    std::shared_ptr<cadre_nccl::mapping> map;
    std::unique_ptr<cadre_nccl::job> job;
    std::deque<std::shared_ptr<cadre_nccl::batch>> batches; /* not done, in order */
    uint64_t posted = 0, collectives = 0, rounds = 0, splits = 0;
    uint64_t sends[cadre_nccl::most_ranks] = {0}, recvs[cadre_nccl::most_ranks] = {0};

    cadre_nccl::segment &shared() const
    {
        return *map->at;
    }
};

namespace cadre_nccl
{

/* One line on stderr, which ncclGetLastError repeats. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The live communicator behind a handle; null, with a line, for any other. */
std::shared_ptr<ncclComm> find(ncclComm_t comm, const char *call);
/* That, and it is ready for `call`: ncclSuccess. */
ncclResult_t find_ready(ncclComm_t comm, const char *call,
                        std::shared_ptr<ncclComm> &out);
std::vector<std::shared_ptr<ncclComm>> live();
void enter(const std::shared_ptr<ncclComm> &comm); /* and start the engine */
void leave(ncclComm_t comm);

/* Let the communicator do the job: at once (its result), or in the background
 * (ncclInProgress). Within a group: at its end. */
ncclResult_t give_job(const std::shared_ptr<ncclComm> &comm, bool launches,
                      std::function<ncclResult_t()> go);
/* Try the pending job, if any. */
void try_job(ncclComm &comm);

/* Where a group of this thread is open, keep the job for its end and return true. */
bool group_keeps(const std::shared_ptr<ncclComm> &comm,
                 const std::function<ncclResult_t()> &go);

} // namespace cadre_nccl

#endif
