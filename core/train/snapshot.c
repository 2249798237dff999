/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/snapshot.h"

#include <stdlib.h>

#include "core/base/hash.h"
#include "core/base/memory.h"
#include "core/checkpoint/hf.h"
#include "core/train/snapshot_parts.h"
#include "core/train/states.h"

/* ---- what a rank writes ---- */

static cadre_status visit_slice(const struct cadre_rank *rank,
                                const struct cadre_rank_slice *slice,
                                cadre_snapshot_visit visit, void *arg,
                                struct cadre_error *err)
{
    const struct cadre_store_param *states = &rank->store.param[slice->param];
    const struct {
        enum cadre_checkpoint_part part;
        const void *data;
    } parts[] = {
        {CADRE_CHECKPOINT_PARAM, cadre_store_opt_data(&rank->store, slice->param)},
        {CADRE_CHECKPOINT_EXP_AVG, states->exp_avg},
        {CADRE_CHECKPOINT_EXP_AVG_SQ, states->exp_avg_sq},
    };
    cadre_status rc = CADRE_OK;
    int moments = cadre_rank_apart(rank) ? 0 : cadre_snapshot_moments(rank->spec);
    for (int i = 0; rc == CADRE_OK && i <= moments; i++) {
        const struct cadre_snapshot_piece piece = {
            .part = parts[i].part,
            .name = rank->model->params[slice->param].name,
            .param = slice->param,
            .begin = slice->begin,
            .count = slice->count,
            .data = parts[i].data,
        };
        rc = visit(arg, &piece, err);
    }
    return rc;
}

/* Passes states by once something failed. */
struct gate {
    cadre_snapshot_visit visit;
    void *arg;
    bool shut;
};

static cadre_status visit_state(void *arg, const struct cadre_snapshot_piece *piece,
                                struct cadre_error *err)
{
    const struct gate *gate = arg;
    return gate->shut ? CADRE_OK : gate->visit(gate->arg, piece, err);
}

cadre_status cadre_snapshot_each(struct cadre_rank *rank, struct cadre_states *states,
                                 cadre_snapshot_visit visit, void *arg,
                                 struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    for (size_t s = 0; rc == CADRE_OK && s < rank->update.n_slices; s++)
        if (cadre_rank_is_primary_owner(rank, rank->update.slices[s].param))
            rc = visit_slice(rank, &rank->update.slices[s], visit, arg, err);
    struct gate gate = {visit, arg, rc != CADRE_OK};
    cadre_status given;
    if (cadre_rank_apart(rank)) {
        given = cadre_snapshot_means(rank, visit_state, &gate, gate.shut ? NULL : err);
        rc = rc == CADRE_OK ? given : rc;
        gate.shut = rc != CADRE_OK;
    }
    given = cadre_states_give(states, visit_state, &gate, gate.shut ? NULL : err);
    return rc == CADRE_OK ? given : rc;
}

cadre_status cadre_snapshot_write(const struct cadre_rank *rank,
                                  struct cadre_checkpoint_writer *writer,
                                  const struct cadre_snapshot_piece *piece,
                                  struct cadre_error *err)
{
    const char *data = piece->data;
    cadre_status rc = CADRE_OK;
    for (uint64_t done = 0, n, at; rc == CADRE_OK && done < piece->count; done += n) {
        n = cadre_snapshot_run(rank->model, piece->param, piece->begin + done,
                               piece->count - done, &at);
        rc = cadre_checkpoint_write(writer, piece->part, piece->name, at, n,
                                    data + done * rank->store.wide_bytes, err);
    }
    return rc;
}

/* ---- the files ---- */

/* config.json beside the tensors makes the checkpoint a Hugging Face folder. */
static cadre_status write_model_config(const struct cadre_run_spec *run,
                                       const char *dir, struct cadre_error *err)
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
    return cadre_hf_config_write(dir, &config, err);
}

void cadre_snapshot_gemm(const struct cadre_tuning *tuning, char out[CADRE_GEMM_CHARS])
{
    snprintf(out, CADRE_GEMM_CHARS, "%s%s%s", tuning->library,
             *tuning->algorithms ? ", algorithms " : "", tuning->algorithms);
}

