/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/predict.h"

#include <string.h>

#include "core/base/bytes.h"
#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/base/terminal.h"
#include "core/checkpoint/writer.h"
#include "core/device/module.h"
#include "core/tensor/dtype.h"
#include "core/train/benchmark.h"

#define MIB 1048576.0
#define MOST_GPUS 64

/* Upper bound of the local transport's two chunk buffers of a rank: 1 MiB, or a unit's
 * parameters if these are communicated by unit; a send's if no data rank has a peer. */
static double staged_mib(const struct cadre_rank *rank)
{
    const struct cadre_model *model = rank->model;
    uint64_t unit_elements = 0, most = 0;
    bool sharded = false;
    for (uint32_t i = 0; i < model->n_params; i++) {
        if (i > 0 && model->params[i].unit != model->params[i - 1].unit)
            unit_elements = 0;
        unit_elements += cadre_shape_count(&model->params[i].local);
        most = unit_elements > most ? unit_elements : most;
        sharded = sharded || rank->plan.param[i].share[CADRE_KIND_PARAM].placed;
    }
    double mib = (double)(most * cadre_dtype_bytes(model->config.dtype)) / MIB;
    if (cadre_mesh_data_size(&rank->mesh) == 1)
        return 0.5;
    return 2 * (sharded && mib < 1 ? mib : 1);
}

/* Measured memory of a rank's matrix products by number format: packed operands and
 * what the libraries keep. */
static double products_mib(uint32_t dtype)
{
    return dtype == CADRE_F64 ? 8 : dtype == CADRE_F32 ? 3 : 4;
}

static bool has_processes(const struct cadre_spec *spec)
{
    return spec->local.processes && spec->run.ranks > 1;
}

/* Memory of a process besides what its ranks ask for, an estimate of the libraries at
 * work: their code (5 MiB measured), a rank's products, some for each further worker.
 */
static double work_of(const struct cadre_spec *spec)
{
    const int ranks = has_processes(spec) ? 1 : spec->run.ranks;
    const int threads = spec->run.device.threads;
    return MIB * (5 + ranks * (products_mib(spec->run.model.dtype) +
                               (threads > 1 ? threads - 1 : 0)));
}

/* Ranks of one process share one GPU; processes take turns. */
static int gpu_of(const struct cadre_spec *spec,
                  const struct cadre_launch_external *external, int rank, int gpus)
{
    const bool apart = spec->local.processes || external;
    return (apart ? rank : spec->run.device.index) % gpus;
}

/* Of a launcher that does not say how many ranks a machine has, one is assumed. */
static int ranks_here(const struct cadre_spec *spec,
                      const struct cadre_launch_external *external)
{
    if (!external)
        return spec->run.ranks;
    return external->local_size > 0 ? external->local_size : 1;
}

static void count(const struct cadre_spec *spec, const struct cadre_ledger *table,
                  uint64_t *device, uint64_t *host)
{
    for (int i = 0; i < table->n; i++) {
        const bool on_gpu = spec->gpu && table->entry[i].space == CADRE_SPACE_DEVICE;
        *(on_gpu ? device : host) += table->entry[i].bytes;
    }
}

static void print_head(const struct cadre_spec *spec, const struct cadre_prediction *p,
                       FILE *out)
{
    char part[48] = "";
    if (p->params_trained != p->params)
        snprintf(part, sizeof part, " (%llu train)",
                 (unsigned long long)p->params_trained);
    cadre_terminal_printf(out,
                          "%s: %s, %llu parameters%s, %lld steps of %lld x %lld tokens",
                          spec->name, spec->stack, (unsigned long long)p->params, part,
                          (long long)cadre_benchmark_last_step(spec, 0),
                          (long long)spec->run.global_batch, (long long)spec->run.time);
}

/* Of all processes together: each will have what a limit of its own leaves to this
 * one. */
