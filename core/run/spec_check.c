/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/spec_check.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/path.h"

static cadre_status check_task(const struct cadre_spec *spec, struct cadre_error *err)
{
    const struct cadre_config_data *d = &spec->config.data;
    const bool classify = spec->config.model.head == CADRE_CONFIG_CLASSIFY;
    if (strcmp(d->format, "wfdb") != 0 && strcmp(d->task, "foundation") != 0)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "data.task = %s is for ECG records (data.format = wfdb), found "
            "data.format = %s; leave data.task out",
            d->task, d->format);
    if (classify != (spec->data_info.task == CADRE_TASK_CLASSIFY))
        return cadre_fail(
            err, CADRE_E_INVALID,
            "model.head = %s does not fit data.task = %s: foundation and text "
            "need lm; beats, vbd and images need classify",
            classify ? "classify" : "lm", d->task);
    return CADRE_OK;
}

/* Records are cut by data.window, text and tokens by the model's context: a hint names
 * the one that counts. */
static cadre_status check_length(const struct cadre_spec *spec, struct cadre_error *err)
{
    const struct cadre_config *c = &spec->config;
    const struct cadre_dataset_info *info = &spec->data_info;
    const long long context = (long long)spec->run.model.context;
    const bool records = strcmp(c->data.format, "wfdb") == 0;
    if (info->seq_len > context)
        return cadre_fail(err, CADRE_E_INVALID,
                          "data.window = %lld gives samples of %lld tokens, longer "
                          "than model.context = %lld%s; %s",
                          (long long)c->data.window, (long long)info->seq_len, context,
                          *c->model.init ? " of model.init" : "",
                          *c->model.init ? "lower it" : "change one of them");
    const char *hint =
        records          ? "data.window or the records for validation"
        : *c->model.init ? "data.valid_fraction, as model.context is that of model.init"
                         : "model.context or data.valid_fraction";
    if (info->train_samples == 0)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "data.path = %s: expected training samples, found none: after validation "
            "less than one sequence of %lld tokens is left; lower %s, or give more "
            "data",
            c->data.path, (long long)info->seq_len, hint);
    return CADRE_OK;
}

cadre_status cadre_spec_check_tokens(const struct cadre_spec *spec, int64_t tokens,
                                     struct cadre_error *err)
{
    const char *init = spec->config.model.init;
    const char *source = cadre_options_source(spec->options, "data.tokenizer");
    const long long vocab = (long long)spec->run.model.vocab;
    if (!*init || strcmp(spec->config.data.format, "tokens") == 0 ||
        strcmp(spec->config.data.format, "wfdb") == 0 || vocab == tokens ||
        strcmp(source, "default") != 0 || cadre_path_has(init, "state.json"))
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "model.init = %s has a vocabulary of %lld tokens, and "
                      "data.tokenizer is byte by default, of %lld: set it to the "
                      "model's tokenizer, or to byte if the model is to read bytes",
                      init, vocab, (long long)tokens);
}

/* Pairs are for tune.method = dpo, which is for pairs; a micro-batch has whole ones. */
static cadre_status check_pairs(const struct cadre_spec *spec, struct cadre_error *err)
{
    const struct cadre_config_data *d = &spec->config.data;
    const bool pairs = spec->data_info.pairs;
    const int64_t micro = spec->run.micro_batch;
    if (pairs && !spec->run.preference.on)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "data.path = %s holds pairs of a chosen and a rejected "
                          "answer, and training on both would teach the rejected ones; "
                          "set tune.method = dpo, or give a file of single answers",
                          d->path);
    if (!pairs && spec->run.preference.on)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "tune.method = dpo trains on pairs of a chosen and a rejected "
            "answer (data.format = instruct), found data.format = %s, "
            "data.path = %s without them; give a file of pairs, or "
            "another method",
            d->format, d->path);
    if (pairs && micro % 2 != 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "train.micro_batch = %lld splits a pair, whose two answers "
                          "are two samples of one micro-batch; expected an even number",
                          (long long)micro);
    return CADRE_OK;
}

/* Instruction data: what is for it alone, and what cannot be trained on it yet. */
static cadre_status check_instruct(const struct cadre_spec *spec,
                                   struct cadre_error *err)
{
    const struct cadre_config_data *d = &spec->config.data;
    CADRE_TRY(check_pairs(spec, err));
    if (strcmp(d->format, "instruct") != 0 && (d->pack || d->train_on_prompt))
        return cadre_fail(
            err, CADRE_E_INVALID,
            "data.%s = yes is for data.format = instruct, found %s; leave "
            "it out",
            d->pack ? "pack" : "train_on_prompt", d->format);
    if (spec->data_info.masked && spec->run.model.experts > 0)
        return cadre_fail(
            err, CADRE_E_UNSUPPORTED,
            "model.experts = %lld: experts are balanced over all tokens, and "
            "data.format = instruct masks some; train it on a model without experts",
            (long long)spec->run.model.experts);
    return CADRE_OK;
}

