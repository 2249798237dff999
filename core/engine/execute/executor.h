/* SPDX-License-Identifier: Apache-2.0 */
/* The executor runs the units of the model for a schedule: it owns the activation
 * slots, accumulates gradients where the plan places them, and raises every event.
 *
 * A slot is one micro-batch of one chunk, from its forward to its last backward.
 * Gradient accumulation: gradients of a rank's micro-batches are added in place. In
 * exact mode each micro-batch's gradient is a leaf of the reduction tree, whose leaves
 * are added like a binary counter: node (l, j) = node (l-1, 2j) + node (l-1, 2j+1); an
 * absent child is skipped. */
#ifndef CADRE_ENGINE_EXECUTE_EXECUTOR_H
#define CADRE_ENGINE_EXECUTE_EXECUTOR_H

#include "core/data/loader.h"
#include "core/engine/execute/pace.h"
#include "core/engine/layout/stages.h"
#include "core/engine/layout/store.h"
#include "core/engine/layout/timeline.h"
#include "core/engine/strategy/chain.h"

struct cadre_executor;
struct cadre_preference;
struct cadre_kv_cache;

struct cadre_executor_config {
    struct cadre_device *device;
    struct cadre_model *model;
    const struct cadre_rank_plan *plan;
    struct cadre_store *store;
    struct cadre_ledger *ledger;
    struct cadre_chain *chain;
    struct cadre_loader *loader; /* NULL: evaluation only */
    int64_t batch, time; /* time: of this rank */
    int64_t step_samples; /* of a whole step, on all ranks */
    double step_targets; /* targets of a whole step, for the loss seed, unless the data
                            counts those of each: cadre_executor_count */
    bool counted; /* the data does */
    bool packed; /* samples have positions of their own (cadre_dataset_positions) */
    bool recompute, exact;
    int64_t recheck; /* steps between those with a micro-batch that is computed twice;
                        0: none. See recheck.h */
    bool pinned; /* batches go through page-locked memory */
    double *losses; /* by global micro-batch; device memory */
    /* NULL: the loss is that of each target. Else of pairs, and `losses` has
     * cadre_preference_width values of each micro-batch. */
    struct cadre_preference *preference;
    const double *loss_scale; /* factor of the loss in backward; NULL: 1 */
    const struct cadre_stages *stages; /* NULL: every unit is on this rank */
    struct cadre_timeline *timeline; /* NULL: passes are not timed */
    struct cadre_pace *pace; /* of a simulated slow rank; NULL: full speed */
};

/* Allocate slots and partial sums. Everything in config is borrowed until destroy. */
cadre_status cadre_executor_create(const struct cadre_executor_config *config,
                                   struct cadre_executor **out,
                                   struct cadre_error *err);
void cadre_executor_destroy(struct cadre_executor *exec);

/* Bytes that create will allocate, recorded in `ledger`. config->device etc. may be
 * NULL. */
void cadre_executor_note(const struct cadre_executor_config *config,
                         struct cadre_ledger *ledger);

/* Between two steps: the plan has other micro-batches for this rank now. */
void cadre_executor_divide(struct cadre_executor *exec);

/* Start step `step` (from 1): gradients are fresh, no slot is taken. flags:
 * CADRE_STEP_*. */
void cadre_executor_begin(struct cadre_executor *exec, uint64_t step, uint32_t flags);

/* Of the step that begins next: its targets, for the loss seed. Nothing unless the data
 * counts them. */
void cadre_executor_count(struct cadre_executor *exec, double step_targets);

/* What services call for a plugin; lives as long as `exec`. */
struct cadre_pass_runner cadre_executor_runner(struct cadre_executor *exec);

/* [exec] The calls of cadre.model/1. The text of a refusal goes to *why. */
cadre_status cadre_executor_forward(struct cadre_executor *exec,
                                    const struct cadre_pass_args *args,
                                    struct cadre_error *why);
cadre_status cadre_executor_backward(struct cadre_executor *exec,
                                     const struct cadre_pass_args *args,
                                     struct cadre_error *why);

/* The sequential schedule over one chunk: each micro-batch forward, then backward. */
cadre_status cadre_executor_sequential(struct cadre_executor *exec,
                                       const struct cadre_step *step,
                                       struct cadre_error *why);

/* Seconds spent waiting for the loader since create. */
double cadre_executor_wait_s(const struct cadre_executor *exec);

/* Check the end of a step: every micro-batch was run, and added where the step is more
 * than a forward. The text of a
 * refusal goes to *why. */
cadre_status cadre_executor_end(const struct cadre_executor *exec,
                                struct cadre_error *why);

/* [collective: the ranks that share the samples or the parameters] Forward of `batch`
 * samples without gradients. inputs (B, T), targets (B, T) or (B), host memory; T up
 * to config.time, equal on the ranks that split the time. loss_sum and n_targets are
 * added up over targets that are not ignored; logits (host, the model's wide dtype) of
 * all rows (B*T, V) or (B, K) when not NULL, V this rank's part of the vocabulary.
 * With some_rows set, logits has space for that many rows, and each_rows is called
 * with rows [first, first + n) in it until all rows were passed. Only ranks that run
 * the head get results: has_head. With a cache (batch sequences, on this rank's device)
 * the samples are what follows the tokens kept in it, and are kept too when all went
 * well. With last_row, logits are those of the last token of the one sequence alone.
 * positions (B, T), NULL: as in struct cadre_pass; not with a cache. */
struct cadre_eval {
    const int32_t *inputs, *targets, *positions;
    int64_t batch, time;
    double loss_sum;
    int64_t n_targets;
    double *sequence_losses; /* (B) written: of each sequence; NULL: not wanted */
    /* (B) written: sums over the targets of each sequence, of the mean of the logits
     * over the vocabulary. NULL, as it must be without pairs to train on: not wanted */
    double *sequence_logits;
    void *logits;
    int64_t some_rows;
    void (*each_rows)(void *arg, int64_t first, int64_t n);
    void *arg;
    struct cadre_kv_cache *kv_cache; /* NULL: none */
    bool last_row;
    bool has_head;
};
cadre_status cadre_executor_eval(struct cadre_executor *exec, struct cadre_eval *eval,
                                 struct cadre_error *why);

#endif
