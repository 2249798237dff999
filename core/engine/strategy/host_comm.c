/* SPDX-License-Identifier: Apache-2.0 */
/* cadre.comm/1 and cadre.stream/1: views of the communicator table. Collectives of an
 * axis of one rank are copies, made here. */
#include <stdlib.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/base/status_slot.h"
#include "core/engine/strategy/host_private.h"
#include "core/engine/strategy/wire.h"
#include "core/tensor/dtype.h"

#define AT (CADRE_AT_BIND | CADRE_AT_RUN)

/* One operation while it is checked and posted. */
struct operation {
    struct cadre_axis *axis;
    struct cadre_ctx *ctx; /* who posts it */
    struct cadre_post *post;
    const char *function;
};

/* Who calls, and may it? An axis of NULL has no instance to name. */
static cadre_status open_operation(struct operation *op, struct cadre_axis *axis,
                                   const char *function, struct cadre_post *post)
{
    struct cadre_services *s = axis ? axis->services : NULL;
    *op = (struct operation){axis, s ? s->inside : NULL, post, function};
    if (!op->ctx) {
        cadre_log(CADRE_LOG_ERROR, "strategy",
                  "%s is called %s; take the axis from cadre.mesh, and call it in a "
                  "callback",
                  function, axis ? "outside of every callback" : "with NULL as axis");
        return CADRE_E_INVALID;
    }
    CADRE_TRY(cadre_guard(op->ctx, AT, function));
    if (!post || post->struct_size < sizeof *post)
        return cadre_guard_refuse(op->ctx, CADRE_E_INVALID, function, "%s",
                                  post ? "struct_size of post is not set"
                                       : "post is NULL");
    post->done = 0;
    return CADRE_OK;
}

static cadre_status need_buf(const struct operation *op, const char *argument,
                             const struct cadre_buf *buf)
{
    return cadre_guard_buf(op->ctx, op->function, argument, buf);
}

/* Two buffers of one operation: each valid, of one dtype. */
static cadre_status need_pair(const struct operation *op, const struct cadre_buf *in,
                              const struct cadre_buf *out)
{
    CADRE_TRY(need_buf(op, "in", in));
    CADRE_TRY(need_buf(op, "out", out));
    if (in->dtype == out->dtype)
        return CADRE_OK;
    return cadre_guard_refuse(op->ctx, CADRE_E_INVALID, op->function,
                              "in is of %s, out of %s, expected one dtype",
                              cadre_dtype_name(in->dtype),
                              cadre_dtype_name(out->dtype));
}

static cadre_status need_count(const struct operation *op, const char *argument,
                               uint64_t found, uint64_t expected)
{
    if (found >= expected)
        return CADRE_OK;
    return cadre_guard_refuse(op->ctx, CADRE_E_INVALID, op->function,
                              "%s has %llu elements, expected %llu", argument,
                              (unsigned long long)found, (unsigned long long)expected);
}

static cadre_status need_offsets(const struct operation *op, const uint64_t *offsets)
{
    int size = op->axis->size;
    bool ascend = offsets && offsets[0] == 0;
    for (int r = 0; ascend && r < size; r++)
        ascend = offsets[r] <= offsets[r + 1];
    if (ascend)
        return CADRE_OK;
    return cadre_guard_refuse(op->ctx, CADRE_E_INVALID, op->function,
                              "offsets are %s, expected %d that ascend from 0",
                              offsets ? "not in order" : "NULL", size + 1);
}

static bool alone(const struct operation *op)
{
    return !op->axis->comm;
}

static cadre_status copy_own(const struct operation *op, const struct cadre_buf *in,
                             const struct cadre_buf *out)
{
    struct cadre_device *device = op->axis->services->device;
    size_t bytes = in->count * cadre_dtype_bytes(in->dtype);
    CADRE_TRY(need_count(op, "out", out->count, in->count));
    if (in->data == out->data || bytes == 0)
        return CADRE_OK;
    return cadre_guard_result(op->ctx, op->function,
                              device->ops->copy(device, out->data, in->data, bytes));
}

