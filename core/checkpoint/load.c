/* SPDX-License-Identifier: Apache-2.0 */
#include "core/checkpoint/load.h"

#include <stdlib.h>

#include "core/base/path.h"
#include "core/checkpoint/form_state.h"
#include "core/checkpoint/kept_replicas.h"
#include "core/checkpoint/opt_state.h"
#include "core/checkpoint/plugin_state.h"
#include "core/checkpoint/range.h"
#include "core/checkpoint/run_values.h"
#include "core/tune/peft.h"

/* ---- a rank's values ---- */

/* Source of values: a checkpoint, or a model folder; of a run with adapters, a folder
 * for the frozen parameters and a checkpoint or a folder for adapters. A parameter
 * without a source keeps its initial value. */
struct source {
    struct cadre_checkpoint *checkpoint;
    struct cadre_hf *hf; /* NULL: the checkpoint */
    struct cadre_hf *adapter; /* NULL: the checkpoint, if there is one */
    void *buffer; /* host memory of this rank's largest range */
};

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* One buffer, allocated once for all ranges. */
static cadre_status make_buffer(const struct cadre_rank *rank, struct source *from,
                                struct cadre_error *err)
{
    const struct cadre_store *store = &rank->store;
    uint64_t most = 1;
    for (uint32_t i = 0; i < rank->model->n_params; i++) {
        most = larger(most, cadre_store_elements(store, i).count);
        most = larger(most, cadre_store_share(store, i, CADRE_KIND_OPT).count);
    }
    from->buffer = malloc(most * store->wide_bytes);
    return from->buffer
               ? CADRE_OK
               : cadre_fail(err, CADRE_E_RESOURCE, "no memory to read a checkpoint");
}

/* Read a share of a parameter, or of its states, into the buffer. */
static cadre_status read_share(const struct cadre_rank *rank, const struct source *from,
                               enum cadre_checkpoint_part part, uint32_t param,
                               const struct cadre_share *share, struct cadre_error *err)
{
    const struct cadre_range range = {
        .part = part,
        .name = rank->model->params[param].name,
        .param = param,
        .begin = share->begin,
        .count = share->count,
    };
    const bool adapts = rank->model->params[param].adapts >= 0;
    return cadre_range_read(rank, from->checkpoint, adapts ? from->adapter : from->hf,
                            &range, from->buffer, err);
}

/* Are the values of a parameter in one of the sources? */
static bool is_in(const struct cadre_rank *rank, const struct source *from,
                  uint32_t param)
{
    if (rank->model->config.lora.rank == 0)
        return true;
    return rank->model->params[param].adapts >= 0 ? from->adapter || from->checkpoint
                                                  : from->hf != NULL;
}

static cadre_status load_params(struct cadre_rank *rank, const struct source *from,
                                struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    for (uint32_t i = 0; rc == CADRE_OK && i < rank->model->n_params; i++) {
        struct cadre_share share = cadre_store_elements(&rank->store, i);
        if (!is_in(rank, from, i))
            continue;
        rc = cadre_form_state_load(rank, i, from->checkpoint, from->hf, err);
        if (share.count == 0 || rc != CADRE_OK)
            continue;
        rc = read_share(rank, from, CADRE_CHECKPOINT_PARAM, i, &share, err);
        if (rc == CADRE_OK)
            rc = cadre_store_put(&rank->store, i, from->buffer);
    }
    return rc;
}

static cadre_status load_moments(struct cadre_rank *rank, const struct source *from,
                                 struct cadre_error *err)
{
    struct cadre_device *device = rank->device;
    int moments = cadre_range_moments(rank->spec);
    cadre_status rc = CADRE_OK;
    for (size_t s = 0; rc == CADRE_OK && s < rank->update.n_slices; s++) {
        uint32_t param = rank->update.slices[s].param;
        struct cadre_store_param *own = &rank->store.param[param];
        void *const to[] = {own->exp_avg, own->exp_avg_sq};
        struct cadre_share share =
            cadre_store_share(&rank->store, param, CADRE_KIND_OPT);
        for (int i = 0; rc == CADRE_OK && i < moments && i < 2; i++) {
            rc = read_share(rank, from, CADRE_CHECKPOINT_EXP_AVG + i, param, &share,
                            err);
            if (rc == CADRE_OK)
                rc = device->ops->to_device(device, to[i], from->buffer,
                                            share.count * rank->store.wide_bytes);
        }
    }
    return rc;
}

/* ---- what fits this rank's model ---- */

static cadre_status open_checkpoint(const struct cadre_rank *rank, const char *path,
                                    struct cadre_checkpoint **out,
                                    struct cadre_error *err)
{
    size_t n = 0;
    struct cadre_safetensors_spec *table =
        cadre_range_tensors(rank->model, false, &n, err);
    if (!table)
        return CADRE_E_RESOURCE;
    cadre_status rc = cadre_checkpoint_open(path, out, err);
    if (rc == CADRE_OK)
        rc = cadre_checkpoint_check(*out, table, n, err);
    if (rc == CADRE_OK)
        rc = cadre_run_values_check(rank, *out, path, err);
    if (rc == CADRE_OK)
        rc = cadre_plugin_state_check(rank, *out, path, err);
    free(table);
    return rc;
}

