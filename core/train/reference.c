/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/reference.h"

#include <stdlib.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/train/evaluate.h"

/* Training samples that some step still to come has. */
struct wanted {
    const struct cadre_preference *preference;
    bool *sample; /* (n_train) */
    uint64_t batch, n; /* samples of a step; how many are wanted */
};

/* Ends after two epochs at most, however many steps there are. */
static void mark(struct wanted *w, uint64_t first_step, uint64_t last_step)
{
    const uint64_t end = last_step * w->batch;
    for (uint64_t at = first_step * w->batch; at < end && w->n < w->preference->n_train;
         at++) {
        bool *wanted = &w->sample[cadre_preference_sample(w->preference, at)];
        w->n += !*wanted;
        *wanted = true;
    }
}

/* Those of a step are wanted no more; how many were. */
static uint64_t strike(struct wanted *w, uint64_t step)
{
    const uint64_t begin = (step - 1) * w->batch;
    uint64_t n = 0;
    for (uint64_t at = begin; at < begin + w->batch; at++) {
        bool *wanted = &w->sample[cadre_preference_sample(w->preference, at)];
        n += *wanted;
        *wanted = false;
    }
    w->n -= n;
    return n;
}

/* Run the steps, from the first of the run, in which a wanted sample comes first. */
static cadre_status run_steps(struct cadre_rank *rank, struct wanted *w,
                              uint64_t last_step)
{
    for (uint64_t step = 1; w->n > 0 && step <= last_step; step++)
        if (strike(w, step) > 0)
            CADRE_TRY(cadre_rank_measure_reference(rank, step));
    return CADRE_OK;
}

/* The loader reads ahead what training asks for. */
static cadre_status rewind_to(struct cadre_rank *rank, uint64_t first_step)
{
    rank->step = first_step;
    CADRE_TRY(cadre_rank_drain(rank));
    return cadre_loader_divide(rank->loader, first_step, rank->plan.first_microbatch,
                               rank->plan.n_microbatches);
}

static cadre_status measure_train(struct cadre_rank *rank, int64_t first_step,
                                  int64_t last_step, struct cadre_error *err)
{
    struct wanted w = {
        .preference = &rank->preference,
        .sample = cadre_calloc(rank->preference.n_train, sizeof *w.sample),
        .batch = (uint64_t)rank->spec->global_batch,
    };
    if (!w.sample)
        return cadre_no_memory(err, "the samples of the reference");
    mark(&w, (uint64_t)first_step, (uint64_t)last_step);
    cadre_status rc = run_steps(rank, &w, (uint64_t)last_step);
    if (rc == CADRE_OK)
        rc = rewind_to(rank, (uint64_t)first_step);
    free(w.sample);
    return rc == CADRE_OK
               ? rc
               : cadre_fail(err, rc, "the reference: %s", rank->failure.text);
}

cadre_status cadre_reference_measure(struct cadre_rank *rank,
                                     const struct cadre_spec *spec, int64_t first_step,
                                     int64_t last_step, int64_t eval_batches,
                                     struct cadre_error *err)
{
    const double begin = cadre_now_s();
    if (!cadre_rank_has_pairs(rank))
        return CADRE_OK;
    if (last_step > first_step)
        CADRE_TRY(measure_train(rank, first_step, last_step, err));
    if (eval_batches >= 0)
        CADRE_TRY(cadre_evaluate_reference(rank, spec, eval_batches, err));
    if (rank->index == 0)
        cadre_log(CADRE_LOG_INFO, "train",
                  "the reference's log-probabilities were found in %.1f s",
                  cadre_now_s() - begin);
    return CADRE_OK;
}
