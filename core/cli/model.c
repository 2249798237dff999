/* SPDX-License-Identifier: Apache-2.0 */
/* Trained parameters for the commands that only read them. */
#include "core/cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/launch/launch.h"
#include "core/train/train.h"
#include "core/tune/adapter.h"

/* Where the parameters are, and by which option: see cadre_cli_load_model. */
struct source {
    char *dir;
    const char *named_by;
};

/* Is CONF the config.ini that a run left beside its checkpoints? dir: CONF's. */
static bool is_of_run(const char *conf, const char *dir)
{
    return strcmp(cadre_path_basename(conf), "config.ini") == 0 &&
           cadre_path_has_dir(dir, "checkpoints");
}

/* The parameters of the run that CONF makes, in its folder. */
static cadre_status find_own(const char *folder, char **out, struct cadre_error *err)
{
    if (cadre_path_has_dir(folder, "checkpoints"))
        return cadre_train_find_params(folder, out, err);
    if (cadre_path_is_dir(folder))
        return cadre_fail(err, CADRE_E_INVALID,
                          "no trained parameters: '%s' has no folder 'checkpoints', "
                          "which a run leaves; name a run, checkpoint or model folder "
                          "with --from",
                          folder);
    return cadre_fail(err, CADRE_E_INVALID,
                      "no trained parameters: '%s' does not exist; train first, or "
                      "name a run, checkpoint or model folder with --from",
                      folder);
}

/* The folder of the parameters: --from, else that of a run whose config.ini CONF is,
 * which may have begun from model.init; else model.init, else the run's own. */
static cadre_status find_source(const struct cadre_cli_args *args,
                                const struct cadre_options *options, const char *name,
                                struct source *source, struct cadre_error *err)
{
    char **out = &source->dir;
    const char *init = cadre_options_raw(options, "model.init");
    const char *named = cadre_options_raw(options, "run.name");
    if (args->from && !cadre_path_is_dir(args->from))
        return cadre_fail(err, CADRE_E_INVALID,
                          "--from: there is no folder '%s'; name a run, checkpoint or "
                          "model folder",
                          args->from);
    source->named_by = "--from";
    if (args->from)
        return cadre_train_find_params(args->from, out, err);
    char *dir = cadre_path_dirname(args->conf);
    char *own = args->out ? cadre_strdup(args->out)
                          : cadre_path_join(cadre_options_raw(options, "run.out"),
                                            named && *named ? named : name);
    cadre_status rc = dir && own ? CADRE_OK : cadre_no_memory(err, "a path");
    source->named_by = "run";
    if (rc == CADRE_OK && !args->out && is_of_run(args->conf, dir)) {
        rc = cadre_train_find_params(dir, out, err);
    } else if (rc == CADRE_OK && init && *init) {
        source->named_by = "model.init";
        rc = cadre_train_find_params(init, out, err);
    } else if (rc == CADRE_OK) {
        rc = find_own(own, out, err);
    }
    free(dir);
    free(own);
    return rc;
}

static cadre_status set(struct cadre_options *options, const char *key,
                        const char *value, struct cadre_error *err)
{
    char *text = cadre_format("%s=%s", key, value);
    cadre_status rc = text ? cadre_options_set(options, text, "this command", err)
                           : cadre_no_memory(err, "an option");
    free(text);
    return rc;
}

/* Under a launcher every rank would repeat the same work. */
static cadre_status refuse_ranks(struct cadre_error *err)
{
    struct cadre_launch_external external;
    cadre_status rc = cadre_launch_external(&external, err);
    if (rc == CADRE_OK && external.launcher)
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "this command runs in one process, and this process is rank "
                        "%d of %d by %s; start it once, without %s",
                        external.rank, external.size, external.launcher,
                        external.launcher);
    return rc;
}

/* An adapter goes beside the model of model.init. What dpo trained whole takes the
 * place of what it began with, which stays the reference. */
static cadre_status take_source(struct cadre_options *options, struct source *from,
                                struct cadre_error *err)
{
    const char *source = from->dir;
    const char *init = cadre_options_raw(options, "model.init");
    const char *adapters = cadre_options_raw(options, "tune.adapters");
    const char *method = cadre_options_raw(options, "tune.method");
    const bool dpo = strcmp(method, "dpo") == 0;
    const bool full = strcmp(adapters, "none") == 0;
    if (!cadre_adapter_is(source)) {
        if (*cadre_options_raw(options, "tune.adapter"))
            from->named_by = "tune.adapter";
        if (dpo && full && *init && !*cadre_options_raw(options, "tune.reference"))
            CADRE_TRY(set(options, "tune.reference", init, err));
        return set(options, "model.init", source, err);
    }
    if (dpo && full)
        CADRE_TRY(set(options, "tune.adapters", "lora", err));
    else if (!dpo && strcmp(method, "qlora") != 0)
        CADRE_TRY(set(options, "tune.method", "lora", err));
    return set(options, "tune.adapter", source, err);
}

cadre_status cadre_cli_load_model(const struct cadre_cli_args *args, bool need_data,
                                  struct cadre_spec **spec, struct cadre_rank *rank,
                                  const char **named_by, struct cadre_error *err)
{
    struct cadre_options *options = NULL;
    struct source source = {0};
    char name[64];
    cadre_status rc;
    cadre_cli_run_name(args, name, sizeof name);
    CADRE_TRY_OR(refuse_ranks(err), fail);
    CADRE_TRY_OR(cadre_cli_load(args, &options, err), fail);
    CADRE_TRY_OR(find_source(args, options, name, &source, err), fail);
    CADRE_TRY_OR(take_source(options, &source, err), fail);
    CADRE_TRY_OR(set(options, "strategy.stack", "single", err), fail);
    CADRE_TRY_OR(set(options, "device.pace", "", err), fail); /* of other ranks */
    CADRE_TRY_OR(set(options, "data.prefetch", "0", err), fail);
    if (!need_data) {
        CADRE_TRY_OR(set(options, "train.global_batch", "1", err), fail);
        CADRE_TRY_OR(set(options, "train.micro_batch", "1", err), fail);
    }
    struct cadre_spec_request request = {
        .out = args->out,
        .name = name,
        .need_data = need_data,
    };
    struct cadre_options *given = options;
    options = NULL;
    CADRE_TRY_OR(cadre_spec_create(given, &request, spec, err), fail);
    rc = cadre_train_load_rank(*spec, rank, err);
    if (rc != CADRE_OK) {
        cadre_spec_destroy(*spec);
        *spec = NULL;
    }
    if (named_by)
        *named_by = source.named_by;
fail:
    cadre_options_destroy(options);
    free(source.dir);
    return rc;
}
