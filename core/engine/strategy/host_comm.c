/* SPDX-License-Identifier: Apache-2.0 */
/* cadre.comm/1, cadre.stream/1 and cadre.ops/1: thin views of the communicator and
 * device tables. Collectives of an axis of one rank are copies, made here. */
#include "core/engine/strategy/host_private.h"

#include <string.h>

#include "core/base/clock.h"
#include "core/tensor/dtype.h"

static bool alone(const struct cadre_axis *axis)
{
    return !axis || !axis->comm;
}

/* An axis that is not in the mesh has no device: the host copies. */
static cadre_status copy_own(const struct cadre_axis *axis, const struct cadre_buf *in,
                             const struct cadre_buf *out, cadre_event *done)
{
    struct cadre_device *device = axis ? axis->device : NULL;
    size_t bytes = in->count * cadre_dtype_bytes(in->dtype);
    cadre_status rc = CADRE_OK;
    if (in->data != out->data && device)
        rc = device->ops->copy(device, out->data, in->data, bytes);
    else if (in->data != out->data)
        memmove(out->data, in->data, bytes);
    if (done && rc == CADRE_OK)
        *done = 0;
    return rc;
}

/* An operation without an `after` runs after everything queued on the compute stream,
 * as on a device that computes inline. The name is for a profiler. */
static cadre_status enter(const struct cadre_axis *axis, const char *label,
                          cadre_event *after)
{
    struct cadre_device *device = axis->device;
    if (!device || !device->ops->async)
        return CADRE_OK;
    device->ops->range_begin(device, label ? label : axis->name);
    return *after == 0 ? device->ops->event_record(device, after) : CADRE_OK;
}

static cadre_status leave(const struct cadre_axis *axis, cadre_status rc)
{
    struct cadre_device *device = axis->device;
    if (device && device->ops->async)
        device->ops->range_end(device);
    return rc;
}

static cadre_status all_reduce(struct cadre_axis *axis, const char *label,
                               const struct cadre_buf *in, const struct cadre_buf *out,
                               uint32_t red, cadre_event after, cadre_event *done)
{
    if (alone(axis))
        return copy_own(axis, in, out, done);
    cadre_status rc = enter(axis, label, &after);
    if (rc == CADRE_OK)
        rc = cadre_comm_all_reduce(axis->comm, label, in->data, out->data, in->count,
                                   in->dtype, red, after, done);
    return leave(axis, rc);
}

static cadre_status reduce_scatter(struct cadre_axis *axis, const char *label,
                                   const struct cadre_buf *in,
                                   const struct cadre_buf *out, const uint64_t *offsets,
                                   uint32_t red, cadre_event after, cadre_event *done)
{
    if (alone(axis))
        return copy_own(axis, in, out, done);
    cadre_status rc = enter(axis, label, &after);
    if (rc == CADRE_OK)
        rc = cadre_comm_reduce_scatter(axis->comm, label, in->data, out->data, offsets,
                                       in->dtype, red, after, done);
    return leave(axis, rc);
}

static cadre_status all_gather(struct cadre_axis *axis, const char *label,
                               const struct cadre_buf *in, const struct cadre_buf *out,
                               const uint64_t *offsets, cadre_event after,
                               cadre_event *done)
{
    if (alone(axis))
        return copy_own(axis, in, out, done);
    cadre_status rc = enter(axis, label, &after);
    if (rc == CADRE_OK)
        rc = cadre_comm_all_gather(axis->comm, label, in->data, out->data, offsets,
                                   in->dtype, after, done);
    return leave(axis, rc);
}

static cadre_status broadcast(struct cadre_axis *axis, const char *label,
                              const struct cadre_buf *buf, int32_t root,
                              cadre_event after, cadre_event *done)
{
    if (alone(axis))
        return copy_own(axis, buf, buf, done);
    cadre_status rc = enter(axis, label, &after);
    if (rc == CADRE_OK)
        rc = cadre_comm_broadcast(axis->comm, label, buf->data, buf->count, buf->dtype,
                                  root, after, done);
    return leave(axis, rc);
}

static cadre_status all_to_all(struct cadre_axis *axis, const char *label,
                               const struct cadre_buf *in, const struct cadre_buf *out,
                               cadre_event after, cadre_event *done)
{
    if (alone(axis))
        return copy_own(axis, in, out, done);
    cadre_status rc = enter(axis, label, &after);
    if (rc == CADRE_OK)
        rc = cadre_comm_all_to_all(axis->comm, label, in->data, out->data, in->count,
                                   in->dtype, after, done);
    return leave(axis, rc);
}

