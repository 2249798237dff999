/* SPDX-License-Identifier: Apache-2.0 */
/* The known launchers, by the variables they set for each rank. */
#ifndef CADRE_LAUNCH_LAUNCHER_TABLE_H
#define CADRE_LAUNCH_LAUNCHER_TABLE_H

#include <stdbool.h>

#define LAUNCHER_NAMES 2

/* The variables of one launcher. Of several names the first that is set is used. */
struct cadre_launcher {
    const char *name;
    const char *rank; /* is set where this launcher has started the process */
    const char *size[LAUNCHER_NAMES], *local_rank[LAUNCHER_NAMES],
        *local_size[LAUNCHER_NAMES];
    const char *node, *nodes, *job[LAUNCHER_NAMES];
    bool mpi;
};

/* Those from Open MPI to MPICH may run inside a step of srun. */
enum {
    LAUNCHER_TORCHRUN,
    LAUNCHER_SRUN,
    LAUNCHER_OPEN_MPI,
    LAUNCHER_MVAPICH2,
    LAUNCHER_PALS,
    LAUNCHER_FLUX,
    LAUNCHER_JSRUN,
    LAUNCHER_MPICH,
    LAUNCHER_PMIX,
    LAUNCHERS
};

/* In order of priority. */
extern const struct cadre_launcher cadre_launchers[LAUNCHERS];

/* A script that has set CADRE_*: not a launcher, but read the same way. */
extern const struct cadre_launcher cadre_launcher_own;

/* A decimal number from low to high and nothing else; `text` may be NULL. [any thread]
 */
bool cadre_launcher_number(const char *text, long low, long high, int *out);

#endif
