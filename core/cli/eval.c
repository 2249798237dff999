/* SPDX-License-Identifier: Apache-2.0 */
/* `cadre eval`: loss on the validation split, and the entropy of a bigram model or each
 * class's sensitivity, positive predictivity and F1. */
#include "core/cli/cli.h"

#include <math.h>
#include <stdio.h>

#include "core/base/json.h"
#include "core/base/log.h"
#include "core/checkpoint/load.h"
#include "core/checkpoint/trained.h"
#include "core/train/evaluate.h"
#include "core/train/reference.h"

struct outcome {
    const struct cadre_spec *spec;
    struct cadre_evaluation eval;
    bool has_bigram;
    double bigram;
    struct cadre_text trained; /* validation records that were trained on */
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

static void print_text(const struct outcome *o)
{
    const struct cadre_evaluation *e = &o->eval;
    struct cadre_text records = {0};
    printf("parameters                %s\n", o->spec->config.model.init);
    list_records(o->spec, &records);
    if (records.len)
        printf("validation records        %s\n", cadre_text_str(&records));
    cadre_text_fini(&records);
    if (o->trained.len)
        printf("of these, trained on      %s\n", cadre_text_str(&o->trained));
    printf("samples                   %lld\n", (long long)e->samples);
    const bool pairs = o->spec->data_info.pairs;
    printf("loss                      %.6f nats over %lld %s\n", e->loss,
           (long long)e->targets, pairs ? "pairs" : "targets");
    if (e->classes == 0 && !pairs)
        printf("perplexity                %.4f\n", exp(e->loss));
    printf("accuracy                  %.4f\n", e->accuracy);
    if (pairs)
        printf(
            "logits                    %.6f of chosen answers, %.6f of rejected ones\n",
            e->logits[0], e->logits[1]);
    if (o->has_bigram)
        printf(
            "bigram entropy            %.6f nats (order 1, of the validation tokens): "
            "the loss is %s\n",
            o->bigram, e->loss < o->bigram ? "below it" : "not below it");
    if (e->classes > 0)
        printf("%-14s %11s %11s %11s %8s %8s %8s\n", "class", "sensitivity",
               "pos. pred.", "F1", "TP", "FP", "FN");
    for (int64_t c = 0; c < e->classes; c++) {
        const struct cadre_class_counts *n = &e->count[c];
        printf("%-14s %11.4f %11.4f %11.4f %8llu %8llu %8llu\n",
               cadre_dataset_class_name(o->spec->data, c), cadre_sensitivity(n),
               cadre_predictivity(n), cadre_f1(n), (unsigned long long)n->true_positive,
               (unsigned long long)n->false_positive,
               (unsigned long long)n->false_negative);
    }
}

/* The folder that what has been trained is from. */
static const char *source_of(const struct outcome *o)
{
    const struct cadre_config *config = &o->spec->config;
    return *config->tune.adapter ? config->tune.adapter : config->model.init;
}

static cadre_status print_json(const struct outcome *o, struct cadre_error *err)
{
    const struct cadre_evaluation *e = &o->eval;
    struct cadre_json json;
    struct cadre_text records = {0};
    list_records(o->spec, &records);
    cadre_json_init(&json, stdout, true);
    cadre_json_begin_object(&json);
    cadre_json_put_string(&json, "parameters", source_of(o));
    cadre_json_put_string(&json, "valid_records", cadre_text_str(&records));
    cadre_text_fini(&records);
    cadre_json_put_string(&json, "trained_records", cadre_text_str(&o->trained));
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

/* Such a figure says nothing of records that the model has not seen. */
static cadre_status find_trained(struct outcome *o, struct cadre_error *err)
{
    const char *from = source_of(o);
    CADRE_TRY(cadre_trained_find(from, o->spec->data, &o->trained, err));
    if (o->trained.failed)
        return cadre_no_memory(err, "the names of records");
    if (o->trained.len)
        cadre_log(CADRE_LOG_WARN, "eval",
                  "'%s' was trained on these validation records: %s; name records that "
                  "it has not seen in data.valid_records",
                  from, cadre_text_str(&o->trained));
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
    cadre_status rc = cadre_cli_load_model(args, true, &spec, &rank, err);
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
fail:
    if (rc != CADRE_OK && err->code == CADRE_OK) /* a step has a code alone */
        cadre_fail(err, rc, "the evaluation failed: %s", cadre_strerror(rc));
    if (rc == CADRE_E_RESOURCE)
        cadre_rank_tell_memory(&rank, err);
    cadre_text_fini(&o.trained);
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
