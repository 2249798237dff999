/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/metrics.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/clock.h"
#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/base/json_read.h"
#include "core/base/median.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/run/parts_of_step.h"
#include "core/run/record.h"
#include "core/run/recuts.h"
#include "core/run/restarts.h"
#include "core/run/setup.h"

struct cadre_metrics {
    const struct cadre_spec *spec;
    char *path;
    FILE *file;
    double *step_s, *bubble; /* of every step of the file; bubble of the span */
    size_t n, room;
    int64_t first_step, last_step; /* of the file */
    double loss_first, loss_last, time_s, exposed_s;
    struct cadre_axis_times exposed; /* exposed_s by axis */
    size_t n_before; /* steps of the file before this session */
    char session_begin[CADRE_JSON_DATE];
    double session_begin_s; /* of the monotonic clock */
    int64_t *microbatches; /* (data_ranks) as they were told last; NULL: never */
    int data_ranks;
    /* bytes of the steps before this process; of them between nodes; NaN: unknown */
    double comm_before, between_before;
};

static cadre_status remember_microbatches(struct cadre_metrics *metrics,
                                          const struct cadre_step_report *report)
{
    const int n = report->data_ranks;
    int64_t *grown =
        cadre_realloc(metrics->microbatches, (size_t)n, sizeof *metrics->microbatches);
    if (!grown)
        return CADRE_E_RESOURCE;
    for (int r = 0; r < n; r++)
        grown[r] = (int64_t)(report->first[r + 1] - report->first[r]);
    metrics->microbatches = grown;
    metrics->data_ranks = n;
    return CADRE_OK;
}

static cadre_status remember(struct cadre_metrics *metrics, int64_t step,
                             const struct cadre_step_report *report)
{
    if (metrics->n == metrics->room) {
        size_t room = metrics->room ? 2 * metrics->room : 256;
        double *grown = cadre_realloc(metrics->step_s, room, sizeof *grown);
        if (!grown)
            return CADRE_E_RESOURCE;
        metrics->step_s = grown;
        grown = cadre_realloc(metrics->bubble, room, sizeof *grown);
        if (!grown)
            return CADRE_E_RESOURCE;
        metrics->bubble = grown;
        metrics->room = room;
    }
    if (metrics->n == 0) {
        metrics->first_step = step;
        metrics->loss_first = report->loss;
    }
    const struct cadre_step_times *t = &report->times;
    metrics->bubble[metrics->n] = t->span_s > 0 ? t->bubble_s / t->span_s : 0;
    metrics->step_s[metrics->n++] = t->step_s;
    metrics->last_step = step;
    metrics->loss_last = report->loss;
    metrics->time_s += t->step_s;
    metrics->exposed_s += t->comm_exposed_s;
    for (int i = 0; i < t->n_exposed; i++)
        cadre_axis_times_add(&metrics->exposed, t->exposed[i].axis, t->exposed[i].s);
    return report->first ? remember_microbatches(metrics, report) : CADRE_OK;
}

/* ---- a run that continues ---- */

static double number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static cadre_status take_line(struct cadre_metrics *metrics, const char *line)
{
    json_t *object = NULL;
    CADRE_TRY(cadre_json_try(line, strlen(line), JSON_REJECT_DUPLICATES,
                             "metrics.jsonl", &object, NULL));
    const struct cadre_step_report report = {
        .loss = number_of(object, "loss"),
        .times = {.step_s = number_of(object, "step_s"),
                  .comm_exposed_s = number_of(object, "comm_exposed_s"),
                  .bubble_s = number_of(object, "bubble_s"),
                  .span_s = number_of(object, "span_s")},
    };
    int64_t step = json_integer_value(json_object_get(object, "step"));
    cadre_axis_times_take(&metrics->exposed,
                          json_object_get(object, "comm_exposed_axis_s"));
    json_decref(object);
    return step > 0 ? remember(metrics, step, &report) : CADRE_OK;
}

