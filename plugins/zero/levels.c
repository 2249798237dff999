/* SPDX-License-Identifier: Apache-2.0 */
/* Sums and gathers over two levels (zero.two_levels), for ranks on several nodes, whose
 * links inside are faster than those between. Gradients are summed inside each node,
 * where every rank gets the node's sum of one part of the bucket; the ranks of one
 * place in every node then sum their part, and each gets its shard. Parameters are
 * gathered the other way: between nodes the shards of a place, inside a node the parts
 * of its places. Between nodes a rank sends bytes of a part, not of the whole.
 *
 * The ranges that a model is cut into are dealt so that those of a place lie side by
 * side (cadre_zero_slot): a part is contiguous, and each level is one operation without
 * a copy.
 *
 * The order of the sum is that of the tree over all ranks where a node has a power of
 * two of them, as in plugins/ddp/levels.c.
 * Source: Jia et al., Highly Scalable Deep Learning Training System, 2018, section 3.3
 * (hierarchical all-reduce, whose halves these are). */
#include "plugins/zero/zero.h"

uint32_t cadre_zero_slot(const struct cadre_self *self)
{
    return self->levels ? self->inside.me * self->between.size + self->between.me
                        : self->me;
}

/* Cut what ranks own by `off` at both levels, in self->inside_off and between_off.
 * Returns the part of this rank's place. */
static struct cadre_buf cut(struct cadre_self *self, const uint64_t *off,
                            const struct cadre_buf *whole)
{
    const uint32_t nodes = self->between.size;
    const uint64_t *own = off + (size_t)self->inside.me * nodes;
    for (uint32_t place = 0; place <= self->inside.size; place++)
        self->inside_off[place] = off[(size_t)place * nodes];
    for (uint32_t node = 0; node <= nodes; node++)
        self->between_off[node] = own[node] - own[0];
    return cadre_buf_slice(whole, own[0], own[nodes] - own[0]);
}

/* A part of nothing is of nothing on all ranks that would sum it. */
cadre_status cadre_zero_levels_reduce(struct cadre_self *self,
                                      struct zero_bucket *bucket)
{
    struct cadre_post post =
        cadre_post("zero gradients", CADRE_TRAFFIC_GRAD, bucket->ready);
    const struct cadre_buf part = cut(self, bucket->off, &bucket->grad);
    CADRE_TRY(self->comm->reduce_scatter(self->inside.axis, &bucket->grad, &part,
                                         self->inside_off, CADRE_SUM, &post));
    if (part.count > 0) {
        post.after = post.done;
        CADRE_TRY(self->comm->reduce_scatter(self->between.axis, &part, &bucket->mine,
                                             self->between_off, CADRE_SUM, &post));
    }
    bucket->done = post.done;
    return CADRE_OK;
}

cadre_status cadre_zero_levels_gather(struct cadre_self *self, struct zero_block *block,
                                      const char *label)
{
    struct cadre_post post = cadre_post(label, CADRE_TRAFFIC_PARAM, 0);
    const struct cadre_buf part = cut(self, block->off, &block->values);
    if (part.count > 0) {
        CADRE_TRY(self->comm->all_gather(self->between.axis, &block->mine, &part,
                                         self->between_off, &post));
        post.after = post.done;
    }
    CADRE_TRY(self->comm->all_gather(self->inside.axis, &part, &block->values,
                                     self->inside_off, &post));
    block->done = post.done;
    block->along = self->inside.axis;
    block->gathering = 1;
    return CADRE_OK;
}
