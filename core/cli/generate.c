/* SPDX-License-Identifier: Apache-2.0 */
/* `cadre generate`: sample text or heartbeats, one token at a time from the model's
 * distribution, or the likeliest with --greedy. Keys and values of earlier tokens are
 * kept, so that a token costs one row. */
#include "core/cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/cli/generate_chat.h"
#include "core/cli/generate_ecg.h"
#include "core/data/tokenizer/tokenizer.h"
#include "core/generate/decoder.h"
#include "core/generate/sampler.h"
#include "core/generate/stops.h"
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
    int32_t *ids;
    size_t n, n_prompt;
    size_t full, left; /* tokens that filled the context, and kept then; 0: none */
    struct cadre_decoder *decoder;
    struct cadre_sampler *sampler;
    struct cadre_stops stops;
    const char **stop; /* their texts */
    struct cadre_chat chat; /* of --chat */
    struct cadre_text answer; /* so far, of --chat */
};

/* *value = the number in `text`, from `least` to `most`; unchanged where text is NULL.
 */
static cadre_status whole(const char *name, const char *text, uint64_t least,
                          uint64_t most, uint64_t *value, struct cadre_error *err)
{
    char *end = NULL;
    if (!text)
        return CADRE_OK;
    errno = 0;
    unsigned long long given = strtoull(text, &end, 10);
    if (errno || *end || *text < '0' || *text > '9' || given < least || given > most)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s '%s': expected a number from %llu to %llu", name, text,
                          (unsigned long long)least, (unsigned long long)most);
    *value = given;
    return CADRE_OK;
}

static cadre_status real(const char *name, const char *text, double *value,
                         struct cadre_error *err)
{
    char *end = NULL;
    if (!text)
        return CADRE_OK;
    *value = strtod(text, &end);
    if (*end || end == text)
        return cadre_fail(err, CADRE_E_INVALID, "%s '%s': expected a number", name,
                          text);
    return CADRE_OK;
}

/* How tokens are taken, by the options; the run's seed unless one is named. */
static cadre_status read_sampling(const struct generator *g,
                                  struct cadre_sampling *sampling,
                                  struct cadre_error *err)
{
    const struct cadre_cli_args *args = g->args;
    uint64_t top_k = 0;
    const char *chance = args->temperature ? "--temperature"
                         : args->top_k     ? "--top-k"
                         : args->top_p     ? "--top-p"
                         : args->seed      ? "--seed"
                                           : NULL;
    if (args->greedy && chance)
        return cadre_fail(err, CADRE_E_INVALID,
                          "--greedy and %s: the likeliest token is not drawn by "
                          "chance; leave one of them out",
                          chance);
    *sampling = (struct cadre_sampling){.greedy = args->greedy,
                                        .temperature = 1,
                                        .top_p = 1,
                                        .seed = g->spec->run.seed};
    CADRE_TRY(real("--temperature", args->temperature, &sampling->temperature, err));
    CADRE_TRY(whole("--top-k", args->top_k, 1, INT32_MAX, &top_k, err));
    CADRE_TRY(real("--top-p", args->top_p, &sampling->top_p, err));
    CADRE_TRY(whole("--seed", args->seed, 0, UINT64_MAX, &sampling->seed, err));
    sampling->top_k = (int64_t)top_k;
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
    cadre_status rc = cadre_tokenizer_frame(g->tokenizer, &ids, &n, err);
    g->ids = cadre_calloc(n + 1 + more, sizeof *g->ids);
    if (g->ids && n == 0 && bos >= 0) /* something to begin with */
        g->ids[g->n++] = bos;
    if (g->ids && n > 0)
        memcpy(g->ids + g->n, ids, n * sizeof *ids);
    g->n += n;
    g->n_prompt = g->n;
    free(ids);
    CADRE_TRY(rc);
    if (!g->ids)
        return cadre_no_memory(err, "the prompt");
    if (g->n == 0)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "--prompt TEXT is missing or empty, and this tokenizer has no start token "
            "to begin with; give some text");
    return CADRE_OK;
}

