/* SPDX-License-Identifier: Apache-2.0 */
/* `cadre eval`: loss on the validation split, and the entropy of a bigram model or each
 * class's sensitivity, positive predictivity and F1. */
#include "core/cli/cli.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/terminal.h"
#include "core/base/text_table.h"
#include "core/checkpoint/load.h"
#include "core/checkpoint/trained.h"
#include "core/train/evaluate.h"
#include "core/train/reference.h"

struct outcome {
    const struct cadre_spec *spec;
    const char *named_by; /* what named the parameters: "--from", "run", ... */
    struct cadre_evaluation eval;
    bool has_bigram;
    double bigram;
    struct cadre_met met; /* of the validation data, what was trained on */
    bool lost; /* a line could not be made or written */
};

/* "119, 209": the validation records, "" where the data has none. */
static void list_records(const struct cadre_spec *spec, struct cadre_text *out)
{
    for (uint64_t i = 0; i < spec->data_info.records; i++) {
        enum cadre_data_split split;
        const char *name = cadre_dataset_record(spec->data, i, &split);
        if (split == CADRE_SPLIT_VALID)
            cadre_text_printf(out, "%s%s", out->len ? ", " : "", name);
    }
}

/* A figure, or what else is known: wrapped beside its name. */
static void print_line(struct outcome *o, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void print_line(struct outcome *o, const char *name, const char *fmt, ...)
{
    struct cadre_text text = {0};
    char first[32];
    va_list ap;
    va_start(ap, fmt);
    cadre_text_vprintf(&text, fmt, ap);
    va_end(ap);
    snprintf(first, sizeof first, "%-25s ", name);
    if (text.failed ||
        !cadre_terminal_write(stdout, first, (int)strlen(first), cadre_text_str(&text)))
        o->lost = true;
    cadre_text_fini(&text);
}

static void print_classes(struct outcome *o)
{
    static const char *const heads[] = {"class", "sensitivity", "pos. pred.", "F1",
                                        "TP",    "FP",          "FN"};
    enum { COLUMNS = sizeof heads / sizeof heads[0] };
    static const bool is_text[COLUMNS] = {true};
    struct cadre_text_table table = {.columns = COLUMNS, .is_text = is_text};
    cadre_text_table_add_row(&table, heads);
    for (int64_t c = 0; c < o->eval.classes; c++) {
        const struct cadre_class_counts *n = &o->eval.count[c];
        cadre_text_table_add(&table, cadre_dataset_class_name(o->spec->data, c));
        cadre_text_table_addf(&table, "%.4f", cadre_sensitivity(n));
        cadre_text_table_addf(&table, "%.4f", cadre_predictivity(n));
        cadre_text_table_addf(&table, "%.4f", cadre_f1(n));
        cadre_text_table_addf(&table, "%.0f", (double)n->true_positive);
        cadre_text_table_addf(&table, "%.0f", (double)n->false_positive);
        cadre_text_table_addf(&table, "%.0f", (double)n->false_negative);
    }
    o->lost = o->lost || !cadre_text_table_write(&table, stdout);
    cadre_text_table_fini(&table);
}

/* The folder that what has been trained is from. */
static const char *source_of(const struct outcome *o)
{
    const struct cadre_config *config = &o->spec->config;
    return *config->tune.adapter ? config->tune.adapter : config->model.init;
}

static void print_text(struct outcome *o)
{
    const struct cadre_evaluation *e = &o->eval;
    const bool pairs = o->spec->data_info.pairs;
    struct cadre_text records = {0};
    print_line(o, "parameters", "%s", source_of(o));
    print_line(o, "named by", "%s",
               strcmp(o->named_by, "run") == 0 ? "the run, as its newest checkpoint"
                                               : o->named_by);
    list_records(o->spec, &records);
    o->lost = o->lost || records.failed;
    if (records.len)
        print_line(o, "validation records", "%s", cadre_text_str(&records));
    cadre_text_fini(&records);
    if (o->met.records.len)
        print_line(o, "of these, trained on", "%s", cadre_text_str(&o->met.records));
    print_line(o, "samples", "%lld", (long long)e->samples);
    if (o->met.share > 0)
        print_line(o, "of these, trained on", "about %.3g %%", 100 * o->met.share);
    print_line(o, "loss", "%.6f nats over %lld %s", e->loss, (long long)e->targets,
               pairs ? "pairs" : "targets");
    if (e->classes == 0 && !pairs)
        print_line(o, "perplexity", "%.4f", exp(e->loss));
    print_line(o, "accuracy", "%.4f", e->accuracy);
    if (pairs)
        print_line(o, "logits", "%.6f of chosen answers, %.6f of rejected ones",
                   e->logits[0], e->logits[1]);
    if (o->has_bigram)
        print_line(o, "bigram entropy",
                   "%.6f nats (order 1, of the validation tokens): the loss is %s",
                   o->bigram, e->loss < o->bigram ? "below it" : "not below it");
    if (e->classes > 0)
        print_classes(o);
}

static cadre_status print_json(const struct outcome *o, struct cadre_error *err)
{
    const struct cadre_evaluation *e = &o->eval;
    struct cadre_json json;
    struct cadre_text records = {0};
    list_records(o->spec, &records);
    cadre_json_init(&json, stdout, true);
    cadre_json_begin_object(&json);
    cadre_json_put_head(&json, 1);
    cadre_json_put_string(&json, "parameters", source_of(o));
    cadre_json_put_string(&json, "named_by", o->named_by);
    cadre_json_put_string(&json, "valid_records", cadre_text_str(&records));
    cadre_text_fini(&records);
    cadre_json_put_string(&json, "trained_records", cadre_text_str(&o->met.records));
    cadre_json_put_f64(&json, "trained_share", o->met.share);
    cadre_json_put_i64(&json, "samples", e->samples);
    cadre_json_put_i64(&json, "targets", e->targets);
    cadre_json_put_f64(&json, "loss", e->loss);
    cadre_json_put_f64(&json, "accuracy", e->accuracy);
    if (o->spec->data_info.pairs) {
        cadre_json_put_f64(&json, "logits/chosen", e->logits[0]);
        cadre_json_put_f64(&json, "logits/rejected", e->logits[1]);
    }
    if (o->has_bigram)
        cadre_json_put_f64(&json, "bigram_entropy", o->bigram);
    cadre_json_key(&json, "classes");
    cadre_json_begin_array(&json);
    for (int64_t c = 0; c < e->classes; c++) {
        const struct cadre_class_counts *n = &e->count[c];
        cadre_json_begin_object(&json);
        cadre_json_put_string(&json, "name",
                              cadre_dataset_class_name(o->spec->data, c));
        cadre_json_put_f64(&json, "sensitivity", cadre_sensitivity(n));
        cadre_json_put_f64(&json, "positive_predictivity", cadre_predictivity(n));
        cadre_json_put_f64(&json, "f1", cadre_f1(n));
        cadre_json_put_i64(&json, "true_positive", (int64_t)n->true_positive);
        cadre_json_put_i64(&json, "false_positive", (int64_t)n->false_positive);
        cadre_json_put_i64(&json, "false_negative", (int64_t)n->false_negative);
        cadre_json_end_object(&json);
    }
    cadre_json_end_array(&json);
    cadre_json_end_object(&json);
    if (cadre_json_finish(&json) != CADRE_OK)
        return cadre_fail(err, CADRE_E_IO, "cannot write to stdout");
    return CADRE_OK;
}

static cadre_status find_trained(struct outcome *o, struct cadre_error *err)
{
    const char *from = source_of(o);
    CADRE_TRY(cadre_trained_find(from, o->spec->data, &o->met, err));
    cadre_trained_warn("eval", "", from, &o->met);
    return CADRE_OK;
}

/* Pairs are judged beside a reference: the model without adapters, or another. */
static cadre_status find_reference(const struct cadre_spec *spec,
                                   struct cadre_rank *rank, struct cadre_error *err)
{
    const struct cadre_config *c = &spec->config;
    const bool adapters = spec->run.model.lora.rank > 0;
    if (!cadre_rank_has_pairs(rank))
        return CADRE_OK;
    if (!adapters && !*c->tune.reference)
        return cadre_fail(err, CADRE_E_INVALID,
                          "tune.method = dpo without a reference: the run began with "
                          "initial values; name the folder of a model in "
                          "tune.reference");
    if (!adapters)
        CADRE_TRY(cadre_load_model(rank, c->tune.reference, err));
    CADRE_TRY(cadre_reference_measure(rank, spec, 0, 0, 0, err));
    return adapters ? CADRE_OK : cadre_load_model(rank, c->model.init, err);
}

static cadre_status eval(const struct cadre_cli_args *args, struct cadre_error *err)
{
    struct outcome o = {0};
    struct cadre_spec *spec = NULL;
    struct cadre_rank rank = {0};
    bool has = false;
    cadre_status rc = cadre_cli_load_model(args, true, &spec, &rank, &o.named_by, err);
    if (rc != CADRE_OK)
        return rc;
    o.spec = spec;
    CADRE_TRY_OR(find_trained(&o, err), fail);
    CADRE_TRY_OR(find_reference(spec, &rank, err), fail);
    CADRE_TRY_OR(cadre_evaluate(&rank, spec, 0, &o.eval, &has, err), fail);
    if (!has) {
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "there is no validation data; set data.valid_fraction or "
                        "data.valid_records");
        goto fail;
    }
    if (o.eval.classes == 0 && !spec->data_info.masked) {
        CADRE_TRY_OR(
            cadre_dataset_bigram_entropy(spec->data, CADRE_SPLIT_VALID, &o.bigram, err),
            fail);
        o.has_bigram = true;
    }
    if (args->json)
        rc = print_json(&o, err);
    else
        print_text(&o);
    if (o.lost)
        rc = cadre_fail(err, CADRE_E_IO, "cannot write to stdout");
fail:
    if (rc != CADRE_OK && err->code == CADRE_OK) /* a step has a code alone */
        cadre_fail(err, rc, "the evaluation failed: %s", cadre_strerror(rc));
    if (rc == CADRE_E_RESOURCE)
        cadre_rank_tell_memory(&rank, err);
    cadre_text_fini(&o.met.records);
    cadre_rank_fini(&rank);
    cadre_spec_destroy(spec);
    return rc;
}

static const struct cadre_cli_option options[] = {
    CADRE_CLI_OPTION_SET,
    CADRE_CLI_OPTION_OUT,
    CADRE_CLI_OPTION_FROM,
    CADRE_CLI_OPTION_JSON,
    {0},
};

const struct cadre_cli_command cadre_command_eval = {
    .name = "eval",
    .synopsis = "CONF [--from DIR] [--set SECTION.KEY=VALUE]... [--out DIR] [--json]",
    .summary = "evaluate a run, checkpoint or model folder on the validation data",
    .argument = "CONF",
    .kind = CADRE_CLI_CONF,
    .least = 1,
    .most = 1,
    .options = options,
    .run = eval,
};
