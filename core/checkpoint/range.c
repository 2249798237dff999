/* SPDX-License-Identifier: Apache-2.0 */
#include "core/checkpoint/range.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/model/init.h"

void cadre_range_give(struct cadre_range_sink *sink, const struct cadre_range *range)
{
    if (sink->rc == CADRE_OK)
        sink->rc = sink->visit(sink->arg, range, sink->err);
}

/* The chunk of a range that begins at its element `at`. */
static struct cadre_range chunk_of(const struct cadre_rank *rank,
                                   const struct cadre_range *range, uint64_t at)
{
    struct cadre_range chunk = *range;
    chunk.begin += at;
    chunk.count -= at;
    if (chunk.count > CADRE_RANGE_CHUNK)
        chunk.count = CADRE_RANGE_CHUNK;
    chunk.data = (const char *)range->data + at * rank->store.wide_bytes;
    return chunk;
}

cadre_status cadre_range_fetch(const struct cadre_rank *rank,
                               const struct cadre_range *range, void *to,
                               struct cadre_error *err)
{
    size_t bytes = range->count * rank->store.wide_bytes;
    if (range->on_host) {
        memcpy(to, range->data, bytes);
        return CADRE_OK;
    }
    cadre_status rc = rank->device->ops->to_host(rank->device, to, range->data, bytes);
    if (rc != CADRE_OK)
        cadre_fail(err, rc, "cannot copy '%s' from the device", range->name);
    return rc;
}

/* ---- values of several ranks ---- */

static cadre_status sum_chunk(const struct cadre_rank *rank,
                              const struct cadre_range_sum *sum, uint64_t n)
{
    cadre_status rc = CADRE_OK;
    for (int a = 0; rc == CADRE_OK && a < rank->mesh.n; a++) {
        const struct cadre_axis *axis = &rank->mesh.axis[a];
        struct cadre_comm *comm = axis->comm;
        cadre_event done;
        if (!comm || (sum->axis ? axis != sum->axis : !axis->split_batch))
            continue;
        rc = cadre_comm_all_reduce(comm, sum->label, sum->buffer, sum->buffer, n,
                                   rank->store.wide, CADRE_SUM, 0, &done);
        if (rc == CADRE_OK)
            rc = cadre_comm_wait(comm, done);
    }
    return rc;
}

cadre_status cadre_range_combine(const struct cadre_rank *rank,
                                 const struct cadre_range *range,
                                 const struct cadre_range_sum *sum,
                                 struct cadre_range_sink *sink)
{
    const struct cadre_mesh *mesh = &rank->mesh;
    int size = sum->axis ? sum->axis->size : cadre_mesh_data_size(mesh);
    int index = sum->axis ? sum->axis->index : cadre_mesh_data_index(mesh);
    int givers = sum->axis ? 1 : size, turn = 0;
    struct cadre_range chunk;
    for (uint64_t at = 0; at < range->count; at += chunk.count) {
        chunk = chunk_of(rank, range, at);
        cadre_status rc = cadre_range_fetch(rank, &chunk, sum->buffer, NULL);
        if (rc == CADRE_OK)
            rc = sum_chunk(rank, sum, chunk.count);
        if (rc != CADRE_OK)
            return rc;
        if (turn == index) {
            if (sum->mean)
                cadre_range_scale(sum->buffer, rank->store.wide, chunk.count,
                                  1.0 / size, 1);
            chunk.data = sum->buffer;
            chunk.on_host = true;
            cadre_range_give(sink, &chunk);
        }
        turn = (turn + 1) % givers;
    }
    return CADRE_OK;
}

cadre_status cadre_range_give_mean(const struct cadre_rank *rank,
                                   const struct cadre_range *range,
                                   const struct cadre_range_sum *mean,
                                   struct cadre_range_sink *sink)
{
    if (!cadre_rank_is_primary_owner_within(rank, range->param, mean->axis))
        return CADRE_OK;
    cadre_status rc = cadre_range_combine(rank, range, mean, sink);
    if (rc != CADRE_OK && sink->rc == CADRE_OK)
        sink->rc = cadre_fail(
            sink->err, rc, "cannot average the optimizer states of '%s'", range->name);
    return rc;
}

void cadre_range_scale(void *data, uint32_t dtype, uint64_t n, double times,
                       double over)
{
    for (uint64_t i = 0; i < n; i++)
        if (dtype == CADRE_F64)
            ((double *)data)[i] = ((double *)data)[i] * times / over;
        else
            ((float *)data)[i] = (float)(((float *)data)[i] * times / over);
}

/* ---- places in the whole tensor ---- */

/* A parameter sharded by tensor parallelism is not a flat range of the whole parameter.
 * Returns how many elements from element `done` of the range are contiguous in the
 * whole; *whole is the index of the first there. */
