/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/setup.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "core/base/bytes.h"
#include "core/base/json_read.h"
#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/run/format.h"

static const char FILE_NAME[] = "setup.json";
enum { TEXT = 64 };

/* ---- figures ---- */

static int64_t step_tokens(const struct cadre_spec *spec)
{
    return spec->run.global_batch * spec->run.time;
}

static double steps_per_epoch(const struct cadre_spec *spec)
{
    return (double)spec->data_info.train_samples / (double)spec->run.global_batch;
}

/* Validation samples of one evaluation. */
static int64_t evaluated(const struct cadre_spec *spec)
{
    const int64_t all = (int64_t)spec->data_info.valid_samples;
    const int64_t batches = spec->config.train.eval_batches;
    const int64_t some = batches * spec->run.micro_batch;
    return batches == 0 || some > all ? all : some;
}

static int threads_of(const struct cadre_spec *spec, const struct cadre_setup *setup)
{
    return setup->ranks_here * spec->run.device.threads;
}

static const char *precision_of(const struct cadre_spec *spec)
{
    static const char *const names[] = {"fp32", "fp64", "bf16", "fp16"};
    return names[spec->config.train.precision];
}

static const char *device_of(const struct cadre_spec *spec)
{
    return spec->gpu ? "cuda" : "cpu";
}

static const char *arch_of(const struct cadre_spec *spec)
{
    return cadre_model_arch_name(&spec->run.model);
}

/* ---- the log ---- */

static const char *count_text(double n, char out[TEXT])
{
    return cadre_format_count(n, out, TEXT);
}

static void tell_model(const struct cadre_spec *spec, const struct cadre_setup *setup)
{
    char params[TEXT], trained[TEXT], part[2 * TEXT] = "";
    if (setup->params_trained != setup->params)
        snprintf(part, sizeof part, " (%s train)",
                 count_text((double)setup->params_trained, trained));
    cadre_log(CADRE_LOG_INFO, "train",
              "%s: %s on %d rank%s (%s), %s, %s parameters%s, %s%s", spec->name,
              spec->stack, spec->run.ranks, spec->run.ranks == 1 ? "" : "s",
              device_of(spec), arch_of(spec), count_text((double)setup->params, params),
              part, precision_of(spec), spec->run.exact ? ", run.exact" : "");
}

static void tell_data(const struct cadre_spec *spec)
{
    const struct cadre_dataset_info *info = &spec->data_info;
    const int64_t some = evaluated(spec), all = (int64_t)info->valid_samples;
    char train[TEXT], valid[TEXT], part[TEXT], evaluation[2 * TEXT] = "";
    if (some < all)
        snprintf(evaluation, sizeof evaluation,
                 ", of which an evaluation takes %s (train.eval_batches)",
                 count_text((double)some, part));
    cadre_log(CADRE_LOG_INFO, "train",
              "data: %s (%s), samples of %lld tokens: %s to train on, %s for "
              "validation%s",
              spec->config.data.path, spec->config.data.format,
              (long long)info->seq_len, count_text((double)info->train_samples, train),
              count_text((double)all, valid), evaluation);
}

static void tell_steps(const struct cadre_spec *spec, const struct cadre_setup *setup)
{
    char tokens[TEXT];
    const double epoch = steps_per_epoch(spec);
    cadre_log(
        CADRE_LOG_INFO, "train",
        "steps: %lld to %lld, each of %lld samples = %s tokens; %.*f steps are an "
        "epoch",
        (long long)setup->first_step + 1, (long long)setup->last_step,
        (long long)spec->run.global_batch,
        count_text((double)step_tokens(spec), tokens), epoch < 10 ? 1 : 0, epoch);
}

static void tell_machine(const struct cadre_spec *spec, const struct cadre_setup *setup)
{
    char cores[128] = "", needed[CADRE_BYTES_CHARS], left[CADRE_BYTES_CHARS];
    if (!setup->launched && !setup->placed)
        snprintf(cores, sizeof cores, "cores: %d of %d; ",
                 threads_of(spec, setup) < setup->cores ? threads_of(spec, setup)
                                                        : setup->cores,
                 setup->cores);
    cadre_log(CADRE_LOG_INFO, "train", "%s%s: about %s needed of %s free", cores,
              spec->gpu ? "memory of a GPU" : "memory",
              cadre_bytes_text((double)setup->needed_bytes, 1, needed),
              setup->free_bytes ? cadre_bytes_text((double)setup->free_bytes, 1, left)
                                : "an unknown amount");
}

/* ---- warnings ---- */

/* A GPU's kernels need one core a rank, to start them. */
static void warn_of_cores(const struct cadre_spec *spec,
                          const struct cadre_setup *setup)
{
    const int threads = threads_of(spec, setup);
    const char *source = cadre_options_source(spec->options, "device.threads");
    const bool by_default = source && strcmp(source, "default") == 0;
    if (setup->launched || setup->placed || spec->gpu)
        return;
    if (threads > setup->cores)
        cadre_log(CADRE_LOG_WARN, "train",
                  "%d rank%s x %d thread%s on %d core%s: they take turns, and no time "
                  "that is measured means anything; use fewer ranks or a smaller "
                  "device.threads",
                  setup->ranks_here, setup->ranks_here == 1 ? "" : "s",
                  spec->run.device.threads, spec->run.device.threads == 1 ? "" : "s",
                  setup->cores, setup->cores == 1 ? "" : "s");
    else if (by_default && setup->cores - threads > threads)
        cadre_log(CADRE_LOG_WARN, "train",
                  "%d of %d cores are idle (device.threads = 1 by default): --set "
                  "device.threads=0 uses all",
                  setup->cores - threads, setup->cores);
}

