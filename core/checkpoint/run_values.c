/* SPDX-License-Identifier: Apache-2.0 */
#include "core/checkpoint/run_values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/checkpoint/format/draft.h"
#include "core/checkpoint/trained.h"
#include "core/config/options.h"
#include "core/optim/lr.h"

/* Matrix multiplication of a rank's device: the library, and the hash of its chosen
 * algorithms if there are any. */
#define GEMM_CHARS (sizeof(struct cadre_tuning) + 16)

static void gemm_of(const struct cadre_tuning *tuning, char out[GEMM_CHARS])
{
    snprintf(out, GEMM_CHARS, "%s%s%s", tuning->library,
             *tuning->algorithms ? ", algorithms " : "", tuning->algorithms);
}

static void hash_of_data(const struct cadre_rank *rank, char out[17])
{
    struct cadre_dataset_info info = {0};
    if (rank->spec->dataset)
        cadre_dataset_info(rank->spec->dataset, &info);
    cadre_hash_hex(info.fingerprint, out);
}

static cadre_status options_text(const struct cadre_options *options, char **text,
                                 struct cadre_error *err)
{
    size_t size = 0;
    FILE *memory = open_memstream(text, &size);
    if (!memory)
        return cadre_no_memory(err, "the options' text");
    cadre_status rc = cadre_options_write(options, memory, err);
    if (fclose(memory) != 0 && rc == CADRE_OK)
        rc = cadre_no_memory(err, "the options' text");
    return rc;
}

/* adamw, sgd, or the plugin's short name: optim.name may be its path. */
static const char *optimizer_of(const struct cadre_run_spec *run)
{
    for (int i = 0; i < run->n_plugins; i++)
        if (run->plugin[i]->desc.role == CADRE_ROLE_OPTIMIZER)
            return run->plugin[i]->name;
    return run->config->optim.name;
}

/* Leave out values that are NULL; returns how many stay. */
static size_t compact(struct cadre_manifest_value *values, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (values[i].value)
            values[kept++] = values[i];
    return kept;
}

/* Does it depend on weights that it does not save: frozen ones, or dpo's reference? */
static bool has_base(const struct cadre_run_spec *run)
{
    return run->model.lora.rank > 0 || run->preference.on;
}

cadre_status cadre_run_values_commit(const struct cadre_rank *rank,
                                     const struct cadre_loss_scale *scale,
                                     const char *root, int64_t step,
                                     struct cadre_error *err)
{
    const struct cadre_run_spec *run = rank->spec;
    /* without fp16 a run has at most the first of the last three, taken over from an
     * fp16 run */
    size_t absent = run->model.dtype == CADRE_F16 ? 0 : scale->skipped > 0 ? 2 : 3;
    char *text = NULL, data[17], batch[32], lr[32], factor[32], good[32], skipped[32];
    char gemm[GEMM_CHARS], parts[32], base[17];
    struct cadre_text trained = {0}, holdouts = {0};
    cadre_status rc = options_text(run->options, &text, err);
    cadre_trained_list(run->dataset, run->config->model.init, &trained, &holdouts);
    if (rc == CADRE_OK && (trained.failed || holdouts.failed))
        rc = cadre_no_memory(err, "the names of records");
    hash_of_data(rank, data);
    gemm_of(&rank->tuning, gemm);
    snprintf(parts, sizeof parts, "%lld", (long long)run->config->run.exact_parts);
    snprintf(batch, sizeof batch, "%lld", (long long)run->global_batch);
    snprintf(lr, sizeof lr, "%.17g",
             cadre_lr_at(&run->optim, step - (int64_t)scale->skipped));
    snprintf(factor, sizeof factor, "%.17g", scale->scale);
    snprintf(good, sizeof good, "%llu", (unsigned long long)scale->good);
    snprintf(skipped, sizeof skipped, "%llu", (unsigned long long)scale->skipped);
    cadre_hash_hex(run->base_sum, base);
    const char *from = *run->config->tune.reference ? run->config->tune.reference
                                                    : run->config->model.init;
    const bool based = has_base(run);
    struct cadre_manifest_value values[] = {
        {"train_records", trained.len > 0 ? cadre_text_str(&trained) : NULL},
        {"holdout", holdouts.len > 0 ? cadre_text_str(&holdouts) : NULL},
        {"base", based ? base : NULL},
        {"base_from", based ? from : NULL},
        {"data_fingerprint", data},
        {"global_batch", batch},
        {"optimizer", optimizer_of(run)},
        {"stack", run->stack_text},
        {"gemm", gemm},
        {"exact_parts", parts},
        {"lr", lr},
        {"skipped", skipped},
        {"loss_scale", factor},
        {"loss_scale_good", good},
    };
    const struct cadre_manifest manifest = {
        .step = (uint64_t)step,
        .samples = (uint64_t)(step * run->global_batch),
        .seed = run->seed,
        .options = text,
        .n_values = compact(values, sizeof values / sizeof values[0] - absent),
        .values = values,
    };
    if (rc == CADRE_OK)
        rc = cadre_draft_commit(root, run->ranks, &manifest,
                                (size_t)run->config->checkpoint.keep, err);
    cadre_text_fini(&trained);
    cadre_text_fini(&holdouts);
    free(text);
    return rc;
}

