/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/links.h"

#include <math.h>

static double rate(const struct cadre_plan_link *link)
{
    return link->bandwidth_gb_s * link->efficiency * 1e9;
}

/* Ranks of the group on one node. */
static double neighbours(const struct cadre_hardware *hw, struct cadre_plan_group group)
{
    const double all = floor((double)hw->node_devices / (double)group.stride);
    return fmax(1, fmin((double)group.ranks, all));
}

double cadre_links_turns(const struct cadre_hardware *hw, struct cadre_plan_group group)
{
    const double n = (double)group.ranks, inside = neighbours(hw, group);
    return n > inside ? (ceil(n / inside) - 1) * hw->cluster.latency_us * 1e-6
                      : (n - 1) * hw->node.latency_us * 1e-6;
}

/* A ring over nodes enters and leaves each once, over the links of all its devices that
 * are in the group; inside it goes over those of the node. */
double cadre_links_gather(const struct cadre_hardware *hw,
                          struct cadre_plan_group group, double bytes)
{
    if (group.ranks <= 1)
        return 0;
    const double n = (double)group.ranks, inside = neighbours(hw, group);
    const bool leaves = n > inside;
    const double out = rate(&hw->cluster) * inside, in = rate(&hw->node);
    const double bandwidth = !leaves ? in : inside > 1 ? fmin(out, in) : out;
    return bytes * (n - 1) / n / bandwidth + cadre_links_turns(hw, group);
}

double cadre_links_reduce(const struct cadre_hardware *hw,
                          struct cadre_plan_group group, double bytes)
{
    return 2 * cadre_links_gather(hw, group, bytes);
}

double cadre_links_send(const struct cadre_hardware *hw, int64_t stride, double bytes)
{
    const struct cadre_plan_link *link =
        stride < hw->node_devices ? &hw->node : &hw->cluster;
    return bytes / rate(link) + link->latency_us * 1e-6;
}
