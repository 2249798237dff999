/* SPDX-License-Identifier: Apache-2.0 */
/* Host buffers are copied through pinned memory to device memory and back, in the order
 * of the channel's stream. Host functions read and write the caller's memory, so that
 * an operation is asynchronous wherever its buffers lie. */
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/comm/nccl/private.h"
#include "core/tensor/dtype.h"

#define ALIGNED(n) (((n) + 255) / 256 * 256)

static void copy_bytes(void *arg)
{
    const struct nccl_copy *copy = arg;
    pthread_mutex_lock(&copy->world->gate);
    if (!copy->world->closed)
        memcpy(copy->to, copy->from, copy->bytes);
    pthread_mutex_unlock(&copy->world->gate);
}

static cadre_status copy_later(struct nccl_op *op, struct nccl_copy *copy, void *to,
                               const void *from, size_t bytes)
{
    *copy = (struct nccl_copy){op->channel->world, to, from, bytes};
    cudaError_t code = cudaLaunchHostFunc(op->channel->stream, copy_bytes, copy);
    if (code == cudaSuccess)
        return CADRE_OK;
    cudaGetLastError();
    cadre_log(CADRE_LOG_ERROR, "comm", "cudaLaunchHostFunc: %s (%s)",
              cudaGetErrorName(code), cudaGetErrorString(code));
    return CADRE_E_DEVICE;
}

void cadre_nccl_stage_free(struct nccl_world *world, struct nccl_stage *stage)
{
    const struct cadre_device_ops *ops = world->device->ops;
    if (!stage)
        return;
    ops->free(world->device, stage->device);
    ops->free_pinned(world->device, stage->pinned);
    free(stage);
}

/* Sizes are powers of two, so that stages are reused. */
static struct nccl_stage *take(struct nccl_channel *c, size_t bytes)
{
    const struct cadre_device_ops *ops = c->worker->ops;
    size_t size = 16384;
    while (size < bytes)
        size *= 2;
    pthread_mutex_lock(&c->world->lock);
    for (struct nccl_stage **at = &c->stages; *at; at = &(*at)->next)
        if ((*at)->bytes == size) {
            struct nccl_stage *found = *at;
            *at = found->next;
            pthread_mutex_unlock(&c->world->lock);
            return found;
        }
    pthread_mutex_unlock(&c->world->lock);
    struct nccl_stage *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->bytes = size;
    made->pinned = ops->alloc_pinned(c->worker, size);
    made->device = made->pinned ? ops->alloc(c->worker, size) : NULL;
    if (made->device)
        return made;
    cadre_nccl_stage_free(c->world, made);
    return NULL;
}

void cadre_nccl_stage_release(struct nccl_op *op)
{
    if (!op->stage)
        return;
    op->stage->next = op->channel->stages;
    op->channel->stages = op->stage;
    op->stage = NULL;
}

static size_t bytes_of(const struct nccl_op *op, bool in)
{
    return cadre_comm_op_extent(&op->base, op->group->base.rank, in) *
           cadre_dtype_bytes(op->base.dtype);
}

cadre_status cadre_nccl_stage_in(struct nccl_op *op, const void **in, void **out)
{
    struct cadre_device *worker = op->channel->worker;
    size_t bytes = bytes_of(op, true);
    cadre_status rc = CADRE_OK;
    op->stage = take(op->channel, ALIGNED(bytes) + bytes_of(op, false));
    if (!op->stage)
        return CADRE_E_RESOURCE;
    *in = op->stage->device;
    *out = op->stage->device + ALIGNED(bytes);
    if (op->base.kind == CADRE_COMM_BROADCAST && bytes > 0)
        *out = op->stage->device; /* the root's buffer is both */
    if (bytes == 0)
        return CADRE_OK;
    if (op->base.after == 0) /* it is there already */
        memcpy(op->stage->pinned, op->base.in, bytes);
    else
        rc = copy_later(op, &op->before, op->stage->pinned, op->base.in, bytes);
    return rc == CADRE_OK ? worker->ops->upload(worker, op->stage->device,
                                                op->stage->pinned, bytes)
                          : rc;
}

cadre_status cadre_nccl_stage_out(struct nccl_op *op)
{
    struct cadre_device *worker = op->channel->worker;
    size_t bytes = bytes_of(op, false), at = ALIGNED(bytes_of(op, true));
    if (bytes == 0)
        return CADRE_OK;
    cadre_status rc = worker->ops->download(worker, op->stage->pinned + at,
                                            op->stage->device + at, bytes);
    return rc == CADRE_OK ? copy_later(op, &op->behind, op->base.out,
                                       op->stage->pinned + at, bytes)
                          : rc;
}
