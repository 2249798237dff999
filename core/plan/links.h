/* SPDX-License-Identifier: Apache-2.0 */
/* Seconds of transfers over the links of a hardware file. A collective is a ring; ranks
 * that are neighbours share a node, and the ranks of one node that are in one group
 * share its links to others. */
#ifndef CADRE_PLAN_LINKS_H
#define CADRE_PLAN_LINKS_H

#include "core/plan/hardware.h"

/* `ranks` of a group that stand `stride` apart in the order of ranks. */
struct cadre_plan_group {
    int64_t ranks, stride;
};

/* All-gather, or reduce-scatter, after which each rank has, or had before, `bytes`:
 * (n - 1) / n of them pass each link, in n - 1 turns. 0 for one rank. [any thread] */
double cadre_links_gather(const struct cadre_hardware *hw,
                          struct cadre_plan_group group, double bytes);

/* What such an operation takes however few bytes it moves: the latency of each turn.
 * [any thread] */
double cadre_links_turns(const struct cadre_hardware *hw,
                         struct cadre_plan_group group);

/* All-reduce of `bytes`: both of those. [any thread] Source: Thakur et al. 2005. */
double cadre_links_reduce(const struct cadre_hardware *hw,
                          struct cadre_plan_group group, double bytes);

/* From one rank to the one that is `stride` further. [any thread] */
double cadre_links_send(const struct cadre_hardware *hw, int64_t stride, double bytes);

#endif
