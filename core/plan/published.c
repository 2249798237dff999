/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/published.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/plan/footprint.h"
#include "core/plan/forecast.h"

/* What a row may say, and words about it; any other column that is filled is a setting
 * that is not known here, and so the row is not expressed. */
static const char *const texts[] = {
    "set",   "source", "hw",   "model", "recompute", "dtype", "metric", "value",
    "heads", "kv",     "ffn",  "vocab", "hidden",    "seq",   "layers", "tp",
    "pp",    "cp",     "vp",   "dp",    "zero",      "gpus",  "mbs",    "gbs",
    "ga",    "sp",     "note", "notes", "comment",   "url",   "page",   "table",
    "row",   "id",     "year", "date",  "mfu",       "hfu",   "days",
};

static bool is_empty(const char *value)
{
    static const char *const words[] = {"", "-", "?", "na", "n/a", "nan"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcasecmp(value, words[i]) == 0)
            return true;
    return false;
}

static const char *text(const struct cadre_csv *csv, size_t at, const char *name)
{
    for (size_t i = 0; i < csv->columns; i++)
        if (strcasecmp(csv->field[i], name) == 0) {
            const char *value = cadre_csv_at(csv, at, (int)i);
            return is_empty(value) ? "" : value;
        }
    return "";
}

/* Of a column that is not known: the setting is not used. */
static bool is_off(const char *value)
{
    return is_empty(value) || strcasecmp(value, "no") == 0 ||
           strcasecmp(value, "none") == 0 || strcmp(value, "0") == 0;
}

/* "ep" and "etp" of 1 are no expert parallelism. */
static bool is_one(const char *name, const char *value)
{
    return (strcasecmp(name, "ep") == 0 || strcasecmp(name, "etp") == 0) &&
           strcmp(value, "1") == 0;
}

static cadre_status unknown_columns(const struct cadre_csv *csv, size_t at,
                                    struct cadre_error *err)
{
    if (csv->fields[at + 1] != (int)csv->columns)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "%d fields, the line of names has %zu", csv->fields[at + 1],
                          csv->columns);
    for (size_t i = 0; i < csv->columns; i++) {
        bool known = false;
        for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++)
            known = known || strcasecmp(texts[k], csv->field[i]) == 0;
        const char *value = cadre_csv_at(csv, at, (int)i);
        if (!known && !is_off(value) && !is_one(csv->field[i], value))
            return cadre_fail(err, CADRE_E_UNSUPPORTED,
                              "column '%s' is '%s', which the model of a step lacks",
                              csv->field[i], value);
    }
    return CADRE_OK;
}

static void assume(struct cadre_published *row, const char *name)
{
    const size_t used = strlen(row->assumed);
    snprintf(row->assumed + used, sizeof row->assumed - used, "%s%s", used ? ", " : "",
             name);
}

struct whole {
    const char *name;
    int64_t *to;
    int64_t empty; /* what an empty field means; 0: it may not be empty */
    bool zero; /* may be 0 */
};

static cadre_status take(const struct cadre_csv *csv, size_t at, const struct whole *w,
                         struct cadre_error *err)
{
    const char *value = text(csv, at, w->name);
    char *end;
    if (!*value && w->empty) {
        *w->to = w->empty;
        return CADRE_OK;
    }
    const double number = strtod(value, &end);
    if (!*value || *end || !isfinite(number) || number != floor(number) ||
        number < (w->zero ? 0 : 1) || number > 16777216)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "%s is '%s', expected a whole number", w->name, value);
    *w->to = (int64_t)number;
    return CADRE_OK;
}

/* The recompute that the first n bytes of a text name; -1: none. */
static int find_recompute(const char *name, size_t n)
{
    static const struct {
        const char *name;
        enum cadre_plan_recompute is;
    } words[] = {
        {"none", CADRE_PLAN_RECOMPUTE_NONE},
        {"no", CADRE_PLAN_RECOMPUTE_NONE},
        {"selective", CADRE_PLAN_RECOMPUTE_SELECTIVE},
        {"full", CADRE_PLAN_RECOMPUTE_FULL},
        {"block", CADRE_PLAN_RECOMPUTE_FULL},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strlen(words[i].name) == n && strncasecmp(words[i].name, name, n) == 0)
            return (int)words[i].is;
    return -1;
}

static cadre_status take_words(struct cadre_published *row, const struct cadre_csv *csv,
                               size_t at, struct cadre_error *err)
{
    const char *recompute = text(csv, at, "recompute");
    const char *dtype = text(csv, at, "dtype");
    const char *sequence = text(csv, at, "sp");
    if (!*recompute)
        assume(row, "recompute");
    if (!*dtype)
        assume(row, "dtype");
    recompute = *recompute ? recompute : "none";
    dtype = *dtype ? dtype : "bf16";
    const char *plus = strcasestr(recompute, "+sp");
    const size_t n = plus ? (size_t)(plus - recompute) : strlen(recompute);
    const int found = find_recompute(recompute, n);
    if (found < 0 || (plus && plus[3]))
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "recompute is '%s', expected none, selective or full, with "
                          "or without +sp",
                          recompute);
    row->candidate.recompute = (enum cadre_plan_recompute)found;
    row->sequence_parallel_given = plus || *sequence;
    row->candidate.sequence_parallel = plus || (*sequence && !is_off(sequence));
    const int type = cadre_plan_dtype_find(dtype);
    if (type < 0)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "dtype is '%s', expected fp32, fp16, bf16 or fp8", dtype);
    row->candidate.dtype = (enum cadre_plan_dtype)type;
    return CADRE_OK;
}