/* Take the steps that stand in the file: the summary is of them too. */
static cadre_status take_steps(struct cadre_metrics *metrics)
{
    cadre_status rc = CADRE_OK;
    struct stat info;
    char *line = NULL;
    size_t room = 0;
    FILE *file = fopen(metrics->path, "r");
    bool regular = file && fstat(fileno(file), &info) == 0 && S_ISREG(info.st_mode);
    for (size_t n = 1; regular && rc == CADRE_OK && n > 0;) {
        rc = cadre_path_next_line(file, metrics->path, &line, &room, &n, NULL);
        if (rc == CADRE_OK && n > 0)
            rc = take_line(metrics, line);
    }
    if (file)
        fclose(file);
    free(line);
    return rc;
}

/* Bytes are counted by a process, and told in the summary at its end. One that was
 * killed told none. */
static cadre_status take_summary(struct cadre_metrics *metrics)
{
    json_t *summary = NULL;
    if (metrics->n > 0)
        CADRE_TRY(
            cadre_json_try_file(metrics->spec->out, "summary.json", &summary, NULL));
    bool same = number_of(summary, "first_step") == (double)metrics->first_step &&
                number_of(summary, "steps") == (double)metrics->n;
    metrics->comm_before = metrics->n == 0 ? 0
                           : same          ? number_of(summary, "comm_bytes")
                                           : NAN;
    metrics->between_before = metrics->n == 0 ? 0
                              : same          ? number_of(summary, "comm_between_bytes")
                                              : NAN;
    json_decref(summary);
    return CADRE_OK;
}

cadre_status cadre_metrics_open(const struct cadre_spec *spec,
                                struct cadre_metrics **out, struct cadre_error *err)
{
    struct cadre_metrics *metrics = calloc(1, sizeof *metrics);
    if (!metrics)
        return cadre_no_memory(err, "metrics");
    metrics->spec = spec;
    metrics->path = cadre_path_join(spec->out, "metrics.jsonl");
    if (!metrics->path || take_steps(metrics) != CADRE_OK ||
        take_summary(metrics) != CADRE_OK) {
        cadre_metrics_close(metrics);
        return cadre_no_memory(err, "metrics");
    }
    metrics->file = fopen(metrics->path, "a");
    if (!metrics->file) {
        cadre_fail_errno(err, CADRE_E_IO, errno, "cannot write '%s'", metrics->path);
        cadre_metrics_close(metrics);
        return CADRE_E_IO;
    }
    metrics->n_before = metrics->n;
    metrics->session_begin_s = cadre_now_s();
    cadre_json_date(metrics->session_begin);
    *out = metrics;
    return CADRE_OK;
}

/* By axis. */
static void put_exposed(struct cadre_json *json, const struct cadre_step_times *t)
{
    struct cadre_axis_times times = {0};
    for (int i = 0; i < t->n_exposed; i++)
        cadre_axis_times_add(&times, t->exposed[i].axis, t->exposed[i].s);
    cadre_json_key(json, "comm_exposed_axis_s");
    cadre_axis_times_put(json, &times);
}

/* Of each data rank, as they were told last. */
static void put_microbatches(struct cadre_json *json,
                             const struct cadre_metrics *metrics)
{
    cadre_json_key(json, "micro_batches");
    if (!metrics->microbatches) {
        cadre_json_null(json);
        return;
    }
    cadre_json_begin_array(json);
    for (int r = 0; r < metrics->data_ranks; r++)
        cadre_json_i64(json, metrics->microbatches[r]);
    cadre_json_end_array(json);
}

/* Of classes, or of pairs. */
static bool has_accuracy(const struct cadre_spec *spec)
{
    return spec->run.model.classes > 0 || spec->run.preference.on;
}

