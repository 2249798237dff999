/* SPDX-License-Identifier: Apache-2.0 */
/* `cadre merge CONF --out DIR`: a model folder whose weights have the adapter, or the
 * rounding of qat, in them. */
#include "core/cli/cli.h"

#include <stdio.h>

#include "core/data/tokenizer/tokenizer_files.h"
#include "core/run/tokenizer_setup.h"
#include "core/tune/int4_file.h"
#include "core/tune/merge.h"

static cadre_status check(const struct cadre_spec *spec,
                          const struct cadre_cli_args *args, struct cadre_error *err)
{
    const struct cadre_qat_config *qat = &spec->run.model.qat;
    if (*spec->config.tune.adapter || (qat->group > 0 && !qat->stored))
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "merge: '%s' has no adapter and no weights to round; name a run "
                      "of tune.method = lora, qlora or qat, or an adapter folder by "
                      "--from",
                      args->from ? args->from : args->conf);
}

/* The tokenizer that was trained with: the copy that the adapter's folder has, that of
 * the frozen model, or what data.tokenizer names. The caller closes *files. */
static cadre_status find_tokenizer(const struct cadre_config *config,
                                   struct cadre_merge *work,
                                   struct cadre_tokenizer_files **files,
                                   struct cadre_error *err)
{
    struct cadre_tokenizer_marks marks = {0};
    const char *spec = config->data.tokenizer;
    if (*work->adapter && cadre_tokenizer_in_folder(work->adapter))
        spec = work->adapter;
    else if (*work->init && cadre_tokenizer_in_folder(work->init))
        spec = work->init;
    CADRE_TRY(cadre_tokenizer_find_marks(spec, &marks, err));
    CADRE_TRY(cadre_tokenizer_files_open(spec, files, err));
    work->tokenizer = *files;
    work->marks = (struct cadre_hf_marks){marks.known, marks.bos, marks.eos, marks.pad};
    return CADRE_OK;
}

static cadre_status merge(const struct cadre_cli_args *args, struct cadre_error *err)
{
    struct cadre_cli_args of_model = *args;
    struct cadre_spec *spec = NULL;
    struct cadre_rank rank = {0};
    struct cadre_tokenizer_files *tokenizer = NULL;
    if (!args->out)
        return cadre_fail(err, CADRE_E_INVALID,
                          "merge: expected --out DIR, the folder of the merged model");
    of_model.out = NULL; /* no run's folder */
    CADRE_TRY(cadre_cli_load_model(&of_model, false, &spec, &rank, NULL, err));
    struct cadre_merge work = {
        .model = &spec->run.model,
        .init = spec->config.model.init,
        .seed = spec->run.seed,
        .nf4 = spec->run.nf4_base,
        .adapter = spec->config.tune.adapter,
        .out = args->out,
    };
    cadre_rank_fini(&rank);
    const char *from = *work.init ? work.init : "initial values";
    cadre_status rc = check(spec, args, err);
    if (rc == CADRE_OK)
        rc = find_tokenizer(&spec->config, &work, &tokenizer, err);
    if (rc == CADRE_OK)
        rc = cadre_merge(&work, err);
    if (rc == CADRE_OK && *work.adapter)
        printf("'%s' and '%s' merged in '%s'\n", from, work.adapter, work.out);
    else if (rc == CADRE_OK)
        printf("'%s' quantised in '%s': int4 in groups of %lld, in '%s/%s' as codes\n",
               from, work.out, (long long)work.model->qat.group, work.out,
               CADRE_INT4_FILE);
    cadre_tokenizer_files_close(tokenizer);
    cadre_spec_destroy(spec);
    return rc;
}

static const struct cadre_cli_option options[] = {
    CADRE_CLI_OPTION_SET,
    {
        .name = "--out",
        .argument = "DIR",
        .kind = CADRE_CLI_FOLDER,
        .field = CADRE_CLI_FIELD(out),
        .help = "the folder to make, of a plain model",
    },
    CADRE_CLI_OPTION_FROM,
    {0},
};

const struct cadre_cli_command cadre_command_merge = {
    .name = "merge",
    .synopsis = "CONF --out DIR [--from DIR] [--set SECTION.KEY=VALUE]...",
    .summary = "put an adapter, or the rounding of qat, into the weights",
    .details =
        "CONF is a run of tune.method = lora, or an ini file whose model.init is "
        "the frozen model, with the adapter's folder by --from: a run, a "
        "checkpoint, or one that PEFT has saved. Of a run of tune.method = qat "
        "the weights of blocks are rounded to int4, and DIR has their codes and "
        "scales in int4.safetensors too.",
    .argument = "CONF",
    .kind = CADRE_CLI_CONF,
    .least = 1,
    .most = 1,
    .options = options,
    .run = merge,
};
