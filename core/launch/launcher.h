/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher that started this process as one rank of many, from the environment:
 * CADRE_* first, then torchrun, srun, Open MPI, MVAPICH2, PALS, Flux, jsrun, MPICH (and
 * Intel MPI), PMIx. docs/launchers.md describes the variables and their pitfalls. */
#ifndef CADRE_LAUNCH_LAUNCHER_H
#define CADRE_LAUNCH_LAUNCHER_H

#include "core/base/memory.h"
#include "core/launch/launch.h"

/* Where variables are looked up. */
struct cadre_launcher_env {
    /* NULL where it is not set; an empty one counts as not set */
    const char *(*get)(void *h, const char *name);
    void *h;
};

/* The process's own environment. [main] */
struct cadre_launcher_env cadre_launcher_environment(void);

/* Fill `out`: `launcher` is NULL where no launcher started this process as one rank of
 * several. `where` is empty where the launcher gives no address. `why` (or NULL) gets a
 * line for the launcher that was chosen, and a line that begins with "no: " for each
 * that was seen and ignored. Errors: CADRE_E_INVALID: a variable is missing while
 * others are set, is not a number, or contradicts another; then out->launcher is
 * NULL. */
cadre_status cadre_launcher_find(const struct cadre_launcher_env *env,
                                 struct cadre_launch_external *out,
                                 struct cadre_text *why, struct cadre_error *err);

/* The variable in which a launcher, named as in cadre_launch_external, gives a rank's
 * number; NULL for an unknown launcher. [any thread] */
const char *cadre_launcher_variable(const char *launcher);

#endif
