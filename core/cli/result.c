/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cli/result.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/json_read.h"
#include "core/base/path.h"
#include "core/cli/cli.h"
#include "core/run/bench.h"

static const char *status_of(const struct cadre_cli_result *result)
{
    switch (cadre_cli_exit_code(result->rc)) {
    case 0:
        return result->plan ? "planned" : "done";
    case 2:
        return "wrong input";
    case 3:
        return "differs";
    case 4:
        return "stopped";
    case 5:
        return "condition holds";
    case 6:
        return "condition undecided";
    default:
        return "failed";
    }
}

/* The object in DIR/name; NULL where there is none. */
static json_t *read_object(const char *dir, const char *name)
{
    json_t *object = NULL;
    if (dir)
        cadre_json_try_file(dir, name, &object, NULL);
    return object;
}

/* A text, a number, a truth value; null for anything else. */
static void put_value(struct cadre_json *json, const char *key, const json_t *value)
{
    cadre_json_key(json, key);
    if (json_is_integer(value))
        cadre_json_i64(json, json_integer_value(value));
    else if (json_is_real(value))
        cadre_json_f64(json, json_real_value(value));
    else if (json_is_boolean(value))
        cadre_json_bool(json, json_is_true(value));
    else
        cadre_json_string(json, json_string_value(value));
}

static void put_values(struct cadre_json *json, const json_t *from,
                       const char *const *keys, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put_value(json, keys[i], json_object_get(from, keys[i]));
}

/* ---- the commands ---- */

static void put_or_null(struct cadre_json *json, const char *key, uint64_t bytes)
{
    cadre_json_put_f64(json, key, bytes ? (double)bytes : NAN);
}

static void put_plan(struct cadre_json *json, const struct cadre_prediction *p)
{
    cadre_json_put_i64(json, "params", (int64_t)p->params);
    cadre_json_put_i64(json, "ranks_here", p->ranks);
    cadre_json_put_i64(json, "largest_rank", p->largest);
    cadre_json_put_i64(json, "largest_rank_bytes", (int64_t)p->most);
    cadre_json_put_i64(json, "host_needed_bytes", (int64_t)p->host);
    put_or_null(json, "host_free_bytes", p->host_free);
    put_or_null(json, "gpu_needed_bytes", p->device);
    put_or_null(json, "gpu_free_bytes", p->device_free);
}

static void put_bench(struct cadre_json *json, const char *dir)
{
    struct cadre_bench bench;
    const bool is = dir && cadre_bench_read(dir, &bench, NULL) == CADRE_OK;
    const double step_s = is ? cadre_bench_step_s(&bench) : NAN;
    cadre_json_put_f64(json, "bench_step_s", step_s);
    cadre_json_put_f64(json, "bench_tokens_per_s", is ? bench.tokens / step_s : NAN);
}

static void put_training(struct cadre_json *json, const char *dir)
{
    static const char *const keys[] = {
        "stack",         "ranks",        "first_step", "steps",
        "tokens",        "loss_first",   "loss_last",  "valid_loss",
        "step_s_median", "tokens_per_s", "time_s",     "params",
    };
    json_t *summary = read_object(dir, "summary.json");
    put_values(json, summary, keys, sizeof keys / sizeof keys[0]);
    put_bench(json, dir);
    json_decref(summary);
}

static void put_comparison(struct cadre_json *json, const char *dir)
{
    static const char *const keys[] = {
        "name",         "stack",       "ranks",       "steps",        "loss_last",
        "tokens_per_s", "speedup",     "speedup_low", "speedup_high", "speed_verdict",
        "equal",        "is_baseline", "by_design",   "failure",
    };
    json_t *report = read_object(dir, "report.json"), *run;
    size_t i;
    cadre_json_key(json, "runs");
    cadre_json_begin_array(json);
    json_array_foreach(json_object_get(report, "runs"), i, run)
    {
        cadre_json_begin_object(json);
        put_values(json, run, keys, sizeof keys / sizeof keys[0]);
        cadre_json_end_object(json);
    }
    cadre_json_end_array(json);
    put_value(json, "despite_load", json_object_get(report, "despite_load"));
    json_decref(report);
}

cadre_status cadre_cli_result_print(const struct cadre_cli_result *result,
                                    struct cadre_error *err)
{
    struct cadre_json json;
    const bool failed = result->rc != CADRE_OK;
    cadre_json_init(&json, stdout, true);
    cadre_json_begin_object(&json);
    cadre_json_put_head(&json, 1);
    cadre_json_put_string(&json, "command", result->command);
    cadre_json_put_string(&json, "name", result->name);
    cadre_json_put_string(&json, "folder", result->plan ? NULL : result->folder);
    cadre_json_put_string(&json, "status", status_of(result));
    cadre_json_put_i64(&json, "exit_status", cadre_cli_exit_code(result->rc));
    cadre_json_put_string(&json, "error", failed ? result->error : NULL);
    if (result->plan)
        put_plan(&json, result->plan);
    else if (strcmp(result->command, "compare") == 0)
        put_comparison(&json, result->folder);
    else
        put_training(&json, result->folder);
    cadre_json_end_object(&json);
    if (cadre_json_finish(&json) != CADRE_OK && !failed)
        return cadre_fail(err, CADRE_E_IO, "cannot write the results to stdout");
    return result->rc;
}
