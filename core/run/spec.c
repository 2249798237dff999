/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/spec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "core/base/cores.h"
#include "core/base/hash.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/comm/nodes.h"
#include "core/data/tokenizer/tokenizer_files.h"
#include "core/run/bench.h"
#include "core/run/image_setup.h"
#include "core/run/instance.h"
#include "core/run/model_setup.h"
#include "core/run/named_code.h"
#include "core/run/optimizer_plugin.h"
#include "core/run/replicas.h"
#include "core/run/resolved.h"
#include "core/run/spec_check.h"
#include "core/run/tokenizer_setup.h"
#include "core/tune/adapter.h"
#include "core/tune/base_sum.h"

/* ---- options, plugins, configuration ---- */

/* Plugins add options and axes. */
static cadre_status load_plugins(struct cadre_spec *spec,
                                 const struct cadre_stack *stack, const char *path,
                                 struct cadre_error *err)
{
    for (int i = 0; i < stack->n; i++) {
        const struct cadre_stack_entry *entry = &stack->entry[i];
        const struct cadre_plugin_handle *plugin;
        CADRE_TRY(cadre_plugin_load(entry->path[0] ? entry->path : entry->name, path,
                                    &plugin, err));
        CADRE_TRY(cadre_instance_add(spec, plugin, entry->axis, entry->size, err));
    }
    spec->n_stacked = stack->n;
    return cadre_replicas_add(spec, path, err);
}

/* The stack is read first: it decides which sections exist. */
static cadre_status configure(struct cadre_spec *spec, struct cadre_error *err)
{
    struct cadre_options *options = spec->options;
    const char *path = cadre_options_raw(options, "strategy.plugin_path");
    struct cadre_stack stack;
    CADRE_TRY(
        cadre_stack_parse(cadre_options_raw(options, "strategy.stack"), &stack, err));
    CADRE_TRY(cadre_named_code_check(options, &stack, err));
    CADRE_TRY(load_plugins(spec, &stack, path, err));
    CADRE_TRY(cadre_optimizer_plugin_add(&spec->run, options, path, err));
    CADRE_TRY(cadre_plugin_allow_sections(spec->run.plugin, spec->run.n_plugins,
                                          options, err));
    CADRE_TRY(cadre_options_resolve(options, err));
    cadre_config_fill(&spec->config, options);
    return CADRE_OK;
}

static cadre_status make_mesh(struct cadre_spec *spec, int most_ranks,
                              struct cadre_error *err)
{
    struct cadre_run_spec *run = &spec->run;
    size_t used = 0;
    CADRE_TRY(cadre_mesh_resolve(run->axis, run->n_plugins, spec->local.size,
                                 most_ranks ? most_ranks : CADRE_RUN_RANKS, &run->ranks,
                                 err));
    for (int i = 0; i < spec->n_stacked; i++)
        used +=
            (size_t)snprintf(spec->stack + used, sizeof spec->stack - used, "%s%s:%d",
                             i ? ", " : "", run->instance[i].name, run->axis[i].size);
    if (spec->n_stacked == 0)
        snprintf(spec->stack, sizeof spec->stack, "single");
    spec->local.size = run->ranks;
    run->stack_text = spec->stack;
    return CADRE_OK;
}

static cadre_status name_run(struct cadre_spec *spec,
                             const struct cadre_spec_request *request,
                             struct cadre_error *err)
{
    const char *out = request->out;
    const struct cadre_config_run *run = &spec->config.run;
    int n;
    snprintf(spec->name, sizeof spec->name, "%s",
             *run->name ? run->name : request->name);
    if (out)
        n = snprintf(spec->out, sizeof spec->out, "%s", out);
    else
        n = snprintf(spec->out, sizeof spec->out, "%s/%s%s", run->out, spec->name,
                     cadre_bench_wanted(&spec->config.bench) ? "-bench" : "");
    if (n < 0 || (size_t)n >= sizeof spec->out)
        return cadre_fail(err, CADRE_E_INVALID,
                          "the run's folder has a name of more than %zu characters",
                          sizeof spec->out - 1);
    return CADRE_OK;
}

/* ---- data, model, training ---- */

/* data.cache as a folder, to be freed; NULL for none. */
static cadre_status find_cache(const struct cadre_spec *spec, char **out,
                               struct cadre_error *err)
{
    const char *cache = spec->config.data.cache;
    *out = NULL;
    if (strcmp(cache, "no") == 0)
        return CADRE_OK;
    if (strcmp(cache, "auto") == 0) {
        char *parent = cadre_path_dirname(spec->out);
        *out = parent ? cadre_path_join(parent, "cache") : NULL;
        free(parent);
    } else {
        *out = cadre_strdup(cache);
    }
    return *out ? CADRE_OK : cadre_no_memory(err, "a path");
}

