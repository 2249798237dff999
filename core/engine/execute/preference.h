/* SPDX-License-Identifier: Apache-2.0 */
/* The loss of pairs of a chosen and a rejected answer: direct preference optimization
 * (Rafailov et al. 2023), with label smoothing (Mitchell 2023). Samples 2i and 2i + 1
 * are a pair. With log-probabilities of whole answers, sums over their targets,
 *   u = (log pi(chosen) - log pi(rejected)) - (log ref(chosen) - log ref(rejected)),
 *   loss = -(1 - e) log sigmoid(beta u) - e log sigmoid(-beta u).
 * What the reference gives is measured once, before the first step, and kept by sample:
 * it is a number for each, and no second model. */
#ifndef CADRE_ENGINE_EXECUTE_PREFERENCE_H
#define CADRE_ENGINE_EXECUTE_PREFERENCE_H

#include "core/engine/layout/run_spec.h"

/* Of a pair, and means over the pairs of a step. A reward is beta (log pi - log ref).
 * `logits` is what TRL 1.9.0 prints (huggingface/trl, trl/trainer/dpo_trainer.py,
 * DPOTrainer._compute_loss): of the policy, at each target of the chosen or rejected
 * answers, the mean of the logits over the vocabulary, and of these the mean over all
 * such targets of the step, so that a long answer counts more; 0 without a target.
 * There a step is what is run at once, here the whole global batch. */
enum cadre_preference_figure {
    CADRE_PREFERENCE_LOSS,
    CADRE_PREFERENCE_CHOSEN,
    CADRE_PREFERENCE_REJECTED,
    CADRE_PREFERENCE_ACCURACY, /* 1 where the chosen answer has the larger reward */
    CADRE_PREFERENCE_MARGIN, /* between the two rewards */
    CADRE_PREFERENCE_LOG_CHOSEN, /* log pi */
    CADRE_PREFERENCE_LOG_REJECTED,
    CADRE_PREFERENCE_JUDGED, /* figures of cadre_preference_judge */
    CADRE_PREFERENCE_LOGITS_CHOSEN = CADRE_PREFERENCE_JUDGED,
    CADRE_PREFERENCE_LOGITS_REJECTED,
    CADRE_PREFERENCE_FIGURES,
    /* summed over pairs beside them: targets of the answers */
    CADRE_PREFERENCE_TARGETS_CHOSEN = CADRE_PREFERENCE_FIGURES,
    CADRE_PREFERENCE_TARGETS_REJECTED,
    CADRE_PREFERENCE_SUMS,
};

/* As TRL and torchtune print it: "rewards/chosen"; "loss". */
const char *cadre_preference_name(enum cadre_preference_figure figure);

/* Of a rank. */
struct cadre_preference {
    struct cadre_preference_config config;
    const struct cadre_dataset *dataset; /* NULL: no pairs are trained on */
    /* by sample of the split: log ref, NaN where it was not measured; the same on all
     * ranks */
    double *train, *valid;
    uint64_t n_train, n_valid;
    bool measuring; /* passes give log-probabilities of the reference */
};

/* Nothing is known of the reference. Errors: CADRE_E_RESOURCE. */
cadre_status cadre_preference_init(struct cadre_preference *preference,
                                   const struct cadre_preference_config *config,
                                   const struct cadre_dataset *dataset);
void cadre_preference_fini(struct cadre_preference *preference);

/* Doubles of a micro-batch of `batch` samples: sums over its pairs (of logits: over
 * targets), or while measuring the log-probabilities of its samples. */
size_t cadre_preference_width(int64_t batch);

/* One pair: policy and reference are log-probabilities of the chosen and the rejected
 * answer. *slope = d loss / d u. Both may be NULL. [any thread] */
void cadre_preference_judge(const struct cadre_preference_config *config,
                            const double policy[2], const double reference[2],
                            double figures[CADRE_PREFERENCE_JUDGED], double *slope);

/* The figures of a step with this many pairs, from the sums over them. [any thread] */
void cadre_preference_means(const double sums[CADRE_PREFERENCE_SUMS], double pairs,
                            double figures[CADRE_PREFERENCE_FIGURES]);

/* The training sample at a global position of the run. */
uint64_t cadre_preference_sample(const struct cadre_preference *preference,
                                 uint64_t position);

#endif