/* Adapters belong to the frozen weights that they were trained beside, what dpo trains
 * to its reference. */
static cadre_status check_base(const struct cadre_rank *rank,
                               const struct cadre_checkpoint *checkpoint,
                               const char *path, struct cadre_error *err)
{
    const struct cadre_run_spec *run = rank->spec;
    const char *base = cadre_checkpoint_value(checkpoint, "base");
    const char *from = cadre_checkpoint_value(checkpoint, "base_from");
    char hex[17];
    cadre_hash_hex(run->base_sum, hex);
    if (!has_base(run) || (base && strcmp(base, hex) == 0))
        return CADRE_OK;
    const bool adapters = run->model.lora.rank > 0;
    const char *reference = run->config->tune.reference;
    return cadre_fail(err, CADRE_E_INVALID,
                      "'%s' %s %s (%s), this run has those of checksum %s (%s = %s); "
                      "name the folder that it was trained with",
                      path,
                      adapters ? "has adapters of the frozen weights"
                               : "was trained beside a reference (dpo) of the weights",
                      base ? base : "of an unknown checksum",
                      from && *from ? from : "initial values", hex,
                      *reference ? "tune.reference" : "model.init",
                      *reference ? reference : run->config->model.init);
}

cadre_status cadre_run_values_check(const struct cadre_rank *rank,
                                    const struct cadre_checkpoint *checkpoint,
                                    const char *path, struct cadre_error *err)
{
    const struct cadre_manifest *manifest = cadre_checkpoint_manifest(checkpoint);
    const struct cadre_run_spec *run = rank->spec;
    const char *optimizer = cadre_checkpoint_value(checkpoint, "optimizer");
    const char *data = cadre_checkpoint_value(checkpoint, "data_fingerprint");
    const char *mine = optimizer_of(run);
    char hex[17];
    if (manifest->samples != manifest->step * (uint64_t)run->global_batch)
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s' stands at sample %llu after %llu steps, this run has "
                          "train.global_batch = %lld; use the one it was trained with",
                          path, (unsigned long long)manifest->samples,
                          (unsigned long long)manifest->step,
                          (long long)run->global_batch);
    if (manifest->seed != run->seed)
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s' was trained with run.seed = %llu, this run has %llu; "
                          "use the same",
                          path, (unsigned long long)manifest->seed,
                          (unsigned long long)run->seed);
    if (optimizer && strcmp(optimizer, mine) != 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s' was trained with optim.name = %s, this run has %s; use "
                          "the same",
                          path, optimizer, mine);
    CADRE_TRY(check_base(rank, checkpoint, path, err));
    hash_of_data(rank, hex);
    if (data && strcmp(data, hex) != 0)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "'%s' was trained on other data (data files or data.* options "
            "differ); use the same, or start a new run from it with model.init",
            path);
    return CADRE_OK;
}

/* Continue with the saved loss scale; a run without loss scaling keeps the count of
 * skipped steps. */