/* An operation without an `after` runs after everything queued on the compute stream,
 * as on a device that computes inline. The name is for a profiler. */
static cadre_status enter(const struct operation *op, cadre_event *after)
{
    struct cadre_device *device = op->axis->services->device;
    *after = op->post->after;
    if (!device->ops->async)
        return CADRE_OK;
    device->ops->range_begin(device,
                             op->post->label ? op->post->label : op->axis->name);
    return *after == 0 ? device->ops->event_record(device, after) : CADRE_OK;
}

static cadre_status leave(const struct operation *op, cadre_status rc)
{
    struct cadre_device *device = op->axis->services->device;
    if (device->ops->async)
        device->ops->range_end(device);
    return cadre_guard_result(op->ctx, op->function, rc);
}

static cadre_status all_reduce(struct cadre_axis *axis, const struct cadre_buf *in,
                               const struct cadre_buf *out, uint32_t red,
                               struct cadre_post *post)
{
    struct operation op;
    cadre_event after;
    CADRE_TRY(open_operation(&op, axis, "all_reduce of cadre.comm", post));
    CADRE_TRY(need_pair(&op, in, out));
    CADRE_TRY(need_count(&op, "out", out->count, in->count));
    if (alone(&op))
        return copy_own(&op, in, out);
    cadre_status rc = enter(&op, &after);
    if (rc == CADRE_OK)
        rc = cadre_comm_all_reduce(axis->comm, post->label, in->data, out->data,
                                   in->count, in->dtype, red, after, &post->done);
    return leave(&op, rc);
}

static cadre_status reduce_scatter(struct cadre_axis *axis, const struct cadre_buf *in,
                                   const struct cadre_buf *out, const uint64_t *offsets,
                                   uint32_t red, struct cadre_post *post)
{
    struct operation op;
    cadre_event after;
    CADRE_TRY(open_operation(&op, axis, "reduce_scatter of cadre.comm", post));
    CADRE_TRY(need_pair(&op, in, out));
    CADRE_TRY(need_offsets(&op, offsets));
    CADRE_TRY(need_count(&op, "in", in->count, offsets[axis->size]));
    CADRE_TRY(need_count(&op, "out", out->count,
                         offsets[axis->index + 1] - offsets[axis->index]));
    if (alone(&op))
        return copy_own(&op, in, out);
    cadre_status rc = enter(&op, &after);
    if (rc == CADRE_OK)
        rc = cadre_comm_reduce_scatter(axis->comm, post->label, in->data, out->data,
                                       offsets, in->dtype, red, after, &post->done);
    return leave(&op, rc);
}

static cadre_status all_gather(struct cadre_axis *axis, const struct cadre_buf *in,
                               const struct cadre_buf *out, const uint64_t *offsets,
                               struct cadre_post *post)
{
    struct operation op;
    cadre_event after;
    CADRE_TRY(open_operation(&op, axis, "all_gather of cadre.comm", post));
    CADRE_TRY(need_pair(&op, in, out));
    CADRE_TRY(need_offsets(&op, offsets));
    CADRE_TRY(need_count(&op, "in", in->count,
                         offsets[axis->index + 1] - offsets[axis->index]));
    CADRE_TRY(need_count(&op, "out", out->count, offsets[axis->size]));
    if (alone(&op))
        return copy_own(&op, in, out);
    cadre_status rc = enter(&op, &after);
    if (rc == CADRE_OK && cadre_wire_encodes(axis, post->kind, in->dtype))
        rc = cadre_wire_all_gather(axis, in, out, offsets, post, after);
    else if (rc == CADRE_OK)
        rc = cadre_comm_all_gather(axis->comm, post->label, in->data, out->data,
                                   offsets, in->dtype, after, &post->done);
    return leave(&op, rc);
}

