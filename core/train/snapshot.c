/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/hf.h"
#include "core/tensor/dtype.h"

/* ---- what a checkpoint holds ---- */

/* The owned parameters in canonical layout; caller frees. */
static struct cadre_safetensors_spec *tensor_table(const struct cadre_model *model,
                                                   size_t *n)
{
    struct cadre_safetensors_spec *table = cadre_calloc(model->n_params, sizeof *table);
    *n = 0;
    for (uint32_t i = 0; table && i < model->n_params; i++) {
        const struct cadre_param *p = &model->params[i];
        if (p->tied_to >= 0)
            continue;
        struct cadre_safetensors_spec *t = &table[(*n)++];
        t->name = p->name;
        t->dtype = model->config.dtype;
        t->ndim = p->shape.ndim;
        for (uint32_t d = 0; d < p->shape.ndim; d++)
            t->dim[d] = p->shape.dim[d];
    }
    return table;
}

static int moments_of(const struct cadre_run_spec *run)
{
    if (run->optim.kind == CADRE_OPTIMIZER_ADAMW)
        return 2;
    return run->optim.momentum != 0 ? 1 : 0;
}

static char *root_of(const struct cadre_spec *spec)
{
    return cadre_path_join(spec->out, "checkpoints");
}

/* A parameter cut by tensor parallelism is not a flat range of its logical self: from
 * local element `begin`, how many of at most `limit` elements are neighbours in the
 * logical tensor too? *logical is where they begin there. */
static uint64_t logical_run(const struct cadre_model *model, uint32_t param,
                            uint64_t begin, uint64_t limit, uint64_t *logical)
{
    const struct cadre_param *p = &model->params[param];
    uint64_t n = 1;
    *logical = cadre_param_logical(p, model->tp_rank, model->tp_size, begin);
    if (model->tp_size == 1 || p->split == CADRE_SPLIT_NONE)
        return limit;
    while (n < limit && cadre_param_logical(p, model->tp_rank, model->tp_size,
                                            begin + n) == *logical + n)
        n++;
    return n;
}

/* Host memory for one range at a time, touched once however many ranges pass through.
 */
static cadre_status staging_init(struct cadre_arena *staging,
                                 const struct cadre_rank *rank, struct cadre_error *err)
{
    size_t most = 0;
    for (uint32_t i = 0; i < rank->model->n_params; i++) {
        struct cadre_share values =
            cadre_store_share(&rank->store, i, CADRE_KIND_PARAM);
        struct cadre_share states = cadre_store_share(&rank->store, i, CADRE_KIND_OPT);
        uint64_t count = values.count > states.count ? values.count : states.count;
        size_t bytes = cadre_arena_need(count * rank->store.elem_bytes);
        most = bytes > most ? bytes : most;
    }
    return cadre_arena_init(staging, most ? most : CADRE_ARENA_ALIGN, err);
}

/* ---- saving ---- */

struct saver {
    struct cadre_rank *rank;
    struct cadre_checkpoint_writer *writer;
    struct cadre_arena staging;
};

static cadre_status write_part(struct saver *saver, enum cadre_checkpoint_part part,
                               const struct cadre_opt_slice *slice, const void *data,
                               struct cadre_error *err)
{
    struct cadre_rank *rank = saver->rank;
    struct cadre_device *device = rank->device;
    size_t bytes = slice->count * rank->store.elem_bytes;
    size_t mark = cadre_arena_mark(&saver->staging);
    char *host = cadre_arena_alloc(&saver->staging, bytes);
    cadre_status rc = device->ops->to_host(device, host, data, bytes);
    for (uint64_t done = 0, n, at; rc == CADRE_OK && done < slice->count; done += n) {
        n = logical_run(rank->model, slice->param, slice->begin + done,
                        slice->count - done, &at);
        rc = cadre_checkpoint_write(saver->writer, part,
                                    rank->model->params[slice->param].name, at, n,
                                    host + done * rank->store.elem_bytes, err);
    }
    cadre_arena_release(&saver->staging, mark);
    return rc;
}

