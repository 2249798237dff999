/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/links.h"

#include <math.h>

static double rate(const struct cadre_plan_link *link)
{
    return link->bandwidth_gb_s * link->efficiency * 1e9;
}

/* A ring over nodes enters and leaves each once, over the links of all its devices that
 * are in the group; inside it goes over those of the node. */
double cadre_links_gather(const struct cadre_hardware *hw,
                          struct cadre_plan_group group, double bytes)
{
    if (group.ranks <= 1)
        return 0;
    const double n = (double)group.ranks, D = (double)hw->node_devices;
    const double inside = fmax(1, fmin(n, floor(D / (double)group.stride)));
    const bool leaves = n > inside;
    const double hops = leaves ? ceil(n / inside) - 1 : n - 1;
    const double out = rate(&hw->cluster) * inside, in = rate(&hw->node);
    const double bandwidth = !leaves ? in : inside > 1 ? fmin(out, in) : out;
    const double latency = leaves ? hw->cluster.latency_us : hw->node.latency_us;
    return bytes * (n - 1) / n / bandwidth + hops * latency * 1e-6;
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
