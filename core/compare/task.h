/* SPDX-License-Identifier: Apache-2.0 */
/* The trainings that are judged for equality: each run, and the baseline with other
 * rounding. Each has a folder OUT/runs/NAME and is one `cadre train`,
 * started by the comparison itself or by a task of a job array. [main] */
#ifndef CADRE_COMPARE_TASK_H
#define CADRE_COMPARE_TASK_H

#include "core/compare/arrange.h"

struct cadre_task {
    char *name; /* of its folder: RUN, RUN:reordered, RUN:moved-2; owned */
    size_t run; /* index in the comparison */
    ptrdiff_t perturbation; /* index in the comparison; -1: the run as it is */
};

/* All of them in the order in which one machine trains them: perturbations come last.
 * A run's name holds no colon. The caller ends *tasks with cadre_tasks_destroy.
 * Errors: CADRE_E_RESOURCE. */
cadre_status cadre_tasks_create(const struct cadre_comparison *comparison,
                                struct cadre_task **tasks, size_t *n,
                                struct cadre_error *err);

/* Accepts NULL. */
void cadre_tasks_destroy(struct cadre_task *tasks, size_t n);

/* The task of that name; upper and lower case are the same, as in an ini file.
 * Errors: CADRE_E_INVALID with the nearest name. */
cadre_status cadre_tasks_find(const struct cadre_task *tasks, size_t n,
                              const char *name, const struct cadre_task **found,
                              struct cadre_error *err);

/* OUT/runs/NAME; the caller frees it, NULL: no memory. */
char *cadre_task_folder(const struct cadre_task *task, const char *out);

/* A piece of a run in place of its whole training. */
struct cadre_task_piece {
    int64_t warmup, steps; /* bench.warmup, bench.steps */
    int windows; /* bench.windows */
    double target; /* bench.target; 0: steps are timed */
    int64_t seed; /* run.seed, of a target */
};

/* The arguments of `cadre train` for a task, NULL-terminated. launched: a launcher
 * gives each rank its cores, so that none are divided here. */
struct cadre_task_request {
    const struct cadre_arrange_request *request;
    const struct cadre_comparison *comparison;
    const struct cadre_arrangement *arrangement;
    bool launched;
    const struct cadre_task_piece *piece; /* NULL: the whole training */
};

/* Fill *argv; the caller frees it by free alone: texts lie behind the pointers, or
 * belong to the request and to `folder`. Errors: CADRE_E_RESOURCE. */
cadre_status cadre_task_arguments(const struct cadre_task_request *request,
                                  const struct cadre_task *task, const char *folder,
                                  char ***argv, struct cadre_error *err);

#endif
