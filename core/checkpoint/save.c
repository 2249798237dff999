/* SPDX-License-Identifier: Apache-2.0 */
#include "core/checkpoint/save.h"

#include <stdlib.h>

#include "core/base/memory.h"
#include "core/checkpoint/format/folder.h"
#include "core/checkpoint/form_state.h"
#include "core/checkpoint/kept_replicas.h"
#include "core/checkpoint/opt_state.h"
#include "core/checkpoint/run_values.h"
#include "core/data/tokenizer/tokenizer_files.h"
#include "core/tune/peft.h"

/* ---- what a rank writes ---- */

static cadre_status give_slice(struct cadre_rank *rank,
                               const struct cadre_rank_slice *slice,
                               const struct cadre_range_sum *mean,
                               struct cadre_range_sink *sink)
{
    const struct cadre_store_param *own = &rank->store.param[slice->param];
    const void *const data[] = {cadre_store_opt_data(&rank->store, slice->param),
                                own->exp_avg, own->exp_avg_sq};
    int moments = cadre_range_moments(rank->spec);
    cadre_status rc = CADRE_OK;
    for (int i = 0; rc == CADRE_OK && i <= moments; i++) {
        const struct cadre_range range = {
            .part = CADRE_CHECKPOINT_PARAM + i,
            .name = rank->model->params[slice->param].name,
            .param = slice->param,
            .begin = slice->begin,
            .count = slice->count,
            .data = data[i],
        };
        if (i > 0 && mean->axis)
            rc = cadre_range_give_mean(rank, &range, mean, sink);
        else if (cadre_rank_is_primary_owner(rank, slice->param))
            cadre_range_give(sink, &range);
    }
    return rc;
}

/* Of the ranks that store the same values of a frozen parameter, one saves them. */
static bool saves_frozen(const struct cadre_rank *rank, uint32_t param)
{
    const struct cadre_rank_plan *plan = &rank->plan;
    const char *const effects[] = {"schedule.order", "act.complete", "param.place"};
    const bool distinct[] = {true,
                             rank->model->tp_size > 1 &&
                                 rank->model->params[param].split != CADRE_SHARD_NONE,
                             plan->param[param].share[CADRE_KIND_PARAM].placed};
    const struct cadre_axis *axes[3];
    int n = 0;
    for (int i = 0; i < 3; i++) {
        const struct cadre_axis *axis = cadre_rank_plan_axis(plan, effects[i]);
        if (axis && distinct[i])
            axes[n++] = axis;
    }
    return plan->param[param].present && cadre_mesh_is_first(plan->mesh, axes, n);
}

/* Chunk by chunk: values decoded; moments as they begin, so that a run in which the
 * parameter trains can resume. */
static cadre_status give_frozen(struct cadre_rank *rank, uint32_t param,
                                enum cadre_checkpoint_part part,
                                struct cadre_range_sink *sink)
{
    const struct cadre_share own = cadre_store_elements(&rank->store, param);
    struct cadre_range chunk = {.part = part,
                                .name = rank->model->params[param].name,
                                .param = param,
                                .on_host = true};
    void *buffer = cadre_calloc(CADRE_RANGE_CHUNK, rank->store.wide_bytes);
    cadre_status rc = buffer ? CADRE_OK : CADRE_E_RESOURCE;
    for (uint64_t at = 0; rc == CADRE_OK && at < own.count; at += chunk.count) {
        chunk.begin = own.begin + at;
        chunk.count =
            own.count - at < CADRE_RANGE_CHUNK ? own.count - at : CADRE_RANGE_CHUNK;
        chunk.data = buffer;
        if (part == CADRE_CHECKPOINT_PARAM)
            rc = cadre_store_get(&rank->store, param, at, chunk.count, buffer);
        if (rc == CADRE_OK)
            cadre_range_give(sink, &chunk);
    }
    free(buffer);
    return rc == CADRE_OK
               ? rc
               : cadre_fail(sink->err, rc, "cannot read '%s' to save it", chunk.name);
}

