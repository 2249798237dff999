/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/spec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "core/base/cores.h"
#include "core/base/hash.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/checkpoint/hf.h"
#include "core/train/replicas.h"

/* ---- strategies ---- */

/* A plugin's section may stand in a file whose stack does not use it: it is accepted
 * when such a plugin exists, and checked when it is used. */
static cadre_status allow_plugin_sections(struct cadre_spec *spec,
                                          const char *plugin_path,
                                          struct cadre_error *err)
{
    struct cadre_options *options = spec->options;
    char **names = cadre_plugin_list(plugin_path);
    cadre_status rc = CADRE_OK;
    for (char **name = names; name && *name; name++) {
        bool used = false;
        for (int i = 0; i < spec->run.n_plugins; i++)
            used |= !strcmp(spec->run.plugin[i]->name, *name);
        if (rc == CADRE_OK && !used)
            rc = cadre_options_allow_section(options, *name, err);
        free(*name);
    }
    free(names);
    return rc;
}

static cadre_status load_stack(struct cadre_spec *spec, struct cadre_error *err)
{
    struct cadre_options *options = spec->options;
    const char *path = cadre_options_raw(options, "strategy.plugin_path");
    struct cadre_run_spec *run = &spec->run;
    struct cadre_stack stack;
    cadre_status rc =
        cadre_stack_parse(cadre_options_raw(options, "strategy.stack"), &stack, err);
    if (rc != CADRE_OK)
        return rc;
    size_t used = 0;
    for (int i = 0; i < stack.n; i++) {
        const struct cadre_stack_entry *entry = &stack.entry[i];
        const struct cadre_plugin_handle *plugin;
        rc = cadre_plugin_load(entry->path[0] ? entry->path : entry->name, path,
                               &plugin, err);
        if (rc == CADRE_OK)
            rc = cadre_plugin_add_options(plugin, options, err);
        if (rc != CADRE_OK)
            return rc;
        run->plugin[i] = plugin;
        run->axis[i] = (struct cadre_axis_request){plugin->desc.axis, entry->size,
                                                   plugin->name, NULL};
    }
    run->n_plugins = stack.n;
    rc = cadre_replicas_add(run, options, path, err);
    if (rc == CADRE_OK)
        rc = allow_plugin_sections(spec, path, err);
    if (rc == CADRE_OK)
        rc = cadre_options_resolve(options, err);
    if (rc == CADRE_OK)
        rc = cadre_mesh_resolve(run->axis, run->n_plugins, spec->local.size,
                                &run->ranks, err);
    for (int i = 0; rc == CADRE_OK && i < stack.n; i++)
        used +=
            (size_t)snprintf(spec->stack + used, sizeof spec->stack - used, "%s%s:%d",
                             i ? ", " : "", run->plugin[i]->name, run->axis[i].size);
    if (stack.n == 0)
        snprintf(spec->stack, sizeof spec->stack, "single");
    spec->local.size = run->ranks;
    run->stack_text = spec->stack;
    return rc;
}

/* ---- data ---- */

static cadre_status open_data(struct cadre_spec *spec, struct cadre_error *err)
{
    const struct cadre_options *o = spec->options;
    const char *cache = cadre_options_str(o, "data.cache");
    char *beside = NULL;
    if (strcmp(cache, "auto") == 0) {
        char *parent = cadre_path_dirname(spec->out);
        beside = parent ? cadre_path_join(parent, "cache") : NULL;
        free(parent);
        if (!beside)
            return cadre_fail(err, CADRE_E_RESOURCE, "no memory for a path");
        cache = beside;
    } else if (strcmp(cache, "no") == 0) {
        cache = NULL;
    }
    struct cadre_dataset_config config = {
        .format = cadre_options_str(o, "data.format"),
        .path = cadre_options_str(o, "data.path"),
        .tokenizer = cadre_options_str(o, "data.tokenizer"),
        .lead = cadre_options_str(o, "data.lead"),
        .task = cadre_options_str(o, "data.task"),
        .valid_records = cadre_options_str(o, "data.valid_records"),
        .cache_dir = cache,
        .window = cadre_options_i64(o, "data.window"),
        .levels = cadre_options_i64(o, "data.levels"),
        .range_mv = cadre_options_f64(o, "data.range_mv"),
        .valid_fraction = cadre_options_f64(o, "data.valid_fraction"),
        .context = cadre_options_i64(o, "model.context"),
        .vocab = cadre_options_i64(o, "model.vocab"),
        .shuffle = cadre_options_bool(o, "data.shuffle"),
        .seed = (uint64_t)cadre_options_i64(o, "run.seed"),
    };
    cadre_status rc = cadre_dataset_open(&config, &spec->data, err);
    free(beside);
    if (rc != CADRE_OK)
        return rc;
    cadre_dataset_info(spec->data, &spec->data_info);
    spec->run.dataset = spec->data;
    return CADRE_OK;
}

