/* SPDX-License-Identifier: Apache-2.0 */
/* `cadre generate`: sample text or heartbeats, one token at a time from the model's
 * distribution, or the likeliest with --greedy. The whole prefix is computed again for
 * every token. */
#include "core/cli/cli.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/rng.h"
#include "core/cli/generate_ecg.h"
#include "core/data/tokenizer/tokenizer.h"
#include "core/run/spec_check.h"
#include "core/train/train.h"

#define DEFAULT_TOKENS 200

struct generator {
    const struct cadre_cli_args *args;
    const struct cadre_spec *spec;
    struct cadre_rank *rank;
    bool ecg; /* tokens are samples: there is no tokenizer */
    struct cadre_tokenizer *tokenizer;
    int64_t vocab; /* tokens that there are; the model may have more */
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
    if (g->ecg) {
        CADRE_TRY(
            cadre_generate_ecg_prompt(g->spec, prompt, more, &g->ids, &g->n, err));
        g->n_prompt = g->n;
        return CADRE_OK;
    }
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
    int64_t vocab = g->vocab;
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
    if (g->ecg)
        return cadre_generate_ecg_put(g->spec, g->ids[i], err);
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
    if (!g->ecg && putchar('\n') == EOF)
        rc = cadre_fail(err, CADRE_E_IO, "cannot write to stdout");
    return rc;
}

static cadre_status check_model(const struct generator *g, struct cadre_error *err)
{
    if (g->spec->run.model.classes > 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "a classification model generates nothing; use a language "
                          "model, or for heartbeats data.task = foundation");
    if (!g->ecg)
        CADRE_TRY(cadre_spec_check_tokens(g->spec, g->vocab, err));
    if (g->vocab > g->spec->run.model.vocab)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "%s has %lld tokens, the model %lld; use that which it was trained with",
            g->ecg ? "data.levels" : "data.tokenizer", (long long)g->vocab,
            (long long)g->spec->run.model.vocab);
    return CADRE_OK;
}

/* Heartbeats begin with some of the data; text needs none. */
static cadre_status is_ecg(const struct cadre_cli_args *args, bool *ecg,
                           struct cadre_error *err)
{
    struct cadre_options *options = NULL;
    CADRE_TRY(cadre_cli_load(args, &options, err));
    *ecg = strcmp(cadre_options_raw(options, "data.format"), "wfdb") == 0;
    cadre_options_destroy(options);
    return CADRE_OK;
}

static cadre_status generate_text(const struct cadre_cli_args *args,
                                  struct cadre_error *err)
{
    struct generator g = {.args = args};
    struct cadre_spec *spec = NULL;
    struct cadre_rank rank = {0};
    size_t more;
    cadre_status rc = count_tokens(args, &more, err);
    if (rc == CADRE_OK)
        rc = is_ecg(args, &g.ecg, err);
    if (rc == CADRE_OK)
        rc = cadre_cli_load_model(args, g.ecg, &spec, &rank, err);
    if (rc != CADRE_OK)
        return rc;
    g.spec = spec;
    g.rank = &rank;
    if (!g.ecg)
        CADRE_TRY_OR(
            cadre_tokenizer_open(spec->config.data.tokenizer, &g.tokenizer, err), fail);
    g.vocab = g.ecg ? spec->data_info.vocab : cadre_tokenizer_vocab(g.tokenizer);
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

static const struct cadre_cli_option options[] = {
    CADRE_CLI_OPTION_SET,
    CADRE_CLI_OPTION_OUT,
    CADRE_CLI_OPTION_FROM,
    {.name = "--prompt",
     .argument = "TEXT",
     .kind = CADRE_CLI_TEXT,
     .field = CADRE_CLI_FIELD(prompt),
     .help =
         "the text to begin with; of ECG data the number of a validation window (0)"},
    {.name = "--tokens",
     .argument = "N",
     .kind = CADRE_CLI_TEXT,
     .field = CADRE_CLI_FIELD(tokens),
     .help = "how many tokens to generate (200)"},
    {.name = "--greedy",
     .field = CADRE_CLI_FIELD(greedy),
     .help = "the likeliest token each time, none by chance"},
    {0},
};

const struct cadre_cli_command cadre_command_generate = {
    .name = "generate",
    .synopsis = "CONF --prompt TEXT [--from DIR] [--tokens N] [--greedy] "
                "[--set SECTION.KEY=VALUE]... [--out DIR]",
    .summary = "sample text or heartbeats",
    .argument = "CONF",
    .kind = CADRE_CLI_CONF,
    .least = 1,
    .most = 1,
    .options = options,
    .run = generate_text,
};
