/* SPDX-License-Identifier: Apache-2.0 */
/* Inside a simulated world. Everything here belongs to the rank that has the turn
 * (turns.h). */
#ifndef CADRE_SIMULATE_SIMULATED_WORLD_PRIVATE_H
#define CADRE_SIMULATE_SIMULATED_WORLD_PRIVATE_H

#include "core/base/hash.h"
#include "core/comm/backend.h"
#include "core/export/step_graph.h"
#include "core/simulate/simulated_world.h"

struct sim_group;

struct sim_split { /* what a rank brings, and what it gets */
    int color, key;
    struct sim_group *group;
    int rank;
};

struct sim_comm {
    struct cadre_comm base;
    struct sim_rank *me;
    struct sim_group *group;
};

struct sim_op {
    struct cadre_comm_op base;
    struct sim_op *next;
    struct sim_comm *comm; /* NULL: destroyed since */
    struct sim_split *split;
    cadre_event event;
    double began_s, ended_s;
};

/* One operation, as far as its ranks have posted it. */
struct sim_slot {
    struct sim_slot *next;
    int posted;
    struct sim_op *op[]; /* by member of the queue; NULL of those that do not run */
};

/* Of all members of a group, or of two: the sender and the receiver. */
struct sim_queue {
    struct sim_queue *next; /* of the group's pairs */
    struct sim_queue *next_stalled;
    struct sim_world *world;
    int size;
    int *rank; /* (size) in the world */
    int run; /* members that do */
    int *by; /* (size) the member that runs for this one, itself where it does; NULL:
                all do */
    int from, to; /* members of the group, of a pair */
    uint64_t *posted; /* (size) operations so far */
    uint64_t first; /* sequence of the head's operations */
    struct sim_slot *head;
    double ended_s; /* of the operation before */
    bool stalled; /* the head waits for an event that is not known yet */
};

struct sim_group {
    struct sim_group *next; /* of the world's */
    int number; /* in the order in which they were made; 0: all ranks */
    int size;
    struct sim_queue all;
    struct sim_queue *pairs;
};

struct sim_event {
    double ended_s; /* NaN: not known yet */
    const struct sim_op *op; /* while it is not */
    size_t node; /* of the rank's graph + 1; 0: none */
};

struct sim_rank {
    struct cadre_comm_context context;
    struct sim_world *world;
    int index, turn;
    _Atomic uint64_t step;
    struct sim_comm *comm; /* of the world; NULL: it does not run */
    const struct cadre_reserve *memory, *pinned;
    struct cadre_step_graph *graph; /* NULL: nobody asks */
    struct sim_event *event;
    size_t n_events, room;
    uint64_t sent, between; /* bytes of what it has posted */
    /* of its operations, without what may differ between ranks that do the same */
    struct cadre_hash posted;
    cadre_event awaited; /* 0: none */
    struct sim_op *ended; /* not counted yet, in the order of their ends */
    cadre_event polled; /* looked at in vain since polled_s; 0: none */
    double polled_s;
};

struct sim_world {
    const struct cadre_hardware *hw;
    struct cadre_turns *turns;
    const struct cadre_representatives *who;
    uint32_t unlike; /* thinned parts along which ranks were seen to differ */
    struct cadre_failure failure;
    struct sim_rank *rank; /* (who->ranks) */
    struct sim_group *groups;
    int n_groups; /* so far */
    struct sim_queue *stalled;
    uint32_t polls; /* looks in vain of all ranks since one of them has posted */
};

/* NULL: no memory. It is the world's. */
struct sim_group *cadre_sim_group_create(struct sim_world *world, const int *rank,
                                         int size);
void cadre_sim_group_destroy(struct sim_group *group);

/* The member's communicator is destroyed: its operations are counted no more. */
void cadre_sim_group_forget(struct sim_group *group, const struct sim_comm *comm);

/* Post op, which is taken on success, and carry out what can now be. Errors:
 * CADRE_E_RESOURCE. */
cadre_status cadre_sim_post(struct sim_group *group, struct sim_op *op);

/* An event of the rank, NULL for none of its own. */
struct sim_event *cadre_sim_event(const struct sim_rank *rank, cadre_event event);

/* The world fails: all ranks go on and are told. */
void cadre_sim_fail(struct sim_world *world, cadre_status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* "all_reduce #3 'label' (f32, 10 elements)" */
enum { CADRE_SIM_TEXT = 192 };
const char *cadre_sim_text(const struct sim_op *op, char out[CADRE_SIM_TEXT]);

/* What operations (n, by member; of one that does not run, its representative's)
 * deliver into host memory. False: no memory. */
bool cadre_sim_deliver(const struct sim_world *world, struct sim_op *const *op, int n);

/* Make the groups of a split of the queue's members. False: no memory. */
bool cadre_sim_divide(struct sim_queue *queue, struct sim_op *const *op);

#endif