cadre_status cadre_snapshot_commit(const struct cadre_rank *rank,
                                   const struct cadre_spec *spec,
                                   const struct cadre_loss_scale *scale,
                                   const char *root, int64_t step,
                                   struct cadre_error *err)
{
    /* of the last three, a run that is not of fp16 has at most the first, from one that
     * was */
    size_t absent = spec->run.model.dtype == CADRE_F16 ? 0 : scale->skipped > 0 ? 2 : 3;
    char *text = NULL, data[17], batch[32], factor[32], good[32], skipped[32];
    char gemm[CADRE_GEMM_CHARS];
    size_t size = 0;
    FILE *memory = open_memstream(&text, &size);
    if (!memory)
        return cadre_fail(err, CADRE_E_RESOURCE, "no memory for the options' text");
    cadre_status rc = cadre_options_write(spec->options, memory, err);
    fclose(memory);
    cadre_hash_hex(spec->data_info.fingerprint, data);
    cadre_snapshot_gemm(&rank->tuning, gemm);
    snprintf(batch, sizeof batch, "%lld", (long long)spec->run.global_batch);
    snprintf(factor, sizeof factor, "%.17g", scale->scale);
    snprintf(good, sizeof good, "%llu", (unsigned long long)scale->good);
    snprintf(skipped, sizeof skipped, "%llu", (unsigned long long)scale->skipped);
    const struct cadre_checkpoint_value values[] = {
        {"data_fingerprint", data},
        {"global_batch", batch},
        {"optimizer", cadre_options_str(spec->options, "optim.name")},
        {"stack", spec->stack},
        {"gemm", gemm},
        {"skipped", skipped},
        {"loss_scale", factor},
        {"loss_scale_good", good},
    };
    struct cadre_checkpoint_state state = {
        .step = (uint64_t)step,
        .samples = (uint64_t)(step * spec->run.global_batch),
        .seed = spec->run.seed,
        .options = text,
        .n_values = sizeof values / sizeof values[0] - absent,
        .values = values,
    };
    if (rc == CADRE_OK)
        rc = cadre_checkpoint_commit(
            root, spec->run.ranks, &state,
            (size_t)cadre_options_i64(spec->options, "checkpoint.keep"), err);
    free(text);
    return rc;
}

