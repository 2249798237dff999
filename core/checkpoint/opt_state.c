/* SPDX-License-Identifier: Apache-2.0 */
#include "core/checkpoint/opt_state.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/memory.h"
#include "core/tensor/half.h"

/* ---- what there is ---- */

static const struct cadre_plan_state *planned(const struct cadre_rank *rank, uint32_t i)
{
    return &rank->plan.state[i];
}

struct cadre_safetensors_spec cadre_opt_state_tensor(const struct cadre_rank *rank,
                                                     uint32_t i, const char *name)
{
    const struct cadre_plan_state *s = planned(rank, i);
    const struct cadre_shape *shape = &rank->model->params[s->param].shape;
    struct cadre_safetensors_spec spec =
        cadre_range_tensor(rank->model, s->param, name);
    if (s->extent == CADRE_OPT_ELEMENTS && s->block == 1)
        return spec;
    const uint64_t count = cadre_shape_count(shape);
    spec.ndim = 1;
    spec.dim[0] = s->extent == CADRE_OPT_ROWS      ? shape->dim[0]
                  : s->extent == CADRE_OPT_COLUMNS ? count / shape->dim[0]
                                                   : (count + s->block - 1) / s->block;
    return spec;
}

struct cadre_range cadre_opt_state_range(const struct cadre_rank *rank, uint32_t i)
{
    const struct cadre_plan_state *s = planned(rank, i);
    const struct cadre_buf *buf = &rank->store.opt.state[i];
    const struct cadre_share own =
        cadre_store_share(&rank->store, s->param, CADRE_KIND_OPT);
    const bool elements = s->extent == CADRE_OPT_ELEMENTS;
    return (struct cadre_range){
        .part = CADRE_CHECKPOINT_OPT_STATE,
        .name = rank->model->params[s->param].name,
        .key = s->key,
        .param = s->param,
        .flat = !elements,
        .per = s->block,
        .begin = elements ? own.begin / s->block : 0,
        .count = buf->count,
        .data = buf->data,
    };
}

cadre_status cadre_opt_state_begin(const struct cadre_rank *rank, const char *root,
                                   int64_t step, struct cadre_error *err)
{
    const uint32_t most = rank->plan.n_states;
    cadre_status rc = CADRE_OK;
    size_t n = 0;
    char(*names)[CADRE_CHECKPOINT_NAME] = cadre_calloc(most, sizeof *names);
    struct cadre_safetensors_spec *specs = cadre_calloc(most, sizeof *specs);
    if (!names || !specs)
        rc = cadre_no_memory(err, "the tensor table");
    for (uint32_t i = 0; rc == CADRE_OK && i < most; i++) {
        const struct cadre_plan_state *s = planned(rank, i);
        if (rank->plan.param[s->param].frozen) /* nobody has one */
            continue;
        const struct cadre_range whole = {.name = rank->model->params[s->param].name,
                                          .key = s->key};
        rc = cadre_range_name(&whole, names[n], err);
        specs[n] = cadre_opt_state_tensor(rank, i, names[n]);
        n++;
    }
    if (rc == CADRE_OK && n > 0)
        rc = cadre_draft_begin_states(root, (uint64_t)step, CADRE_CHECKPOINT_OPT_STATE,
                                      specs, n, err);
    free(names);
    free(specs);
    return rc;
}

uint64_t cadre_opt_state_count(const struct cadre_rank *rank)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < rank->plan.n_states; i++) {
        const struct cadre_plan_state *s = planned(rank, i);
        const uint64_t own =
            cadre_store_share_of(rank->model, &rank->plan, s->param, CADRE_KIND_OPT)
                .count;
        if (s->extent == CADRE_OPT_ELEMENTS &&
            cadre_rank_is_primary_owner(rank, s->param))
            count += (own + s->block - 1) / s->block;
    }
    return count;
}

/* ---- dtypes of fewer bits ---- */

static double get(uint32_t dtype, const void *x, uint64_t i)
{
    switch (dtype) {
    case CADRE_BF16:
        return (double)cadre_bf16_to_f32(((const uint16_t *)x)[i]);
    case CADRE_F16:
        return (double)cadre_f16_to_f32(((const uint16_t *)x)[i]);
    case CADRE_I8:
        return (double)((const int8_t *)x)[i];
    case CADRE_U8:
        return (double)((const uint8_t *)x)[i];
    case CADRE_F64:
        return ((const double *)x)[i];
    default:
        return (double)((const float *)x)[i];
    }
}

static void set(uint32_t dtype, void *x, uint64_t i, double value)
{
    switch (dtype) {
    case CADRE_BF16:
        ((uint16_t *)x)[i] = cadre_bf16_from_f32((float)value);
        break;
    case CADRE_F16:
        ((uint16_t *)x)[i] = cadre_f16_from_f32((float)value);
        break;
    case CADRE_I8:
        ((int8_t *)x)[i] = (int8_t)lrint(value);
        break;
    case CADRE_U8:
        ((uint8_t *)x)[i] = (uint8_t)lrint(value);
        break;
    case CADRE_F64:
        ((double *)x)[i] = value;
        break;
    default:
        ((float *)x)[i] = (float)value;
    }
}

static void convert(uint32_t to_dtype, void *to, uint32_t from_dtype, const void *from,
                    uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        set(to_dtype, to, i, get(from_dtype, from, i));
}

