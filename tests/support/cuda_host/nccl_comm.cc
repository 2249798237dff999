/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators: how they are made, split and ended. */
#include "tests/support/cuda_host/nccl_state.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

using namespace cadre_nccl;
using cadre_host::locked;

namespace
{

const char id_begins[] = "cadre-nccl:";

/* The host as NCCL identifies it: NCCL_HOSTID or a name, read once per process. */
uint64_t host_hash()
{
    static const uint64_t hash = [] {
        char name[256] = "";
        const char *told = getenv("NCCL_HOSTID");
        gethostname(name, sizeof name - 1);
        uint64_t h = 14695981039346656037u;
        for (const char *c = told && *told ? told : name; *c; c++)
            h = (h ^ (unsigned char)*c) * 1099511628211u;
        return h;
    }();
    return hash;
}

bool fails_at(const char *what)
{
    const char *told = getenv("CADRE_HOST_NCCL_FAIL");
    return told && strcmp(told, what) == 0;
}

/* config's choice, or that of NCCL_COMM_BLOCKING, or `otherwise`. */
ncclResult_t read_config(const ncclConfig_t *config, bool otherwise, bool *blocking)
{
    const char *told = getenv("NCCL_COMM_BLOCKING");
    *blocking = otherwise;
    if (config) {
        if (config->magic != 0xcafebeef || config->size != sizeof *config) {
            say("ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
            return ncclInvalidArgument;
        }
        if (config->blocking != NCCL_CONFIG_UNDEF_INT && (config->blocking & ~1)) {
            say("Invalid config blocking attribute value %d", config->blocking);
            return ncclInvalidArgument;
        }
        if (config->blocking != NCCL_CONFIG_UNDEF_INT)
            *blocking = config->blocking != 0;
    }
    if (told && (strcmp(told, "0") == 0 || strcmp(told, "1") == 0))
        *blocking = *told == '1';
    return ncclSuccess;
}

/* Announce this rank to the others; its slot must be free. */
ncclResult_t join(ncclComm &c)
{
    segment &s = c.shared();
    rank_slot &mine = s.ranks[c.rank];
    if (mine.joined.load() != 0) {
        say("rank %d of %d: the rank is taken in this id's world", c.rank, c.size);
        return ncclInvalidArgument;
    }
    mine.device = c.device;
    mine.host = host_hash();
    mine.joined.store(c.size, std::memory_order_release);
    if (s.arrived.fetch_add(1) + 1 == c.size)
        unlink(c.map->path.c_str());
    return ncclSuccess;
}

/* Are all ranks present and consistent? */
ncclResult_t await(ncclComm &c, bool may_share)
{
    const rank_slot *slots = c.shared().ranks;
    for (int r = 0; r < c.size; r++) {
        const int joined = slots[r].joined.load(std::memory_order_acquire);
        if (joined == 0)
            return ncclInProgress;
        if (joined != c.size) {
            say("Bootstrap Root : mismatch in rank count from procs %d : %d", c.size,
                joined);
            return ncclInvalidArgument;
        }
    }
    for (int r = 0; r < c.size && !may_share; r++)
        for (int q = 0; q < r; q++)
            if (slots[r].host == slots[q].host && slots[r].device == slots[q].device) {
                say("Duplicate GPU detected : rank %d and rank %d both on CUDA device "
                    "%x",
                    c.rank == q ? q : r, c.rank == q ? r : q,
                    (unsigned)slots[r].device);
                return ncclInvalidUsage;
            }
    return ncclSuccess;
}

ncclResult_t first_error(ncclComm_t *comm, int nranks, const ncclUniqueId &id, int rank)
{
    int device, count;
    if (!comm)
        return ncclInvalidArgument;
    *comm = nullptr;
    if (nranks < 1 || nranks > most_ranks || rank < 0 || rank >= nranks) {
        say("Invalid rank requested : %d/%d (the stand-in has at most %d)", rank,
            nranks, most_ranks);
        return ncclInvalidArgument;
    }
    if (cudaGetDeviceCount(&count) != cudaSuccess ||
        cudaGetDevice(&device) != cudaSuccess)
        return ncclUnhandledCudaError;
    if (strncmp(id.internal, id_begins, sizeof id_begins - 1) != 0 ||
        !memchr(id.internal, 0, sizeof id.internal)) {
        say("the unique id was not made by ncclGetUniqueId");
        return ncclInvalidArgument;
    }
    return ncclSuccess;
}

/* A split in the background: its current step and its result. */
struct splitting {
    std::shared_ptr<ncclComm> parent, child;
    ncclComm_t *out;
    int color, key;
    bool blocking;
    uint64_t number;
};

/* All have sent their color: the child with its rank and size, joined. */
ncclResult_t make_child(splitting &s)
{
    ncclComm &p = *s.parent;
    const size_t entry = s.number % 2;
    auto child = std::make_shared<ncclComm>();
    child->device = p.device;
    child->blocking = s.blocking;
    for (int r = 0; r < p.size; r++) {
        const rank_slot &slot = p.shared().ranks[r];
        if (slot.color[entry] != s.color)
            continue;
        child->size++;
        const int key = slot.key[entry];
        if (key < s.key || (key == s.key && r < p.rank))
            child->rank++;
    }
    const std::string path =
        p.map->path + "." + std::to_string(s.number) + "." + std::to_string(s.color);
    child->map = map_segment(path, true);
    if (!child->map) {
        say("%s: %s", path.c_str(), strerror(errno));
        return ncclSystemError;
    }
    s.child = child;
    return join(*child);
}

ncclResult_t go_on(splitting &s)
{
    ncclComm &p = *s.parent;
    for (int r = 0; r < p.size; r++)
        if (p.shared().ranks[r].splits.load(std::memory_order_acquire) <= s.number)
            return ncclInProgress;
    if (s.color == NCCL_SPLIT_NOCOLOR)
        return ncclSuccess;
    ncclResult_t rc = s.child ? ncclSuccess : make_child(s);
    if (rc == ncclSuccess)
        rc = await(*s.child, true);
    if (rc != ncclSuccess)
        return rc;
    enter(s.child);
    __atomic_store_n(s.out, s.child.get(), __ATOMIC_RELEASE);
    return ncclSuccess;
}

/* The communicator's last operation has ended. */
bool drained(ncclComm &c)
{
    if (!c.batches.empty())
        cadre_host::advance_to(c.batches.back()->end);
    return c.batches.empty();
}

} // namespace

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    if (!id)
        return ncclInvalidArgument;
    const std::string path = new_path();
    memset(id, 0, sizeof *id);
    if (!map_segment(path, true)) {
        say("%s: %s", path.c_str(), strerror(errno));
        return ncclSystemError;
    }
    if (sizeof id_begins + path.size() > sizeof id->internal) {
        say("%s: the path is too long", path.c_str());
        return ncclSystemError;
    }
    strcpy(id->internal, (id_begins + path).c_str());
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int nranks, ncclUniqueId id,
                                    int rank, ncclConfig_t *config)
{
    locked hold;
    ncclResult_t rc = first_error(out, nranks, id, rank);
    auto comm = std::make_shared<ncclComm>();
    if (rc == ncclSuccess)
        rc = read_config(config, true, &comm->blocking);
    if (rc != ncclSuccess)
        return rc;
    comm->rank = rank;
    comm->size = nranks;
    cudaGetDevice(&comm->device);
    const std::string path = id.internal + sizeof id_begins - 1;
    auto begin = [comm, path]() -> ncclResult_t {
        if (fails_at("init")) {
            say("rank %d: a fault was requested: init", comm->rank);
            return ncclSystemError;
        }
        comm->map = map_segment(path, false);
        if (comm->map)
            return join(*comm);
        say("%s: %s: the world of this id is complete, or who made it has ended",
            path.c_str(), strerror(errno));
        return ncclSystemError;
    };
    enter(comm);
    __atomic_store_n(out, comm.get(), __ATOMIC_RELEASE);
    rc = give_job(comm, false, [comm, begin]() -> ncclResult_t {
        const ncclResult_t begun = comm->map ? ncclSuccess : begin();
        return begun == ncclSuccess ? await(*comm, false) : begun;
    });
    if (rc != ncclSuccess && rc != ncclInProgress) {
        leave(comm.get());
        *out = nullptr;
    }
    return rc;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank)
{
    return ncclCommInitRankConfig(comm, nranks, id, rank, nullptr);
}