static void put_valid_figures(struct cadre_json *json, const struct cadre_spec *spec,
                              const struct cadre_valid_result *valid)
{
    cadre_json_put_f64(json, "valid_loss", valid->loss);
    if (has_accuracy(spec))
        cadre_json_put_f64(json, "valid_accuracy", valid->accuracy);
    if (!spec->run.preference.on)
        return;
    cadre_json_put_f64(json, "valid_logits/chosen", valid->logits[0]);
    cadre_json_put_f64(json, "valid_logits/rejected", valid->logits[1]);
}

/* The loss is there already. */
static void put_preference(struct cadre_json *json, const double *figures)
{
    for (int i = CADRE_PREFERENCE_LOSS + 1; i < CADRE_PREFERENCE_FIGURES; i++)
        cadre_json_put_f64(json, cadre_preference_name(i), figures[i]);
}

static void write_step(struct cadre_json *json, const struct cadre_metrics *metrics,
                       int64_t step, const struct cadre_step_report *report,
                       const struct cadre_valid_result *valid)
{
    const struct cadre_spec *spec = metrics->spec;
    const struct cadre_step_times *t = &report->times;
    double tokens = (double)(spec->run.global_batch * spec->run.time);
    const struct {
        const char *key;
        double value;
    } numbers[] = {
        {"loss", report->loss},
        {"grad_norm", report->grad_norm},
        {"lr", report->lr},
        {"step_s", t->step_s},
        {"tokens_per_s", t->step_s > 0 ? tokens / t->step_s : 0},
        {"wait_data_s", t->wait_data_s},
        {"comm_s", t->comm_s},
        {"comm_exposed_s", t->comm_exposed_s},
        {"wait_ranks_s", t->wait_ranks_s},
        {"bubble_s", t->bubble_s},
        {"span_s", t->span_s},
        {"optim_s", t->optim_s},
        {"optim_wait_s", t->optim_wait_s},
        {"compute_s", t->compute_s},
    };
    cadre_json_begin_object(json);
    cadre_json_put_i64(json, "step", step);
    cadre_json_put_f64(json, "time", cadre_wall_clock_s());
    cadre_json_put_i64(json, "tokens", step * spec->run.global_batch * spec->run.time);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        cadre_json_put_f64(json, numbers[i].key, numbers[i].value);
    }
    put_exposed(json, t);
    if (report->first)
        put_microbatches(json, metrics);
    if (spec->run.model.dtype == CADRE_F16) {
        cadre_json_put_f64(json, "loss_scale", report->loss_scale);
        cadre_json_put_bool(json, "skipped", report->skipped);
    }
    if (spec->run.preference.on)
        put_preference(json, report->preference);
    if (valid->has)
        put_valid_figures(json, spec, valid);
    cadre_json_end_object(json);
}

cadre_status cadre_metrics_step(struct cadre_metrics *metrics, int64_t step,
                                const struct cadre_step_report *report,
                                const struct cadre_valid_result *valid,
                                struct cadre_error *err)
{
    struct cadre_json json;
    if (remember(metrics, step, report) != CADRE_OK)
        return cadre_no_memory(err, "metrics");
    cadre_json_init(&json, metrics->file, false);
    write_step(&json, metrics, step, report, valid);
    cadre_status rc = cadre_json_finish(&json);
    if (rc != CADRE_OK || fflush(metrics->file) != 0)
        rc = cadre_fail_errno(err, CADRE_E_IO, errno, "cannot write '%s'",
                              metrics->path);
    return rc;
}

/* Median of the steps after compare.warmup, or of all steps if there are no more. */
static double median_of(const struct cadre_metrics *metrics, const double *values)
{
    size_t skip = (size_t)metrics->spec->config.compare.warmup;
    skip = skip < metrics->n ? skip : 0;
    size_t n = metrics->n - skip;
    double *sorted = cadre_calloc(n, sizeof *sorted);
    if (!sorted)
        return 0;
    for (size_t i = 0; i < n; i++)
        sorted[i] = values[skip + i];
    double median = cadre_median(sorted, n);
    free(sorted);
    return median;
}