static cadre_status write_slices(struct saver *saver, struct cadre_error *err)
{
    struct cadre_rank *rank = saver->rank;
    int moments = moments_of(rank->spec);
    cadre_status rc = CADRE_OK;
    for (size_t s = 0; rc == CADRE_OK && s < rank->n_slices; s++) {
        const struct cadre_opt_slice *slice = &rank->slices[s];
        if (!cadre_rank_speaks_for(rank, slice->param))
            continue;
        const void *values = cadre_store_opt_data(&rank->store, slice->param);
        rc = write_part(saver, CADRE_CHECKPOINT_PARAM, slice, values, err);
        if (rc == CADRE_OK && moments > 0)
            rc =
                write_part(saver, CADRE_CHECKPOINT_EXP_AVG, slice, slice->exp_avg, err);
        if (rc == CADRE_OK && moments > 1)
            rc = write_part(saver, CADRE_CHECKPOINT_EXP_AVG_SQ, slice,
                            slice->exp_avg_sq, err);
    }
    return rc;
}

/* config.json beside the tensors makes the checkpoint a Hugging Face folder. */
static cadre_status write_model_config(const struct cadre_run_spec *run,
                                       const char *root, int64_t step,
                                       struct cadre_error *err)
{
    const struct cadre_model_config *m = &run->model;
    bool llama = m->arch == CADRE_ARCH_LLAMA;
    struct cadre_hf_config config = {
        .arch = llama ? CADRE_HF_LLAMA : CADRE_HF_GPT2,
        .layers = m->layers,
        .channels = m->channels,
        .heads = m->heads,
        .kv_heads = m->kv_heads,
        .hidden = m->hidden,
        .context = m->context,
        .vocab = m->vocab,
        .classes = m->classes,
        .tied = m->tied,
        .norm_eps = m->norm_eps,
        .rope_theta = llama ? m->rope_theta : 0,
    };
    char *dir = cadre_checkpoint_partial(root, (uint64_t)step);
    cadre_status rc = dir ? cadre_hf_config_write(dir, &config, err)
                          : cadre_fail(err, CADRE_E_RESOURCE, "no memory for a path");
    free(dir);
    return rc;
}

static cadre_status commit(const struct cadre_spec *spec, const char *root,
                           int64_t step, struct cadre_error *err)
{
    char *text = NULL, data[17], batch[32];
    size_t size = 0;
    FILE *memory = open_memstream(&text, &size);
    if (!memory)
        return cadre_fail(err, CADRE_E_RESOURCE, "no memory for the options' text");
    cadre_status rc = cadre_options_write(spec->options, memory, err);
    fclose(memory);
    cadre_hash_hex(spec->data_info.fingerprint, data);
    snprintf(batch, sizeof batch, "%lld", (long long)spec->run.global_batch);
    const struct cadre_checkpoint_value values[] = {
        {"data_fingerprint", data},
        {"global_batch", batch},
        {"optimizer", cadre_options_str(spec->options, "optim.name")},
        {"stack", spec->stack},
    };
    struct cadre_checkpoint_state state = {
        .step = (uint64_t)step,
        .samples = (uint64_t)(step * spec->run.global_batch),
        .seed = spec->run.seed,
        .options = text,
        .n_values = sizeof values / sizeof values[0],
        .values = values,
    };
    if (rc == CADRE_OK)
        rc = cadre_checkpoint_commit(
            root, spec->run.ranks, &state,
            (size_t)cadre_options_i64(spec->options, "checkpoint.keep"), err);
    free(text);
    return rc;
}

/* [collective] Do all ranks report OK? A barrier too. */
static cadre_status all_well(struct cadre_rank *rank, cadre_status mine,
                             struct cadre_error *err)
{
    double bad = mine != CADRE_OK;
    cadre_status rc = cadre_rank_sum(rank, "checkpoint vote", &bad, 1);
    if (mine != CADRE_OK)
        return mine;
    if (rc != CADRE_OK)
        return cadre_fail(err, rc, "the ranks could not agree on a checkpoint");
    if (bad > 0)
        return cadre_fail(err, CADRE_E_ABORTED, "another rank could not save");
    return CADRE_OK;
}

static cadre_status write_own(struct cadre_rank *rank, const char *root, int64_t step,
                              struct cadre_error *err)
{
    struct saver saver = {.rank = rank};
    cadre_status rc = staging_init(&saver.staging, rank, err);
    if (rc == CADRE_OK)
        rc = cadre_checkpoint_writer_open(root, (uint64_t)step, rank->index,
                                          &saver.writer, err);
    if (rc == CADRE_OK)
        rc = write_slices(&saver, err);
    if (rc == CADRE_OK)
        rc = cadre_checkpoint_sync(saver.writer, err);
    cadre_checkpoint_writer_close(saver.writer);
    cadre_arena_fini(&saver.staging);
    return rc;
}

