/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/execute/preference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"

const char *cadre_preference_name(enum cadre_preference_figure figure)
{
    static const char *const names[CADRE_PREFERENCE_FIGURES] = {
        "loss",
        "rewards/chosen",
        "rewards/rejected",
        "rewards/accuracies",
        "rewards/margins",
        "log_probs/chosen",
        "log_probs/rejected",
        "logits/chosen",
        "logits/rejected",
    };
    return names[figure];
}

static double *unknown(uint64_t n)
{
    double *values = cadre_calloc(n > 0 ? n : 1, sizeof *values);
    for (uint64_t i = 0; values && i < n; i++)
        values[i] = NAN;
    return values;
}

cadre_status cadre_preference_init(struct cadre_preference *preference,
                                   const struct cadre_preference_config *config,
                                   const struct cadre_dataset *dataset)
{
    struct cadre_dataset_info info;
    cadre_dataset_info(dataset, &info);
    *preference = (struct cadre_preference){
        .config = *config,
        .dataset = dataset,
        .train = unknown(info.train_samples),
        .valid = unknown(info.valid_samples),
        .n_train = info.train_samples,
        .n_valid = info.valid_samples,
    };
    return preference->train && preference->valid ? CADRE_OK : CADRE_E_RESOURCE;
}

void cadre_preference_fini(struct cadre_preference *preference)
{
    free(preference->train);
    free(preference->valid);
    *preference = (struct cadre_preference){0};
}

size_t cadre_preference_width(int64_t batch)
{
    return batch > CADRE_PREFERENCE_SUMS ? (size_t)batch : CADRE_PREFERENCE_SUMS;
}

/* -log sigmoid(x) */
static double softplus_of_minus(double x)
{
    return x >= 0 ? log1p(exp(-x)) : log1p(exp(x)) - x;
}

/* sigmoid(-x) */
static double sigmoid_of_minus(double x)
{
    return x >= 0 ? exp(-x) / (1 + exp(-x)) : 1 / (1 + exp(x));
}

/* As -log sigmoid(-x) = x - log sigmoid(x), the two terms of the loss are one and e x:
 * at x = 0 it is log 2 as it is rounded. */
void cadre_preference_judge(const struct cadre_preference_config *config,
                            const double policy[2], const double reference[2],
                            double figures[CADRE_PREFERENCE_JUDGED], double *slope)
{
    const double beta = config->beta, e = config->smoothing;
    const double u = (policy[0] - policy[1]) - (reference[0] - reference[1]);
    const double x = beta * u;
    const double chosen = beta * (policy[0] - reference[0]);
    const double rejected = beta * (policy[1] - reference[1]);
    if (slope)
        *slope = -beta * (sigmoid_of_minus(x) - e);
    if (!figures)
        return;
    figures[CADRE_PREFERENCE_LOSS] = softplus_of_minus(x) + e * x;
    figures[CADRE_PREFERENCE_CHOSEN] = chosen;
    figures[CADRE_PREFERENCE_REJECTED] = rejected;
    figures[CADRE_PREFERENCE_ACCURACY] = chosen > rejected;
    figures[CADRE_PREFERENCE_MARGIN] = chosen - rejected;
    figures[CADRE_PREFERENCE_LOG_CHOSEN] = policy[0];
    figures[CADRE_PREFERENCE_LOG_REJECTED] = policy[1];
}

void cadre_preference_means(const double sums[CADRE_PREFERENCE_SUMS], double pairs,
                            double figures[CADRE_PREFERENCE_FIGURES])
{
    for (int i = 0; i < CADRE_PREFERENCE_JUDGED; i++)
        figures[i] = sums[i] / pairs;
    for (int i = CADRE_PREFERENCE_JUDGED; i < CADRE_PREFERENCE_FIGURES; i++) {
        const double targets =
            sums[CADRE_PREFERENCE_TARGETS_CHOSEN + i - CADRE_PREFERENCE_JUDGED];
        figures[i] = targets > 0 ? sums[i] / targets : 0;
    }
}

uint64_t cadre_preference_sample(const struct cadre_preference *preference,
                                 uint64_t position)
{
    return cadre_dataset_order(preference->dataset, position);
}