/* ---- model ---- */

static bool is_set(const struct cadre_options *o, const char *name)
{
    return strcmp(cadre_options_source(o, name), "default") != 0;
}

/* The shape of a Hugging Face folder wins over defaults; a key that somebody set must
 * agree with it. */
static cadre_status model_from_folder(struct cadre_spec *spec, const char *dir,
                                      struct cadre_error *err)
{
    struct cadre_hf_config hf;
    if (!cadre_path_is_dir(dir))
        return cadre_fail(err, CADRE_E_INVALID,
                          "model.init: there is no folder '%s'; name a checkpoint or a "
                          "Hugging Face model folder",
                          dir);
    cadre_status rc = cadre_hf_config_read(dir, &hf, err);
    if (rc != CADRE_OK) {
        cadre_error_prefix(err, "model.init");
        return rc;
    }
    const struct {
        const char *key;
        int64_t found;
    } sizes[] = {
        {"model.layers", hf.layers}, {"model.channels", hf.channels},
        {"model.heads", hf.heads},   {"model.kv_heads", hf.kv_heads},
        {"model.hidden", hf.hidden}, {"model.context", hf.context},
        {"model.vocab", hf.vocab},
    };
    const char *arch = cadre_options_str(spec->options, "model.arch");
    const char *found = hf.arch == CADRE_HF_GPT2 ? "gpt2" : "llama";
    if (is_set(spec->options, "model.arch") && strcmp(arch, found) != 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "model.arch = %s (%s), but model.init = %s has %s; leave the "
                          "key out or make them equal",
                          arch, cadre_options_source(spec->options, "model.arch"), dir,
                          found);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int64_t wanted = cadre_options_i64(spec->options, sizes[i].key);
        if (wanted != 0 && wanted != sizes[i].found && /* 0: whatever is found */
            is_set(spec->options, sizes[i].key))
            return cadre_fail(
                err, CADRE_E_INVALID,
                "%s = %lld (%s), but model.init = %s has %lld; leave the key "
                "out or make them equal",
                sizes[i].key, (long long)wanted,
                cadre_options_source(spec->options, sizes[i].key), dir,
                (long long)sizes[i].found);
    }
    struct cadre_model_config *m = &spec->run.model;
    m->arch = hf.arch == CADRE_HF_GPT2 ? CADRE_ARCH_GPT2 : CADRE_ARCH_LLAMA;
    m->layers = hf.layers;
    m->channels = hf.channels;
    m->heads = hf.heads;
    m->kv_heads = hf.kv_heads;
    m->hidden = hf.hidden;
    m->context = hf.context;
    m->vocab = hf.vocab;
    m->tied = hf.tied;
    m->norm_eps = hf.norm_eps;
    m->rope_theta = hf.arch == CADRE_HF_LLAMA ? hf.rope_theta : m->rope_theta;
    return CADRE_OK;
}

static void model_from_options(struct cadre_spec *spec)
{
    const struct cadre_options *o = spec->options;
    struct cadre_model_config *m = &spec->run.model;
    bool llama = strcmp(cadre_options_str(o, "model.arch"), "llama") == 0;
    const char *tied = cadre_options_str(o, "model.tied");
    int64_t channels = cadre_options_i64(o, "model.channels");
    int64_t kv = cadre_options_i64(o, "model.kv_heads");
    int64_t hidden = cadre_options_i64(o, "model.hidden");
    /* Llama's 8/3, rounded up to a multiple of 32 as its own models are */
    int64_t usual = llama ? (channels * 8 / 3 + 31) / 32 * 32 : 4 * channels;
    *m = (struct cadre_model_config){
        .arch = llama ? CADRE_ARCH_LLAMA : CADRE_ARCH_GPT2,
        .layers = cadre_options_i64(o, "model.layers"),
        .channels = channels,
        .heads = cadre_options_i64(o, "model.heads"),
        .kv_heads = kv ? kv : cadre_options_i64(o, "model.heads"),
        .hidden = hidden ? hidden : usual,
        .context = cadre_options_i64(o, "model.context"),
        .vocab = cadre_options_i64(o, "model.vocab"),
        .tied = strcmp(tied, "auto") == 0 ? !llama : strcmp(tied, "yes") == 0,
        .norm_eps = cadre_options_f64(o, "model.norm_eps"),
        .head_rows = cadre_options_i64(o, "model.head_rows"),
        .rope_theta = cadre_options_f64(o, "model.rope_theta"),
        .dtype = CADRE_F32,
    };
}

