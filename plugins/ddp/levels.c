/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over two levels, for ranks that are on several nodes, whose links inside are
 * faster than those between. `node` adjacent ranks of the axis are a node. Inside each,
 * every rank gets the sum of one slice of the bucket (reduce_scatter); the ranks of one
 * place in every node sum their slice (all_reduce); inside each node all get the slices
 * (all_gather). Between nodes a rank sends the bytes of a slice, not of the bucket.
 *
 * The order of the sum is that of the tree over all ranks where a node has a power of
 * two of them: its ranks are then a whole node of the tree, and what is left is the
 * tree over nodes. So the bits are those of one all_reduce.
 *
 * All three operations are in place and after each other by their events. The gather of
 * a bucket is posted when the next bucket is sent, for the operations inside a node are
 * done in order, and that one waits for the sum between nodes.
 * Source: Jia et al., Highly Scalable Deep Learning Training System, 2018, section 3.3
 * (hierarchical all-reduce). */
#include "plugins/ddp/ddp.h"

/* ---- plan ---- */

static cadre_status check(const struct cadre_self *self, const struct cadre_plan *plan)
{
    if (self->mode == &ddp_mode_nodes)
        return cadre_refuse(
            self->host, CADRE_E_UNSUPPORTED,
            "ddp.node = %u with ranges of micro-batches and run.exact = "
            "yes, whose sums do not follow nodes; set ddp.node = 0",
            self->node);
    if (self->mode != &ddp_mode_none)
        return cadre_refuse(self->host, CADRE_E_INVALID,
                            "ddp.node = %u sums whole gradients, and ddp.compress = "
                            "%.16s sends others; set one of them to 0 or none",
                            self->node, self->mode->name);
    if (self->ranks % self->node != 0)
        return cadre_refuse(self->host, CADRE_E_INVALID,
                            "ddp.node = %u does not divide the %u ranks along '%s'; "
                            "nodes must have equal numbers of ranks",
                            self->node, self->ranks, plan->axis);
    if (plan->exact && (self->node & (self->node - 1)) != 0)
        return cadre_refuse(
            self->host, CADRE_E_INVALID,
            "ddp.node = %u with run.exact = yes, where a node is a part "
            "of the reduction tree: expected a power of two",
            self->node);
    return CADRE_OK;
}

static struct cadre_axis *part_of(const struct cadre_self *self, const char *axis,
                                  const char *part)
{
    char name[2 * CADRE_AXIS_CHARS];
    snprintf(name, sizeof name, "%s.%s", axis, part);
    return self->mesh->axis(self->ctx, name);
}

cadre_status ddp_levels_plan(struct cadre_self *self, const struct cadre_plan *plan)
{
    if (self->mode == &ddp_mode_levels) /* of an earlier pass */
        self->mode = &ddp_mode_none;
    if (self->node == 0)
        return CADRE_OK;
    if (self->node > 1 && self->node < self->ranks) {
        CADRE_TRY(check(self, plan));
        CADRE_TRY(plan->split_axis(plan->h, plan->axis, self->node));
        self->inside = part_of(self, plan->axis, "inner");
        self->between = part_of(self, plan->axis, "outer");
        self->mode = &ddp_mode_levels;
    }
    return CADRE_OK;
}

/* ---- one step ---- */

/* self->offsets: the slices of n elements, of each rank of the node. Those of the last
 * may be shorter. Returns this rank's in *mine. */
static void slice(const struct cadre_self *self, const struct cadre_buf *grad,
                  struct cadre_buf *mine)
{
    const uint64_t n = grad->count, each = (n + self->node - 1) / self->node;
    const uint32_t me = (uint32_t)self->mesh->rank(self->inside);
    for (uint32_t r = 0; r <= self->node; r++)
        self->offsets[r] = r * each < n ? r * each : n;
    *mine = cadre_buf_slice(grad, self->offsets[me],
                            self->offsets[me + 1] - self->offsets[me]);
}

/* Inside the node, then between nodes. A slice of nothing is of nothing on all ranks
 * that would sum it. */
static cadre_status sum_slices(struct cadre_self *self, const struct cadre_buf *grad,
                               const char *label, cadre_event after, cadre_event *done)
{
    struct cadre_post post = cadre_post(label, CADRE_TRAFFIC_GRAD, after);
    struct cadre_buf mine;
    slice(self, grad, &mine);
    CADRE_TRY(self->comm->reduce_scatter(self->inside, grad, &mine, self->offsets,
                                         CADRE_SUM, &post));
    if (mine.count > 0) {
        post.after = post.done;
        CADRE_TRY(
            self->comm->all_reduce(self->between, &mine, &mine, CADRE_SUM, &post));
    }
    *done = post.done;
    return CADRE_OK;
}

static cadre_status gather_slices(struct cadre_self *self, const struct cadre_buf *grad,
                                  const char *label, cadre_event *done)
{
    struct cadre_post post = cadre_post(label, CADRE_TRAFFIC_GRAD, *done);
    struct cadre_buf mine;
    slice(self, grad, &mine);
    CADRE_TRY(self->comm->all_gather(self->inside, &mine, grad, self->offsets, &post));
    *done = post.done;
    return CADRE_OK;
}

cadre_status ddp_levels_reduce(struct cadre_self *self, const struct cadre_buf *grad,
                               cadre_event after, cadre_event *done)
{
    CADRE_TRY(sum_slices(self, grad, "ddp gradient", after, done));
    return gather_slices(self, grad, "ddp gradient", done);
}

static cadre_status send(struct cadre_self *self, struct ddp_bucket *bucket)
{
    return sum_slices(self, &bucket->grad, bucket->label, bucket->ready, &bucket->done);
}

static cadre_status second_exchange(struct cadre_self *self, struct ddp_bucket *bucket)
{
    return gather_slices(self, &bucket->grad, bucket->label, &bucket->done);
}

static cadre_status finish(struct cadre_self *self, struct ddp_bucket *bucket)
{
    return self->comm->stream_wait(self->axis, bucket->done);
}

const struct ddp_mode ddp_mode_levels = {
    .name = "levels",
    .in_place = 1,
    .send = send,
    .second_exchange = second_exchange,
    .finish = finish,
};
