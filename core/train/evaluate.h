/* SPDX-License-Identifier: Apache-2.0 */
/* Validation: loss, and for classification sensitivity, positive predictivity and F1 on
 * records never trained on. */
#ifndef CADRE_TRAIN_EVALUATE_H
#define CADRE_TRAIN_EVALUATE_H

#include "core/run/metrics.h"

#define CADRE_MAX_CLASSES 1000

struct cadre_class_counts {
    uint64_t true_positive, false_positive, false_negative;
};

struct cadre_evaluation {
    double loss; /* mean over the targets, nats; of pairs, over them (dpo) */
    int64_t targets, samples; /* targets: of pairs, their number */
    double accuracy; /* of the next token, or of the class; 0 if the vocabulary is
                        sharded; of pairs: those whose chosen answer has the larger
                        reward */
    double logits[2]; /* of pairs: of chosen and rejected answers, as training has them,
                         over all targets of those that were evaluated */
    int64_t classes; /* 0 for a language model */
    struct cadre_class_counts count[CADRE_MAX_CLASSES];
};

/* [collective: world, drained] Evaluate `batches` micro-batches of the validation split
 * (0: all), divided over the data ranks; fewer than all are samples that lie evenly
 * over the split, the same ones each time. The result is the same on all
 * ranks, and for every number of ranks up to the order of additions (exact mode adds
 * the per-batch sums in one order). has = false without validation data. */
cadre_status cadre_evaluate(struct cadre_rank *rank, const struct cadre_spec *spec,
                            int64_t batches, struct cadre_evaluation *out, bool *has,
                            struct cadre_error *err);

/* [collective: world, drained] Of pairs: what the reference gives for the samples that
 * cadre_evaluate takes, under the parameters that there are, without adapters. Call it
 * before. */
cadre_status cadre_evaluate_reference(struct cadre_rank *rank,
                                      const struct cadre_spec *spec, int64_t batches,
                                      struct cadre_error *err);

/* Sensitivity TP/(TP+FN), positive predictivity TP/(TP+FP) and F1 of one class; 0 where
 * undefined. */
double cadre_sensitivity(const struct cadre_class_counts *count);
double cadre_predictivity(const struct cadre_class_counts *count);
double cadre_f1(const struct cadre_class_counts *count);

#endif
