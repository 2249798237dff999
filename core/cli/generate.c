/* SPDX-License-Identifier: Apache-2.0 */
/* `cadre generate`: sample text, one token at a time from the model's distribution,
 * or the likeliest with --greedy. The whole prefix is computed again for every token.
 */
#include "core/cli/cli.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/rng.h"
#include "core/data/tokenizer/tokenizer.h"
#include "core/train/train.h"

#define DEFAULT_TOKENS 200

struct generator {
    const struct cadre_cli_args *args;
    const struct cadre_spec *spec;
    struct cadre_rank *rank;
    struct cadre_tokenizer *tokenizer;
    int32_t *ids, *targets;
    size_t n, n_prompt;
    double *p; /* of the vocabulary */
    void *logits;
};

static cadre_status count_tokens(const struct cadre_cli_args *args, size_t *n,
                                 struct cadre_error *err)
{
    char *end = NULL;
    *n = DEFAULT_TOKENS;
    if (!args->tokens)
        return CADRE_OK;
    errno = 0;
    long value = strtol(args->tokens, &end, 10);
    if (errno || *end || end == args->tokens || value < 1 || value > 1000000)
        return cadre_fail(err, CADRE_E_INVALID,
                          "--tokens '%s': expected a number from 1 to 1000000",
                          args->tokens);
    *n = (size_t)value;
    return CADRE_OK;
}

/* The prompt's ids behind the tokeniser's start token, with room for `more`. */
static cadre_status encode_prompt(struct generator *g, size_t more,
                                  struct cadre_error *err)
{
    const char *prompt = g->args->prompt ? g->args->prompt : "";
    int32_t bos = cadre_tokenizer_bos(g->tokenizer), *ids = NULL;
    size_t n = 0;
    CADRE_TRY(
        cadre_tokenizer_encode(g->tokenizer, prompt, strlen(prompt), &ids, &n, err));
    g->ids = cadre_calloc(n + 1 + more, sizeof *g->ids);
    if (g->ids && bos >= 0)
        g->ids[g->n++] = bos;
    if (g->ids && n > 0)
        memcpy(g->ids + g->n, ids, n * sizeof *ids);
    g->n += n;
    g->n_prompt = g->n;
    free(ids);
    if (!g->ids)
        return cadre_no_memory(err, "the prompt");
    if (g->n == 0)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "--prompt TEXT is missing or empty, and this tokenizer has no start token "
            "to begin with; give some text");
    return CADRE_OK;
}

/* Probabilities of the token after ids[0, n), of the last `context` of them. */
static cadre_status predict(struct generator *g, struct cadre_error *err)
{
    int64_t context = g->spec->run.model.context, vocab = g->spec->run.model.vocab;
    int64_t time = (int64_t)g->n < context ? (int64_t)g->n : context;
    struct cadre_eval eval = {
        .inputs = g->ids + g->n - (size_t)time,
        .targets = g->targets,
        .batch = 1,
        .time = time,
        .logits = g->logits,
    };
    CADRE_TRY(cadre_executor_eval(g->rank->exec, &eval, err));
    double most = -INFINITY, sum = 0;
    for (int64_t v = 0; v < vocab; v++) {
        int64_t at = (time - 1) * vocab + v;
        g->p[v] = g->spec->run.model.dtype == CADRE_F64
                      ? ((double *)g->logits)[at]
                      : (double)((float *)g->logits)[at];
        most = fmax(most, g->p[v]);
    }
    for (int64_t v = 0; v < vocab; v++)
        sum += g->p[v] = exp(g->p[v] - most);
    for (int64_t v = 0; v < vocab; v++)
        g->p[v] /= sum;
    return CADRE_OK;
}

