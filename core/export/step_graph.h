/* SPDX-License-Identifier: Apache-2.0 */
/* What one simulated rank did in steps, as a graph: what its thread computed, its
 * operations of communication, and what each of them comes after. Whoever lets each
 * node begin where those before it, and where the ranks of its operation, let it, has
 * the times of the simulation again.
 *
 * A node's dependencies have lower indices. They are, of what the thread computes: what
 * it computed before, and what it has waited for since. Of an operation: the same at
 * the moment when it was posted, the event that it comes after, and the operation
 * before it of its group, or of its direction between two ranks.
 *
 * [one thread at a time: see core/simulate/turns.h] */
#ifndef CADRE_EXPORT_STEP_GRAPH_H
#define CADRE_EXPORT_STEP_GRAPH_H

#include "core/comm/backend.h"
#include "core/engine/layout/timeline.h"

struct cadre_rank;

enum cadre_step_node_kind {
    CADRE_STEP_COMPUTE,
    CADRE_STEP_IDLE, /* time that no dependency explains: looks whether something has
                        happened, waits for operations that were posted before; and the
                        end of a step, which takes none */
    CADRE_STEP_COMM,
};

enum { CADRE_STEP_NAME = 80 };

struct cadre_step_node {
    enum cadre_step_node_kind kind;
    char name[CADRE_STEP_NAME];
    double begin_s, end_s;
    size_t dep, n_deps; /* in the graph's `dep` */
    double flops, bytes; /* computing: FLOPs of products and attention; bytes of memory
                            that were read or written */
    /* communication */
    enum cadre_comm_kind op;
    int group; /* its number */
    int peer; /* the other rank of a message, the root of a broadcast, in the world */
    uint64_t size; /* bytes that this rank brings: of an all_gather a slice, else the
                      whole vector */
    uint64_t sent; /* bytes, as in cadre_comm_stats */
    uint64_t ordinal; /* of its group or direction in the graph, from 0 */
};

/* Operations that happen one after the other. */
struct cadre_step_channel {
    enum cadre_comm_kind kind; /* SEND, RECV; all collectives are one */
    int group, peer;
    size_t last; /* node */
    uint64_t n;
};

struct cadre_step_graph {
    bool open; /* it is recorded now */
    bool failed; /* there was no memory for some of it */
    const struct cadre_timeline *timeline; /* the rank's, while it is open */
    double begin_s, end_s; /* the steps */
    int steps;
    size_t named; /* nodes of steps that have ended */
    struct cadre_step_node *node;
    size_t *dep;
    size_t n, room, n_deps, room_deps;
    double at_s; /* so far nodes explain the thread's time */
    uint64_t mark; /* spans of the timeline when it last computed */
    bool more; /* the last node is computing that may go on */
    size_t *front; /* what the thread's next node comes after */
    size_t n_front, room_front;
    struct cadre_step_channel *channel;
    size_t n_channels, room_channels;
};

/* The ranks of a group of the simulation. */
struct cadre_step_group {
    int *rank; /* (size) in the world, in the order of the group */
    int size;
};

/* A zeroed graph begins to record, before a step of a rank whose timeline this is, with
 * detail. */
void cadre_step_graph_begin(struct cadre_step_graph *graph,
                            const struct cadre_timeline *timeline, double now_s);
/* A step has ended: its nodes get their names. */
void cadre_step_graph_end_step(struct cadre_step_graph *graph,
                               const struct cadre_rank *rank, double now_s);
/* Record no more; ends of operations are told all the same. */
void cadre_step_graph_close(struct cadre_step_graph *graph);
void cadre_step_graph_fini(struct cadre_step_graph *graph); /* also a zeroed one */

/* The functions below do nothing with a graph that is NULL or not open. */

void cadre_step_graph_compute(struct cadre_step_graph *graph, double begin_s,
                              double end_s, double flops, double bytes);

/* Where an operation is posted. */
struct cadre_step_place {
    int group, size; /* members of the group */
    int peer; /* as in the node */
    size_t after; /* node of the event that it comes after + 1, 0: none */
};
/* Returns its node + 1, 0 for none. */
size_t cadre_step_graph_post(struct cadre_step_graph *graph,
                             const struct cadre_comm_op *op,
                             const struct cadre_step_place *place);

/* The operation of node `node` - 1 has ended. Also when the graph is no longer open. */
void cadre_step_graph_ended(struct cadre_step_graph *graph, size_t node, double began_s,
                            double ended_s);

/* The thread has waited for the operation of node `node` - 1, or knows by a look that
 * it has ended; 0: an operation that was posted before the graph began. */
void cadre_step_graph_wait(struct cadre_step_graph *graph, size_t node, double now_s);

#endif