static cadre_status open_data(struct cadre_spec *spec, struct cadre_error *err)
{
    const struct cadre_config_data *d = &spec->config.data;
    char *cache;
    CADRE_TRY(find_cache(spec, &cache, err));
    const struct cadre_dataset_config config = {
        .format = d->format,
        .path = d->path,
        .labels = d->labels,
        .classes = d->classes,
        .patch = spec->config.model.patch,
        .shift = d->shift,
        .nhwc = d->layout == CADRE_CONFIG_NHWC,
        .flip = d->flip,
        .tokenizer = d->tokenizer,
        .lead = d->lead,
        .task = d->task,
        .valid_records = d->valid_records,
        .template_name = d->template,
        .too_long = d->too_long,
        .train_on_prompt = d->train_on_prompt,
        .pack = d->pack,
        .cache_dir = cache,
        .window = d->window,
        .levels = d->levels,
        .range_mv = d->range_mv,
        .valid_fraction = d->valid_fraction,
        .context = spec->run.model.context,
        .vocab = spec->run.model.vocab,
        .shuffle = d->shuffle,
        .seed = (uint64_t)spec->config.run.seed,
    };
    cadre_status rc = cadre_dataset_open(&config, &spec->data, err);
    free(cache);
    if (rc != CADRE_OK)
        return rc;
    cadre_dataset_info(spec->data, &spec->data_info);
    spec->run.dataset = spec->data;
    if (strcmp(d->format, "wfdb") == 0)
        return CADRE_OK;
    rc = cadre_tokenizer_files_open(d->tokenizer, &spec->tokenizer, err);
    spec->run.tokenizer = spec->tokenizer;
    spec->run.marks = spec->data_info.marks;
    if (rc == CADRE_OK && strcmp(d->format, "tokens") == 0)
        rc = cadre_tokenizer_find_marks(d->tokenizer, &spec->run.marks, err);
    return rc;
}

/* What the data says about the model. */
static cadre_status complete_model(struct cadre_spec *spec, struct cadre_error *err)
{
    const struct cadre_dataset_info *info = &spec->data_info;
    struct cadre_model_config *m = &spec->run.model;
    CADRE_TRY(cadre_image_setup(&spec->config, spec->options, spec->data ? info : NULL,
                                m, err));
    spec->run.time = spec->data ? info->seq_len : m->context;
    if (spec->data && m->vocab == 0)
        m->vocab = info->vocab;
    if (spec->data && info->task == CADRE_TASK_CLASSIFY)
        m->classes = info->classes;
    return CADRE_OK;
}

static enum cadre_lr_schedule schedule_of(enum cadre_config_schedule schedule)
{
    return schedule == CADRE_CONFIG_COSINE   ? CADRE_LR_COSINE
           : schedule == CADRE_CONFIG_LINEAR ? CADRE_LR_LINEAR
                                             : CADRE_LR_CONSTANT;
}

/* train.epochs applies if train.steps is 0 and there is data. */
static int64_t steps_of(const struct cadre_spec *spec)
{
    const struct cadre_config_train *train = &spec->config.train;
    if (train->steps != 0 || !spec->data)
        return train->steps;
    double samples = (double)train->epochs * (double)spec->data_info.train_samples;
    return (int64_t)ceil(samples / (double)train->global_batch);
}

static void make_training(struct cadre_spec *spec)
{
    const struct cadre_config *c = &spec->config;
    const struct cadre_config_optim *o = &c->optim;
    struct cadre_run_spec *run = &spec->run;
    run->global_batch = c->train.global_batch;
    run->micro_batch = c->train.micro_batch;
    run->prefetch = c->data.prefetch;
    run->pinned = c->data.pinned;
    run->seed = (uint64_t)c->run.seed;
    run->exact = c->run.exact;
    run->verify = c->run.verify;
    run->recheck = c->run.recheck;
    run->recompute = c->train.recompute == CADRE_CONFIG_BLOCK;
    const bool dpo = c->tune.method == CADRE_CONFIG_TUNE_DPO;
    run->nf4_base = c->tune.base == CADRE_CONFIG_BASE_NF4 ||
                    c->tune.method == CADRE_CONFIG_TUNE_QLORA ||
                    (dpo && c->tune.adapters == CADRE_CONFIG_ADAPTERS_QLORA);
    run->preference = (struct cadre_preference_config){
        .on = dpo && spec->data,
        .beta = c->tune.beta,
        .smoothing = c->tune.label_smoothing,
    };
    run->model.logit_sums = run->preference.on;
    run->loss_scale = (double)c->train.loss_scale;
    spec->steps = steps_of(spec);
    run->optim = (struct cadre_optimizer_config){
        .kind = cadre_optimizer_kind_of(o->name),
        .lr = o->lr,
        .min_lr = o->min_lr,
        .schedule = schedule_of(o->schedule),
        .warmup = o->warmup,
        .steps = spec->steps,
        .momentum = o->momentum,
        .weight_decay = o->weight_decay,
        .beta1 = o->beta1,
        .beta2 = o->beta2,
        .eps = o->eps,
        .clip = o->clip,
    };
}

