/* SPDX-License-Identifier: Apache-2.0 */
/* The transport between the ranks, and whether it is available. */
#include <stdlib.h>
#include <string.h>

#include "core/device/module.h"
#include "core/launch/world_private.h"

enum cadre_world_transport
cadre_world_transport(const struct cadre_world_run *run,
                      const struct cadre_launch_external *external)
{
    const enum cadre_config_backend backend = run->backend;
    if (external && external->size == 1)
        return CADRE_WORLD_ALONE;
    if (backend == CADRE_CONFIG_BACKEND_NCCL)
        return CADRE_WORLD_NCCL;
    if (backend == CADRE_CONFIG_BACKEND_MPI)
        return CADRE_WORLD_MPI;
    if (backend == CADRE_CONFIG_BACKEND_LOCAL || !external)
        return CADRE_WORLD_LOCAL;
    if (run->gpu)
        return CADRE_WORLD_NCCL;
    /* machines not counted: ranks may share one, and report it where they do not */
    bool unknown = external->local_size == 0 && external->nodes <= 1;
    if (external->local_size == external->size || (unknown && external->where[0]))
        return CADRE_WORLD_LOCAL;
    return external->mpi ? CADRE_WORLD_MPI : CADRE_WORLD_NONE;
}

cadre_status cadre_world_module(enum cadre_world_transport transport,
                                const struct cadre_comm_module **out,
                                struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    *out = NULL;
    if (transport == CADRE_WORLD_NCCL) {
        rc = cadre_comm_module_nccl(out, err);
        if (rc != CADRE_OK)
            cadre_error_prefix(err,
                               "NCCL is not available (comm.backend = local is, for "
                               "ranks that cadre starts)");
    } else if (transport == CADRE_WORLD_MPI) {
        rc = cadre_comm_module_mpi(out, err);
        if (rc != CADRE_OK)
            cadre_error_prefix(err,
                               "MPI is not available (comm.backend = local is, for "
                               "ranks of one machine)");
    }
    return rc;
}

/* With these the user lets NCCL share a GPU between ranks. */
static bool may_share(void)
{
    return getenv("NCCL_HOSTID") || getenv("NCCL_MULTI_RANK_GPU_ENABLE");
}

static cadre_status check_gpus(const struct cadre_world_run *run,
                               const struct cadre_launch_external *external,
                               struct cadre_error *err)
{
    int gpus = cadre_device_count_cuda();
    if (may_share())
        return CADRE_OK;
    if (!external && run->local->size > gpus)
        return cadre_fail(err, CADRE_E_INVALID,
                          "comm.backend = nccl with %d ranks, but this machine shows "
                          "%d GPU%s, and NCCL needs one for each rank; use fewer "
                          "ranks, or comm.backend = local, whose ranks share them",
                          run->local->size, gpus, gpus == 1 ? "" : "s");
    /* a rank that sees only its own GPU counts differently; NCCL checks itself */
    if (external && external->local_rank >= gpus && !getenv("CUDA_VISIBLE_DEVICES"))
        return cadre_fail(err, CADRE_E_INVALID,
                          "the local rank is %d by %s, but this machine shows %d "
                          "GPU%s, and NCCL needs one for each rank; start fewer ranks "
                          "here",
                          external->local_rank, external->launcher, gpus,
                          gpus == 1 ? "" : "s");
    return CADRE_OK;
}

static cadre_status check_nccl(const struct cadre_world_run *run,
                               const struct cadre_launch_external *external,
                               struct cadre_error *err)
{
    if (!run->gpu)
        return cadre_fail(err, CADRE_E_INVALID,
                          "comm.backend = nccl needs a GPU for each rank, and the "
                          "device is the CPU (device.kind = %s); set device.kind = "
                          "cuda, or leave comm.backend out",
                          run->device->kind);
    if (!external && run->local->size > 1 && !run->local->processes)
        return cadre_fail(err, CADRE_E_INVALID,
                          "comm.backend = nccl needs a process for each rank, and "
                          "comm.ranks = threads; set comm.ranks = processes, or "
                          "comm.backend = local");
    return check_gpus(run, external, err);
}

static cadre_status check_mpi(const struct cadre_world_run *run,
                              const struct cadre_launch_external *external,
                              struct cadre_error *err)
{
    if (run->local->size == 1 && !external)
        return CADRE_OK;
    if (!external)
        return cadre_fail(err, CADRE_E_INVALID,
                          "comm.backend = mpi is for ranks that mpirun, or srun "
                          "--mpi=pmix, starts, and no launcher started this one; start "
                          "cadre by one of them, or leave comm.backend out");
    if (run->gpu)
        return cadre_fail(err, CADRE_E_INVALID,
                          "comm.backend = mpi is for ranks on CPUs, and the device is "
                          "a GPU (device.kind = %s); leave comm.backend out, or set "
                          "device.kind = cpu",
                          run->device->kind);
    return CADRE_OK;
}

/* ranks of an external launcher over a segment. */
static cadre_status check_local(const struct cadre_launch_external *external,
                                struct cadre_error *err)
{
    if (external->local_size && external->local_size != external->size &&
        external->nodes != 1 && !external->where[0])
        return cadre_fail(err, CADRE_E_INVALID,
                          "comm.backend = local is for ranks of one machine, and %s "
                          "has started %d of %d here; leave comm.backend out",
                          external->launcher, external->local_size, external->size);
    if (!external->where[0])
        return cadre_fail(err, CADRE_E_INVALID,
                          "comm.backend = local, but %s does not say where the ranks "
                          "meet: set CADRE_INIT to tcp://host:port or file:///path",
                          external->launcher);
    return CADRE_OK;
}

cadre_status cadre_world_check(const struct cadre_world_run *run,
                               const struct cadre_launch_external *external,
                               struct cadre_error *err)
{
    const struct cadre_comm_module *module;
    const char *link = run->link;
    enum cadre_world_transport transport = cadre_world_transport(run, external);
    cadre_status rc = CADRE_OK;
    if (transport == CADRE_WORLD_NCCL)
        rc = check_nccl(run, external, err);
    else if (transport == CADRE_WORLD_MPI)
        rc = check_mpi(run, external, err);
    else if (transport == CADRE_WORLD_LOCAL && external)
        rc = check_local(external, err);
    else if (transport == CADRE_WORLD_NONE)
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "the ranks are on the CPUs of several machines, which reach "
                        "each other by MPI, and %s has not started MPI; start them by "
                        "mpirun, or srun --mpi=pmix",
                        external->launcher);
    if (rc == CADRE_OK && *link &&
        (transport == CADRE_WORLD_NCCL || transport == CADRE_WORLD_MPI))
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "comm.link = %s delays the local transport alone; leave it "
                        "out where ranks reach each other by %s",
                        link, transport == CADRE_WORLD_NCCL ? "NCCL" : "MPI");
    if (rc == CADRE_OK && (external || transport == CADRE_WORLD_NCCL))
        rc = cadre_world_module(transport, &module, err);
    return rc;
}
