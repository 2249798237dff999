/* SPDX-License-Identifier: Apache-2.0 */
/* run.elastic: restarts after the loss of a rank. In the launching process, between the
 * end of one start of the ranks and the next. */
#ifndef CADRE_TRAIN_ELASTIC_H
#define CADRE_TRAIN_ELASTIC_H

#include "core/launch/launch.h"
#include "core/run/spec.h"

/* Restarts from the same step before the run fails. */
#define CADRE_ELASTIC_TRIES 3

/* A run's restarts so far. */
struct cadre_elastic {
    bool on;
    bool replaces; /* as many ranks again, once from each step */
    int64_t step; /* that the last restart continued after */
    int tries; /* restarts in a row from that step */
    char why[1024]; /* cause of the last loss */
};

/* Call before the first start. Warns if the run writes no checkpoints on the way. A
 * benchmark is not restarted: what it times would have changed. */
void cadre_elastic_begin(struct cadre_elastic *elastic, const struct cadre_spec *spec);

/* The stack of the largest world of at most `ranks` ranks that does the same work, in
 * the form of strategy.stack. Axes that split the batch shrink first, the others only
 * if that is not enough; the plan of every rank must be valid. *text is the caller's.
 * Errors: CADRE_E_INVALID no smaller stack is valid; err is that of the last one tried.
 * [main] */
cadre_status cadre_elastic_choose(const struct cadre_spec *spec, int ranks, char **text,
                                  struct cadre_error *err);

/* After a start that ended with a rank lost and an error, which is in err: *next,
 * the caller's, is the spec of the next start. Where lost ranks are replaced it has the
 * same stack; a second loss from the same step shows that this does not help, and takes
 * a smaller one. Writes the log line and restarts.json.
 * [main] Errors end the run: CADRE_E_STOPPED a signal asked for it; CADRE_E_COMM no
 * stack is left or too many tries; and those of the parts. */
cadre_status cadre_elastic_next(struct cadre_elastic *elastic,
                                const struct cadre_spec *spec,
                                const struct cadre_launch_end *end,
                                struct cadre_spec **next, struct cadre_error *err);

/* A restart failed by the error in err: put the cause of the loss before it. Returns
 * CADRE_E_COMM. */
cadre_status cadre_elastic_cannot(const struct cadre_elastic *elastic,
                                  struct cadre_error *err);

/* *next, the caller's: the options of `spec` with another stack and checkpoint.resume.
 * `by` names who sets them. Errors: those of the parts. [main] */
cadre_status cadre_elastic_spec(const struct cadre_spec *spec, const char *stack,
                                const char *resume, const char *by,
                                struct cadre_spec **next, struct cadre_error *err);

/* argv for the ranks of `spec`, which cadre_elastic_spec made: the program's own with
 * the changed options. NULL without memory. The array is one allocation
 * (free), which borrows argv. */
char **cadre_elastic_argv(const struct cadre_spec *spec, char *const *argv);

#endif