static uint64_t contiguous(const struct cadre_rank *rank,
                           const struct cadre_range *range, uint64_t done,
                           uint64_t *whole)
{
    const struct cadre_model *model = rank->model;
    const struct cadre_param *p = &model->params[range->param];
    const uint64_t begin = range->begin + done, limit = range->count - done;
    const uint64_t per = range->per ? range->per : 1;
    *whole = begin;
    if (range->flat || model->tp_size == 1 || p->split == CADRE_SHARD_NONE)
        return limit;
    const uint64_t run =
        cadre_param_run(p, model->tp_rank, model->tp_size, begin * per, whole);
    *whole /= per;
    return run / per < limit ? run / per : limit;
}

cadre_status cadre_range_name(const struct cadre_range *range,
                              char out[CADRE_CHECKPOINT_NAME], struct cadre_error *err)
{
    const char *key = range->key;
    int n = snprintf(out, CADRE_CHECKPOINT_NAME, "%s%s%s", range->name, key ? "." : "",
                     key ? key : "");
    if (range->replica > 0 && n > 0 && n < CADRE_CHECKPOINT_NAME)
        n += snprintf(out + n, (size_t)(CADRE_CHECKPOINT_NAME - n), ".%d",
                      range->replica - 1);
    if (n < 0 || n >= CADRE_CHECKPOINT_NAME)
        return cadre_fail(err, CADRE_E_INVALID,
                          "a state of '%s' has a name of more than %d characters",
                          range->name, CADRE_CHECKPOINT_NAME - 1);
    return CADRE_OK;
}

static cadre_status write_host(const struct cadre_rank *rank, struct cadre_draft *draft,
                               const struct cadre_range *range, struct cadre_error *err)
{
    char name[CADRE_CHECKPOINT_NAME];
    const char *data = range->data;
    cadre_status rc = cadre_range_name(range, name, err);
    for (uint64_t done = 0, n, at; rc == CADRE_OK && done < range->count; done += n) {
        n = contiguous(rank, range, done, &at);
        rc = cadre_draft_write(draft, range->part, name, at, n,
                               data + done * rank->store.wide_bytes, err);
    }
    return rc;
}

cadre_status cadre_range_write(const struct cadre_rank *rank, struct cadre_draft *draft,
                               const struct cadre_range *range, void *buffer,
                               struct cadre_error *err)
{
    struct cadre_range chunk;
    cadre_status rc = CADRE_OK;
    if (range->on_host)
        return write_host(rank, draft, range, err);
    for (uint64_t at = 0; rc == CADRE_OK && at < range->count; at += chunk.count) {
        chunk = chunk_of(rank, range, at);
        rc = cadre_range_fetch(rank, &chunk, buffer, err);
        chunk.data = buffer;
        if (rc == CADRE_OK)
            rc = write_host(rank, draft, &chunk, err);
    }
    return rc;
}

cadre_status cadre_range_read(const struct cadre_rank *rank,
                              struct cadre_checkpoint *checkpoint,
                              const struct cadre_hf *hf,
                              const struct cadre_range *range, void *to,
                              struct cadre_error *err)
{
    uint32_t dtype = rank->store.wide;
    char name[CADRE_CHECKPOINT_NAME];
    char *out = to;
    cadre_status rc = cadre_range_name(range, name, err);
    for (uint64_t done = 0, n, at; rc == CADRE_OK && done < range->count; done += n) {
        n = contiguous(rank, range, done, &at);
        rc = hf ? cadre_hf_read(hf, name, at, n, dtype, out, err)
                : cadre_checkpoint_read(checkpoint, range->part, name, at, n, dtype,
                                        out, err);
        out += n * rank->store.wide_bytes;
    }
    return rc;
}

/* ---- the model's tensors ---- */

struct cadre_safetensors_spec cadre_range_tensor(const struct cadre_model *model,
                                                 uint32_t param, const char *name)
{
    const struct cadre_shape *shape = &model->params[param].shape;
    struct cadre_safetensors_spec tensor = {
        .name = name,
        .dtype = cadre_dtype_wide(model->config.dtype),
        .ndim = shape->ndim,
    };
    for (uint32_t d = 0; d < shape->ndim; d++)
        tensor.dim[d] = shape->dim[d];
    return tensor;
}

struct cadre_safetensors_spec *cadre_range_tensors(const struct cadre_model *model,
                                                   bool base, size_t *n,
                                                   struct cadre_error *err)
{
    const bool adapters = !base && model->config.lora.rank > 0;
    struct cadre_safetensors_spec *table = cadre_calloc(model->n_params, sizeof *table);
    *n = 0;
    for (uint32_t i = 0; table && i < model->n_params; i++)
        if (model->params[i].tied_to < 0 && (model->params[i].adapts >= 0) == adapters)
            table[(*n)++] = cadre_range_tensor(model, i, model->params[i].name);
    if (!table)
        cadre_no_memory(err, "the tensor table");
    return table;
}

int cadre_range_moments(const struct cadre_run_spec *run)
{
    if (run->optim.kind == CADRE_OPTIMIZER_SGD && run->optim.momentum == 0)
        return 0;
    return cadre_optimizer_moments(run->optim.kind);
}