static void ask_what_is_free(const struct cadre_spec *spec, int processes,
                             struct cadre_prediction *p)
{
    struct cadre_free_memory free_memory;
    if (cadre_free_memory_read("", &free_memory)) {
        p->host_free = free_memory.bytes;
        p->host_limit = free_memory.limit;
        if (free_memory.process < free_memory.bytes / (uint64_t)processes) {
            p->host_free = free_memory.process * (uint64_t)processes;
            p->host_limit = CADRE_FREE_BY_PROCESS;
        }
    }
    if (spec->gpu)
        p->device_free = spec->device_free;
    cadre_memory_resident(&p->program, NULL);
}

cadre_status cadre_predict(const struct cadre_spec *spec,
                           const struct cadre_launch_external *external, FILE *out,
                           struct cadre_prediction *prediction, struct cadre_error *err)
{
    uint64_t gpu[MOST_GPUS] = {0};
    double staged = 0;
    const int found = spec->gpu ? cadre_device_count_cuda() : 1;
    const int gpus = found < 1 ? 1 : found > MOST_GPUS ? MOST_GPUS : found;
    struct cadre_prediction p = {.ranks = ranks_here(spec, external)};
    for (int r = 0; r < p.ranks; r++) {
        struct cadre_rank rank;
        struct cadre_ledger table;
        CADRE_TRY(cadre_rank_plan(&rank, &spec->run, r, err));
        p.params = cadre_model_count(rank.model);
        p.params_trained = cadre_model_count_trained(rank.model);
        if (spec->config.checkpoint.async)
            cadre_ledger_note(&rank.plan.planned, CADRE_SPACE_HOST,
                              cadre_writer_bytes(&rank), CADRE_WRITER_TAG);
        if (out && r == 0)
            print_head(spec, &p, out);
        if (out)
            cadre_rank_print(&rank, out);
        cadre_rank_memory(&rank, &table);
        count(spec, &table, &gpu[gpu_of(spec, external, r, gpus)], &p.host);
        p.largest = table.now_bytes > p.most ? r : p.largest;
        p.most = table.now_bytes > p.most ? table.now_bytes : p.most;
        p.sum += table.now_bytes;
        staged = staged_mib(&rank);
        cadre_rank_fini(&rank);
    }
    for (int i = 0; i < gpus; i++)
        p.device = gpu[i] > p.device ? gpu[i] : p.device;
    /* the staging buffers of all ranks are shared by their processes */
    const int processes = has_processes(spec) ? p.ranks : 1;
    const double shared = has_processes(spec) ? spec->run.ranks * staged * MIB : 0;
    p.work = work_of(spec) + shared;
    p.host += (uint64_t)(processes * work_of(spec) + shared);
    ask_what_is_free(spec, external ? p.ranks : processes, &p);
    *prediction = p;
    return CADRE_OK;
}

/* ---- judgement ---- */

static void offer(struct cadre_text *out, const char *what)
{
    cadre_text_printf(out, "%s%s", out->len ? ", " : "", what);
}

static bool uses(const struct cadre_spec *spec, const char *plugin)
{
    for (int i = 0; i < spec->run.n_plugins; i++)
        if (strcmp(spec->run.plugin[i]->name, plugin) == 0)
            return true;
    return false;
}

/* What would take less, of what this run does not do yet. */
static void offer_all(const struct cadre_spec *spec, struct cadre_text *out)
{
    const struct cadre_config *c = &spec->config;
    const bool wide = c->train.precision == CADRE_CONFIG_FP32 ||
                      c->train.precision == CADRE_CONFIG_FP64;
    if (spec->gpu)
        offer(out, "more GPUs under zero with zero.stage = 3");
    else
        offer(out, "more machines under zero with zero.stage = 3");
    if (c->train.micro_batch > 1)
        offer(out, "a smaller train.micro_batch");
    if (c->train.recompute == CADRE_CONFIG_NONE)
        offer(out, "train.recompute = block");
    if (wide)
        offer(out, c->train.precision == CADRE_CONFIG_FP64 ? "train.precision = fp32"
                                                           : "train.precision = bf16");
    if (spec->gpu && uses(spec, "zero"))
        offer(out, "zero.offload = optimizer");
    offer(out, "a smaller model");
}