/* The data's vocabulary, classes and sample length against the model's. */
static cadre_status match_data(struct cadre_spec *spec, struct cadre_error *err)
{
    struct cadre_model_config *m = &spec->run.model;
    const struct cadre_dataset_info *info = &spec->data_info;
    bool classify =
        strcmp(cadre_options_str(spec->options, "model.head"), "classify") == 0;
    if (!spec->data) {
        spec->run.time = m->context;
        return CADRE_OK;
    }
    const char *format = cadre_options_str(spec->options, "data.format");
    const char *task = cadre_options_str(spec->options, "data.task");
    if (strcmp(format, "wfdb") != 0 && strcmp(task, "foundation") != 0)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "data.task = %s is for ECG records (data.format = wfdb), found "
            "data.format = %s; leave data.task out",
            task, format);
    if (classify != (info->task == CADRE_TASK_CLASSIFY))
        return cadre_fail(
            err, CADRE_E_INVALID,
            "model.head = %s does not fit data.task = %s: foundation and text "
            "go with lm, beats and vbd with classify",
            cadre_options_str(spec->options, "model.head"), task);
    if (m->vocab == 0)
        m->vocab = info->vocab;
    if (m->vocab < info->vocab)
        return cadre_fail(err, CADRE_E_INVALID,
                          "model.vocab = %lld is less than the data's %lld tokens; "
                          "leave it out or raise it",
                          (long long)m->vocab, (long long)info->vocab);
    if (info->seq_len > m->context)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "data.window = %lld gives samples of %lld tokens, longer than "
            "model.context = %lld; change one of them",
            (long long)cadre_options_i64(spec->options, "data.window"),
            (long long)info->seq_len, (long long)m->context);
    if (info->train_samples == 0)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "data.path = %s: expected training samples, found none: beside validation "
            "less than one sequence of %lld tokens is left (model.context, "
            "data.window, data.valid_fraction)",
            cadre_options_str(spec->options, "data.path"), (long long)info->seq_len);
    m->classes = classify ? info->classes : 0;
    spec->run.time = info->seq_len;
    return CADRE_OK;
}

static uint32_t dtype_of(const char *precision)
{
    return strcmp(precision, "fp64") == 0   ? CADRE_F64
           : strcmp(precision, "bf16") == 0 ? CADRE_BF16
           : strcmp(precision, "fp16") == 0 ? CADRE_F16
                                            : CADRE_F32;
}

static cadre_status make_model(struct cadre_spec *spec, struct cadre_error *err)
{
    const char *init = cadre_options_str(spec->options, "model.init");
    const char *precision = cadre_options_str(spec->options, "train.precision");
    cadre_status rc = CADRE_OK;
    model_from_options(spec);
    if (*init)
        rc = model_from_folder(spec, init, err);
    if (rc == CADRE_OK)
        rc = match_data(spec, err);
    if (rc != CADRE_OK)
        return rc;
    spec->run.model.dtype = dtype_of(precision);
    spec->run.loss_scale = (double)cadre_options_i64(spec->options, "train.loss_scale");
    if (!cadre_loss_scale_valid(spec->run.loss_scale))
        return cadre_fail(err, CADRE_E_INVALID,
                          "train.loss_scale = %lld, expected a power of two from 1 to "
                          "2^32, as 65536",
                          (long long)spec->run.loss_scale);
    return CADRE_OK;
}

/* ---- training ---- */

static enum cadre_lr_schedule schedule_of(const char *name)
{
    return strcmp(name, "cosine") == 0   ? CADRE_LR_COSINE
           : strcmp(name, "linear") == 0 ? CADRE_LR_LINEAR
                                         : CADRE_LR_CONSTANT;
}

static cadre_status check_training(const struct cadre_spec *spec,
                                   struct cadre_error *err)
{
    const struct cadre_run_spec *run = &spec->run;
    if (spec->data && spec->steps == 0)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "there is nothing to train: train.steps = 0 and train.epochs = "
            "0; set one of them");
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

