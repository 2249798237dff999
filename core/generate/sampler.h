/* SPDX-License-Identifier: Apache-2.0 */
/* Which token is taken: the likeliest, or one by chance from the model's distribution,
 * sharpened and cut. What is drawn is a function of seed and position alone, so neither
 * threads nor what was computed before change it. */
#ifndef CADRE_GENERATE_SAMPLER_H
#define CADRE_GENERATE_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

/* In this order, as transformers' warpers do: logits are divided by the temperature;
 * the top_k likeliest stay, and those as likely as the last of them; of these, as many
 * of the likeliest as first have top_p of their probability (Holtzman et al. 2020),
 * among equals those of lower id. At least one token stays. */
struct cadre_sampling {
    bool greedy; /* the likeliest, the first of equals; the rest is not read */
    double temperature; /* above 0; 1: the model's own */
    int64_t top_k; /* 0: all */
    double top_p; /* above 0, up to 1: all */
    uint64_t seed;
};

struct cadre_sampler;

/* For `vocab` tokens. The caller destroys *out. Errors: CADRE_E_INVALID naming a value
 * out of range, CADRE_E_RESOURCE. */
cadre_status cadre_sampler_create(const struct cadre_sampling *sampling, int64_t vocab,
                                  struct cadre_sampler **out, struct cadre_error *err);
/* NULL is accepted. */
void cadre_sampler_destroy(struct cadre_sampler *sampler);

/* *token: the one at `position` of its sequence, by the logits (vocab) there.
 * [deterministic] Errors: CADRE_E_NUMERIC a logit is NaN or all are minus infinity. */
cadre_status cadre_sampler_take(struct cadre_sampler *sampler, const double *logits,
                                uint64_t position, int32_t *token,
                                struct cadre_error *err);

/* The probabilities (vocab) that the last take drew from, 0 for tokens that were cut;
 * after a greedy one not defined. */
const double *cadre_sampler_probabilities(const struct cadre_sampler *sampler);

#endif