static void warn_of_trace(const struct cadre_spec *spec)
{
    const struct cadre_config_log *log = &spec->config.log;
    if (!log->trace && log->trace_format == CADRE_CONFIG_KINETO)
        cadre_log(CADRE_LOG_WARN, "train",
                  "log.trace_format = kineto does nothing without log.trace = yes");
}

/* A file may serve several stacks; what was typed was meant for this run. */
static void warn_of_options(const struct cadre_spec *spec)
{
    size_t at = 0;
    for (const char *name; (name = cadre_options_idle(spec->options, &at));)
        cadre_log(CADRE_LOG_WARN, "train",
                  "--set %s does nothing: strategy.stack = %s has no %.*s", name,
                  spec->stack, (int)strcspn(name, "."), name);
}

void cadre_setup_tell(const struct cadre_spec *spec, const struct cadre_setup *setup)
{
    tell_model(spec, setup);
    tell_data(spec);
    tell_steps(spec, setup);
    tell_machine(spec, setup);
    if (cadre_spec_pace(spec))
        cadre_log(CADRE_LOG_INFO, "train",
                  "simulated: ranks run at %s of their speed (device.pace)",
                  cadre_spec_pace(spec));
    warn_of_cores(spec, setup);
    warn_of_options(spec);
    warn_of_trace(spec);
}

/* ---- the file ---- */

static void put_or_null(struct cadre_json *json, const char *key, double value)
{
    cadre_json_put_f64(json, key, value > 0 ? value : NAN);
}

static void put_all(struct cadre_json *json, const struct cadre_spec *spec,
                    const struct cadre_setup *setup)
{
    char now[CADRE_JSON_DATE];
    cadre_json_begin_object(json);
    cadre_json_put_string(json, "version", PACKAGE_VERSION);
    cadre_json_put_string(json, "started", cadre_json_date(now));
    cadre_json_put_string(json, "model", arch_of(spec));
    cadre_json_put_string(json, "precision", precision_of(spec));
    cadre_json_put_i64(json, "seed", (int64_t)spec->run.seed);
    cadre_json_put_string(json, "data_format", spec->config.data.format);
    cadre_json_put_string(json, "data_path", spec->config.data.path);
    cadre_json_put_i64(json, "sample_tokens", spec->run.time);
    cadre_json_put_i64(json, "train_samples", (int64_t)spec->data_info.train_samples);
    cadre_json_put_i64(json, "valid_samples", (int64_t)spec->data_info.valid_samples);
    cadre_json_put_i64(json, "step_samples", spec->run.global_batch);
    cadre_json_put_i64(json, "step_tokens", step_tokens(spec));
    cadre_json_put_f64(json, "steps_per_epoch", steps_per_epoch(spec));
    cadre_json_put_i64(json, "params", (int64_t)setup->params);
    cadre_json_put_i64(json, "ranks", spec->run.ranks);
    cadre_json_put_i64(json, "ranks_here", setup->ranks_here);
    cadre_json_put_i64(json, "threads_here", threads_of(spec, setup));
    cadre_json_put_i64(json, "cores_here", setup->cores);
    cadre_json_put_string(json, "memory_of", spec->gpu ? "gpu" : "host");
    cadre_json_put_i64(json, "needed_bytes", (int64_t)setup->needed_bytes);
    put_or_null(json, "free_bytes", (double)setup->free_bytes);
    cadre_json_put_string(json, "simulated_pace", cadre_spec_pace(spec));
    cadre_json_end_object(json);
}

cadre_status cadre_setup_write(const struct cadre_spec *spec,
                               const struct cadre_setup *setup, struct cadre_error *err)
{
    struct cadre_text text = {0};
    struct cadre_json json;
    char *path = cadre_path_join(spec->out, FILE_NAME);
    cadre_json_init_text(&json, &text, true);
    put_all(&json, spec, setup);
    cadre_status rc = cadre_json_finish(&json) == CADRE_OK && path
                          ? CADRE_OK
                          : cadre_no_memory(err, FILE_NAME);
    if (rc == CADRE_OK)
        rc = cadre_path_write_file(path, cadre_text_str(&text), text.len, err);
    cadre_text_fini(&text);
    free(path);
    return rc;
}

void cadre_setup_put(const char *dir, struct cadre_json *json)
{
    json_t *setup, *value;
    const char *key;
    cadre_json_try_file(dir, FILE_NAME, &setup, NULL);
    cadre_json_key(json, "setup");
    if (!json_is_object(setup)) {
        cadre_json_null(json);
    } else {
        cadre_json_begin_object(json);
        json_object_foreach(setup, key, value)
        {
            if (json_is_integer(value))
                cadre_json_put_i64(json, key, json_integer_value(value));
            else if (json_is_real(value))
                cadre_json_put_f64(json, key, json_real_value(value));
            else
                cadre_json_put_string(json, key, json_string_value(value));
        }
        cadre_json_end_object(json);
    }
    json_decref(setup);
}