ncclResult_t ncclCommSplit(ncclComm_t handle, int color, int key, ncclComm_t *out,
                           ncclConfig_t *config)
{
    locked hold;
    auto s = std::make_shared<splitting>();
    ncclResult_t rc = find_ready(handle, "ncclCommSplit", s->parent);
    if (rc == ncclSuccess && (!out || (color < 0 && color != NCCL_SPLIT_NOCOLOR))) {
        say("ncclCommSplit: no place for the result, or a negative color");
        rc = ncclInvalidArgument;
    }
    if (rc == ncclSuccess)
        rc = read_config(config, s->parent->blocking, &s->blocking);
    if (rc != ncclSuccess)
        return rc;
    *out = nullptr;
    s->out = out;
    s->color = color;
    s->key = key;
    s->number = s->parent->splits++;
    rank_slot &mine = s->parent->shared().ranks[s->parent->rank];
    mine.color[s->number % 2] = color;
    mine.key[s->number % 2] = key;
    mine.splits.store(s->number + 1, std::memory_order_release);
    rc = give_job(s->parent, false, [s] { return go_on(*s); });
    /* as NCCL 2.28 does: only the parent's state says that it has just begun */
    return rc == ncclInProgress ? ncclSuccess : rc;
}

ncclResult_t ncclCommFinalize(ncclComm_t handle)
{
    locked hold;
    std::shared_ptr<ncclComm> comm;
    const ncclResult_t rc = find_ready(handle, "ncclCommFinalize", comm);
    if (rc != ncclSuccess)
        return rc;
    if (comm->finalized) {
        say("ncclCommFinalize: the communicator was finalized before");
        return ncclInvalidArgument;
    }
    comm->finalized = true;
    ncclComm *c = comm.get(); /* which owns the job */
    return give_job(comm, false,
                    [c] { return drained(*c) ? ncclSuccess : ncclInProgress; });
}