/* The same of the conversation so far. */
static cadre_status encode_chat(struct generator *g, size_t more,
                                struct cadre_error *err)
{
    int32_t *ids = NULL;
    size_t n = 0;
    CADRE_TRY(cadre_chat_prompt(&g->chat, &ids, &n, err));
    free(g->ids);
    g->ids = cadre_realloc(ids, n + more, sizeof *ids);
    if (!g->ids) {
        free(ids);
        return cadre_no_memory(err, "the prompt");
    }
    g->n = g->n_prompt = n;
    cadre_decoder_reset(g->decoder);
    return CADRE_OK;
}

static cadre_status show(const char *bytes, size_t size, struct cadre_error *err)
{
    if (fwrite(bytes, 1, size, stdout) != size || fflush(stdout) != 0)
        return cadre_fail_errno(err, CADRE_E_IO, errno, "cannot write to stdout");
    return CADRE_OK;
}

/* Print token i; of the text behind the prompt, what no --stop holds back. */
static cadre_status put(struct generator *g, size_t i, struct cadre_error *err)
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
    if (i >= g->n_prompt)
        CADRE_TRY(cadre_stops_add(&g->stops, bytes, size, &bytes, &size, err));
    else if (g->args->chat)
        return CADRE_OK; /* answers alone are shown */
    cadre_text_append(&g->answer, bytes, g->args->chat ? size : 0);
    return show(bytes, size, err);
}

/* Note when the model no longer sees all; *begin is what it saw from before. What
 * happens within the text is said behind it, so that no line of the log stands there.
 */
static void note_context(struct generator *g, size_t *begin)
{
    const size_t now = cadre_decoder_begin(g->decoder);
    const size_t context = cadre_decoder_context(g->decoder);
    if (now != *begin && g->n == g->n_prompt) {
        cadre_log(CADRE_LOG_WARN, "generate",
                  "the prompt has %zu tokens, the model's context is %zu: it sees the "
                  "last %zu of them",
                  g->n, context, g->n - now);
    } else if (now != *begin && *begin == 0) {
        g->full = g->n - 1;
        g->left = g->n - now;
    }
    *begin = now;
}

static void say_context(const struct generator *g)
{
    if (g->full > 0)
        cadre_log(CADRE_LOG_INFO, "generate",
                  "the model's context of %zu tokens was full after %zu: it went on "
                  "from the last %zu, and so each time it was full",
                  cadre_decoder_context(g->decoder), g->full, g->left);
}

/* The prompt is shown once it is computed, behind what is said of it. */
static cadre_status put_all(struct generator *g, size_t more, struct cadre_error *err)
{
    size_t begin = 0;
    for (size_t i = 0; i < more && !g->stops.stopped; i++) {
        const double *logits;
        CADRE_TRY(cadre_decoder_next(g->decoder, g->ids, g->n, &logits, err));
        note_context(g, &begin);
        CADRE_TRY(cadre_sampler_take(g->sampler, logits, g->n, &g->ids[g->n], err));
        for (size_t p = 0; i == 0 && p < g->n_prompt; p++)
            CADRE_TRY(put(g, p, err));
        g->n++;
        if (g->args->chat && cadre_chat_ends(&g->chat, g->ids[g->n - 1]))
            break;
        CADRE_TRY(put(g, g->n - 1, err));
    }
    return CADRE_OK;
}

static cadre_status generate(struct generator *g, size_t more, struct cadre_error *err)
{
    const char *rest;
    size_t size;
    g->full = 0;
    cadre_status rc = put_all(g, more, err);
    if (rc != CADRE_OK && !g->ecg && g->n > g->n_prompt)
        show("\n", 1, NULL); /* the error gets a line of its own */
    CADRE_TRY(rc);
    if (!g->ecg) {
        cadre_stops_end(&g->stops, &rest, &size);
        cadre_text_append(&g->answer, rest, g->args->chat ? size : 0);
        CADRE_TRY(show(rest, size, err));
        CADRE_TRY(show("\n", 1, err));
    }
    say_context(g);
    return CADRE_OK;
}

