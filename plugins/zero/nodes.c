/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of the axis in nodes: `node` adjacent ranks each, whose link is fast. */
#include "plugins/zero/zero.h"

/* What of these needs stage 3: parameters that are gathered apart from where they are
 * kept. */
static const char *needs_shards(const struct cadre_self *self)
{
    return self->secondary      ? "secondary = node"
           : self->coded_values ? "quantize_gathers = int8"
                                : NULL;
}

cadre_status cadre_zero_nodes_check(const struct cadre_self *self)
{
    const char *option = needs_shards(self);
    if (option && self->stage < 3)
        return cadre_refuse(
            self->host, CADRE_E_INVALID,
            "zero.%s with zero.stage = %d, which keeps whole parameters "
            "on every rank; set zero.stage = 3",
            option, (int)self->stage);
    if (self->secondary && self->node == 0)
        return cadre_refuse(self->host, CADRE_E_INVALID,
                            "zero.secondary = node without zero.node; set it to the "
                            "number of adjacent ranks that make a node");
    if (self->node > 0 && !self->secondary && !self->coded_grads)
        return cadre_refuse(self->host, CADRE_E_INVALID,
                            "zero.node = %u without zero.secondary = node or "
                            "zero.quantize_gradients = int8, which alone go by nodes; "
                            "set one of them, or zero.node = 0",
                            self->node);
    return CADRE_OK;
}

static struct zero_hop hop_along(const struct cadre_self *self, const char *axis,
                                 const char *part)
{
    char name[2 * CADRE_AXIS_CHARS];
    snprintf(name, sizeof name, "%s.%s", axis, part);
    struct zero_hop hop = {.axis = self->mesh->axis(self->host->ctx, name)};
    hop.size = (uint32_t)self->mesh->size(hop.axis);
    hop.me = (uint32_t)self->mesh->rank(hop.axis);
    return hop;
}

cadre_status cadre_zero_nodes_plan(struct cadre_self *self,
                                   const struct cadre_plan *plan)
{
    self->two_levels = self->node > 0 && self->node < self->ranks &&
                       (self->secondary || self->coded_grads);
    self->hop[0] = (struct zero_hop){self->axis, self->ranks, self->me};
    self->n_hops = 1;
    if (!self->two_levels)
        return CADRE_OK;
    if (self->ranks % self->node != 0)
        return cadre_refuse(self->host, CADRE_E_INVALID,
                            "zero.node = %u does not divide the %u ranks along '%s'; "
                            "choose another number",
                            self->node, self->ranks, plan->axis);
    free(self->inside_off);
    self->inside_off = calloc(self->node + (size_t)1, sizeof *self->inside_off);
    if (!self->inside_off)
        return cadre_refuse(self->host, CADRE_E_RESOURCE, "no memory for %u ranks",
                            self->node);
    CADRE_TRY(plan->split_axis(plan->h, plan->axis, self->node));
    self->inside = hop_along(self, plan->axis, "inner");
    self->between = hop_along(self, plan->axis, "outer");
    if (self->node > 1) {
        self->hop[0] = self->inside;
        self->hop[1] = self->between;
        self->n_hops = 2;
    }
    return CADRE_OK;
}
