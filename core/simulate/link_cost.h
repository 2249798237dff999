/* SPDX-License-Identifier: Apache-2.0 */
/* Seconds of one operation among the ranks that take part in it, by which of them share
 * a node. Of the analytic engine it shares the reader of hardware files alone. */
#ifndef CADRE_SIMULATE_LINK_COST_H
#define CADRE_SIMULATE_LINK_COST_H

#include "core/comm/backend.h"
#include "core/plan/hardware.h"

/* From its begin, with all ranks there, to its end. `ranks` (n): the world ranks of the
 * group; rank r is on node r / hw->node_devices. Collectives are rings: every turn
 * takes the latency, and the bytes of the slowest link its bandwidth. A ring over nodes
 * uses the links of as many devices of a node as the node has in the group. A send goes
 * from ranks[0] to ranks[1]. [any thread] Source of the rings: Thakur et al. 2005. */
double cadre_link_cost(const struct cadre_hardware *hw, const struct cadre_comm_op *op,
                       const int *ranks, int n);

#endif