/* The texts of --stop, and that which the template ends an answer with. */
static cadre_status begin_stops(struct generator *g, struct cadre_error *err)
{
    const struct cadre_cli_texts *stop = &g->args->stop;
    size_t n = (size_t)stop->n;
    cadre_stops_fini(&g->stops);
    if (!g->stop)
        g->stop = cadre_calloc(n + 1, sizeof *g->stop);
    if (!g->stop)
        return cadre_no_memory(err, "--stop");
    for (size_t i = 0; i < n; i++)
        g->stop[i] = stop->item[i];
    if (g->chat.stop)
        g->stop[n++] = g->chat.stop;
    return cadre_stops_init(&g->stops, g->stop, n, err);
}

/* One message and its answer. */
static cadre_status ask(struct generator *g, const char *text, size_t size, size_t more,
                        struct cadre_error *err)
{
    CADRE_TRY(cadre_chat_add(&g->chat, "user", text, size, err));
    CADRE_TRY(encode_chat(g, more, err));
    CADRE_TRY(begin_stops(g, err));
    cadre_text_reset(&g->answer);
    CADRE_TRY(generate(g, more, err));
    if (g->answer.failed)
        return cadre_no_memory(err, "an answer");
    return cadre_chat_add_answer(&g->chat, cadre_text_str(&g->answer), g->answer.len,
                                 err);
}

/* Each line of stdin is a message. */
static cadre_status converse(struct generator *g, size_t more, struct cadre_error *err)
{
    char *line = NULL;
    size_t capacity = 0;
    cadre_status rc = CADRE_OK;
    while (rc == CADRE_OK) {
        if (isatty(STDIN_FILENO))
            fprintf(stderr, "> ");
        size_t n;
        rc = cadre_path_next_line(stdin, "stdin", &line, &capacity, &n, err);
        if (rc != CADRE_OK || n == 0)
            break;
        if (line[n - 1] == '\n')
            n--;
        if (n > 0)
            rc = ask(g, line, n, more, err);
    }
    free(line);
    return rc;
}

/* What the options ask for, once all is open. */
static cadre_status make(struct generator *g, size_t more, struct cadre_error *err)
{
    const char *prompt = g->args->prompt;
    if (g->args->chat)
        return prompt ? ask(g, prompt, strlen(prompt), more, err)
                      : converse(g, more, err);
    CADRE_TRY(encode_prompt(g, more, err));
    return generate(g, more, err);
}

static cadre_status check_model(const struct generator *g, struct cadre_error *err)
{
    if (g->ecg && g->args->stop.n > 0)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "--stop '%s': heartbeats have no text to end at; leave it out",
            g->args->stop.item[0]);
    if (g->ecg && g->args->chat)
        return cadre_fail(err, CADRE_E_INVALID,
                          "--chat: heartbeats are no text; leave it out");
    if (g->args->system && !g->args->chat)
        return cadre_fail(err, CADRE_E_INVALID,
                          "--system '%s': expected --chat too, found none",
                          g->args->system);
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

/* What makes tokens, by the options. */
static cadre_status open_parts(struct generator *g, struct cadre_error *err)
{
    const char *spec = g->spec->config.data.tokenizer;
    struct cadre_sampling sampling;
    CADRE_TRY(read_sampling(g, &sampling, err));
    CADRE_TRY(begin_stops(g, err));
    CADRE_TRY(cadre_decoder_create(g->rank, !g->args->no_cache, &g->decoder, err));
    if (!g->ecg)
        CADRE_TRY(cadre_tokenizer_open(spec, &g->tokenizer, err));
    g->vocab = g->ecg ? g->spec->data_info.vocab : cadre_tokenizer_vocab(g->tokenizer);
    CADRE_TRY(check_model(g, err));
    if (g->args->chat)
        CADRE_TRY(cadre_chat_init(spec, g->tokenizer, g->args->system, &g->chat, err));
    return cadre_sampler_create(&sampling, g->vocab, &g->sampler, err);
}

