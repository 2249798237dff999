/* SPDX-License-Identifier: Apache-2.0 */
#include "core/generate/sampler.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/memory.h"
#include "core/base/rng.h"

struct candidate {
    double p;
    int32_t token;
};

struct cadre_sampler {
    struct cadre_sampling sampling;
    int64_t vocab;
    uint64_t key;
    double *p; /* (vocab) */
    struct candidate *order; /* (vocab) the likeliest first */
};

static cadre_status check(const struct cadre_sampling *s, struct cadre_error *err)
{
    if (s->greedy)
        return CADRE_OK;
    if (!(isfinite(s->temperature) && s->temperature > 0))
        return cadre_fail(err, CADRE_E_INVALID,
                          "the temperature is %g, expected a number above 0; for the "
                          "likeliest token each time ask for greedy",
                          s->temperature);
    if (s->top_k < 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "top-k is %lld, expected a number of tokens, or 0 for all",
                          (long long)s->top_k);
    if (!(s->top_p > 0 && s->top_p <= 1))
        return cadre_fail(err, CADRE_E_INVALID,
                          "top-p is %g, expected a number above 0 and up to 1",
                          s->top_p);
    return CADRE_OK;
}

cadre_status cadre_sampler_create(const struct cadre_sampling *sampling, int64_t vocab,
                                  struct cadre_sampler **out, struct cadre_error *err)
{
    CADRE_TRY(check(sampling, err));
    struct cadre_sampler *s = cadre_calloc(1, sizeof *s);
    if (!s)
        return cadre_no_memory(err, "a sampler");
    s->sampling = *sampling;
    s->vocab = vocab;
    s->key = cadre_rng_key(sampling->seed, "generate");
    s->p = cadre_calloc((size_t)vocab, sizeof *s->p);
    s->order = cadre_calloc((size_t)vocab, sizeof *s->order);
    if (!s->p || !s->order) {
        cadre_sampler_destroy(s);
        return cadre_no_memory(err, "a sampler of %lld tokens", (long long)vocab);
    }
    *out = s;
    return CADRE_OK;
}

void cadre_sampler_destroy(struct cadre_sampler *sampler)
{
    if (!sampler)
        return;
    free(sampler->p);
    free(sampler->order);
    free(sampler);
}

/* The first of the largest logits. */
static cadre_status likeliest(const struct cadre_sampler *s, const double *logits,
                              int32_t *token, struct cadre_error *err)
{
    int32_t best = 0;
    for (int64_t v = 0; v < s->vocab; v++) {
        if (isnan(logits[v]) || logits[v] == INFINITY)
            return cadre_fail(err, CADRE_E_NUMERIC,
                              "the model's logit of token %lld is %g, expected a "
                              "finite number; its parameters may be damaged",
                              (long long)v, logits[v]);
        if (logits[v] > logits[best])
            best = (int32_t)v;
    }
    if (logits[best] == -INFINITY)
        return cadre_fail(err, CADRE_E_NUMERIC,
                          "all of the model's logits are minus infinity; its "
                          "parameters may be damaged");
    *token = best;
    return CADRE_OK;
}

/* Divide the probabilities by their sum. */
static void normalise(struct cadre_sampler *s)
{
    double sum = 0;
    for (int64_t v = 0; v < s->vocab; v++)
        sum += s->p[v];
    for (int64_t v = 0; v < s->vocab; v++)
        s->p[v] /= sum;
}

static int likelier(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->p != y->p)
        return x->p > y->p ? -1 : 1;
    return x->token < y->token ? -1 : x->token > y->token;
}

static void sort(struct cadre_sampler *s)
{
    for (int64_t v = 0; v < s->vocab; v++)
        s->order[v] = (struct candidate){s->p[v], (int32_t)v};
    qsort(s->order, (size_t)s->vocab, sizeof *s->order, likelier);
}

/* The cuts; what is cut has probability 0. */
static void cut(struct cadre_sampler *s)
{
    const int64_t k = s->sampling.top_k;
    const bool by_k = k > 0 && k < s->vocab, by_p = s->sampling.top_p < 1;
    int64_t left = s->vocab;
    if (!by_k && !by_p)
        return;
    sort(s);
    if (by_k) {
        for (left = k; left < s->vocab && s->order[left].p == s->order[k - 1].p;)
            left++;
        for (int64_t i = left; i < s->vocab; i++)
            s->p[s->order[i].token] = 0;
        normalise(s);
    }
    if (!by_p)
        return;
    double sum = 0;
    int64_t i = 0;
    while (i < left && sum < s->sampling.top_p)
        sum += s->p[s->order[i++].token];
    for (; i < left; i++)
        s->p[s->order[i].token] = 0;
    normalise(s);
}

/* The token in whose share of [0, 1) the position's number falls. */
static int32_t draw(const struct cadre_sampler *s, uint64_t position)
{
    double left = cadre_rng_uniform(s->key, position);
    int32_t last = 0;
    for (int64_t v = 0; v < s->vocab; v++) {
        if (s->p[v] == 0)
            continue;
        last = (int32_t)v;
        if (left <= s->p[v])
            break;
        left -= s->p[v];
    }
    return last;
}

cadre_status cadre_sampler_take(struct cadre_sampler *s, const double *logits,
                                uint64_t position, int32_t *token,
                                struct cadre_error *err)
{
    int32_t best = 0;
    CADRE_TRY(likeliest(s, logits, &best, err));
    if (s->sampling.greedy) {
        *token = best;
        return CADRE_OK;
    }
    const double most = logits[best];
    for (int64_t v = 0; v < s->vocab; v++)
        s->p[v] = exp((logits[v] - most) / s->sampling.temperature);
    normalise(s);
    cut(s);
    *token = draw(s, position);
    return CADRE_OK;
}

const double *cadre_sampler_probabilities(const struct cadre_sampler *sampler)
{
    return sampler->p;
}
