/* SPDX-License-Identifier: Apache-2.0 */
/* run.elastic: what follows the loss of a rank. In the launching process, between the
 * end of one start of the ranks and the next. */
#ifndef CADRE_TRAIN_ELASTIC_H
#define CADRE_TRAIN_ELASTIC_H

#include "core/launch/launch.h"
#include "core/run/spec.h"

/* Restarts from one step, before the run is given up. */
#define CADRE_ELASTIC_TRIES 3

/* A run's restarts so far. */
struct cadre_elastic {
    bool on;
    int64_t step; /* that the last of them went on after */
    int tries; /* in a row from there */
    char why[1024]; /* what the last loss was */
};

/* Before the first start. Says it where nothing will be saved on the way. */
void cadre_elastic_begin(struct cadre_elastic *elastic, const struct cadre_spec *spec);

/* The stack of the largest world of at most `ranks` ranks that does the same work, as
 * strategy.stack would have it: axes that split the batch shrink first, the others only
 * where that is not enough, and the plan of every rank must hold. *text is the
 * caller's. Errors: CADRE_E_INVALID no smaller stack holds; err has what spoke against
 * the last one tried. [main] */
cadre_status cadre_elastic_choose(const struct cadre_spec *spec, int ranks, char **text,
                                  struct cadre_error *err);

/* After a start that ended with a rank lost and an error, which is in err: *next,
 * the caller's, is the spec to start again with. Writes the log line and
 * restarts.json. [main] Errors: the run ends. CADRE_E_STOPPED somebody wants that;
 * CADRE_E_COMM no stack is left, too many tries, or what the parts say. */
cadre_status cadre_elastic_next(struct cadre_elastic *elastic,
                                const struct cadre_spec *spec,
                                const struct cadre_launch_end *end,
                                struct cadre_spec **next, struct cadre_error *err);

/* A restart came to nothing by what is in err: put what was lost before it. Returns
 * CADRE_E_COMM. */
cadre_status cadre_elastic_cannot(const struct cadre_elastic *elastic,
                                  struct cadre_error *err);

/* argv for the ranks of `spec`, which cadre_elastic_next made: the program's own with
 * the options that changed. NULL where there is no memory. The array is one allocation
 * (free), which borrows argv. */
char **cadre_elastic_argv(const struct cadre_spec *spec, char *const *argv);

#endif