/* By rank: replicas compute the same ones, owners of shards one each. */
static void put_matrices(struct cadre_json *json, const struct cadre_run_spec *run,
                         const struct cadre_run_totals *totals)
{
    if (run->optim.kind != CADRE_OPTIMIZER_PLUGIN || !totals->matrices)
        return;
    cadre_json_key(json, "optimizer_matrices");
    cadre_json_begin_array(json);
    for (int r = 0; r < run->ranks; r++)
        cadre_json_i64(json, (int64_t)totals->matrices[r]);
    cadre_json_end_array(json);
}

static void put_gemm(struct cadre_json *json, const struct cadre_tuning *tuning)
{
    cadre_json_key(json, "gemm");
    cadre_json_begin_object(json);
    cadre_json_put_string(json, "library", tuning->library);
    cadre_json_put_string(json, "algorithms", tuning->algorithms);
    cadre_json_end_object(json);
}

/* A session is what one process, or one start of the ranks, made of the run. */
static void put_session(struct cadre_json *json, const struct cadre_metrics *metrics)
{
    char now[CADRE_JSON_DATE];
    int64_t steps = (int64_t)(metrics->n - metrics->n_before);
    cadre_json_put_string(json, "session_begin", metrics->session_begin);
    cadre_json_put_string(json, "session_end", cadre_json_date(now));
    cadre_json_put_f64(json, "session_s", cadre_now_s() - metrics->session_begin_s);
    cadre_json_put_i64(json, "session_steps", steps);
}

static void put_valid(struct cadre_json *json, const struct cadre_spec *spec,
                      const struct cadre_valid_result *valid)
{
    if (!valid->has)
        return;
    put_valid_figures(json, spec, valid);
    cadre_json_put_i64(json, "valid_samples", valid->samples);
    cadre_json_put_i64(json, "valid_samples_all",
                       (int64_t)spec->data_info.valid_samples);
}

static void put_memory(struct cadre_json *json, int ranks,
                       const struct cadre_run_totals *totals)
{
    cadre_json_key(json, "peak_bytes");
    cadre_json_begin_array(json);
    for (int r = 0; r < ranks; r++)
        cadre_json_i64(json, (int64_t)totals->peak_bytes[r]);
    cadre_json_end_array(json);
    if (totals->usage) {
        cadre_json_key(json, "resident_bytes");
        cadre_json_begin_array(json);
        for (int i = 0; i < totals->usage->processes; i++)
            cadre_json_u64(json, totals->usage->resident[i]);
        cadre_json_end_array(json);
        cadre_json_key(json, "memory");
        cadre_usage_write(totals->usage, json);
    }
}

/* As far as it is known. */
static void put_machine(struct cadre_json *json, const struct cadre_run_totals *totals)
{
    if (totals->site) {
        cadre_json_key(json, "machine");
        cadre_site_write(totals->site, json);
    }
    if (totals->energy) {
        cadre_json_key(json, "energy");
        cadre_energy_write(totals->energy, json);
    }
}

/* By it runs of several machines are seen to have the same data. */
static void put_fingerprint(struct cadre_json *json, const struct cadre_spec *spec)
{
    char hex[17];
    cadre_json_put_string(json, "data_fingerprint",
                          cadre_hash_hex(spec->data_info.fingerprint, hex));
}

/* null for NaN */
static void put_bytes(struct cadre_json *json, const char *key, double bytes)
{
    cadre_json_key(json, key);
    if (isnan(bytes))
        cadre_json_null(json);
    else
        cadre_json_i64(json, (int64_t)bytes);
}