static cadre_status need_rank(const struct operation *op, int32_t rank, bool other)
{
    if (rank >= 0 && rank < op->axis->size && !(other && rank == op->axis->index))
        return CADRE_OK;
    return cadre_guard_refuse(op->ctx, CADRE_E_INVALID, op->function,
                              "rank %d along '%s', expected %s 0 to %d", rank,
                              op->axis->name, other ? "another one of" : "one of",
                              op->axis->size - 1);
}

static cadre_status broadcast(struct cadre_axis *axis, const struct cadre_buf *buf,
                              int32_t root, struct cadre_post *post)
{
    struct operation op;
    cadre_event after;
    CADRE_TRY(open_operation(&op, axis, "broadcast of cadre.comm", post));
    CADRE_TRY(need_buf(&op, "buf", buf));
    CADRE_TRY(need_rank(&op, root, false));
    if (alone(&op))
        return CADRE_OK;
    cadre_status rc = enter(&op, &after);
    if (rc == CADRE_OK)
        rc = cadre_comm_broadcast(axis->comm, post->label, buf->data, buf->count,
                                  buf->dtype, root, after, &post->done);
    return leave(&op, rc);
}

static cadre_status all_to_all(struct cadre_axis *axis, const struct cadre_buf *in,
                               const struct cadre_buf *out, struct cadre_post *post)
{
    struct operation op;
    cadre_event after;
    CADRE_TRY(open_operation(&op, axis, "all_to_all of cadre.comm", post));
    CADRE_TRY(need_pair(&op, in, out));
    CADRE_TRY(need_count(&op, "out", out->count, in->count));
    if (alone(&op))
        return copy_own(&op, in, out);
    cadre_status rc = enter(&op, &after);
    if (rc == CADRE_OK)
        rc = cadre_comm_all_to_all(axis->comm, post->label, in->data, out->data,
                                   in->count, in->dtype, after, &post->done);
    return leave(&op, rc);
}

/* Slice r of a buffer. */
static struct cadre_buf slice_of(const struct cadre_buf *buf, const uint64_t *offsets,
                                 int r)
{
    struct cadre_buf slice = *buf;
    size_t size = cadre_dtype_bytes(buf->dtype);
    slice.data = slice.data ? (char *)buf->data + offsets[r] * size : NULL;
    slice.count = offsets[r + 1] - offsets[r];
    return slice;
}

/* Post to and from the ranks at distance i, up and down; done (2): their events. */
static cadre_status exchange_with(const struct operation *op, int i,
                                  const struct cadre_buf *in, const uint64_t *from,
                                  const struct cadre_buf *out, const uint64_t *to,
                                  cadre_event *done)
{
    const struct cadre_axis *axis = op->axis;
    cadre_event after = op->post->after;
    int up = (axis->index + i) % axis->size;
    int down = (axis->index + axis->size - i) % axis->size;
    struct cadre_buf send = slice_of(in, from, up), recv = slice_of(out, to, down);
    if (send.count > 0)
        CADRE_TRY(cadre_comm_send(axis->comm, op->post->label, send.data, send.count,
                                  send.dtype, up, after, &done[0]));
    if (recv.count > 0)
        CADRE_TRY(cadre_comm_recv(axis->comm, op->post->label, recv.data, recv.count,
                                  recv.dtype, down, after, &done[1]));
    return CADRE_OK;
}

/* All sends and receives are posted before one is waited for, so no rank waits for
 * another in a circle. */
static cadre_status exchange_slices(const struct operation *op,
                                    const struct cadre_buf *in, const uint64_t *from,
                                    const struct cadre_buf *out, const uint64_t *to)
{
    const struct cadre_axis *axis = op->axis;
    size_t n = 2 * (size_t)axis->size;
    cadre_event *done = cadre_calloc(n, sizeof *done);
    cadre_status rc = done ? CADRE_OK : CADRE_E_RESOURCE;
    for (int i = 1; rc == CADRE_OK && i < axis->size; i++)
        rc = exchange_with(op, i, in, from, out, to, &done[2 * i]);
    for (size_t i = 0; rc == CADRE_OK && i < n; i++)
        rc = cadre_services_await(axis->services, done[i], axis->name);
    free(done);
    return rc;
}

