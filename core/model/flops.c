/* SPDX-License-Identifier: Apache-2.0 */
/* Floating-point operations per token, forward and backward. Source: Chowdhery et al.
 * 2022, appendix B, with attention halved for the causal mask. */
#include "core/model/flops.h"

double cadre_model_flops_per_token(const struct cadre_model *model, int64_t T)
{
    const struct cadre_model_config *config = &model->config;
    double C = (double)config->channels, F = (double)config->hidden;
    double KV = C / (double)config->heads * (double)config->kv_heads;
    double layers = (double)config->layers;
    double mlp = config->arch == CADRE_ARCH_GPT2 ? 2 * C * F : 3 * C * F;
    mlp += C * (double)config->experts; /* the router; a token takes one expert */
    double block = C * (C + 2 * KV) + C * C + mlp;
    /* a classifier scores one row of T */
    double head = config->classes > 0 ? C * (double)config->classes / (double)T
                                      : C * (double)config->vocab;
    return 6 * (layers * block + head) + 6 * layers * C * (double)T;
}
