/* SPDX-License-Identifier: Apache-2.0 */
#include "core/launch/launcher_table.h"

#include <errno.h>
#include <stdlib.h>

/* In order of priority. Flux, PALS and jsrun also set variables of PMI or PMIx, so they
 * come before those. */
const struct cadre_launcher cadre_launchers[LAUNCHERS] = {
    [LAUNCHER_TORCHRUN] =
        {
            .name = "torchrun",
            .rank = "RANK",
            .size = {"WORLD_SIZE"},
            .local_rank = {"LOCAL_RANK"},
            .local_size = {"LOCAL_WORLD_SIZE"},
            .node = "GROUP_RANK",
            .nodes = "GROUP_WORLD_SIZE",
            .job = {"TORCHELASTIC_RUN_ID"},
        },
    [LAUNCHER_SRUN] =
        {
            .name = "srun",
            .rank = "SLURM_PROCID",
            .size = {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
            .local_rank = {"SLURM_LOCALID"},
            .node = "SLURM_NODEID",
            .nodes = "SLURM_STEP_NUM_NODES",
            .job = {"SLURM_JOB_ID"},
        },
    [LAUNCHER_OPEN_MPI] =
        {
            .name = "Open MPI",
            .rank = "OMPI_COMM_WORLD_RANK",
            .size = {"OMPI_COMM_WORLD_SIZE"},
            .local_rank = {"OMPI_COMM_WORLD_LOCAL_RANK"},
            .local_size = {"OMPI_COMM_WORLD_LOCAL_SIZE"},
            .nodes = "OMPI_MCA_orte_num_nodes",
            .job = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"},
            .mpi = true,
        },
    [LAUNCHER_MVAPICH2] =
        {
            .name = "MVAPICH2",
            .rank = "MV2_COMM_WORLD_RANK",
            .size = {"MV2_COMM_WORLD_SIZE"},
            .local_rank = {"MV2_COMM_WORLD_LOCAL_RANK"},
            .local_size = {"MV2_COMM_WORLD_LOCAL_SIZE"},
            .mpi = true,
        },
    [LAUNCHER_PALS] =
        {
            .name = "PALS",
            .rank = "PALS_RANKID",
            .size = {"PMI_SIZE"},
            .local_rank = {"PALS_LOCAL_RANKID", "PMI_LOCAL_RANK"},
            .local_size = {"PALS_LOCAL_SIZE", "PMI_LOCAL_SIZE"},
            .node = "PALS_NODEID",
            .job = {"PALS_APID"},
            .mpi = true,
        },
    [LAUNCHER_FLUX] =
        {
            .name = "Flux",
            .rank = "FLUX_TASK_RANK",
            .size = {"FLUX_JOB_SIZE"},
            .local_rank = {"FLUX_TASK_LOCAL_ID"},
            .nodes = "FLUX_JOB_NNODES",
            .job = {"FLUX_JOB_ID"},
            .mpi = true,
        },
    [LAUNCHER_JSRUN] =
        {
            .name = "jsrun",
            .rank = "JSM_NAMESPACE_RANK",
            .size = {"JSM_NAMESPACE_SIZE"},
            .local_rank = {"JSM_NAMESPACE_LOCAL_RANK"},
            .local_size = {"JSM_NAMESPACE_LOCAL_SIZE"},
            .job = {"PMIX_NAMESPACE"},
            .mpi = true,
        },
    [LAUNCHER_MPICH] =
        {
            .name = "MPICH",
            .rank = "PMI_RANK",
            .size = {"PMI_SIZE"},
            .local_rank = {"MPI_LOCALRANKID"},
            .local_size = {"MPI_LOCALNRANKS"},
            .mpi = true,
        },
    [LAUNCHER_PMIX] =
        {
            .name = "PMIx",
            .rank = "PMIX_RANK",
            .size = {"CADRE_WORLD_SIZE"}, /* PMIx sets none */
            .local_rank = {"CADRE_LOCAL_RANK"},
            .local_size = {"CADRE_LOCAL_WORLD_SIZE"},
            .job = {"PMIX_NAMESPACE"},
            .mpi = true,
        },
};

const struct cadre_launcher cadre_launcher_own = {
    .name = "CADRE_INIT",
    .rank = "CADRE_RANK",
    .size = {"CADRE_WORLD_SIZE"},
    .local_rank = {"CADRE_LOCAL_RANK"},
    .local_size = {"CADRE_LOCAL_WORLD_SIZE"},
    .node = "CADRE_NODE_RANK",
    .job = {"CADRE_JOB"},
};

bool cadre_launcher_number(const char *text, long low, long high, int *out)
{
    char *end;
    if (!text || *text < '0' || *text > '9')
        return false;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (*end || errno || n < low || n > high)
        return false;
    *out = (int)n;
    return true;
}