static cadre_status all_to_all_v(struct cadre_axis *axis, const struct cadre_buf *in,
                                 const uint64_t *in_offsets,
                                 const struct cadre_buf *out,
                                 const uint64_t *out_offsets, struct cadre_post *post)
{
    struct operation op;
    CADRE_TRY(open_operation(&op, axis, "all_to_all_v of cadre.comm", post));
    CADRE_TRY(need_pair(&op, in, out));
    CADRE_TRY(need_offsets(&op, in_offsets));
    CADRE_TRY(need_offsets(&op, out_offsets));
    CADRE_TRY(need_count(&op, "in", in->count, in_offsets[axis->size]));
    CADRE_TRY(need_count(&op, "out", out->count, out_offsets[axis->size]));
    struct cadre_buf own_in = slice_of(in, in_offsets, axis->index);
    struct cadre_buf own_out = slice_of(out, out_offsets, axis->index);
    if (own_in.count != own_out.count)
        return cadre_guard_refuse(op.ctx, CADRE_E_INVALID, op.function,
                                  "the slice of a rank for itself has %llu elements in "
                                  "in and %llu in out",
                                  (unsigned long long)own_in.count,
                                  (unsigned long long)own_out.count);
    CADRE_TRY(copy_own(&op, &own_in, &own_out));
    if (alone(&op))
        return CADRE_OK;
    cadre_status rc = enter(&op, &post->after);
    if (rc == CADRE_OK)
        rc = exchange_slices(&op, in, in_offsets, out, out_offsets);
    return leave(&op, rc);
}

static cadre_status post_send(struct cadre_axis *axis, const struct cadre_buf *buf,
                              int32_t to, struct cadre_post *post)
{
    struct operation op;
    cadre_event after;
    CADRE_TRY(open_operation(&op, axis, "send of cadre.comm", post));
    CADRE_TRY(need_buf(&op, "buf", buf));
    CADRE_TRY(need_rank(&op, to, true));
    cadre_status rc = enter(&op, &after);
    if (rc == CADRE_OK)
        rc = cadre_comm_send(axis->comm, post->label, buf->data, buf->count, buf->dtype,
                             to, after, &post->done);
    return leave(&op, rc);
}

static cadre_status post_recv(struct cadre_axis *axis, const struct cadre_buf *buf,
                              int32_t from, struct cadre_post *post)
{
    struct operation op;
    cadre_event after;
    CADRE_TRY(open_operation(&op, axis, "recv of cadre.comm", post));
    CADRE_TRY(need_buf(&op, "buf", buf));
    CADRE_TRY(need_rank(&op, from, true));
    cadre_status rc = enter(&op, &after);
    if (rc == CADRE_OK)
        rc = cadre_comm_recv(axis->comm, post->label, buf->data, buf->count, buf->dtype,
                             from, after, &post->done);
    return leave(&op, rc);
}

static cadre_status barrier(struct cadre_axis *axis, struct cadre_post *post)
{
    struct operation op;
    cadre_event after;
    CADRE_TRY(open_operation(&op, axis, "barrier of cadre.comm", post));
    if (alone(&op))
        return CADRE_OK;
    cadre_status rc = enter(&op, &after);
    if (rc == CADRE_OK)
        rc = cadre_comm_barrier(axis->comm, post->label, after, &post->done);
    return leave(&op, rc);
}

/* For the functions without a post. */
static cadre_status open_wait(struct operation *op, struct cadre_axis *axis,
                              const char *function)
{
    struct cadre_post none = {.struct_size = sizeof none};
    cadre_status rc = open_operation(op, axis, function, &none);
    op->post = NULL;
    return rc;
}