static void write_summary(struct cadre_json *json, const struct cadre_metrics *metrics,
                          const struct cadre_run_totals *totals)
{
    const struct cadre_spec *spec = metrics->spec;
    int64_t step_tokens = spec->run.global_batch * spec->run.time;
    double median = median_of(metrics, metrics->step_s);
    double rate = median > 0 ? (double)step_tokens / median : 0;
    cadre_json_begin_object(json);
    cadre_json_put_head(json, CADRE_RECORD_SCHEMA);
    put_session(json, metrics);
    cadre_json_put_string(json, "name", spec->name);
    cadre_json_put_string(json, "stack", spec->stack);
    cadre_json_put_i64(json, "ranks", spec->run.ranks);
    cadre_json_put_string(json, "device", totals->device);
    cadre_json_put_i64(json, "threads",
                       totals->threads ? totals->threads : spec->run.device.threads);
    cadre_json_put_i64(json, "first_step", metrics->n ? metrics->first_step : 1);
    cadre_json_put_i64(json, "steps", (int64_t)metrics->n);
    cadre_json_put_i64(json, "tokens", (int64_t)metrics->n * step_tokens);
    cadre_json_put_f64(json, "time_s", metrics->time_s);
    cadre_json_put_f64(json, "step_s_median", median);
    cadre_json_put_f64(json, "tokens_per_s", rate);
    cadre_json_put_f64(json, "loss_first", metrics->loss_first);
    cadre_json_put_f64(json, "loss_last", metrics->loss_last);
    cadre_json_put_i64(json, "train_samples_all",
                       (int64_t)spec->data_info.train_samples);
    put_valid(json, spec, &totals->valid);
    put_memory(json, spec->run.ranks, totals);
    put_machine(json, totals);
    put_bytes(json, "comm_bytes", metrics->comm_before + totals->comm_bytes);
    put_bytes(json, "comm_between_bytes",
              metrics->between_before + totals->between_bytes);
    cadre_json_put_i64(json, "nodes", totals->nodes);
    put_matrices(json, &spec->run, totals);
    cadre_json_put_f64(json, "comm_exposed_s", metrics->exposed_s);
    cadre_json_key(json, "comm_exposed_axis_s");
    cadre_axis_times_put(json, &metrics->exposed);
    cadre_json_put_f64(json, "bubble_fraction", median_of(metrics, metrics->bubble));
    cadre_json_put_i64(json, "params", (int64_t)totals->params);
    cadre_json_put_i64(json, "params_trained", (int64_t)totals->params_trained);
    if (totals->efficiency)
        cadre_efficiency_write(totals->efficiency, rate, metrics->time_s, json);
    put_fingerprint(json, spec);
    cadre_json_put_bool(json, "exact", spec->run.exact);
    cadre_json_put_i64(json, "exact_parts", spec->config.run.exact_parts);
    put_gemm(json, &totals->tuning);
    put_microbatches(json, metrics);
    cadre_json_put_bool(json, "simulated_link", spec->local.link.gbytes_s > 0);
    cadre_json_put_bool(json, "simulated_nodes", spec->config.comm.node > 0);
    cadre_json_put_string(json, "simulated_pace", cadre_spec_pace(spec));
    cadre_setup_put(spec->out, json);
    cadre_restarts_put(spec->out, json);
    cadre_recuts_put(spec->out, json);
    cadre_json_end_object(json);
}

cadre_status cadre_metrics_summary(struct cadre_metrics *metrics,
                                   const struct cadre_run_totals *totals,
                                   struct cadre_error *err)
{
    struct cadre_text text = {0};
    struct cadre_json json;
    char *path = cadre_path_join(metrics->spec->out, "summary.json");
    cadre_json_init_text(&json, &text, true);
    write_summary(&json, metrics, totals);
    cadre_status rc = cadre_json_finish(&json);
    if (rc != CADRE_OK || !path)
        rc = cadre_no_memory(err, "summary.json");
    if (rc == CADRE_OK)
        rc = cadre_path_write_file(path, cadre_text_str(&text), text.len, err);
    cadre_text_fini(&text);
    free(path);
    return rc;
}

void cadre_metrics_close(struct cadre_metrics *metrics)
{
    if (!metrics)
        return;
    if (metrics->file)
        fclose(metrics->file);
    free(metrics->path);
    free(metrics->step_s);
    free(metrics->bubble);
    free(metrics->microbatches);
    free(metrics);
}
