/* SPDX-License-Identifier: Apache-2.0 */
#include "core/model/flops.h"

#include "core/model/unit_private.h"

/* Weights that a token multiplies with: matrices outside of the embedding. A tied head
 * is an entry of its own, in the last unit. Every token of an image but one is a patch
 * that is projected. */
static double weights_of(const struct cadre_model *model,
                         const struct cadre_param *param, int64_t T)
{
    const struct cadre_model_config *config = &model->config;
    double count = (double)cadre_shape_count(&param->shape);
    if (param->shape.ndim < 2)
        return 0;
    if (param->unit == 0)
        return config->image.patch > 0 && param == &model->params[EMBED_PATCHES]
                   ? count * (double)(T - 1) / (double)T
                   : 0;
    if (param->expert >= 0)
        return count / (double)config->experts;
    if (config->classes > 0 && param->unit == model->n_units - 1)
        return count / (double)T;
    return count;
}

struct cadre_flops cadre_model_flops(const struct cadre_model *model, int64_t T,
                                     const bool *frozen, bool recompute)
{
    const double scores = (double)model->config.layers *
                          (double)(model->config.heads * model->head_size) * (double)T;
    struct cadre_flops flops = {.model = 12 * scores};
    double blocks = 0; /* of the weights of blocks alone */
    for (uint32_t i = 0; i < model->n_params; i++) {
        const struct cadre_param *param = &model->params[i];
        double weights = weights_of(model, param, T);
        flops.model += (frozen && frozen[i] ? 4 : 6) * weights;
        if (param->unit > 0 && param->unit < model->n_units - 1)
            blocks += weights;
    }
    flops.hardware = flops.model + (recompute ? 2 * blocks + 4 * scores : 0);
    return flops;
}