static cadre_status axis_stream_wait(struct cadre_axis *axis, cadre_event event)
{
    struct operation op;
    CADRE_TRY(open_wait(&op, axis, "stream_wait of cadre.comm"));
    if (alone(&op) || event == 0)
        return CADRE_OK;
    double begin = cadre_now_s();
    /* for whom it waits is the communicator's to say, not who watches callbacks */
    uint64_t seen = cadre_status_core(axis->services->slot);
    cadre_status rc = cadre_comm_stream_wait(axis->comm, axis->services->device, event);
    cadre_status_leave(axis->services->slot, seen);
    cadre_timeline_add(axis->timeline, CADRE_SPAN_WAIT, axis->name, begin);
    if (rc == CADRE_OK)
        rc = cadre_wire_finish(axis->services, event);
    return cadre_guard_result(op.ctx, op.function, rc);
}

static cadre_status axis_test(struct cadre_axis *axis, cadre_event event,
                              uint32_t *happened)
{
    struct operation op;
    CADRE_TRY(open_wait(&op, axis, "test of cadre.comm"));
    if (!happened)
        return cadre_guard_refuse(op.ctx, CADRE_E_INVALID, op.function,
                                  "happened is NULL");
    bool yes = alone(&op) || event == 0;
    cadre_status rc = yes ? CADRE_OK : cadre_comm_test(axis->comm, event, &yes);
    *happened = yes;
    return cadre_guard_result(op.ctx, op.function, rc);
}

static cadre_status recv_any(struct cadre_axis *axis, const struct cadre_buf *buf,
                             int32_t *from, struct cadre_post *post)
{
    struct operation op;
    (void)buf;
    (void)from;
    CADRE_TRY(open_operation(&op, axis, "recv_any of cadre.comm", post));
    return cadre_guard_refuse(op.ctx, CADRE_E_UNSUPPORTED, op.function,
                              "this version does not have it; use recv");
}

const struct cadre_comm_svc cadre_comm_service = {
    .struct_size = sizeof cadre_comm_service,
    .all_reduce = all_reduce,
    .reduce_scatter = reduce_scatter,
    .all_gather = all_gather,
    .broadcast = broadcast,
    .all_to_all = all_to_all,
    .all_to_all_v = all_to_all_v,
    .send = post_send,
    .recv = post_recv,
    .barrier = barrier,
    .stream_wait = axis_stream_wait,
    .test = axis_test,
    .recv_any = recv_any,
};

static cadre_status stream_record(struct cadre_ctx *ctx, cadre_event *out)
{
    static const char function[] = "record of cadre.stream";
    CADRE_TRY(cadre_guard(ctx, AT, function));
    if (!out)
        return cadre_guard_refuse(ctx, CADRE_E_INVALID, function, "out is NULL");
    struct cadre_device *device = ctx->services->device;
    return cadre_guard_result(ctx, function, device->ops->event_record(device, out));
}

static cadre_status stream_wait(struct cadre_ctx *ctx, cadre_event event)
{
    static const char function[] = "wait of cadre.stream";
    CADRE_TRY(cadre_guard(ctx, AT, function));
    struct cadre_services *s = ctx->services;
    const char *axis = ctx->axis ? ctx->axis : "event";
    if (ctx->plugin->desc.role == CADRE_ROLE_SCHEDULE && s->timeline->axis)
        axis = s->timeline->axis;
    cadre_status rc = cadre_services_await(s, event, axis);
    if (rc == CADRE_OK)
        rc = cadre_wire_finish(s, event);
    return cadre_guard_result(ctx, function, rc);
}

const struct cadre_stream_svc cadre_stream_service = {
    .struct_size = sizeof cadre_stream_service,
    .record = stream_record,
    .wait = stream_wait,
};