static cadre_status take_scale(struct cadre_rank *rank,
                               const struct cadre_checkpoint *checkpoint,
                               const char *path, struct cadre_error *err)
{
    const char *scale = cadre_checkpoint_value(checkpoint, "loss_scale");
    const char *good = cadre_checkpoint_value(checkpoint, "loss_scale_good");
    const char *skipped = cadre_checkpoint_value(checkpoint, "skipped");
    struct cadre_loss_scale kept = rank->loss_scale;
    uint64_t steps = cadre_checkpoint_manifest(checkpoint)->step;
    kept.skipped = skipped ? strtoull(skipped, NULL, 10) : 0;
    if (scale && good && rank->model->config.dtype == CADRE_F16) {
        kept.scale = strtod(scale, NULL);
        kept.good = strtoull(good, NULL, 10);
    }
    if (!cadre_loss_scale_valid(kept.scale) || kept.skipped > steps)
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s': loss_scale = %s after %s of %llu steps skipped, "
                          "expected a power of two from 1 to 2^32; state.json is not "
                          "what a run wrote",
                          path, scale ? scale : "-", skipped ? skipped : "0",
                          (unsigned long long)steps);
    rank->loss_scale = kept;
    return CADRE_OK;
}

/* The schedule follows from optim.* and train.steps, which may differ: then the rate
 * is another from one step to the next. */
static void compare_lr(const struct cadre_rank *rank,
                       const struct cadre_checkpoint *checkpoint, const char *path)
{
    static const char *const schedules[] = {"constant", "cosine", "linear"};
    const struct cadre_optimizer_config *optim = &rank->spec->optim;
    const char *text = cadre_checkpoint_value(checkpoint, "lr");
    long long step = (long long)cadre_checkpoint_manifest(checkpoint)->step;
    if (!text || rank->index != 0) /* older checkpoints have none */
        return;
    double before = strtod(text, NULL);
    double now = cadre_lr_at(optim, step - (int64_t)rank->loss_scale.skipped);
    if (fabs(now - before) <= 1e-9 * fmax(fabs(now), fabs(before)))
        return;
    cadre_log(CADRE_LOG_WARN, "train",
              "the learning rate jumps: '%s' was saved at %.4g, and this run has %.4g "
              "at step %lld (optim.lr = %g, %s until train.steps = %lld); keep optim.* "
              "and train.steps for the bits of a run that never stopped",
              path, before, now, step, optim->lr, schedules[optim->schedule],
              (long long)optim->steps);
}

/* Another number of parts is another training. Older checkpoints had one. */
static void compare_parts(const struct cadre_rank *rank,
                          const struct cadre_checkpoint *checkpoint, const char *path)
{
    const char *before = cadre_checkpoint_value(checkpoint, "exact_parts");
    const long long now = (long long)rank->spec->config->run.exact_parts;
    if (rank->index != 0 || !rank->spec->exact ||
        strtoll(before ? before : "1", NULL, 10) == now)
        return;
    cadre_log(
        CADRE_LOG_WARN, "train",
        "run.exact: '%s' was trained with run.exact_parts = %s, and continues with "
        "%lld: its bits differ from those of a run that never stopped",
        path, before ? before : "1", now);
}

cadre_status cadre_run_values_resume(struct cadre_rank *rank,
                                     const struct cadre_checkpoint *checkpoint,
                                     const char *path, struct cadre_error *err)
{
    /* The bits of an exact run depend on it and the options. Older checkpoints have
     * none. */
    const char *before = cadre_checkpoint_value(checkpoint, "gemm");
    char now[GEMM_CHARS];
    gemm_of(&rank->tuning, now);
    if (rank->index == 0 && rank->spec->exact && before && strcmp(before, now) != 0)
        cadre_log(
            CADRE_LOG_WARN, "train",
            "run.exact: '%s' was trained with %s, and continues with %s: its bits "
            "may differ from those of a run that never stopped",
            path, before, now);
    compare_parts(rank, checkpoint, path);
    CADRE_TRY(take_scale(rank, checkpoint, path, err));
    compare_lr(rank, checkpoint, path);
    return CADRE_OK;
}
