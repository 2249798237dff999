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

static cadre_status check_levels(const struct cadre_self *self)
{
    if (self->by_levels && self->node == 0)
        return cadre_refuse(self->host, CADRE_E_INVALID,
                            "zero.two_levels = yes without zero.node; set it to the "
                            "number of adjacent ranks that make a node");
    if (self->by_levels && (self->coded_values || self->coded_grads))
        return cadre_refuse(self->host, CADRE_E_INVALID,
                            "zero.two_levels = yes with zero.quantize_%s = int8, which "
                            "sends in a way of its own; set one of them to no or none",
                            self->coded_values ? "gathers" : "gradients");
    return CADRE_OK;
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
    if (self->node > 0 && !self->by_levels && !self->secondary && !self->coded_grads)
        return cadre_refuse(self->host, CADRE_E_INVALID,
                            "zero.node = %u without zero.two_levels = yes, "
                            "zero.secondary = node or zero.quantize_gradients = int8, "
                            "which alone go by nodes; set one of them, or zero.node = "
                            "0",
                            self->node);
    return check_levels(self);
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

/* Do the nodes fit the ranks? */
static cadre_status check_fit(const struct cadre_self *self,
                              const struct cadre_plan *plan)
{
    if (self->ranks % self->node != 0)
        return cadre_refuse(self->host, CADRE_E_INVALID,
                            "zero.node = %u does not divide the %u ranks along '%s'; "
                            "choose another number",
                            self->node, self->ranks, plan->axis);
    if (self->levels && plan->exact && (self->node & (self->node - 1)) != 0)
        return cadre_refuse(self->host, CADRE_E_INVALID,
                            "zero.node = %u and zero.two_levels with run.exact = yes, "
                            "where a node is a part of the reduction tree: expected a "
                            "power of two",
                            self->node);
    return CADRE_OK;
}

cadre_status cadre_zero_nodes_plan(struct cadre_self *self,
                                   const struct cadre_plan *plan)
{
    const int several = self->node > 0 && self->node < self->ranks;
    self->levels = several && self->by_levels && self->node > 1;
    self->two_levels =
        self->levels || (several && (self->secondary || self->coded_grads));
    self->hop[0] = (struct zero_hop){self->axis, self->ranks, self->me};
    self->n_hops = 1;
    if (!self->two_levels)
        return CADRE_OK;
    CADRE_TRY(check_fit(self, plan));
    free(self->inside_off);
    self->inside_off =
        calloc((size_t)self->node + self->ranks / self->node + 2, sizeof(uint64_t));
    if (!self->inside_off)
        return cadre_refuse(self->host, CADRE_E_RESOURCE, "no memory for %u ranks",
                            self->ranks);
    self->between_off = self->inside_off + self->node + 1;
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