ncclResult_t ncclCommDestroy(ncclComm_t handle)
{
    locked hold;
    std::shared_ptr<ncclComm> comm;
    if (!handle)
        return ncclSuccess;
    const ncclResult_t rc = find_ready(handle, "ncclCommDestroy", comm);
    if (rc != ncclSuccess)
        return rc;
    for (unsigned turn = 0; !drained(*comm) && !comm->aborted; turn++)
        cadre_host::relax(turn);
    leave(handle);
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t handle)
{
    locked hold;
    if (!handle)
        return ncclSuccess;
    auto comm = find(handle, "ncclCommAbort");
    if (!comm)
        return ncclInvalidArgument;
    comm->aborted = true;
    comm->job.reset();
    comm->batches.clear(); /* work in the streams is skipped */
    leave(handle);
    return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t handle, int *count)
{
    locked hold;
    std::shared_ptr<ncclComm> comm;
    const ncclResult_t rc = find_ready(handle, "ncclCommCount", comm);
    if (rc == ncclSuccess)
        *count = comm->size;
    return rc;
}

ncclResult_t ncclCommUserRank(const ncclComm_t handle, int *rank)
{
    locked hold;
    std::shared_ptr<ncclComm> comm;
    const ncclResult_t rc = find_ready(handle, "ncclCommUserRank", comm);
    if (rc == ncclSuccess)
        *rank = comm->rank;
    return rc;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t handle, int *device)
{
    locked hold;
    std::shared_ptr<ncclComm> comm;
    const ncclResult_t rc = find_ready(handle, "ncclCommCuDevice", comm);
    if (rc == ncclSuccess)
        *device = comm->device;
    return rc;
}