/* ---- ranks ---- */

/* The cores that this process may use, each counted once whatever its hardware threads,
 * divided among the ranks of this machine, at least one each. A launcher that binds
 * ranks has divided them already: then this rank has at most its share of the machine,
 * and takes all of it. */
static int default_threads(const struct cadre_spec *spec,
                           const struct cadre_spec_request *request)
{
    int own = cadre_cores_physical(), ranks = spec->run.ranks, share = own / ranks;
    if (request->local_ranks > 0) {
        cpu_set_t job;
        const double quota = cadre_cores_quota(""); /* of all of them, mostly */
        cadre_cores_job(&job);
        share = (int)fmin(quota, cadre_cores_of(&job, "")) / request->local_ranks;
    }
    share = share < own ? share : own;
    return share > 1 ? share : 1;
}

/* comm.link and comm.node. Ranks that cadre starts are on one host. */
static cadre_status make_nodes(struct cadre_spec *spec,
                               const struct cadre_spec_request *request,
                               struct cadre_error *err)
{
    const struct cadre_config_comm *comm = &spec->config.comm;
    CADRE_TRY(
        cadre_link_parse(comm->link, &spec->local.link, &spec->local.between, err));
    if (spec->local.between.gbytes_s > 0 && comm->node == 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "comm.link = %s has a link between nodes, and comm.node = 0 "
                          "simulates none; set it to the ranks of a node",
                          comm->link);
    spec->run.node = comm->node == 0 && request->given_ranks > 0 ? CADRE_NODES_ARE_HOSTS
                                                                 : (int)comm->node;
    return CADRE_OK;
}

_Static_assert((int)CADRE_CONFIG_GEMM_CADRE == (int)CADRE_GEMM_CADRE &&
                   (int)CADRE_CONFIG_GEMM_LIBRARY == (int)CADRE_GEMM_LIBRARY,
               "device.gemm's choices are those of a device");

static cadre_status make_ranks(struct cadre_spec *spec,
                               const struct cadre_spec_request *request,
                               struct cadre_error *err)
{
    const struct cadre_config *c = &spec->config;
    spec->local.processes = c->comm.ranks == CADRE_CONFIG_PROCESSES;
    spec->local.timeout_s = c->comm.timeout;
    spec->local.threads =
        c->device.threads ? (int)c->device.threads : default_threads(spec, request);
    spec->run.device = (struct cadre_device_config){
        .kind = c->device.kind,
        .threads = spec->local.threads,
        .index = request->device_index,
        .exact = c->run.exact,
        .fixed = c->run.exact_parts > 1,
        .no_fused_epilogue = !c->device.epilogues,
        .gemm = (enum cadre_device_gemm)c->device.gemm,
    };
    /* checked here, before any file is written */
    struct cadre_device *device = NULL;
    CADRE_TRY(cadre_device_open(&spec->run.device, &device, err));
    uint64_t total;
    spec->gpu = device->ops->async;
    if (!device->ops->memory(device, &spec->device_free, &total))
        spec->device_free = 0;
    cadre_device_close(device);
    if (spec->gpu && spec->run.model.experts > 0)
        return cadre_fail(
            err, CADRE_E_UNSUPPORTED,
            "model.experts = %lld with device.kind = %s, which takes a GPU, but "
            "experts run on the CPU alone; set device.kind = cpu",
            (long long)spec->run.model.experts, c->device.kind);
    return make_nodes(spec, request, err);
}

/* The frozen weights, and the reference of dpo, are named by what they hold, as their
 * folder may be elsewhere on another machine. */
static cadre_status make_base(struct cadre_spec *spec,
                              const struct cadre_spec_request *request,
                              struct cadre_error *err)
{
    const struct cadre_model_config *m = &spec->run.model;
    const struct cadre_config *c = &spec->config;
    const char *from = *c->tune.reference ? c->tune.reference : c->model.init;
    if (m->lora.rank == 0 && !spec->run.preference.on)
        return CADRE_OK;
    return request->need_data
               ? cadre_base_sum(from, m, spec->run.seed, &spec->run.base_sum, err)
               : CADRE_OK;
}