static cadre_status give_all_frozen(struct cadre_rank *rank,
                                    struct cadre_range_sink *sink)
{
    const int moments = cadre_range_moments(rank->spec);
    cadre_status rc = CADRE_OK;
    for (uint32_t i = 0; i < rank->model->n_params; i++) {
        if (!rank->plan.param[i].frozen || rank->model->params[i].tied_to >= 0 ||
            rank->model->params[i].frozen || !saves_frozen(rank, i))
            continue;
        for (int k = 0; rc == CADRE_OK && k <= moments; k++)
            rc = give_frozen(rank, i, CADRE_CHECKPOINT_PARAM + k, sink);
    }
    return rc;
}

cadre_status cadre_save_each(struct cadre_rank *rank, struct cadre_plugin_state *kept,
                             struct cadre_range_sink *sink)
{
    struct cadre_range_sum mean = {
        .axis = cadre_rank_diverging_axis(rank),
        .mean = true,
        .label = "mean of optimizer states",
    };
    cadre_status rc = CADRE_OK;
    if (mean.axis)
        mean.buffer = malloc(CADRE_RANGE_CHUNK * rank->store.wide_bytes);
    if (mean.axis && !mean.buffer)
        rc = sink->rc = cadre_fail(sink->err, CADRE_E_RESOURCE,
                                   "no memory to average optimizer states");
    for (size_t s = 0; rc == CADRE_OK && s < rank->update.n_slices; s++)
        rc = give_slice(rank, &rank->update.slices[s], &mean, sink);
    if (rc == CADRE_OK)
        cadre_opt_state_give(rank, &mean, sink);
    if (rc == CADRE_OK)
        cadre_kept_replicas_give(rank, sink);
    if (rc == CADRE_OK)
        rc = give_all_frozen(rank, sink);
    if (rc != CADRE_OK && sink->rc == CADRE_OK)
        sink->rc = rc;
    free(mean.buffer);
    cadre_form_state_give(rank, sink);
    cadre_plugin_state_give(kept, sink);
    return sink->rc;
}

/* ---- the files ---- */

/* config.json next to the tensors makes the checkpoint a Hugging Face folder, which has
 * no GPT-2 with experts, and no ViT of this form; adapter_config.json a PEFT folder. */
static cadre_status write_model_config(const struct cadre_run_spec *run,
                                       const char *dir, struct cadre_error *err)
{
    const struct cadre_model_config *m = &run->model;
    bool llama = m->arch == CADRE_ARCH_LLAMA;
    if (m->lora.rank > 0)
        return cadre_peft_write(dir, m, run->config->model.init, err);
    if (m->experts > 0 || m->image.patch > 0)
        return CADRE_OK;
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
        .rotary = m->rotary,
        .head_size = m->head_size ? m->head_size : m->channels / m->heads,
        .qkv_bias = m->qkv_bias,
        .qk_norm = m->qk_norm,
        .marks = {run->marks.known, run->marks.bos, run->marks.eos, run->marks.pad},
    };
    return cadre_hf_config_write(dir, &config, err);
}

cadre_status cadre_save_begin(const struct cadre_rank *rank,
                              const struct cadre_plugin_state *kept, const char *root,
                              int64_t step, struct cadre_error *err)
{
    size_t n, n_kept;
    const struct cadre_safetensors_spec *more = cadre_plugin_state_table(kept, &n_kept);
    struct cadre_safetensors_spec *table =
        cadre_range_tensors(rank->model, false, &n, err);
    if (!table)
        return CADRE_E_RESOURCE;
    cadre_status rc = cadre_draft_begin(root, (uint64_t)step, table, n,
                                        cadre_range_moments(rank->spec), err);
    free(table);
    if (rc != CADRE_OK)
        return rc;
    rc = cadre_opt_state_begin(rank, root, step, err);
    if (rc == CADRE_OK)
        rc = cadre_kept_replicas_begin(rank, root, step, err);
    if (rc == CADRE_OK)
        rc = cadre_form_state_begin(rank, root, step, err);
    if (rc == CADRE_OK && n_kept > 0)
        rc = cadre_draft_begin_states(root, (uint64_t)step,
                                      CADRE_CHECKPOINT_PLUGIN_STATE, more, n_kept, err);
    if (rc != CADRE_OK)
        cadre_draft_abandon(root, (uint64_t)step, NULL);
    return rc;
}