static cadre_status begin(struct cadre_rank *rank, const char *root, int64_t step,
                          struct cadre_error *err)
{
    size_t n;
    struct cadre_safetensors_spec *table = tensor_table(rank->model, &n);
    if (!table)
        return cadre_fail(err, CADRE_E_RESOURCE, "no memory for the tensor table");
    cadre_status rc = cadre_checkpoint_begin(root, (uint64_t)step, table, n,
                                             moments_of(rank->spec), err);
    free(table);
    return rc;
}

cadre_status cadre_snapshot_save(struct cadre_rank *rank, const struct cadre_spec *spec,
                                 int64_t step, struct cadre_error *err)
{
    bool first = rank->index == 0;
    char *root = root_of(spec);
    cadre_status rc =
        root ? CADRE_OK : cadre_fail(err, CADRE_E_RESOURCE, "no memory for a path");
    if (rc == CADRE_OK && first)
        rc = begin(rank, root, step, err);
    rc = all_well(rank, rc, err);
    if (rc == CADRE_OK) {
        rc = write_own(rank, root, step, err);
        if (rc == CADRE_OK && first)
            rc = write_model_config(rank->spec, root, step, err);
        rc = all_well(rank, rc, err);
        if (rc == CADRE_OK && first)
            rc = commit(spec, root, step, err);
        rc = all_well(rank, rc, err);
        if (rc != CADRE_OK && first)
            cadre_checkpoint_abandon(root, (uint64_t)step, NULL);
    }
    free(root);
    return rc;
}

/* ---- loading ---- */

/* Where values come from: a checkpoint part, or a Hugging Face folder. */
struct source {
    struct cadre_checkpoint *checkpoint;
    enum cadre_checkpoint_part part;
    const struct cadre_hf *hf;
    struct cadre_arena *staging;
};

static cadre_status read_run(const struct cadre_rank *rank, const struct source *from,
                             const char *name, uint64_t at, uint64_t n, void *to,
                             struct cadre_error *err)
{
    uint32_t dtype = rank->model->config.dtype;
    if (from->hf)
        return cadre_hf_read(from->hf, name, at, n, dtype, to, err);
    return cadre_checkpoint_read(from->checkpoint, from->part, name, at, n, dtype, to,
                                 err);
}

static cadre_status read_range(struct cadre_rank *rank, const struct source *from,
                               uint32_t param, const struct cadre_share *share,
                               void *to, struct cadre_error *err)
{
    const char *name = rank->model->params[param].name;
    size_t bytes = share->count * rank->store.elem_bytes;
    size_t mark = cadre_arena_mark(from->staging);
    char *host = cadre_arena_alloc(from->staging, bytes);
    cadre_status rc = CADRE_OK;
    for (uint64_t done = 0, n, at; rc == CADRE_OK && done < share->count; done += n) {
        n = logical_run(rank->model, param, share->begin + done, share->count - done,
                        &at);
        rc = read_run(rank, from, name, at, n, host + done * rank->store.elem_bytes,
                      err);
    }
    if (rc == CADRE_OK)
        rc = rank->device->ops->to_device(rank->device, to, host, bytes);
    cadre_arena_release(from->staging, mark);
    return rc;
}

static cadre_status read_params(struct cadre_rank *rank, const struct source *from,
                                struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    for (uint32_t i = 0; rc == CADRE_OK && i < rank->model->n_params; i++) {
        struct cadre_share share = cadre_store_share(&rank->store, i, CADRE_KIND_PARAM);
        const struct cadre_store_param *p = &rank->store.param[i];
        if (share.count)
            rc = read_range(rank, from, i, &share,
                            share.placed ? p->data_shard : p->data, err);
    }
    return rc;
}

static cadre_status read_states(struct cadre_rank *rank, const struct source *from,
                                struct cadre_error *err)
{
    int moments = moments_of(rank->spec);
    struct source avg = *from, sq = *from;
    avg.part = CADRE_CHECKPOINT_EXP_AVG;
    sq.part = CADRE_CHECKPOINT_EXP_AVG_SQ;
    cadre_status rc = CADRE_OK;
    for (size_t s = 0; rc == CADRE_OK && s < rank->n_slices; s++) {
        const struct cadre_opt_slice *slice = &rank->slices[s];
        struct cadre_share own =
            cadre_store_share(&rank->store, slice->param, CADRE_KIND_OPT);
        if (moments > 0)
            rc = read_range(rank, &avg, slice->param, &own, slice->exp_avg, err);
        if (rc == CADRE_OK && moments > 1)
            rc = read_range(rank, &sq, slice->param, &own, slice->exp_avg_sq, err);
    }
    return rc;
}