/* path: a folder, or a file; base: of the parameters that are no adapters. */
static cadre_status open_tensors(const struct cadre_rank *rank, const char *path,
                                 bool base, struct cadre_hf **out,
                                 struct cadre_error *err)
{
    size_t n = 0;
    struct cadre_safetensors_spec *table =
        cadre_range_tensors(rank->model, base, &n, err);
    if (!table)
        return CADRE_E_RESOURCE;
    cadre_status rc = cadre_hf_open(path, out, err);
    if (rc == CADRE_OK)
        rc = cadre_hf_check(*out, table, n, rank->model->config.tied, err);
    free(table);
    return rc;
}

static cadre_status open_model(const struct cadre_rank *rank, const char *dir,
                               struct cadre_hf **out, struct cadre_error *err)
{
    return *dir ? open_tensors(rank, dir, true, out, err) : CADRE_OK;
}

/* tune.adapter */
static cadre_status open_adapter(const struct cadre_rank *rank, struct cadre_hf **out,
                                 struct cadre_error *err)
{
    const char *dir = rank->spec->config->tune.adapter;
    if (!*dir)
        return CADRE_OK;
    char *path = cadre_path_join(dir, CADRE_PEFT_TENSORS);
    cadre_status rc = path ? open_tensors(rank, path, false, out, err)
                           : cadre_no_memory(err, "a path");
    free(path);
    return rc;
}

cadre_status cadre_load_check(const struct cadre_rank *rank, const char *path,
                              struct cadre_error *err)
{
    struct cadre_checkpoint *checkpoint = NULL;
    cadre_status rc = open_checkpoint(rank, path, &checkpoint, err);
    if (rc == CADRE_OK)
        rc = cadre_checkpoint_verify(checkpoint, err);
    cadre_checkpoint_close(checkpoint);
    return rc;
}

/* A model folder that is a checkpoint has checksums. */
static cadre_status verify_checksums(const char *dir, struct cadre_error *err)
{
    struct cadre_checkpoint *checkpoint = NULL;
    if (!cadre_path_has(dir, "state.json"))
        return CADRE_OK;
    cadre_status rc = cadre_checkpoint_open(dir, &checkpoint, err);
    if (rc == CADRE_OK)
        rc = cadre_checkpoint_verify(checkpoint, err);
    cadre_checkpoint_close(checkpoint);
    return rc;
}

cadre_status cadre_load_model_check(const struct cadre_rank *rank, const char *dir,
                                    struct cadre_error *err)
{
    const char *adapter = rank->spec->config->tune.adapter;
    struct cadre_hf *hf = NULL, *other = NULL;
    cadre_status rc = open_model(rank, dir, &hf, err);
    if (rc == CADRE_OK)
        rc = open_adapter(rank, &other, err);
    if (rc == CADRE_OK && *dir)
        rc = verify_checksums(dir, err);
    if (rc == CADRE_OK && *adapter)
        rc = verify_checksums(adapter, err);
    cadre_hf_close(hf);
    cadre_hf_close(other);
    return rc;
}

/* ---- all of it ---- */

cadre_status cadre_load(struct cadre_rank *rank, const char *path,
                        struct cadre_error *err)
{
    struct source from = {0};
    cadre_status rc;
    CADRE_TRY_OR(open_checkpoint(rank, path, &from.checkpoint, err), fail);
    if (rank->model->config.lora.rank > 0)
        CADRE_TRY_OR(open_model(rank, rank->spec->config->model.init, &from.hf, err),
                     fail);
    CADRE_TRY_OR(cadre_run_values_resume(rank, from.checkpoint, path, err), fail);
    CADRE_TRY_OR(make_buffer(rank, &from, err), fail);
    CADRE_TRY_OR(load_params(rank, &from, err), fail);
    CADRE_TRY_OR(load_moments(rank, &from, err), fail);
    CADRE_TRY_OR(cadre_opt_state_load(rank, from.checkpoint, err), fail);
    CADRE_TRY_OR(cadre_kept_replicas_load(rank, from.checkpoint, path, err), fail);
    CADRE_TRY_OR(cadre_plugin_state_load(rank, from.checkpoint, path, err), fail);
fail:
    free(from.buffer);
    cadre_hf_close(from.hf);
    cadre_checkpoint_close(from.checkpoint);
    return rc;
}

cadre_status cadre_load_model(struct cadre_rank *rank, const char *dir,
                              struct cadre_error *err)
{
    struct source from = {0};
    cadre_status rc;
    CADRE_TRY_OR(open_model(rank, dir, &from.hf, err), fail);
    CADRE_TRY_OR(open_adapter(rank, &from.adapter, err), fail);
    CADRE_TRY_OR(make_buffer(rank, &from, err), fail);
    CADRE_TRY_OR(load_params(rank, &from, err), fail);
fail:
    free(from.buffer);
    cadre_hf_close(from.hf);
    cadre_hf_close(from.adapter);
    return rc;
}