static cadre_status make_training(struct cadre_spec *spec, struct cadre_error *err)
{
    const struct cadre_options *o = spec->options;
    struct cadre_run_spec *run = &spec->run;
    bool sgd = strcmp(cadre_options_str(o, "optim.name"), "sgd") == 0;
    run->global_batch = cadre_options_i64(o, "train.global_batch");
    run->micro_batch = cadre_options_i64(o, "train.micro_batch");
    run->prefetch = cadre_options_i64(o, "data.prefetch");
    run->pinned = cadre_options_bool(o, "data.pinned");
    run->seed = (uint64_t)cadre_options_i64(o, "run.seed");
    run->exact = cadre_options_bool(o, "run.exact");
    run->recompute = strcmp(cadre_options_str(o, "train.recompute"), "block") == 0;
    spec->steps = cadre_options_i64(o, "train.steps");
    if (spec->steps == 0 && spec->data) {
        double samples = (double)cadre_options_i64(o, "train.epochs") *
                         (double)spec->data_info.train_samples;
        spec->steps = (int64_t)ceil(samples / (double)run->global_batch);
    }
    run->optim = (struct cadre_optimizer_config){
        .kind = sgd ? CADRE_OPTIMIZER_SGD : CADRE_OPTIMIZER_ADAMW,
        .lr = cadre_options_f64(o, "optim.lr"),
        .min_lr = cadre_options_f64(o, "optim.min_lr"),
        .schedule = schedule_of(cadre_options_str(o, "optim.schedule")),
        .warmup = cadre_options_i64(o, "optim.warmup"),
        .steps = spec->steps,
        .momentum = cadre_options_f64(o, "optim.momentum"),
        .weight_decay = cadre_options_f64(o, "optim.weight_decay"),
        .beta1 = cadre_options_f64(o, "optim.beta1"),
        .beta2 = cadre_options_f64(o, "optim.beta2"),
        .eps = cadre_options_f64(o, "optim.eps"),
        .clip = cadre_options_f64(o, "optim.clip"),
    };
    return check_training(spec, err);
}

/* The cores that this process may use, dealt out to the ranks beside it, at least one
 * each. A launcher that binds has done it already: what it gave to this rank is as much
 * as its share of the machine, or less. */
static int deal_threads(const struct cadre_spec *spec,
                        const struct cadre_spec_request *request)
{
    int own = cadre_cores(), ranks = spec->run.ranks, share = own / ranks;
    if (request->local_ranks > 0) {
        cpu_set_t job;
        cadre_cores_job(&job);
        share = CPU_COUNT(&job) / request->local_ranks;
    }
    share = share < own ? share : own;
    return share > 1 ? share : 1;
}

static cadre_status make_ranks(struct cadre_spec *spec,
                               const struct cadre_spec_request *request,
                               struct cadre_error *err)
{
    const struct cadre_options *o = spec->options;
    int64_t threads = cadre_options_i64(o, "device.threads");
    spec->local.processes =
        strcmp(cadre_options_str(o, "comm.ranks"), "processes") == 0;
    spec->local.timeout_s = cadre_options_f64(o, "comm.timeout");
    if (threads == 0)
        threads = deal_threads(spec, request);
    spec->run.device = (struct cadre_device_config){
        .kind = cadre_options_str(o, "device.kind"),
        .threads = (int)threads,
        .index = request->device_index,
        .exact = cadre_options_bool(o, "run.exact"),
        .separate = !cadre_options_bool(o, "device.epilogues"),
    };
    spec->local.threads = (int)threads;
    /* found out here, before anything is left behind */
    struct cadre_device *device = NULL;
    cadre_status rc = cadre_device_open(&spec->run.device, &device, err);
    if (rc != CADRE_OK)
        return rc;
    spec->gpu = device->ops->queued;
    cadre_device_close(device);
    return cadre_link_parse(cadre_options_str(o, "comm.link"),
                            &spec->local.link_gbytes_s, &spec->local.link_latency_s,
                            err);
}

/* Threads are lost all at once. */
static cadre_status check_elastic(const struct cadre_spec *spec,
                                  const struct cadre_spec_request *request,
                                  struct cadre_error *err)
{
    if (!cadre_options_bool(spec->options, "run.elastic") || spec->local.processes ||
        spec->run.ranks == 1 || request->given_ranks > 0)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "run.elastic goes on when the process of a rank is lost, and "
                      "comm.ranks = threads puts all of them into one; set comm.ranks "
                      "= processes, or leave run.elastic out");
}