static cadre_status take_metric(struct cadre_published *row,
                                const struct cadre_csv *csv, size_t at,
                                struct cadre_error *err)
{
    static const char *const names[CADRE_PLAN_METRICS] = {
        "s_per_step",    "TFLOPs_eq3", "model_TFLOPs",
        "causal_TFLOPs", "tok_s_gpu",  "tok_s"};
    int found = -1;
    row->metric_name = text(csv, at, "metric");
    for (int i = 0; i < CADRE_PLAN_METRICS; i++)
        if (strcasecmp(names[i], row->metric_name) == 0)
            found = i;
    if (found < 0)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "metric is '%s', expected s_per_step, TFLOPs_eq3, "
                          "model_TFLOPs, causal_TFLOPs, tok_s_gpu or tok_s",
                          row->metric_name);
    row->metric = (enum cadre_plan_metric)found;
    const char *value = text(csv, at, "value");
    char *end;
    row->value = strtod(value, &end);
    if (!*value || *end || !isfinite(row->value) || row->value <= 0)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "value is '%s', expected a positive number", value);
    row->seconds = cadre_published_convert(row, row->value);
    return CADRE_OK;
}

double cadre_published_convert(const struct cadre_published *row, double value)
{
    const double batch = (double)row->candidate.global_batch;
    const double gpus = (double)cadre_candidate_ranks(&row->candidate);
    const struct cadre_transformer *t = &row->transformer;
    switch (row->metric) {
    case CADRE_PLAN_EQ3:
        return cadre_transformer_eq3(t, batch) / (value * gpus * 1e12);
    case CADRE_PLAN_MODEL:
    case CADRE_PLAN_CAUSAL:
        return cadre_transformer_flops(t, batch, row->metric == CADRE_PLAN_CAUSAL) /
               (value * gpus * 1e12);
    case CADRE_PLAN_TOKENS:
        return batch * (double)t->context / (value * gpus);
    case CADRE_PLAN_ALL_TOKENS:
        return batch * (double)t->context / value;
    default:
        return value;
    }
}

/* A model whose name says that it is of another kind. */
static cadre_status check_name(const char *model, struct cadre_error *err)
{
    static const char *const words[][2] = {
        {"lora", "adapters (LoRA)"}, {"moe", "experts"}, {"mixtral", "experts"},
        {"x7b", "experts"},          {"x8b", "experts"}, {"x22b", "experts"},
        {"deepseek", "experts"},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcasestr(model, words[i][0]))
            return cadre_fail(err, CADRE_E_UNSUPPORTED,
                              "model is '%s': %s are not in the model of a step", model,
                              words[i][1]);
    return CADRE_OK;
}

/* Data ranks that are not printed follow from the GPUs. */
static cadre_status take_ranks(struct cadre_published *row, int64_t gpus,
                               struct cadre_error *err)
{
    struct cadre_candidate *c = &row->candidate;
    const double others = (double)c->tensor * (double)c->pipeline * (double)c->context;
    if (gpus < 0 && c->data < 0)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "gpus and dp are empty, expected one of them");
    if (gpus < 0)
        gpus = (int64_t)fmin(others * (double)c->data, 1e15);
    if (c->data < 0)
        c->data = others > (double)gpus ? 0 : gpus / (int64_t)others;
    if (others * (double)c->data != (double)gpus)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "tp x pp x cp x dp is %.0f ranks, gpus is %lld",
                          others * (double)c->data, (long long)gpus);
    return CADRE_OK;
}

/* Sequences of a step that are not printed: of the micro-batch and those that each data
 * rank adds up. */
static cadre_status take_batch(struct cadre_published *row, int64_t accumulated,
                               struct cadre_error *err)
{
    struct cadre_candidate *c = &row->candidate;
    if (c->global_batch > 0)
        return CADRE_OK;
    if (c->micro_batch < 1 || accumulated < 1)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "gbs is empty, expected a whole number, or mbs and ga");
    if ((double)c->micro_batch * (double)accumulated * (double)c->data > 1e12)
        return cadre_fail(err, CADRE_E_UNSUPPORTED, "mbs x ga x dp is more than 1e12");
    c->global_batch = c->micro_batch * accumulated * c->data;
    return CADRE_OK;
}

/* Sizes that are not printed: heads of 128 channels, GPT-2's vocabulary padded, an MLP
 * of 4 channels' width. That and heads without shared keys is GPT-2's form, whose
 * embedding is its head. */
