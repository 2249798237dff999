/* SPDX-License-Identifier: Apache-2.0 */
/* The communicators of this process, and the thread that continues what no caller waits
 * for: operations that a peer waits for or that have begun, and calls reported as in
 * progress. It runs while there is a communicator. */
#include "tests/support/cuda_host/nccl_state.h"

#include <cstdarg>
#include <cstdio>
#include <map>
#include <thread>
#include <unistd.h>

using namespace cadre_nccl;
using cadre_host::locked;

namespace
{

/* A launch that is never queried still happens, but late. */
constexpr unsigned launch_turns = 200;

struct world {
    std::map<ncclComm_t, std::shared_ptr<ncclComm>> comms;
    pid_t engine = 0; /* the process whose thread runs */
    std::string last = "";
};
world &all()
{
    static world *w = new world; /* lives as long as any thread */
    return *w;
}

/* Under the lock: one round for one communicator; true: a rank waits for it. */
bool go_on(const std::shared_ptr<ncclComm> &comm)
{
    const bool busy = comm->job != nullptr;
    if (comm->job && (!comm->job->launches || ++comm->job->turns > launch_turns))
        try_job(*comm);
    cudaEvent_t until = nullptr;
    for (const auto &b : comm->batches)
        if (demanded(*b))
            until = b->end;
    if (until)
        cadre_host::advance_to(until);
    return busy || until;
}

void engine()
{
    locked hold;
    for (unsigned turn = 0; !all().comms.empty(); turn++) {
        for (const auto &comm : live())
            if (go_on(comm))
                turn = 1;
        cadre_host::relax(turn);
    }
    all().engine = 0;
}

} // namespace

void cadre_nccl::say(const char *format, ...)
{
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    fprintf(stderr, "nccl's stand-in: %s\n", line);
    locked hold;
    all().last = line;
}

const char *ncclGetLastError(ncclComm_t)
{
    static thread_local std::string kept;
    locked hold;
    kept = all().last;
    return kept.c_str();
}

std::vector<std::shared_ptr<ncclComm>> cadre_nccl::live()
{
    std::vector<std::shared_ptr<ncclComm>> list;
    for (const auto &entry : all().comms)
        list.push_back(entry.second);
    return list;
}

void cadre_nccl::enter(const std::shared_ptr<ncclComm> &comm)
{
    all().comms[comm.get()] = comm;
    if (all().engine == getpid())
        return;
    all().engine = getpid();
    std::thread(engine).detach();
}

void cadre_nccl::leave(ncclComm_t comm)
{
    all().comms.erase(comm);
}

std::shared_ptr<ncclComm> cadre_nccl::find(ncclComm_t comm, const char *call)
{
    auto found = all().comms.find(comm);
    if (found != all().comms.end())
        return found->second;
    say("%s: no such communicator: null, or destroyed", call);
    return nullptr;
}

ncclResult_t cadre_nccl::find_ready(ncclComm_t comm, const char *call,
                                    std::shared_ptr<ncclComm> &out)
{
    out = find(comm, call);
    if (!out)
        return ncclInvalidArgument;
    if (out->async == ncclInProgress || out->unseen) {
        say("%s: Attempt to use communicator before the previous operation returned "
            "ncclSuccess",
            call);
        return ncclInvalidArgument;
    }
    return out->async;
}

/* ---- jobs ---- */

void cadre_nccl::try_job(ncclComm &comm)
{
    if (!comm.job)
        return;
    const ncclResult_t rc = comm.job->go();
    if (rc == ncclInProgress)
        return;
    comm.async = rc;
    comm.job.reset();
}

ncclResult_t cadre_nccl::give_job(const std::shared_ptr<ncclComm> &comm, bool launches,
                                  std::function<ncclResult_t()> go)
{
    if (!launches && group_keeps(comm, go))
        return ncclSuccess;
    if (!comm->blocking) {
        comm->job = std::make_unique<job>();
        comm->job->go = std::move(go);
        comm->job->launches = launches;
        comm->unseen = true;
        comm->asker = {};
        return comm->async = ncclInProgress;
    }
    for (unsigned turn = 0;; turn++) {
        const ncclResult_t rc = go();
        if (rc != ncclInProgress)
            return rc;
        cadre_host::relax(turn);
        if (comm->aborted)
            return ncclInternalError;
    }
}

/* Whoever is told that a call has ended frees NCCL's record of it, without a lock: two
 * threads that ask for one call may free it twice. Here that always fails. */
static bool alone(ncclComm &comm)
{
    const std::thread::id self = std::this_thread::get_id();
    if (!comm.unseen || comm.asker == std::thread::id() || comm.asker == self) {
        comm.asker = self;
        return true;
    }
    say("ncclCommGetAsyncError: two threads ask for one call, which NCCL frees twice");
    comm.job.reset();
    comm.async = ncclInternalError;
    return false;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t *error)
{
    locked hold;
    auto comm = find(handle, "ncclCommGetAsyncError");
    if (!comm || !error)
        return ncclInvalidArgument;
    if (alone(*comm) && comm->job && comm->job->asked++ > 0)
        try_job(*comm);
    *error = comm->async;
    if (comm->async != ncclInProgress)
        comm->unseen = false;
    return ncclSuccess;
}