static cadre_status name_run(struct cadre_spec *spec,
                             const struct cadre_spec_request *request,
                             struct cadre_error *err)
{
    const char *out = request->out;
    const char *name = cadre_options_str(spec->options, "run.name");
    const char *root = cadre_options_str(spec->options, "run.out");
    int n;
    snprintf(spec->name, sizeof spec->name, "%s", *name ? name : request->name);
    if (out)
        n = snprintf(spec->out, sizeof spec->out, "%s", out);
    else
        n = snprintf(spec->out, sizeof spec->out, "%s/%s", root, spec->name);
    if (n < 0 || (size_t)n >= sizeof spec->out)
        return cadre_fail(err, CADRE_E_INVALID,
                          "the run's folder has a name of more than %zu characters",
                          sizeof spec->out - 1);
    return CADRE_OK;
}

/* Hash of all that the ranks must share. config.ini holds every option; sources are
 * comments in it and come from one command line. */
static cadre_status fingerprint(struct cadre_spec *spec, struct cadre_error *err)
{
    char *text = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&text, &size);
    if (!memory)
        return cadre_fail(err, CADRE_E_RESOURCE, "no memory for the options' text");
    cadre_status rc = cadre_options_write(spec->options, memory, err);
    fclose(memory);
    struct cadre_hash hash;
    cadre_hash_init(&hash, CADRE_ABI_MAJOR << 16 | CADRE_ABI_MINOR);
    cadre_hash_update_string(&hash, PACKAGE_VERSION);
    cadre_hash_update_string(&hash, spec->stack);
    cadre_hash_update(&hash, text, size);
    for (int i = 0; i < spec->run.n_plugins; i++) {
        const struct cadre_plugin_handle *plugin = spec->run.plugin[i];
        cadre_hash_update_string(&hash, plugin->desc.id);
        cadre_hash_update_string(&hash, plugin->desc.version);
        cadre_hash_update(&hash, &plugin->digest, sizeof plugin->digest);
    }
    cadre_hash_update(&hash, &spec->data_info.fingerprint,
                      sizeof spec->data_info.fingerprint);
    spec->run.fingerprint = cadre_hash_final(&hash);
    free(text);
    return rc;
}

/* Sizes whose products would not fit any memory, nor 64 bits. */
static cadre_status check_sizes(const struct cadre_spec *spec, struct cadre_error *err)
{
    const struct cadre_model_config *m = &spec->run.model;
    int64_t width = m->vocab > m->hidden ? m->vocab : m->hidden;
    double cells = (double)spec->run.micro_batch * (double)spec->run.time *
                   (double)(width > 4 * m->channels ? width : 4 * m->channels);
    if (cells < 0x1p48)
        return CADRE_OK;
    return cadre_fail(
        err, CADRE_E_INVALID,
        "train.micro_batch = %lld samples of %lld tokens, %lld wide, fit no "
        "memory; lower one of them",
        (long long)spec->run.micro_batch, (long long)spec->run.time, (long long)width);
}

cadre_status cadre_spec_create(struct cadre_options *options_take,
                               const struct cadre_spec_request *request,
                               struct cadre_spec **out, struct cadre_error *err)
{
    struct cadre_spec *spec = calloc(1, sizeof *spec);
    if (!spec) {
        cadre_options_destroy(options_take);
        return cadre_fail(err, CADRE_E_RESOURCE, "no memory for the run");
    }
    cadre_status rc;
    spec->options = options_take;
    spec->run.options = options_take;
    spec->local.size = request->given_ranks;
    CADRE_TRY(load_stack(spec, err));
    CADRE_TRY(name_run(spec, request, err));
    if (request->need_data)
        CADRE_TRY(open_data(spec, err));
    CADRE_TRY(make_model(spec, err));
    CADRE_TRY(make_training(spec, err));
    CADRE_TRY(check_sizes(spec, err));
    CADRE_TRY(make_ranks(spec, request, err));
    CADRE_TRY(check_elastic(spec, request, err));
    CADRE_TRY(fingerprint(spec, err));
    *out = spec;
    return CADRE_OK;
fail:
    cadre_spec_destroy(spec);
    /* nothing has begun: a file that cannot be read is the user's to mend */
    return rc == CADRE_E_IO ? CADRE_E_INVALID : rc;
}

void cadre_spec_destroy(struct cadre_spec *spec)
{
    if (!spec)
        return;
    cadre_dataset_close(spec->data);
    cadre_options_destroy(spec->options);
    free(spec->unit_seconds);
    free(spec);
}
