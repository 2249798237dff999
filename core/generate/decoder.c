/* SPDX-License-Identifier: Apache-2.0 */
#include "core/generate/decoder.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"

struct cadre_decoder {
    struct cadre_rank *rank;
    struct cadre_kv_cache *cache; /* NULL: nothing is kept */
    size_t begin; /* the first id that is seen */
    size_t context;
    uint64_t rows;
    int32_t *targets; /* (context) none */
    double *logits; /* (vocab) */
};

cadre_status cadre_decoder_create(struct cadre_rank *rank, bool keeps,
                                  struct cadre_decoder **out, struct cadre_error *err)
{
    const struct cadre_model_config *m = &rank->model->config;
    if (m->classes > 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "a classification model generates nothing; use a language "
                          "model, or for heartbeats data.task = foundation");
    struct cadre_decoder *d = cadre_calloc(1, sizeof *d);
    if (!d)
        return cadre_no_memory(err, "a decoder");
    d->rank = rank;
    d->context =
        (size_t)(m->context < rank->spec->time ? m->context : rank->spec->time);
    d->targets = cadre_calloc(d->context, sizeof *d->targets);
    d->logits = cadre_calloc((size_t)m->vocab, sizeof *d->logits);
    cadre_status rc = CADRE_OK;
    if (!d->targets || !d->logits)
        rc = cadre_no_memory(err, "the logits");
    if (rc == CADRE_OK && keeps)
        rc = cadre_kv_cache_create(rank->model, rank->device, 1, (int64_t)d->context,
                                   &d->cache, err);
    if (rc != CADRE_OK) {
        cadre_decoder_destroy(d);
        return rc;
    }
    for (size_t t = 0; t < d->context; t++)
        d->targets[t] = -1;
    *out = d;
    return CADRE_OK;
}

void cadre_decoder_destroy(struct cadre_decoder *decoder)
{
    if (!decoder)
        return;
    cadre_kv_cache_destroy(decoder->cache);
    free(decoder->targets);
    free(decoder->logits);
    free(decoder);
}

/* The logits are in the wide dtype; in place, from the end. */
static void to_double(double *logits, int64_t vocab, uint32_t dtype)
{
    if (dtype == CADRE_F64)
        return;
    for (int64_t v = vocab - 1; v >= 0; v--) {
        float value;
        memcpy(&value, (char *)logits + (size_t)v * sizeof value, sizeof value);
        logits[v] = (double)value;
    }
}

/* How many of the seen ids before n are kept; the last one is computed in any case. */
static size_t kept_of(struct cadre_decoder *d, size_t n)
{
    if (n - d->begin > d->context) {
        d->begin = n - (d->context + 1) / 2;
        if (d->cache)
            d->cache->n = 0;
    }
    if (!d->cache)
        return 0;
    if (d->cache->n >= (int64_t)(n - d->begin))
        d->cache->n = (int64_t)(n - d->begin) - 1;
    return (size_t)d->cache->n;
}

cadre_status cadre_decoder_next(struct cadre_decoder *d, const int32_t *ids, size_t n,
                                const double **logits, struct cadre_error *err)
{
    const struct cadre_model_config *m = &d->rank->model->config;
    const size_t from = kept_of(d, n) + d->begin;
    struct cadre_eval eval = {
        .inputs = ids + from,
        .targets = d->targets,
        .batch = 1,
        .time = (int64_t)(n - from),
        .logits = d->logits,
        .kv_cache = d->cache,
        .last_row = true,
    };
    struct cadre_error why = {0};
    cadre_status rc = cadre_executor_eval(d->rank->exec, &eval, &why);
    if (rc != CADRE_OK)
        return cadre_fail(err, rc, "the forward pass of token %zu failed: %s", n,
                          why.code ? why.text : cadre_strerror(rc));
    to_double(d->logits, m->vocab, m->dtype);
    d->rows += n - from;
    *logits = d->logits;
    return CADRE_OK;
}

void cadre_decoder_reset(struct cadre_decoder *decoder)
{
    decoder->begin = 0;
    if (decoder->cache)
        decoder->cache->n = 0;
}

size_t cadre_decoder_context(const struct cadre_decoder *decoder)
{
    return decoder->context;
}

size_t cadre_decoder_begin(const struct cadre_decoder *decoder)
{
    return decoder->begin;
}

uint64_t cadre_decoder_rows(const struct cadre_decoder *decoder)
{
    return decoder->rows;
}