static int32_t choose(const struct generator *g)
{
    int64_t vocab = cadre_tokenizer_vocab(g->tokenizer);
    int32_t best = 0;
    if (g->args->greedy) {
        for (int64_t v = 1; v < vocab; v++)
            if (g->p[v] > g->p[best])
                best = (int32_t)v;
        return best;
    }
    uint64_t key = cadre_rng_key(g->spec->run.seed, "generate");
    double left = cadre_rng_uniform(key, g->n);
    while (best + 1 < vocab && left > g->p[best])
        left -= g->p[best++];
    return best;
}

static cadre_status put(const struct generator *g, size_t i, struct cadre_error *err)
{
    const char *bytes;
    size_t size;
    int32_t previous = i > 0 ? g->ids[i - 1] : -1;
    if (i == 0 && g->ids[0] == cadre_tokenizer_bos(g->tokenizer))
        return CADRE_OK; /* the start token is no text */
    if (cadre_tokenizer_decode(g->tokenizer, previous, g->ids[i], &bytes, &size) !=
        CADRE_OK)
        return cadre_fail(err, CADRE_E_INTERNAL, "token %d has no text", g->ids[i]);
    if (fwrite(bytes, 1, size, stdout) != size || fflush(stdout) != 0)
        return cadre_fail_errno(err, CADRE_E_IO, errno, "cannot write to stdout");
    return CADRE_OK;
}

static cadre_status generate(struct generator *g, size_t more, struct cadre_error *err)
{
    const struct cadre_model_config *m = &g->spec->run.model;
    cadre_status rc = CADRE_OK;
    g->targets = cadre_calloc((size_t)m->context, sizeof *g->targets);
    g->p = cadre_calloc((size_t)m->vocab, sizeof *g->p);
    g->logits = cadre_calloc((size_t)(m->context * m->vocab), sizeof(double));
    if (!g->targets || !g->p || !g->logits)
        return cadre_no_memory(err, "the logits");
    for (size_t i = 0; i < g->n_prompt; i++)
        CADRE_TRY(put(g, i, err));
    for (size_t i = 0; i < more; i++) {
        CADRE_TRY(predict(g, err));
        g->ids[g->n] = choose(g);
        g->n++;
        CADRE_TRY(put(g, g->n - 1, err));
    }
    if (putchar('\n') == EOF)
        rc = cadre_fail(err, CADRE_E_IO, "cannot write to stdout");
    return rc;
}

static cadre_status check_model(const struct generator *g, struct cadre_error *err)
{
    if (g->spec->run.model.classes > 0)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "a classification model generates no text; use a language model");
    if (cadre_tokenizer_vocab(g->tokenizer) > g->spec->run.model.vocab)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "data.tokenizer has %lld tokens, the model %lld; use the tokenizer "
            "it was trained with",
            (long long)cadre_tokenizer_vocab(g->tokenizer),
            (long long)g->spec->run.model.vocab);
    return CADRE_OK;
}

cadre_status cadre_cli_generate(const struct cadre_cli_args *args,
                                struct cadre_error *err)
{
    struct generator g = {.args = args};
    struct cadre_spec *spec = NULL;
    struct cadre_rank rank = {0};
    size_t more;
    cadre_status rc = count_tokens(args, &more, err);
    if (rc == CADRE_OK)
        rc = cadre_cli_load_model(args, false, &spec, &rank, err);
    if (rc != CADRE_OK)
        return rc;
    g.spec = spec;
    g.rank = &rank;
    if (strcmp(spec->config.data.format, "wfdb") == 0) {
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "generate writes text; data.format = wfdb has no text tokens");
        goto fail;
    }
    CADRE_TRY_OR(cadre_tokenizer_open(spec->config.data.tokenizer, &g.tokenizer, err),
                 fail);
    CADRE_TRY_OR(check_model(&g, err), fail);
    CADRE_TRY_OR(encode_prompt(&g, more, err), fail);
    rc = generate(&g, more, err);
fail:
    cadre_tokenizer_close(g.tokenizer);
    cadre_rank_fini(&rank);
    cadre_spec_destroy(spec);
    free(g.ids);
    free(g.targets);
    free(g.p);
    free(g.logits);
    return rc;
}
