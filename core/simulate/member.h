/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a simulation, on its thread. */
#ifndef CADRE_SIMULATE_MEMBER_H
#define CADRE_SIMULATE_MEMBER_H

#include <pthread.h>

#include "core/simulate/simulated_device.h"
#include "core/simulate/simulation.h"
#include "core/simulate/simulated_world.h"

/* What the ranks of a simulation have in common. */
struct cadre_simulation_crew {
    const struct cadre_spec *spec;
    const struct cadre_hardware *hw;
    const struct cadre_simulation_request *request;
    const struct cadre_representatives *who;
    struct cadre_turns *turns;
    struct cadre_simulated_world *world; /* NULL: one rank */
    int steps; /* that count */
};

struct cadre_simulation_member {
    const struct cadre_simulation_crew *crew;
    int index, turn;
    pthread_t thread;
    bool ended; /* regularly: no plugin has ended the thread */
    cadre_status rc;
    struct cadre_error err;
    struct cadre_simulated_rank result;
    struct cadre_step_graph *graph; /* of the steps that count; NULL: nobody asks */
};

/* The thread's function; arg is the member. */
void *cadre_simulation_member_main(void *arg);

/* Bytes of address space for the memory of a planned rank's device: what it plans for,
 * as much again, and room for what ops ask for meanwhile. */
size_t cadre_simulation_room(const struct cadre_rank *rank);

#endif
