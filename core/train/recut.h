/* SPDX-License-Identifier: Apache-2.0 */
/* run.recut: the stages of a schedule cut again at a checkpoint, from what the run has
 * measured. Each rank measures the seconds that it computes in a step; at a checkpoint
 * rank 0 lets the schedule's plugin plan with units that cost what they cost where they
 * are, and if the slowest stage gets faster by more than run.recut, the ranks end after
 * the checkpoint and the launcher starts them again with that cut. Any plugin of the
 * role SCHEDULE that plans by unit_seconds of cadre.model can be cut so. */
#ifndef CADRE_TRAIN_RECUT_H
#define CADRE_TRAIN_RECUT_H

#include "core/run/spec.h"

/* Steps whose median counts: the last ones of this start. */
enum { CADRE_RECUT_STEPS = 64 };

/* What one rank measures. */
struct cadre_recut_clock {
    bool on;
    uint64_t skip; /* no step up to this one counts: in it libraries set up the rest */
    uint64_t n; /* of steps, including overwritten ones */
    double compute_s[CADRE_RECUT_STEPS];
};

/* Wanted, and not a benchmark, which saves no checkpoint on the way. */
bool cadre_recut_wanted(const struct cadre_spec *spec);

/* Refuse a run that could never be cut again: CADRE_E_INVALID where no plugin plans by
 * seconds, no plugin claims schedule.order, there is no checkpoint on the way, or the
 * device queues its work and passes cannot be timed. Under an external launcher, whose
 * ranks cadre cannot start again, a warning. Call after cadre_costs_find. [main] */
cadre_status cadre_recut_check(const struct cadre_spec *spec, bool external,
                               struct cadre_error *err);

void cadre_recut_clock_init(struct cadre_recut_clock *clock,
                            const struct cadre_spec *spec, int64_t first_step,
                            bool external);
/* Count a step's report; that of no step is left out. */
void cadre_recut_clock_report(struct cadre_recut_clock *clock,
                              const struct cadre_step_report *report);

/* A cut that is better than the one there is. */
struct cadre_recut_choice {
    char *from, *to; /* owned; units of each chunk: "4 4", "5 3" */
    double before_s, after_s; /* computing of the slowest stage in a step */
    double *seconds; /* (n_units) owned; as the plugin was given them */
};
void cadre_recut_choice_fini(struct cadre_recut_choice *choice); /* also a zeroed one */

/* pace_s (stages): seconds of a step that stage k computes for each second that its
 * units were measured with. *found: choice is better by more than run.recut, and fits
 * into memory. The plugin plans at most CADRE_RECUT_TRIES times, each time with units
 * that cost what they would where the cut before put them. A function of its arguments
 * but for the memory that is free. Errors: CADRE_E_RESOURCE, the plan's. */
enum { CADRE_RECUT_TRIES = 8 };
cadre_status cadre_recut_choose(const struct cadre_spec *spec, const double *pace_s,
                                bool *found, struct cadre_recut_choice *choice,
                                struct cadre_error *err);

/* [collective: world, at a checkpoint] Decide: *again is equal on all ranks. Rank 0
 * chooses, and has the choice in *choice. Without a step measured on every rank
 * nothing is decided. */
cadre_status cadre_recut_decide(const struct cadre_recut_clock *clock,
                                struct cadre_rank *rank, const struct cadre_spec *spec,
                                bool *again, struct cadre_recut_choice *choice,
                                struct cadre_error *err);

/* [rank 0] After the checkpoint of `step` is complete: leave the choice for the
 * launcher, in recuts.json, and say it in the log. */
cadre_status cadre_recut_leave(const struct cadre_recut_choice *choice,
                               const struct cadre_spec *spec, int64_t step,
                               struct cadre_error *err);

/* [launcher] After a start that ended well, before which the file had `known` cuts:
 * *next, the caller's, is the spec of the next start, NULL where the ranks ended for
 * another reason. Errors: CADRE_E_STOPPED a signal came, and those of the parts. */
cadre_status cadre_recut_next(const struct cadre_spec *spec, uint32_t known,
                              struct cadre_spec **next, struct cadre_error *err);

#endif