static void hash_option(void *arg, const char *section,
                        const struct cadre_option *option, const char *value)
{
    cadre_hash_update_string(arg, section);
    cadre_hash_update_string(arg, option->key);
    cadre_hash_update_string(arg, value);
}

/* Hash of all that the ranks must share. Not of who set an option: one rank may read
 * the config.ini that another has just written anew. */
static void fingerprint(struct cadre_spec *spec)
{
    struct cadre_hash hash;
    cadre_hash_init(&hash, CADRE_ABI_MAJOR << 16 | CADRE_ABI_MINOR);
    cadre_hash_update_string(&hash, PACKAGE_VERSION);
    cadre_hash_update_string(&hash, spec->stack);
    cadre_options_each(spec->options, hash_option, &hash);
    for (int i = 0; i < spec->run.n_plugins; i++) {
        const struct cadre_plugin_handle *plugin = spec->run.plugin[i];
        cadre_hash_update_string(&hash, plugin->desc.id);
        cadre_hash_update_string(&hash, plugin->desc.version);
        cadre_hash_update(&hash, &plugin->digest, sizeof plugin->digest);
    }
    cadre_hash_update(&hash, &spec->data_info.fingerprint,
                      sizeof spec->data_info.fingerprint);
    if (spec->run.model.lora.rank > 0 || spec->run.preference.on)
        cadre_hash_update(&hash, &spec->run.base_sum, sizeof spec->run.base_sum);
    spec->run.fingerprint = cadre_hash_final(&hash);
}

/* Write into the options what was found. Ranks may see the same files under different
 * paths, so the hash is taken before those are absolute. */
static cadre_status resolve(struct cadre_spec *spec, struct cadre_error *err)
{
    CADRE_TRY(cadre_resolved_values(spec->options, spec->name, spec->config.model.init,
                                    &spec->run.model, err));
    fingerprint(spec);
    CADRE_TRY(cadre_resolved_paths(spec->options, err));
    CADRE_TRY(cadre_options_resolve(spec->options, err));
    cadre_config_fill(&spec->config, spec->options);
    return CADRE_OK;
}

cadre_status cadre_spec_create(struct cadre_options *options_take,
                               const struct cadre_spec_request *request,
                               struct cadre_spec **out, struct cadre_error *err)
{
    struct cadre_spec *spec = calloc(1, sizeof *spec);
    if (!spec) {
        cadre_options_destroy(options_take);
        return cadre_no_memory(err, "the run");
    }
    cadre_status rc;
    spec->options = options_take;
    spec->run.options = options_take;
    spec->run.config = &spec->config;
    spec->local.size = request->given_ranks;
    CADRE_TRY_OR(configure(spec, err), fail);
    CADRE_TRY_OR(make_mesh(spec, request->most_ranks, err), fail);
    CADRE_TRY_OR(name_run(spec, request, err), fail);
    /* the model first: sequences of text are as long as its context */
    CADRE_TRY_OR(cadre_model_setup(&spec->config, spec->options, &spec->run.model, err),
                 fail);
    CADRE_TRY_OR(
        cadre_adapter_setup(&spec->config, spec->options, &spec->run.model, err), fail);
    CADRE_TRY_OR(cadre_tokenizer_setup(spec->options, &spec->config, err), fail);
    if (request->need_data)
        CADRE_TRY_OR(open_data(spec, err), fail);
    CADRE_TRY_OR(complete_model(spec, err), fail);
    make_training(spec);
    CADRE_TRY_OR(cadre_spec_check(spec, request, err), fail);
    CADRE_TRY_OR(make_ranks(spec, request, err), fail);
    CADRE_TRY_OR(make_base(spec, request, err), fail);
    CADRE_TRY_OR(resolve(spec, err), fail);
    *out = spec;
    return CADRE_OK;
fail:
    cadre_spec_destroy(spec);
    /* nothing has begun: a file that cannot be read is a user error */
    return cadre_error_of_input(rc, err);
}

void cadre_spec_destroy(struct cadre_spec *spec)
{
    if (!spec)
        return;
    cadre_dataset_close(spec->data);
    cadre_tokenizer_files_close(spec->tokenizer);
    cadre_options_destroy(spec->options);
    free(spec->unit_seconds);
    free(spec->cut_seconds);
    free(spec);
}

const char *cadre_spec_pace(const struct cadre_spec *spec)
{
    const char *pace = spec->config.device.pace;
    return pace && *pace ? pace : NULL;
}