/* The run must go on as the checkpoint's did: what the data cursor and the states rest
 * on has to be the same. */
static cadre_status check_state(const struct cadre_spec *spec,
                                const struct cadre_checkpoint *checkpoint,
                                const char *path, struct cadre_error *err)
{
    const struct cadre_checkpoint_state *state = cadre_checkpoint_state(checkpoint);
    const char *optimizer = cadre_checkpoint_value(checkpoint, "optimizer");
    const char *data = cadre_checkpoint_value(checkpoint, "data_fingerprint");
    const char *mine = cadre_options_str(spec->options, "optim.name");
    char hex[17];
    if (state->samples != state->step * (uint64_t)spec->run.global_batch)
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s' stands at sample %llu after %llu steps, this run has "
                          "train.global_batch = %lld; use the one it was trained with",
                          path, (unsigned long long)state->samples,
                          (unsigned long long)state->step,
                          (long long)spec->run.global_batch);
    if (state->seed != spec->run.seed)
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s' was trained with run.seed = %llu, this run has %llu; "
                          "use the same",
                          path, (unsigned long long)state->seed,
                          (unsigned long long)spec->run.seed);
    if (optimizer && strcmp(optimizer, mine) != 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s' was trained with optim.name = %s, this run has %s; use "
                          "the same",
                          path, optimizer, mine);
    cadre_hash_hex(spec->data_info.fingerprint, hex);
    if (data && strcmp(data, hex) != 0)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "'%s' was trained on other data (data files or data.* options "
            "differ); use the same, or start anew from it with model.init",
            path);
    return CADRE_OK;
}

/* The checkpoint, once it is known to fit this rank's model and this run. */
static cadre_status open_fitting(const struct cadre_rank *rank,
                                 const struct cadre_spec *spec, const char *path,
                                 struct cadre_checkpoint **out, struct cadre_error *err)
{
    size_t n = 0;
    struct cadre_safetensors_spec *table = tensor_table(rank->model, &n);
    if (!table)
        return cadre_fail(err, CADRE_E_RESOURCE, "no memory for the tensor table");
    cadre_status rc = cadre_checkpoint_open(path, out, err);
    if (rc == CADRE_OK)
        rc = cadre_checkpoint_check(*out, table, n, err);
    if (rc == CADRE_OK)
        rc = check_state(spec, *out, path, err);
    free(table);
    return rc;
}

/* The model folder, once it is known to fit this rank's model. */
static cadre_status open_folder(const struct cadre_rank *rank, const char *dir,
                                struct cadre_hf **out, struct cadre_error *err)
{
    size_t n = 0;
    struct cadre_safetensors_spec *table = tensor_table(rank->model, &n);
    if (!table)
        return cadre_fail(err, CADRE_E_RESOURCE, "no memory for the tensor table");
    cadre_status rc = cadre_hf_open(dir, out, err);
    if (rc == CADRE_OK)
        rc = cadre_hf_check(*out, table, n, rank->model->config.tied, err);
    free(table);
    return rc;
}

cadre_status cadre_snapshot_check(const struct cadre_rank *rank,
                                  const struct cadre_spec *spec, const char *path,
                                  struct cadre_error *err)
{
    struct cadre_checkpoint *checkpoint = NULL;
    cadre_status rc = open_fitting(rank, spec, path, &checkpoint, err);
    if (rc == CADRE_OK)
        rc = cadre_checkpoint_verify(checkpoint, err);
    cadre_checkpoint_close(checkpoint);
    return rc;
}

/* A model folder that is a checkpoint carries checksums. */
static cadre_status verify_checksums(const char *dir, struct cadre_error *err)
{
    struct cadre_checkpoint *checkpoint = NULL;
    char *state = cadre_path_join(dir, "state.json");
    bool there = state && cadre_path_exists(state);
    free(state);
    if (!there)
        return CADRE_OK;
    cadre_status rc = cadre_checkpoint_open(dir, &checkpoint, err);
    if (rc == CADRE_OK)
        rc = cadre_checkpoint_verify(checkpoint, err);
    cadre_checkpoint_close(checkpoint);
    return rc;
}

