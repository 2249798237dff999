/* SPDX-License-Identifier: Apache-2.0 */
/* run.exact where ranks run any numbers of consecutive micro-batches (RANGES). The sum
 * of a rank is then not one node of the reduction tree but several, and an all_reduce,
 * which adds one term of each rank, would add in another order. Each rank gets one
 * slice of the bucket of all nodes of all ranks (all_to_all_v), adds them in the order
 * of the tree (cadre.tree), and sends the sum of its slice to all (all_gather). Slices
 * are added element by element, so their borders change no bit.
 *
 * Where ranges change between steps, the buffers are for the most nodes of any.
 *
 * `left` is what a rank sends: for each rank in turn that rank's slice of each of its
 * own nodes. `right` is what it receives: its slice of each rank's nodes in turn. */
#include "plugins/ddp/ddp.h"

static uint64_t nodes_of(const struct cadre_self *self, uint32_t rank)
{
    return self->tree->n_nodes(self->axis, (int32_t)rank);
}

static uint64_t all_nodes(const struct cadre_self *self)
{
    uint64_t n = 0;
    for (uint32_t r = 0; r < self->ranks; r++)
        n += nodes_of(self, r);
    return n;
}

/* Elements of a slice of n; those of the last ranks may be shorter. */
static uint64_t slice_count(const struct cadre_self *self, uint64_t n)
{
    return (n + self->ranks - 1) / self->ranks;
}

/* Where rank's slice begins in the bucket; for the number of ranks, the end. */
static uint64_t begin_of(const struct ddp_bucket *bucket, uint32_t rank)
{
    uint64_t begin = rank * bucket->slice;
    return begin < bucket->grad.count ? begin : bucket->grad.count;
}

static uint64_t count_of(const struct ddp_bucket *bucket, uint32_t rank)
{
    return begin_of(bucket, rank + 1) - begin_of(bucket, rank);
}

/* ---- set-up ---- */

static void need(const struct cadre_self *self, struct ddp_need *out)
{
    for (uint32_t i = 0; i < self->n_entries; i++) {
        const struct cadre_param_info *info = &self->entry[i].info;
        uint64_t n = ddp_round_up(info->count, DDP_BLOCK);
        uint64_t elements =
            nodes_of(self, self->index) * n + all_nodes(self) * slice_count(self, n);
        out->payloads += elements * cadre_dtype_size(info->grad_dtype);
    }
}

static cadre_status bind(struct cadre_self *self, struct ddp_bucket *bucket)
{
    uint64_t n = bucket->grad.count;
    bucket->slice = slice_count(self, n);
    CADRE_TRY(ddp_take(self, bucket->grad.dtype, nodes_of(self, self->index) * n,
                       "payloads", &bucket->left));
    return ddp_take(self, bucket->grad.dtype,
                    all_nodes(self) * count_of(bucket, self->index), "payloads",
                    &bucket->right);
}

/* ---- one step ---- */

/* Copy a node of a gradient that begins at element `at` of the bucket. */
static cadre_status copy_node(struct cadre_self *self, const struct ddp_bucket *bucket,
                              uint64_t at, uint32_t k, const struct cadre_buf *node)
{
    const uint64_t end = at + node->count, mine = nodes_of(self, self->index);
    for (uint32_t r = 0; r < self->ranks; r++) {
        uint64_t begin = begin_of(bucket, r), stop = begin_of(bucket, r + 1);
        uint64_t from = begin > at ? begin : at, to = stop < end ? stop : end;
        if (from >= to)
            continue;
        uint64_t place = mine * begin + k * (stop - begin) + (from - begin);
        struct cadre_buf src = cadre_buf_slice(node, from - at, to - from);
        struct cadre_buf dst = cadre_buf_slice(&bucket->left, place, to - from);
        CADRE_TRY(ddp_copy(self, &dst, &src));
    }
    return CADRE_OK;
}

static cadre_status take(struct cadre_self *self, struct ddp_bucket *bucket,
                         const struct ddp_entry *entry, struct cadre_grad_ev *ev)
{
    const uint64_t bytes =
        (uint64_t)((const char *)entry->grad.data - (const char *)bucket->grad.data);
    const uint64_t at = bytes / cadre_dtype_size(entry->grad.dtype);
    const uint64_t nodes = nodes_of(self, self->index);
    int fits = ev->n_nodes == nodes;
    for (uint32_t k = 0; fits && k < ev->n_nodes; k++)
        fits = ev->node[k].sum.count == entry->grad.count;
    if (!fits)
        return cadre_refuse(self->host, CADRE_E_INTERNAL,
                            "the gradient of '%s' is %u nodes of the reduction tree, "
                            "expected %llu of %llu elements",
                            entry->info.name, ev->n_nodes, (unsigned long long)nodes,
                            (unsigned long long)entry->grad.count);
    CADRE_TRY(self->stream->wait(self->ctx, ev->ready));
    for (uint32_t k = 0; k < ev->n_nodes; k++)
        CADRE_TRY(copy_node(self, bucket, at, k, &ev->node[k].sum));
    return ddp_computed(self, &ev->ready);
}

static cadre_status send(struct cadre_self *self, struct ddp_bucket *bucket)
{
    uint64_t *out = self->offsets, *in = self->offsets + self->ranks + 1;
    const uint64_t mine = nodes_of(self, self->index);
    cadre_event after = 0;
    out[0] = in[0] = 0;
    for (uint32_t r = 0; r < self->ranks; r++) {
        in[r + 1] = mine * begin_of(bucket, r + 1);
        out[r + 1] = out[r] + nodes_of(self, r) * count_of(bucket, self->index);
    }
    CADRE_TRY(ddp_computed(self, &after));
    struct cadre_post post = ddp_post(bucket, after);
    struct cadre_buf left = cadre_buf_slice(&bucket->left, 0, in[self->ranks]);
    struct cadre_buf right = cadre_buf_slice(&bucket->right, 0, out[self->ranks]);
    CADRE_TRY(self->comm->all_to_all_v(self->axis, &left, in, &right, out, &post));
    bucket->done = post.done;
    return CADRE_OK;
}

static cadre_status second_exchange(struct cadre_self *self, struct ddp_bucket *bucket)
{
    struct cadre_buf mine = cadre_buf_slice(
        &bucket->grad, begin_of(bucket, self->index), count_of(bucket, self->index));
    cadre_event after = 0;
    struct cadre_buf nodes =
        cadre_buf_slice(&bucket->right, 0, all_nodes(self) * mine.count);
    CADRE_TRY(self->comm->stream_wait(self->axis, bucket->done));
    if (mine.count > 0)
        CADRE_TRY(self->tree->sum(self->axis, &nodes, &mine));
    for (uint32_t r = 0; r <= self->ranks; r++)
        self->offsets[r] = begin_of(bucket, r);
    CADRE_TRY(ddp_computed(self, &after));
    struct cadre_post post = ddp_post(bucket, after);
    CADRE_TRY(
        self->comm->all_gather(self->axis, &mine, &bucket->grad, self->offsets, &post));
    bucket->done = post.done;
    return CADRE_OK;
}

static cadre_status finish(struct cadre_self *self, struct ddp_bucket *bucket)
{
    return self->comm->stream_wait(self->axis, bucket->done);
}

const struct ddp_mode ddp_mode_nodes = {
    .name = "nodes",
    .in_place = 1,
    .need = need,
    .bind = bind,
    .take = take,
    .send = send,
    .second_exchange = second_exchange,
    .finish = finish,
};
