/* SPDX-License-Identifier: Apache-2.0 */
#include "core/simulate/link_cost.h"

#include <math.h>

#include "core/tensor/dtype.h"

/* A ring through the ranks of a group. */
struct ring {
    double bytes_s, turn_s, turns; /* turns: from one rank to all others */
};

static double rate(const struct cadre_plan_link *link)
{
    return link->bandwidth_gb_s * 1e9 * link->efficiency;
}

/* Ranks ascend, so those of a node are neighbours. */
static struct ring make_ring(const struct cadre_hardware *hw, const int *ranks, int n)
{
    int nodes = 1, here = 1, least = n;
    for (int i = 1; i < n; i++) {
        const bool same =
            ranks[i] / hw->node_devices == ranks[i - 1] / hw->node_devices;
        if (!same) {
            least = here < least ? here : least;
            nodes++;
        }
        here = same ? here + 1 : 1;
    }
    least = here < least ? here : least;
    if (nodes == 1)
        return (struct ring){rate(&hw->node), hw->node.latency_us * 1e-6, n - 1};
    const double between = rate(&hw->cluster) * least;
    return (struct ring){
        .bytes_s = least > 1 ? fmin(between, rate(&hw->node)) : between,
        .turn_s = hw->cluster.latency_us * 1e-6,
        .turns = nodes - 1,
    };
}

static double send_seconds(const struct cadre_hardware *hw, const int *ranks,
                           double bytes)
{
    const bool same = ranks[0] / hw->node_devices == ranks[1] / hw->node_devices;
    const struct cadre_plan_link *link = same ? &hw->node : &hw->cluster;
    return link->latency_us * 1e-6 + bytes / rate(link);
}

double cadre_link_cost(const struct cadre_hardware *hw, const struct cadre_comm_op *op,
                       const int *ranks, int n)
{
    const double bytes = (double)op->count * (double)cadre_dtype_bytes(op->dtype);
    if (n < 2 || op->kind == CADRE_COMM_SPLIT)
        return 0;
    if (op->kind == CADRE_COMM_SEND || op->kind == CADRE_COMM_RECV)
        return send_seconds(hw, ranks, bytes);
    const struct ring ring = make_ring(hw, ranks, n);
    const double once = ring.turns * ring.turn_s + bytes * (n - 1) / n / ring.bytes_s;
    switch (op->kind) {
    case CADRE_COMM_ALL_REDUCE:
        return 2 * once;
    case CADRE_COMM_BARRIER:
        return 2 * ring.turns * ring.turn_s;
    case CADRE_COMM_BROADCAST: /* in pieces along the ring */
        return ring.turns * ring.turn_s + bytes / ring.bytes_s;
    default:
        return once;
    }
}