static cadre_status post_send(struct cadre_axis *axis, const char *label,
                              const struct cadre_buf *buf, int32_t to,
                              cadre_event after, cadre_event *done)
{
    if (alone(axis))
        return CADRE_E_INVALID;
    cadre_status rc = enter(axis, label, &after);
    if (rc == CADRE_OK)
        rc = cadre_comm_send(axis->comm, label, buf->data, buf->count, buf->dtype, to,
                             after, done);
    return leave(axis, rc);
}

static cadre_status post_recv(struct cadre_axis *axis, const char *label,
                              const struct cadre_buf *buf, int32_t from,
                              cadre_event after, cadre_event *done)
{
    if (alone(axis))
        return CADRE_E_INVALID;
    cadre_status rc = enter(axis, label, &after);
    if (rc == CADRE_OK)
        rc = cadre_comm_recv(axis->comm, label, buf->data, buf->count, buf->dtype, from,
                             after, done);
    return leave(axis, rc);
}

static cadre_status barrier(struct cadre_axis *axis, const char *label,
                            cadre_event after, cadre_event *done)
{
    if (done)
        *done = 0;
    if (alone(axis))
        return CADRE_OK;
    cadre_status rc = enter(axis, label, &after);
    if (rc == CADRE_OK)
        rc = cadre_comm_barrier(axis->comm, label, after, done);
    return leave(axis, rc);
}

/* The compute stream waits for the event. */
static cadre_status await(struct cadre_device *device, struct cadre_comm *comm,
                          cadre_event event)
{
    return device ? cadre_comm_stream_wait(comm, device, event)
                  : cadre_comm_wait(comm, event);
}

static cadre_status axis_stream_wait(struct cadre_axis *axis, cadre_event event)
{
    if (alone(axis) || event == 0)
        return CADRE_OK;
    double begin = cadre_now_s();
    cadre_status rc = await(axis->device, axis->comm, event);
    cadre_timeline_add(axis->timeline, CADRE_SPAN_WAIT, axis->name, begin);
    return rc;
}

const struct cadre_comm_svc cadre_comm_service = {
    .struct_size = sizeof cadre_comm_service,
    .all_reduce = all_reduce,
    .reduce_scatter = reduce_scatter,
    .all_gather = all_gather,
    .broadcast = broadcast,
    .all_to_all = all_to_all,
    .send = post_send,
    .recv = post_recv,
    .barrier = barrier,
    .stream_wait = axis_stream_wait,
};

static cadre_status stream_record(struct cadre_ctx *ctx, cadre_event *out)
{
    struct cadre_device *device = ctx->services->device;
    return device->ops->event_record(device, out);
}

static cadre_status stream_wait(struct cadre_ctx *ctx, cadre_event event)
{
    struct cadre_services *s = ctx->services;
    const struct cadre_plugin *desc = &ctx->plugin->desc;
    const char *axis = desc->axis ? desc->axis : "event";
    if (!event || !s->world)
        return s->device->ops->event_wait(s->device, event);
    double begin = cadre_now_s();
    cadre_status rc = await(s->device, s->world, event);
    if (desc->role == CADRE_ROLE_SCHEDULE && s->timeline->axis)
        axis = s->timeline->axis;
    cadre_timeline_add(s->timeline, CADRE_SPAN_WAIT, axis, begin);
    return rc;
}

const struct cadre_stream_svc cadre_stream_service = {
    .struct_size = sizeof cadre_stream_service,
    .record = stream_record,
    .wait = stream_wait,
};

static cadre_status op_copy(struct cadre_ctx *ctx, void *dst, const void *src,
                            uint64_t bytes)
{
    return ctx->services->device->ops->copy(ctx->services->device, dst, src, bytes);
}

static cadre_status op_zero(struct cadre_ctx *ctx, void *dst, uint64_t bytes)
{
    return ctx->services->device->ops->zero(ctx->services->device, dst, bytes);
}

static cadre_status op_add(struct cadre_ctx *ctx, const struct cadre_buf *out,
                           const struct cadre_buf *a, const struct cadre_buf *b)
{
    if (a->count != out->count || b->count != out->count || a->dtype != out->dtype ||
        b->dtype != out->dtype)
        return CADRE_E_INVALID;
    return ctx->services->device->ops->tree_add(ctx->services->device, out->dtype,
                                                out->data, a->data, b->data,
                                                (int64_t)out->count);
}

static cadre_status op_scale(struct cadre_ctx *ctx, const struct cadre_buf *x,
                             double by)
{
    return ctx->services->device->ops->scale(ctx->services->device, x->dtype, x->data,
                                             (int64_t)x->count, by);
}