static cadre_status refuse(const struct cadre_spec *spec,
                           const struct cadre_prediction *p, bool on_gpu,
                           struct cadre_error *err)
{
    struct cadre_text ways = {0};
    char needed[CADRE_BYTES_CHARS], available[CADRE_BYTES_CHARS];
    offer_all(spec, &ways);
    cadre_bytes_text((double)(on_gpu ? p->device : p->host), 1, needed);
    cadre_bytes_text((double)(on_gpu ? p->device_free : p->host_free), 1, available);
    cadre_status rc = cadre_fail(
        err, CADRE_E_INVALID,
        "the run needs %s of %s memory, and %s are %s: it would take less with %s "
        "(--dry-run lists what takes how much; run.memory_check = no starts it all the "
        "same)",
        needed, on_gpu ? "a GPU's" : "this machine's", available,
        on_gpu ? "free" : p->host_limit, cadre_text_str(&ways));
    cadre_text_fini(&ways);
    return rc;
}

static bool exceeds(uint64_t needed, uint64_t available, double part)
{
    return available > 0 && (double)needed > part * (double)available;
}

cadre_status cadre_predict_check(const struct cadre_spec *spec,
                                 const struct cadre_prediction *p,
                                 struct cadre_error *err)
{
    const bool on_gpu = spec->gpu && exceeds(p->device, p->device_free, 1);
    const bool refused = on_gpu || exceeds(p->host, p->host_free, 1);
    char needed[CADRE_BYTES_CHARS], available[CADRE_BYTES_CHARS];
    if (refused && spec->config.run.memory_check)
        return refuse(spec, p, on_gpu, err);
    if (!refused && !exceeds(p->host, p->host_free, 0.9) &&
        !(spec->gpu && exceeds(p->device, p->device_free, 0.9)))
        return CADRE_OK;
    const bool gpu = spec->gpu && exceeds(p->device, p->device_free, 0.9);
    cadre_log(
        CADRE_LOG_WARN, "train", "the run needs %s of the %s %s: %s",
        cadre_bytes_text((double)(gpu ? p->device : p->host), 1, needed),
        cadre_bytes_text((double)(gpu ? p->device_free : p->host_free), 1, available),
        gpu ? "free on a GPU" : p->host_limit,
        refused ? "it will hardly end (run.memory_check = no)"
                : "little is left for anything else");
    return CADRE_OK;
}

/* ---- --dry-run ---- */

static void print_resident(const struct cadre_spec *spec,
                           const struct cadre_prediction *p, FILE *out)
{
    char all[CADRE_BYTES_CHARS], program[CADRE_BYTES_CHARS], work[CADRE_BYTES_CHARS];
    const uint64_t asked = spec->local.processes ? p->most : p->sum;
    if (p->program == 0 || spec->gpu)
        return;
    cadre_terminal_printf(
        out,
        "in memory: about %s in %s; of it %s for the program and its libraries, %s for "
        "these at work",
        cadre_bytes_text((double)(asked + p->program) + p->work, 1, all),
        has_processes(spec)   ? "the largest process"
        : spec->run.ranks > 1 ? "the process of all ranks"
                              : "the process",
        cadre_bytes_text((double)p->program, 1, program),
        cadre_bytes_text(p->work, 1, work));
}

void cadre_predict_print(const struct cadre_spec *spec,
                         const struct cadre_prediction *p, FILE *out)
{
    char most[CADRE_BYTES_CHARS], sum[CADRE_BYTES_CHARS];
    cadre_terminal_printf(out,
                          "peak memory: rank %d takes most, %s; all ranks together %s",
                          p->largest, cadre_bytes_text((double)p->most, 3, most),
                          cadre_bytes_text((double)p->sum, 3, sum));
    print_resident(spec, p, out);
}