static void close_parts(struct generator *g)
{
    cadre_sampler_destroy(g->sampler);
    cadre_decoder_destroy(g->decoder);
    cadre_stops_fini(&g->stops);
    cadre_chat_fini(&g->chat);
    cadre_text_fini(&g->answer);
    free(g->stop);
    cadre_tokenizer_close(g->tokenizer);
    free(g->ids);
}

static cadre_status generate_text(const struct cadre_cli_args *args,
                                  struct cadre_error *err)
{
    struct generator g = {.args = args};
    struct cadre_spec *spec = NULL;
    struct cadre_rank rank = {0};
    uint64_t more = DEFAULT_TOKENS;
    cadre_status rc = whole("--tokens", args->tokens, 1, 1000000, &more, err);
    if (rc == CADRE_OK)
        rc = is_ecg(args, &g.ecg, err);
    if (rc == CADRE_OK)
        rc = cadre_cli_load_model(args, g.ecg, &spec, &rank, NULL, err);
    if (rc != CADRE_OK)
        return rc;
    g.spec = spec;
    g.rank = &rank;
    rc = open_parts(&g, err);
    if (rc == CADRE_OK)
        rc = make(&g, more, err);
    close_parts(&g);
    cadre_rank_fini(&rank);
    cadre_spec_destroy(spec);
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
    {.name = "--temperature",
     .argument = "X",
     .kind = CADRE_CLI_TEXT,
     .field = CADRE_CLI_FIELD(temperature),
     .help = "divide the logits by X: below 1 likely tokens become likelier (1)"},
    {.name = "--top-k",
     .argument = "K",
     .kind = CADRE_CLI_TEXT,
     .field = CADRE_CLI_FIELD(top_k),
     .help =
         "draw among the K likeliest tokens, and those as likely as the last (all)"},
    {.name = "--top-p",
     .argument = "P",
     .kind = CADRE_CLI_TEXT,
     .field = CADRE_CLI_FIELD(top_p),
     .help =
         "draw among the likeliest tokens that first have P of the probability (1)"},
    {.name = "--seed",
     .argument = "N",
     .kind = CADRE_CLI_TEXT,
     .field = CADRE_CLI_FIELD(seed),
     .help = "draw other tokens (run.seed)"},
    {.name = "--stop",
     .argument = "TEXT",
     .kind = CADRE_CLI_TEXT,
     .field = CADRE_CLI_FIELD(stop),
     .repeats = true,
     .help = "end before TEXT, once it is generated"},
    {.name = "--chat",
     .field = CADRE_CLI_FIELD(chat),
     .help = "the prompt is a message, of which the answer is shown, by the chat "
             "template of the tokenizer's folder; without --prompt each line of stdin "
             "is the next message"},
    {.name = "--system",
     .argument = "TEXT",
     .kind = CADRE_CLI_TEXT,
     .field = CADRE_CLI_FIELD(system),
     .help = "the system message that a chat begins with"},
    {.name = "--no-cache",
     .field = CADRE_CLI_FIELD(no_cache),
     .help = "compute all that the model sees again for every token, to compare"},
    {0},
};

const struct cadre_cli_command cadre_command_generate = {
    .name = "generate",
    .synopsis = "CONF --prompt TEXT [--from DIR] [--tokens N] [--greedy | "
                "[--temperature X] [--top-k K] [--top-p P] [--seed N]] "
                "[--stop TEXT]... [--chat [--system TEXT]] [--no-cache] "
                "[--set SECTION.KEY=VALUE]... [--out DIR]",
    .summary = "sample text or heartbeats",
    .details =
        "Where the model's context is full, it goes on from the newest half of it, "
        "which is computed again, and a line says so; a prompt longer than the "
        "context is cut in the same way. What is drawn depends on the seed and on the "
        "place in the text, not on threads.",
    .argument = "CONF",
    .kind = CADRE_CLI_CONF,
    .least = 1,
    .most = 1,
    .options = options,
    .run = generate_text,
};