/* Host memory of a chunk, as it is and in the wide dtype. */
struct buffers {
    void *raw, *wide;
};

static cadre_status buffers_init(struct buffers *buffers, const struct cadre_rank *rank,
                                 uint64_t count, struct cadre_error *err)
{
    buffers->raw = cadre_calloc(count, sizeof(double));
    buffers->wide = cadre_calloc(count, rank->store.wide_bytes);
    if (buffers->raw && buffers->wide)
        return CADRE_OK;
    return cadre_no_memory(err, "optimizer states of a checkpoint");
}

static void buffers_fini(struct buffers *buffers)
{
    free(buffers->raw);
    free(buffers->wide);
}

/* ---- saving ---- */

/* Chunk by chunk, converted on the host. */
static cadre_status give_converted(struct cadre_rank *rank, uint32_t i,
                                   const struct cadre_range *range,
                                   struct cadre_range_sink *sink)
{
    const struct cadre_buf *buf = &rank->store.opt.state[i];
    const size_t element = cadre_dtype_bytes(buf->dtype);
    struct cadre_range chunk = *range;
    struct buffers buffers;
    cadre_status rc = buffers_init(&buffers, rank, CADRE_RANGE_CHUNK, sink->err);
    for (uint64_t at = 0; rc == CADRE_OK && at < buf->count; at += chunk.count) {
        const uint64_t left = buf->count - at;
        chunk.count = left < CADRE_RANGE_CHUNK ? left : CADRE_RANGE_CHUNK;
        rc = rank->device->ops->to_host(rank->device, buffers.raw,
                                        (const char *)buf->data + at * element,
                                        chunk.count * element);
        if (rc != CADRE_OK) {
            cadre_fail(sink->err, rc, "cannot copy '%s' of '%s' from the device",
                       chunk.key, chunk.name);
            break;
        }
        convert(rank->store.wide, buffers.wide, buf->dtype, buffers.raw, chunk.count);
        chunk.data = buffers.wide;
        chunk.on_host = true;
        cadre_range_give(sink, &chunk);
        chunk.begin += chunk.count;
    }
    buffers_fini(&buffers);
    return rc;
}

cadre_status cadre_opt_state_give_one(struct cadre_rank *rank, uint32_t i,
                                      const struct cadre_range *range,
                                      struct cadre_range_sink *sink)
{
    if (rank->store.opt.state[i].dtype != rank->store.wide)
        return give_converted(rank, i, range, sink);
    cadre_range_give(sink, range);
    return CADRE_OK;
}

static cadre_status give_state(struct cadre_rank *rank, uint32_t i,
                               const struct cadre_range_sum *mean,
                               struct cadre_range_sink *sink)
{
    const struct cadre_buf *buf = &rank->store.opt.state[i];
    const struct cadre_range range = cadre_opt_state_range(rank, i);
    /* codes have no mean, and the scales of their blocks belong to them */
    const bool number = buf->dtype == rank->store.wide && planned(rank, i)->block == 1;
    if (buf->count == 0)
        return CADRE_OK;
    if (number && mean->axis)
        return cadre_range_give_mean(rank, &range, mean, sink);
    if (!cadre_rank_is_primary_owner(rank, range.param))
        return CADRE_OK;
    return cadre_opt_state_give_one(rank, i, &range, sink);
}

void cadre_opt_state_give(struct cadre_rank *rank, const struct cadre_range_sum *mean,
                          struct cadre_range_sink *sink)
{
    cadre_status rc = CADRE_OK;
    for (uint32_t i = 0; rc == CADRE_OK && i < rank->plan.n_states; i++)
        rc = give_state(rank, i, mean, sink);
    if (rc != CADRE_OK && sink->rc == CADRE_OK)
        sink->rc = rc;
}

/* ---- loading ---- */

cadre_status cadre_opt_state_load_one(struct cadre_rank *rank, uint32_t i,
                                      const struct cadre_range *range,
                                      struct cadre_checkpoint *checkpoint,
                                      struct cadre_error *err)
{
    const struct cadre_buf *buf = &rank->store.opt.state[i];
    struct buffers buffers;
    cadre_status rc = buffers_init(&buffers, rank, buf->count, err);
    const void *from = buffers.wide;
    if (rc == CADRE_OK)
        rc = cadre_range_read(rank, checkpoint, NULL, range, buffers.wide, err);
    if (rc == CADRE_OK && buf->dtype != rank->store.wide) {
        convert(buf->dtype, buffers.raw, rank->store.wide, buffers.wide, buf->count);
        from = buffers.raw;
    }
    if (rc == CADRE_OK &&
        rank->device->ops->to_device(rank->device, buf->data, from,
                                     buf->count * cadre_dtype_bytes(buf->dtype)))
        rc = cadre_fail(err, CADRE_E_DEVICE, "cannot copy '%s' of '%s' to the device",
                        range->key, range->name);
    buffers_fini(&buffers);
    return rc;
}

cadre_status cadre_opt_state_load(struct cadre_rank *rank,
                                  struct cadre_checkpoint *checkpoint,
                                  struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    for (uint32_t i = 0; rc == CADRE_OK && i < rank->plan.n_states; i++) {
        const struct cadre_range range = cadre_opt_state_range(rank, i);
        if (range.count > 0)
            rc = cadre_opt_state_load_one(rank, i, &range, checkpoint, err);
    }
    return rc;
}