cadre_status cadre_snapshot_check_init(const struct cadre_rank *rank, const char *dir,
                                       struct cadre_error *err)
{
    struct cadre_hf *hf = NULL;
    cadre_status rc = open_folder(rank, dir, &hf, err);
    if (rc == CADRE_OK)
        rc = verify_checksums(dir, err);
    cadre_hf_close(hf);
    return rc;
}

cadre_status cadre_snapshot_load(struct cadre_rank *rank, const struct cadre_spec *spec,
                                 const char *path, struct cadre_error *err)
{
    struct cadre_checkpoint *checkpoint = NULL;
    struct cadre_arena staging = {0};
    cadre_status rc;
    CADRE_TRY(open_fitting(rank, spec, path, &checkpoint, err));
    struct source from = {
        .checkpoint = checkpoint,
        .part = CADRE_CHECKPOINT_PARAM,
        .staging = &staging,
    };
    CADRE_TRY(staging_init(&staging, rank, err));
    CADRE_TRY(read_params(rank, &from, err));
    CADRE_TRY(read_states(rank, &from, err));
fail:
    cadre_arena_fini(&staging);
    cadre_checkpoint_close(checkpoint);
    return rc;
}

cadre_status cadre_snapshot_init(struct cadre_rank *rank, const char *dir,
                                 struct cadre_error *err)
{
    struct cadre_hf *hf = NULL;
    struct cadre_arena staging = {0};
    cadre_status rc;
    CADRE_TRY(open_folder(rank, dir, &hf, err));
    struct source from = {.hf = hf, .staging = &staging};
    CADRE_TRY(staging_init(&staging, rank, err));
    CADRE_TRY(read_params(rank, &from, err));
fail:
    cadre_arena_fini(&staging);
    cadre_hf_close(hf);
    return rc;
}

static cadre_status steps_of(const char *path, int64_t *step, struct cadre_error *err)
{
    struct cadre_checkpoint *checkpoint = NULL;
    cadre_status rc = cadre_checkpoint_open(path, &checkpoint, err);
    if (rc == CADRE_OK)
        *step = (int64_t)cadre_checkpoint_state(checkpoint)->step;
    cadre_checkpoint_close(checkpoint);
    return rc;
}

/* The run's own newest checkpoint; *path is NULL where there is none. */
static cadre_status find_own(const struct cadre_spec *spec, char **path,
                             struct cadre_error *err)
{
    char *root = root_of(spec);
    cadre_status rc = CADRE_OK;
    *path = NULL;
    if (root && cadre_path_is_dir(root))
        rc = cadre_checkpoint_find_latest(root, path, err);
    free(root);
    return rc;
}

cadre_status cadre_snapshot_refuse_older(const struct cadre_spec *spec, int64_t step,
                                         struct cadre_error *err)
{
    char *own = NULL;
    int64_t newest = 0;
    cadre_status rc = find_own(spec, &own, err);
    if (rc == CADRE_OK && own)
        rc = steps_of(own, &newest, err);
    if (rc == CADRE_OK && newest > step)
        rc = cadre_fail(
            err, CADRE_E_INVALID,
            "'%s' is later than the %lld steps to resume from; go on with it "
            "by checkpoint.resume=auto, remove it, or choose another --out",
            own, (long long)step);
    free(own);
    return rc;
}

cadre_status cadre_snapshot_find(const struct cadre_spec *spec, char **path,
                                 int64_t *step, struct cadre_error *err)
{
    const char *resume = cadre_options_str(spec->options, "checkpoint.resume");
    cadre_status rc = CADRE_OK;
    *path = NULL;
    *step = 0;
    if (strcmp(resume, "no") == 0)
        return CADRE_OK;
    if (strcmp(resume, "auto") == 0) {
        rc = find_own(spec, path, err);
    } else if (cadre_path_is_dir(resume)) {
        *path = cadre_strdup(resume);
    } else {
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "checkpoint.resume: there is no folder '%s'; name one such as "
                        "runs/x/checkpoints/step-00000100, or say auto",
                        resume);
    }
    if (rc != CADRE_OK || !*path)
        return rc;
    rc = steps_of(*path, step, err);
    if (rc != CADRE_OK) {
        cadre_error_prefix(err, "checkpoint.resume");
        free(*path);
        *path = NULL;
    }
    return rc;
}