cadre_status cadre_save_seal(const struct cadre_rank *rank,
                             const struct cadre_plugin_state *kept,
                             struct cadre_draft *draft, const char *root, int64_t step,
                             struct cadre_error *err)
{
    char *dir = cadre_draft_path(root, (uint64_t)step);
    cadre_status rc = dir ? cadre_plugin_state_write_blobs(kept, dir, err)
                          : cadre_no_memory(err, "a path");
    if (rc == CADRE_OK && rank->index == 0)
        rc = write_model_config(rank->spec, dir, err);
    if (rc == CADRE_OK && rank->index == 0)
        rc = cadre_tokenizer_files_write(rank->spec->tokenizer, dir, err);
    if (rc == CADRE_OK)
        rc = cadre_draft_sync(draft, err);
    free(dir);
    return rc;
}

cadre_status cadre_save_agree(struct cadre_rank *rank, cadre_status mine,
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

/* ---- all of it ---- */

struct target {
    const struct cadre_rank *rank;
    struct cadre_draft *draft;
    void *buffer; /* of a chunk, for data on the device */
};

static cadre_status write_range(void *arg, const struct cadre_range *range,
                                struct cadre_error *err)
{
    const struct target *to = arg;
    return cadre_range_write(to->rank, to->draft, range, to->buffer, err);
}

static cadre_status write_own(struct cadre_rank *rank, struct cadre_plugin_state *kept,
                              const char *root, int64_t step, struct cadre_error *err)
{
    struct target to = {.rank = rank};
    struct cadre_range_sink sink = {.visit = write_range, .arg = &to, .err = err};
    to.buffer = malloc(CADRE_RANGE_CHUNK * rank->store.wide_bytes);
    sink.rc =
        to.buffer
            ? cadre_draft_open(root, (uint64_t)step, rank->index, &to.draft, err)
            : cadre_fail(err, CADRE_E_RESOURCE, "no memory to write a checkpoint");
    cadre_status rc = cadre_save_each(rank, kept, &sink);
    if (rc == CADRE_OK)
        rc = cadre_save_seal(rank, kept, to.draft, root, step, err);
    cadre_draft_close(to.draft);
    free(to.buffer);
    return rc;
}

cadre_status cadre_save(struct cadre_rank *rank, const char *out, int64_t step,
                        struct cadre_error *err)
{
    bool first = rank->index == 0;
    struct cadre_plugin_state *kept = NULL;
    char *root = cadre_folder_root(out);
    cadre_status rc = root ? cadre_plugin_state_collect(rank, &kept, err)
                           : cadre_no_memory(err, "a path");
    if (rc != CADRE_OK) { /* other ranks may still be collecting: their next call is not
                             a vote */
        free(root);
        return rc;
    }
    if (first)
        rc = cadre_save_begin(rank, kept, root, step, err);
    rc = cadre_save_agree(rank, rc, err);
    if (rc == CADRE_OK) {
        rc = write_own(rank, kept, root, step, err);
        rc = cadre_save_agree(rank, rc, err);
        if (rc == CADRE_OK && first)
            rc = cadre_run_values_commit(rank, &rank->loss_scale, root, step, err);
        rc = cadre_save_agree(rank, rc, err);
    }
    if (rc != CADRE_OK && first)
        cadre_draft_abandon(root, (uint64_t)step, NULL);
    cadre_plugin_state_destroy(kept);
    free(root);
    return rc;
}