cadre_status cadre_snapshot_agree(struct cadre_rank *rank, cadre_status mine,
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

cadre_status cadre_snapshot_begin(const struct cadre_rank *rank,
                                  const struct cadre_states *states, const char *root,
                                  int64_t step, struct cadre_error *err)
{
    size_t n, n_states;
    const struct cadre_safetensors_spec *kept = cadre_states_table(states, &n_states);
    struct cadre_safetensors_spec *table = cadre_snapshot_table(rank->model, &n);
    if (!table)
        return cadre_fail(err, CADRE_E_RESOURCE, "no memory for the tensor table");
    cadre_status rc = cadre_checkpoint_begin(root, (uint64_t)step, table, n,
                                             cadre_snapshot_moments(rank->spec), err);
    if (rc == CADRE_OK && n_states > 0) {
        rc = cadre_checkpoint_begin_states(root, (uint64_t)step, kept, n_states, err);
        if (rc != CADRE_OK)
            cadre_checkpoint_abandon(root, (uint64_t)step, NULL);
    }
    free(table);
    return rc;
}

cadre_status cadre_snapshot_seal(const struct cadre_rank *rank,
                                 const struct cadre_states *states,
                                 struct cadre_checkpoint_writer *writer,
                                 const char *root, int64_t step,
                                 struct cadre_error *err)
{
    char *dir = cadre_checkpoint_partial(root, (uint64_t)step);
    cadre_status rc = dir ? cadre_states_write_blobs(states, dir, err)
                          : cadre_fail(err, CADRE_E_RESOURCE, "no memory for a path");
    if (rc == CADRE_OK && rank->index == 0)
        rc = write_model_config(rank->spec, dir, err);
    if (rc == CADRE_OK)
        rc = cadre_checkpoint_sync(writer, err);
    free(dir);
    return rc;
}

/* ---- saving at once ---- */

struct direct {
    const struct cadre_rank *rank;
    struct cadre_checkpoint_writer *writer;
    char *buffer; /* of a chunk, for what is on the device */
};

static cadre_status write_direct(void *arg, const struct cadre_snapshot_piece *piece,
                                 struct cadre_error *err)
{
    const struct direct *direct = arg;
    struct cadre_device *device = direct->rank->device;
    size_t size = direct->rank->store.wide_bytes;
    cadre_status rc = CADRE_OK;
    if (piece->on_host)
        return cadre_snapshot_write(direct->rank, direct->writer, piece, err);
    for (uint64_t done = 0; rc == CADRE_OK && done < piece->count;) {
        struct cadre_snapshot_piece part = *piece;
        part.begin += done;
        part.count -= done;
        part.count = part.count < CADRE_STATES_CHUNK ? part.count : CADRE_STATES_CHUNK;
        part.data = direct->buffer;
        rc = device->ops->to_host(device, direct->buffer,
                                  (const char *)piece->data + done * size,
                                  part.count * size);
        if (rc != CADRE_OK)
            return cadre_fail(err, rc, "cannot copy '%s' from the device", piece->name);
        rc = cadre_snapshot_write(direct->rank, direct->writer, &part, err);
        done += part.count;
    }
    return rc;
}

static cadre_status refuse_visit(void *arg, const struct cadre_snapshot_piece *piece,
                                 struct cadre_error *err)
{
    const cadre_status *rc = arg;
    (void)piece, (void)err;
    return *rc;
}

static cadre_status write_own(struct cadre_rank *rank, struct cadre_states *states,
                              const char *root, int64_t step, struct cadre_error *err)
{
    struct direct direct = {.rank = rank};
    direct.buffer = malloc(CADRE_STATES_CHUNK * rank->store.wide_bytes);
    cadre_status rc = direct.buffer ? CADRE_OK
                                    : cadre_fail(err, CADRE_E_RESOURCE,
                                                 "no memory to write a checkpoint");
    if (rc == CADRE_OK)
        rc = cadre_checkpoint_writer_open(root, (uint64_t)step, rank->index,
                                          &direct.writer, err);
    if (rc == CADRE_OK)
        rc = cadre_snapshot_each(rank, states, write_direct, &direct, err);
    else /* the others still combine their states with this rank's */
        cadre_snapshot_each(rank, states, refuse_visit, &rc, NULL);
    if (rc == CADRE_OK)
        rc = cadre_snapshot_seal(rank, states, direct.writer, root, step, err);
    cadre_checkpoint_writer_close(direct.writer);
    free(direct.buffer);
    return rc;
}

cadre_status cadre_snapshot_save(struct cadre_rank *rank, const struct cadre_spec *spec,
                                 int64_t step, struct cadre_error *err)
{
    bool first = rank->index == 0;
    struct cadre_states *states = NULL;
    char *root = cadre_snapshot_root(spec);
    cadre_status rc = root ? cadre_states_collect(rank, &states, err)
                           : cadre_fail(err, CADRE_E_RESOURCE, "no memory for a path");
    if (rc != CADRE_OK) { /* others may still be collecting: no vote comes next there */
        free(root);
        return rc;
    }
    if (first)
        rc = cadre_snapshot_begin(rank, states, root, step, err);
    rc = cadre_snapshot_agree(rank, rc, err);
    if (rc == CADRE_OK) {
        rc = write_own(rank, states, root, step, err);
        rc = cadre_snapshot_agree(rank, rc, err);
        if (rc == CADRE_OK && first)
            rc = cadre_snapshot_commit(rank, spec, &rank->loss_scale, root, step, err);
        rc = cadre_snapshot_agree(rank, rc, err);
    }
    if (rc != CADRE_OK && first)
        cadre_checkpoint_abandon(root, (uint64_t)step, NULL);
    cadre_states_destroy(states);
    free(root);
    return rc;
}