/* The data's vocabulary and sample length against the model's. */
static cadre_status check_data(const struct cadre_spec *spec, struct cadre_error *err)
{
    const struct cadre_model_config *m = &spec->run.model;
    const struct cadre_dataset_info *info = &spec->data_info;
    if (m->vocab < info->vocab && *spec->config.model.init)
        return cadre_fail(err, CADRE_E_INVALID,
                          "model.init = %s has a vocabulary of %lld, and the data has "
                          "%lld tokens: read the data by the tokenizer that the model "
                          "was trained with (data.tokenizer)",
                          spec->config.model.init, (long long)m->vocab,
                          (long long)info->vocab);
    if (m->vocab < info->vocab)
        return cadre_fail(err, CADRE_E_INVALID,
                          "model.vocab = %lld is less than the data's %lld tokens; "
                          "leave it out or raise it",
                          (long long)m->vocab, (long long)info->vocab);
    CADRE_TRY(cadre_spec_check_tokens(spec, info->vocab, err));
    CADRE_TRY(check_length(spec, err));
    CADRE_TRY(check_instruct(spec, err));
    if (spec->steps == 0)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "there is nothing to train: train.steps = 0 and train.epochs = "
            "0; set one of them");
    return CADRE_OK;
}

static cadre_status check_training(const struct cadre_run_spec *run,
                                   struct cadre_error *err)
{
    if (!cadre_loss_scale_valid(run->loss_scale))
        return cadre_fail(err, CADRE_E_INVALID,
                          "train.loss_scale = %lld, expected a power of two from 1 to "
                          "2^32, as 65536",
                          (long long)run->loss_scale);
    if (run->global_batch % run->micro_batch != 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "train.global_batch = %lld is not a multiple of "
                          "train.micro_batch = %lld; change one of them",
                          (long long)run->global_batch, (long long)run->micro_batch);
    if (run->optim.schedule != CADRE_LR_CONSTANT && run->optim.min_lr > run->optim.lr)
        return cadre_fail(err, CADRE_E_INVALID,
                          "optim.min_lr = %g is more than optim.lr = %g, where the "
                          "schedule begins; change one of them",
                          run->optim.min_lr, run->optim.lr);
    return CADRE_OK;
}

static cadre_status check_parts(const struct cadre_config_run *run,
                                struct cadre_error *err)
{
    if (run->exact || run->exact_parts == 1)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "run.exact_parts = %lld cuts the sums of exact mode, found "
                      "run.exact = no; set it to yes, or leave run.exact_parts out",
                      (long long)run->exact_parts);
}

/* Sizes whose products fit neither memory nor 64 bits. */
static cadre_status check_sizes(const struct cadre_run_spec *run,
                                struct cadre_error *err)
{
    const struct cadre_model_config *m = &run->model;
    int64_t width = m->vocab > m->hidden ? m->vocab : m->hidden;
    double cells = (double)run->micro_batch * (double)run->time *
                   (double)(width > 4 * m->channels ? width : 4 * m->channels);
    if (cells < 0x1p48)
        return CADRE_OK;
    return cadre_fail(
        err, CADRE_E_INVALID,
        "train.micro_batch = %lld samples of %lld tokens, %lld wide, fit no "
        "memory; lower one of them",
        (long long)run->micro_batch, (long long)run->time, (long long)width);
}

/* Ranks that are threads are all lost together. */
static cadre_status check_elastic(const struct cadre_spec *spec,
                                  const struct cadre_spec_request *request,
                                  struct cadre_error *err)
{
    const struct cadre_config *c = &spec->config;
    if (!c->run.elastic || c->comm.ranks == CADRE_CONFIG_PROCESSES ||
        spec->run.ranks == 1 || request->given_ranks > 0)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "run.elastic continues when the process of a rank is lost, and "
                      "comm.ranks = threads puts all ranks into one; set comm.ranks "
                      "= processes, or leave run.elastic out");
}

static cadre_status check_bench(const struct cadre_config_bench *bench,
                                struct cadre_error *err)
{
    if (bench->steps > 0 && bench->target > 0)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "bench.steps = %lld and bench.target = %g are two benchmarks; "
            "set one of them",
            (long long)bench->steps, bench->target);
    return CADRE_OK;
}

/* The work of a device whose ops are queued is not on the rank's thread. */
static cadre_status check_trace(const struct cadre_spec *spec, struct cadre_error *err)
{
    const struct cadre_config_log *log = &spec->config.log;
    if (!log->trace || log->trace_format != CADRE_CONFIG_KINETO || !spec->gpu)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "log.trace_format = kineto shows what ranks compute on CPUs, "
                      "found a GPU (device.kind); record it with Nsight Systems, or "
                      "set log.trace_format = perfetto");
}

cadre_status cadre_spec_check(const struct cadre_spec *spec,
                              const struct cadre_spec_request *request,
                              struct cadre_error *err)
{
    if (spec->data) {
        CADRE_TRY(check_task(spec, err));
        CADRE_TRY(check_data(spec, err));
    }
    CADRE_TRY(check_training(&spec->run, err));
    CADRE_TRY(check_parts(&spec->config.run, err));
    CADRE_TRY(check_sizes(&spec->run, err));
    CADRE_TRY(check_bench(&spec->config.bench, err));
    CADRE_TRY(check_trace(spec, err));
    return check_elastic(spec, request, err);
}
