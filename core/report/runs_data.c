/* SPDX-License-Identifier: Apache-2.0 */
/* report.json of several runs. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/json.h"
#include "core/report/runs_private.h"

static void put_hosts(struct cadre_json *json, const struct cadre_run_data *run)
{
    const json_t *hosts =
        json_object_get(json_object_get(run->summary, "machine"), "hosts");
    cadre_json_key(json, "hosts");
    cadre_json_begin_array(json);
    for (size_t i = 0; i < json_array_size(hosts); i++)
        cadre_json_string(json, json_string_value(json_array_get(hosts, i)));
    cadre_json_end_array(json);
    cadre_json_put_string(json, "cpu", cadre_run_data_text(run, "machine", "cpu"));
}

static void put_spread(struct cadre_json *json, const struct cadre_run_data *run)
{
    cadre_json_put_f64(json, "step_s", run->step_s.median);
    cadre_json_put_f64(json, "step_s_low", run->step_s.low);
    cadre_json_put_f64(json, "step_s_high", run->step_s.high);
    cadre_json_put_i64(json, "step_s_n", (int64_t)run->step_s.n);
    cadre_json_put_f64(json, "tokens_per_s",
                       cadre_run_data_number(run, "tokens_per_s"));
    cadre_json_key(json, "step_parts");
    cadre_step_parts_put(json, &run->parts, run->parts_step_s);
}

/* A count of the summary; JSON's integers stay such. */
static void put_count(struct cadre_json *json, const struct cadre_run_data *run,
                      const char *key)
{
    double value = cadre_run_data_number(run, key);
    cadre_json_key(json, key);
    if (isfinite(value))
        cadre_json_i64(json, (int64_t)value);
    else
        cadre_json_null(json);
}

static void put_losses(struct cadre_json *json, const struct cadre_run_data *run)
{
    cadre_json_put_f64(json, "loss_last", cadre_runs_last_loss(run));
    cadre_json_put_f64(json, "valid_loss", cadre_runs_valid_loss(run));
    cadre_json_put_f64(json, "valid_loss_best", run->best_valid);
    cadre_json_key(json, "valid_loss_best_step");
    if (isfinite(run->best_valid))
        cadre_json_i64(json, run->best_valid_step);
    else
        cadre_json_null(json);
    cadre_json_put_i64(json, "not_finite", (int64_t)run->not_finite);
}

static void put_run(struct cadre_json *json, const struct cadre_runs *runs, size_t i)
{
    const struct cadre_run_data *run = runs->run[i];
    char text[512];
    cadre_json_begin_object(json);
    cadre_json_put_string(json, "name", runs->name[i]);
    cadre_json_put_string(json, "folder", run->dir);
    cadre_json_put_string(json, "state", cadre_run_data_state(run, text, sizeof text));
    cadre_json_put_bool(json, "finished", cadre_run_data_finished(run));
    cadre_json_put_string(json, "failure", *run->end.why ? run->end.why : NULL);
    cadre_json_put_string(json, "build", cadre_run_data_text(run, NULL, "build"));
    cadre_json_put_string(json, "stack", cadre_run_data_option(run, "strategy.stack"));
    put_count(json, run, "ranks");
    put_hosts(json, run);
    cadre_json_put_i64(json, "last_step", run->last_step);
    put_count(json, run, "tokens");
    put_count(json, run, "params");
    put_spread(json, run);
    put_losses(json, run);
    cadre_json_put_f64(json, "peak_bytes", cadre_run_data_largest(run, "peak_bytes"));
    cadre_json_put_f64(json, "mfu", cadre_run_data_number(run, "mfu"));
    cadre_json_put_f64(json, "j_per_token",
                       cadre_run_data_number_in(run, "energy", "j_per_token"));
    cadre_json_put_f64(json, "price_per_million_tokens",
                       cadre_run_data_number_in(run, "price", "per_million_tokens"));
    bool same = i == 0 ||
                cadre_options_diff_same_training(runs->run[0], run, text, sizeof text);
    cadre_json_put_bool(json, "same_training", same);
    cadre_json_put_string(json, "other_training", same ? NULL : text);
    cadre_json_end_object(json);
}

static void put_options(struct cadre_json *json, const struct cadre_runs *runs)
{
    cadre_json_key(json, "options");
    cadre_json_begin_object(json);
    for (size_t k = 0; k < runs->diff.n; k++) {
        cadre_json_key(json, runs->diff.key[k]);
        cadre_json_begin_array(json);
        for (size_t i = 0; i < runs->n; i++)
            cadre_json_string(json,
                              cadre_run_data_option(runs->run[i], runs->diff.key[k]));
        cadre_json_end_array(json);
    }
    cadre_json_end_object(json);
}

static void put_notes(struct cadre_json *json, const struct cadre_runs *runs)
{
    struct cadre_text notes = {0};
    char *rest = NULL;
    cadre_runs_notes(runs, &notes);
    cadre_json_key(json, "notes");
    cadre_json_begin_array(json);
    for (char *line = notes.data ? strtok_r(notes.data, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest))
        cadre_json_string(json, line);
    cadre_json_end_array(json);
    cadre_text_fini(&notes);
}

void cadre_runs_json(const struct cadre_runs *runs, struct cadre_text *out)
{
    struct cadre_json json;
    cadre_json_init_text(&json, out, true);
    cadre_json_begin_object(&json);
    cadre_json_put_string(&json, "kind", CADRE_RUNS_KIND);
    cadre_json_put_head(&json, CADRE_RUNS_SCHEMA);
    cadre_json_put_string(&json, "command", runs->command);
    cadre_json_put_string(&json, "not_ranked", CADRE_RUNS_NOT_RANKED);
    put_options(&json, runs);
    put_notes(&json, runs);
    cadre_json_key(&json, "runs");
    cadre_json_begin_array(&json);
    for (size_t i = 0; i < runs->n; i++)
        put_run(&json, runs, i);
    cadre_json_end_array(&json);
    cadre_json_end_object(&json);
    if (cadre_json_finish(&json) != CADRE_OK)
        out->failed = true;
}