static void complete(struct cadre_published *row)
{
    struct cadre_transformer *t = &row->transformer;
    if (t->heads < 0) {
        t->heads = t->channels > 128 ? t->channels / 128 : 1;
        assume(row, "heads");
    }
    if (t->vocab < 0) {
        t->vocab = 51200;
        assume(row, "vocab");
    }
    t->kv_heads = t->kv_heads < 0 ? t->heads : t->kv_heads;
    t->hidden = t->hidden < 0 ? 4 * t->channels : t->hidden;
    t->gated = t->hidden != 4 * t->channels;
    t->tied = !t->gated && t->kv_heads == t->heads;
}

static cadre_status take_all(struct cadre_published *row, const struct cadre_csv *csv,
                             size_t at, struct cadre_error *err)
{
    struct cadre_transformer *t = &row->transformer;
    struct cadre_candidate *c = &row->candidate;
    int64_t gpus = 0, accumulated = 0;
    const struct whole all[] = {
        {"heads", &t->heads, -1, false},     {"kv", &t->kv_heads, -1, false},
        {"hidden", &t->channels, 0, false},  {"ffn", &t->hidden, -1, false},
        {"layers", &t->layers, 0, false},    {"vocab", &t->vocab, -1, false},
        {"seq", &t->context, 0, false},      {"tp", &c->tensor, 1, false},
        {"pp", &c->pipeline, 1, false},      {"cp", &c->context, 1, false},
        {"vp", &c->chunks, -1, false},       {"dp", &c->data, -1, false},
        {"zero", &c->zero, -1, true},        {"gpus", &gpus, -1, false},
        {"mbs", &c->micro_batch, -1, false}, {"gbs", &c->global_batch, -1, false},
        {"ga", &accumulated, -1, false},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        CADRE_TRY(take(csv, at, &all[i], err));
    complete(row);
    CADRE_TRY(take_ranks(row, gpus, err));
    return take_batch(row, accumulated, err);
}

cadre_status cadre_published_read(struct cadre_published *row,
                                  const struct cadre_csv *csv, size_t at,
                                  struct cadre_error *err)
{
    struct cadre_candidate *c = &row->candidate;
    *row = (struct cadre_published){
        .set = text(csv, at, "set"),
        .source = text(csv, at, "source"),
        .hw = text(csv, at, "hw"),
        .model = text(csv, at, "model"),
        .metric_name = text(csv, at, "metric"),
    };
    CADRE_TRY(check_name(row->model, err));
    CADRE_TRY(unknown_columns(csv, at, err));
    CADRE_TRY(take_all(row, csv, at, err));
    c->zero = c->zero < 0 ? 0 : c->zero;
    row->micro_batch_given = c->micro_batch > 0;
    row->chunks_given = c->chunks > 0;
    if (c->zero > 3)
        return cadre_fail(err, CADRE_E_UNSUPPORTED, "zero is %lld, expected 0 to 3",
                          (long long)c->zero);
    CADRE_TRY(take_words(row, csv, at, err));
    CADRE_TRY(take_metric(row, csv, at, err));
    return cadre_transformer_check(&row->transformer, err);
}

static void choose_chunks(struct cadre_published *row)
{
    struct cadre_candidate *c = &row->candidate;
    const int64_t layers = cadre_candidate_stage_layers(c, &row->transformer);
    c->chunks = c->pipeline == 1 ? 1 : layers % 3 == 0 ? 3 : layers % 2 == 0 ? 2 : 1;
}

static cadre_status choose_micro_batch(struct cadre_published *row,
                                       const struct cadre_hardware *hw,
                                       struct cadre_error *err)
{
    struct cadre_candidate *c = &row->candidate, best = *c;
    double fastest = INFINITY;
    bool fits = false;
    struct cadre_error why = {0}, first = {0};
    for (int64_t b = 1; b <= 16; b *= 2) {
        c->micro_batch = b;
        if (cadre_candidate_check(c, &row->transformer, hw, &why) != CADRE_OK) {
            first = first.code ? first : why;
            continue;
        }
        const struct cadre_footprint f = cadre_footprint(&row->transformer, c, hw);
        const bool inside = cadre_footprint_fits(&f, hw);
        const double step = cadre_forecast(&row->transformer, c, hw).step;
        if ((inside && !fits) || (inside == fits && step < fastest)) {
            fits = inside;
            fastest = step;
            best = *c;
        }
    }
    *c = best;
    if (!isfinite(fastest))
        return cadre_fail(err, CADRE_E_UNSUPPORTED, "%s", first.text);
    return CADRE_OK;
}

cadre_status cadre_published_settle(struct cadre_published *row,
                                    const struct cadre_hardware *hw,
                                    struct cadre_error *err)
{
    struct cadre_candidate *c = &row->candidate;
    if (!row->sequence_parallel_given && c->recompute == CADRE_PLAN_RECOMPUTE_NONE)
        c->sequence_parallel = hw->software.sequence_parallel;
    c->sequence_parallel = c->sequence_parallel && c->tensor > 1;
    if (!row->chunks_given)
        choose_chunks(row);
    if (!row->micro_batch_given)
        return choose_micro_batch(row, hw, err);
    return cadre_candidate_check(c, &row->transformer, hw, err) == CADRE_OK
               ? CADRE_OK
               : CADRE_E_UNSUPPORTED;
}