static cadre_status op_cast(struct cadre_ctx *ctx, const struct cadre_buf *dst,
                            const struct cadre_buf *src)
{
    if (dst->count != src->count)
        return CADRE_E_INVALID;
    return ctx->services->device->ops->cast(ctx->services->device, dst->dtype,
                                            dst->data, src->dtype, src->data,
                                            (int64_t)src->count);
}

static cadre_status op_gemm(struct cadre_ctx *ctx, const struct cadre_gemm_args *args)
{
    struct cadre_gemm gemm = {
        .dtype = args->dtype,
        .m = args->m,
        .n = args->n,
        .k = args->k,
        .a = args->a,
        .b = args->b,
        .lda = args->lda,
        .ldb = args->ldb,
        .ta = args->ta != 0,
        .tb = args->tb != 0,
        .c = args->c,
        .ldc = args->ldc,
        .beta = args->beta != 0,
    };
    return ctx->services->device->ops->gemm(ctx->services->device, &gemm);
}

static cadre_status op_topk(struct cadre_ctx *ctx, const struct cadre_buf *x,
                            const struct cadre_buf *values,
                            const struct cadre_buf *indices)
{
    if (values->count > x->count || x->count > INT32_MAX || values->dtype != x->dtype ||
        indices->count != values->count || indices->dtype != CADRE_I32)
        return CADRE_E_INVALID;
    return ctx->services->device->ops->topk(ctx->services->device, x->dtype, x->data,
                                            (int64_t)x->count, (int64_t)values->count,
                                            values->data, indices->data);
}

/* Do codes and scales fit x? */
static bool quantized_fits(const struct cadre_buf *x, const struct cadre_buf *q,
                           const struct cadre_buf *scales, uint64_t block)
{
    return block > 0 && block <= INT64_MAX && q->dtype == CADRE_I8 &&
           q->count == x->count && scales->dtype == CADRE_F32 &&
           scales->count == x->count / block + (x->count % block != 0);
}

static cadre_status op_quantize(struct cadre_ctx *ctx, const struct cadre_buf *x,
                                uint64_t block, const struct cadre_buf *q,
                                const struct cadre_buf *scales)
{
    if (!quantized_fits(x, q, scales, block))
        return CADRE_E_INVALID;
    return ctx->services->device->ops->quantize(ctx->services->device, x->dtype,
                                                x->data, (int64_t)x->count,
                                                (int64_t)block, q->data, scales->data);
}

static cadre_status op_dequantize(struct cadre_ctx *ctx, const struct cadre_buf *q,
                                  const struct cadre_buf *scales, uint64_t block,
                                  const struct cadre_buf *x)
{
    if (!quantized_fits(x, q, scales, block))
        return CADRE_E_INVALID;
    return ctx->services->device->ops->dequantize(ctx->services->device, q->data,
                                                  scales->data, (int64_t)block,
                                                  x->dtype, x->data, (int64_t)x->count);
}

static cadre_status op_scatter_add(struct cadre_ctx *ctx, const struct cadre_buf *x,
                                   const struct cadre_buf *values,
                                   const struct cadre_buf *indices, double by)
{
    if (values->dtype != x->dtype || indices->dtype != CADRE_I32 ||
        values->count != indices->count || x->count > INT64_MAX)
        return CADRE_E_INVALID;
    return ctx->services->device->ops->scatter_add(
        ctx->services->device, x->dtype, x->data, (int64_t)x->count, values->data,
        indices->data, (int64_t)values->count, by);
}

static cadre_status op_orthonormalize(struct cadre_ctx *ctx, const struct cadre_buf *x,
                                      uint64_t columns)
{
    if (columns == 0 || x->count % columns || x->count / columns < columns)
        return CADRE_E_INVALID;
    return ctx->services->device->ops->orthonormalize(
        ctx->services->device, x->dtype, x->data, (int64_t)(x->count / columns),
        (int64_t)columns);
}

static cadre_status op_to_device(struct cadre_ctx *ctx, void *dst, const void *host,
                                 uint64_t bytes)
{
    return ctx->services->device->ops->to_device(ctx->services->device, dst, host,
                                                 bytes);
}

static cadre_status op_to_host(struct cadre_ctx *ctx, void *host, const void *src,
                               uint64_t bytes)
{
    return ctx->services->device->ops->to_host(ctx->services->device, host, src, bytes);
}

const struct cadre_ops_svc cadre_ops_service = {
    .struct_size = sizeof cadre_ops_service,
    .copy = op_copy,
    .zero = op_zero,
    .add = op_add,
    .scale = op_scale,
    .cast = op_cast,
    .gemm = op_gemm,
    .topk = op_topk,
    .quantize = op_quantize,
    .dequantize = op_dequantize,
    .scatter_add = op_scatter_add,
    .orthonormalize = op_orthonormalize,
    .to_device = op_to_device,
    .to_host = op_to_host,
};
