/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/transformer.h"

#include <stdio.h>

double cadre_transformer_kv(const struct cadre_transformer *t)
{
    return (double)t->channels / (double)t->heads * (double)t->kv_heads;
}

/* With so many MLPs, and the router. */
static double block_weights(const struct cadre_transformer *t, double mlps)
{
    const double h = (double)t->channels;
    const double mlp = (t->gated ? 3 : 2) * h * (double)t->hidden;
    return h * (h + 2 * cadre_transformer_kv(t)) + h * h + mlps * mlp +
           h * (double)t->experts;
}

double cadre_transformer_block_weights(const struct cadre_transformer *t)
{
    return block_weights(t, t->experts > 0 ? (double)t->experts : 1);
}

double cadre_transformer_head_weights(const struct cadre_transformer *t)
{
    return (double)t->channels * (double)t->vocab;
}

double cadre_transformer_adapters(const struct cadre_transformer *t, int64_t ranks)
{
    int64_t sum = 0;
    for (int i = 0; i < t->n_adapters; i++) {
        const struct cadre_plan_adapter *a = &t->adapter[i];
        sum += a->rows ? a->in / ranks + a->out : a->in + a->out / ranks;
    }
    return (double)(t->adapter_rank * sum);
}

double cadre_transformer_parameters(const struct cadre_transformer *t)
{
    return (double)t->layers * cadre_transformer_block_weights(t) +
           (t->tied ? 1 : 2) * cadre_transformer_head_weights(t);
}

void cadre_transformer_traits(const struct cadre_transformer *t,
                              char out[CADRE_TRANSFORMER_TRAITS])
{
    out[0] = '\0';
    if (t->experts > 0)
        snprintf(out, CADRE_TRANSFORMER_TRAITS, ", %lld experts a block",
                 (long long)t->experts);
    else if (t->n_adapters > 0)
        snprintf(out, CADRE_TRANSFORMER_TRAITS, ", adapters of rank %lld%s",
                 (long long)t->adapter_rank, t->nf4 ? ", nf4" : "");
}

double cadre_transformer_eq3(const struct cadre_transformer *t, double batch)
{
    const double s = (double)t->context, l = (double)t->layers;
    const double h = (double)t->channels, V = (double)t->vocab;
    return 96 * batch * s * l * h * h * (1 + s / (6 * h) + V / (16 * l * h));
}

double cadre_transformer_flops(const struct cadre_transformer *t, double batch,
                               bool causal)
{
    const double s = (double)t->context, l = (double)t->layers;
    const double weights = l * block_weights(t, 1) + cadre_transformer_head_weights(t);
    const double scores = 12 * l * (double)t->channels * s * (causal ? 0.5 : 1);
    return batch * s * (6 * weights + scores);
}

cadre_status cadre_transformer_check(const struct cadre_transformer *t,
                                     struct cadre_error *err)
{
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {
        {"layers", t->layers},     {"hidden size", t->channels}, {"heads", t->heads},
        {"KV heads", t->kv_heads}, {"MLP width", t->hidden},     {"vocab", t->vocab},
        {"context", t->context},
    };
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (sizes[i].value < 1)
            return cadre_fail(err, CADRE_E_INVALID,
                              "model: %s is %lld, expected a positive number",
                              sizes[i].name, (long long)sizes[i].value);
    if (t->experts < 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "model: experts are %lld, expected 0 or "
                          "a positive number",
                          (long long)t->experts);
    if (t->channels % t->heads != 0 || t->heads % t->kv_heads != 0)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "model: %lld heads must divide %lld channels, and %lld KV heads the heads",
            (long long)t->heads, (long long)t->channels, (long long)t->kv_heads);
    return CADRE_OK;
}
