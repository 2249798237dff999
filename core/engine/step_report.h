/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank reports of a step. */
#ifndef CADRE_ENGINE_STEP_REPORT_H
#define CADRE_ENGINE_STEP_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/engine/execute/preference.h"

/* The world and every axis of a mesh, those that plans add too. */
enum { CADRE_STEP_AXES = 25 };

/* A part of comm_exposed_s. */
struct cadre_step_exposed {
    const char *axis; /* "world" or the axis' name; the mesh's */
    double s;
};

/* Seconds of one step on this rank. Of its waits outside of its bubble, comm_exposed_s
 * is while bytes moved (at most comm_s), wait_ranks_s for ranks that came later. */
struct cadre_step_times {
    double step_s, wait_data_s, comm_s, comm_exposed_s, optim_s;
    /* of the schedule, means over all ranks; 0 without one: see timeline.h */
    double span_s, bubble_s;
    double wait_ranks_s;
    double compute_s; /* passes less what they waited for; NaN where the device queues
                         its work, whose end the host does not see */
    double optim_wait_s; /* waits for transfers and ranks within optim_s */
    int n_exposed; /* 0: one rank */
    struct cadre_step_exposed exposed[CADRE_STEP_AXES]; /* their sum: comm_exposed_s */
};

struct cadre_step_report {
    uint64_t step; /* the step of loss, grad_norm, lr and times; 0: none yet */
    double loss; /* mean over the targets, or pairs, of the whole step, equal on all
                    ranks */
    /* of pairs: means over those of the step, equal on all ranks; else 0 */
    double preference[CADRE_PREFERENCE_FIGURES];
    double grad_norm; /* global, before clipping; of this rank's replica where replicas
                         diverge */
    double lr;
    double loss_scale; /* under fp16: of the step; else 0 */
    bool skipped; /* under fp16: it overflowed and updated nothing; grad_norm is NaN */
    /* vote of any rank in the step just made: equal on all ranks */
    bool stop, saving, save_failed;
    struct cadre_step_times times;
    /* Under balance.micro_batches, in the first step of a session and where they are
     * others than in the step before: data rank r ran micro-batches [first[r], first[r
     * + 1]) of the step; the rank's, until its next step. Else NULL. */
    const uint64_t *first;
    int data_ranks;
};

#endif
