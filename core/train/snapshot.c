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
#include "core/train/snapshot_parts.h"
#include "core/train/states.h"
#include "core/tensor/dtype.h"

struct saver {
    struct cadre_rank *rank;
    struct cadre_checkpoint_writer *writer;
    bool failed; /* nothing more is written, but states are still gathered: others wait
                  */
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
        n = cadre_snapshot_run(rank->model, slice->param, slice->begin + done,
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
    int moments = cadre_snapshot_moments(rank->spec);
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

static cadre_status put_state(void *arg, const char *tensor, uint64_t begin,
                              uint64_t count, const void *data, struct cadre_error *err)
{
    const struct saver *saver = arg;
    if (saver->failed)
        return CADRE_OK;
    return cadre_checkpoint_write(saver->writer, CADRE_CHECKPOINT_STATE, tensor, begin,
                                  count, data, err);
}

static cadre_status write_blobs(const struct cadre_states *states, const char *root,
                                int64_t step, struct cadre_error *err)
{
    char *dir = cadre_checkpoint_partial(root, (uint64_t)step);
    cadre_status rc = dir ? cadre_states_write_blobs(states, dir, err)
                          : cadre_fail(err, CADRE_E_RESOURCE, "no memory for a path");
    free(dir);
    return rc;
}

static cadre_status write_own(struct cadre_rank *rank, struct cadre_states *states,
                              const char *root, int64_t step, struct cadre_error *err)
{
    struct saver saver = {.rank = rank};
    cadre_status rc = cadre_snapshot_staging(&saver.staging, rank, err);
    if (rc == CADRE_OK)
        rc = cadre_checkpoint_writer_open(root, (uint64_t)step, rank->index,
                                          &saver.writer, err);
    if (rc == CADRE_OK)
        rc = write_slices(&saver, err);
    saver.failed = rc != CADRE_OK;
    cadre_status given =
        cadre_states_give(states, put_state, &saver, saver.failed ? NULL : err);
    rc = rc == CADRE_OK ? given : rc;
    if (rc == CADRE_OK)
        rc = write_blobs(states, root, step, err);
    if (rc == CADRE_OK)
        rc = cadre_checkpoint_sync(saver.writer, err);
    cadre_checkpoint_writer_close(saver.writer);
    cadre_arena_fini(&saver.staging);
    return rc;
}

static cadre_status begin(struct cadre_rank *rank, const struct cadre_states *states,
                          const char *root, int64_t step, struct cadre_error *err)
{
    size_t n, n_states;
    const struct cadre_safetensors_spec *kept = cadre_states_table(states, &n_states);
    struct cadre_safetensors_spec *table = cadre_snapshot_table(rank->model, &n);
    if (!table)
        return cadre_fail(err, CADRE_E_RESOURCE, "no memory for the tensor table");
    cadre_status rc = cadre_checkpoint_begin(root, (uint64_t)step, table, n,
                                             cadre_snapshot_moments(rank->spec), err);
    if (rc == CADRE_OK && n_states > 0)
        rc = cadre_checkpoint_begin_states(root, (uint64_t)step, kept, n_states, err);
    free(table);
    return rc;
}

cadre_status cadre_snapshot_save(struct cadre_rank *rank, const struct cadre_spec *spec,
                                 int64_t step, struct cadre_error *err)
{
    bool first = rank->index == 0;
    struct cadre_states *states = NULL;
    char *root = cadre_snapshot_root(spec);
    cadre_status rc =
        root ? CADRE_OK : cadre_fail(err, CADRE_E_RESOURCE, "no memory for a path");
    if (rc == CADRE_OK)
        rc = cadre_states_collect(rank, &states, err);
    if (rc == CADRE_OK && first)
        rc = begin(rank, states, root, step, err);
    rc = all_well(rank, rc, err);
    if (rc == CADRE_OK) {
        rc = write_own(rank, states, root, step, err);
        if (rc == CADRE_OK && first)
            rc = write_model_config(rank->spec, root, step, err);
        rc = all_well(rank, rc, err);
        if (rc == CADRE_OK && first)
            rc = commit(spec, root, step, err);
        rc = all_well(rank, rc, err);
        if (rc != CADRE_OK && first)
            cadre_checkpoint_abandon(root, (uint64_t)step, NULL);
    }
    cadre_states_destroy(states);
    free(root);
    return rc;
}
