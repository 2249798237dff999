/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators of simulated ranks: a backend whose operations take time of the links
 * of a hardware file. An operation begins when all its ranks have posted it, what it
 * comes after has happened and the one before it in its queue has ended; each queue is
 * one of a group's collectives or of one direction between two ranks, and queues do not
 * slow each other. Values are moved only between buffers of the host: what the core
 * tells other ranks arrives, what lies in a device's memory does not exist.
 *
 * Nothing waits for ever: where no rank can go on, the run ends by a line that names
 * what is waited for. Ranks of different operations, as comm.h. */
#ifndef CADRE_SIMULATE_SIMULATED_WORLD_H
#define CADRE_SIMULATE_SIMULATED_WORLD_H

#include "core/comm/comm.h"
#include "core/export/step_graph.h"
#include "core/plan/hardware.h"
#include "core/simulate/representatives.h"
#include "core/simulate/reserve.h"
#include "core/simulate/turns.h"

struct cadre_simulated_world;

/* Of who->ranks ranks, of which those of `who` run: the i-th has turn i of `turns`. A
 * rank that does not run posts what its representative does; where values of the host
 * are gathered it brings the same, where they are reduced nothing. All outlive it.
 * [main] Errors: CADRE_E_RESOURCE. */
cadre_status cadre_simulated_world_open(const struct cadre_hardware *hw,
                                        struct cadre_turns *turns,
                                        const struct cadre_representatives *who,
                                        struct cadre_simulated_world **out,
                                        struct cadre_error *err);
/* Accepts NULL. No rank runs. */
void cadre_simulated_world_close(struct cadre_simulated_world *world);

/* The world communicator of a rank, which the world owns. */
struct cadre_comm *cadre_simulated_world_comm(struct cadre_simulated_world *world,
                                              int rank);

/* The memory of a rank's device, where nothing is moved, and of the host, where no more
 * than CADRE_SIMULATED_MOVED bytes at a time are: what plugins tell each other, not
 * what they keep there. NULL: none. [its thread] */
#define CADRE_SIMULATED_MOVED 1048576u
void cadre_simulated_world_memory(struct cadre_simulated_world *world, int rank,
                                  const struct cadre_reserve *memory,
                                  const struct cadre_reserve *pinned);

/* Bytes that a rank sends by all that it has posted so far, as struct cadre_comm_stats
 * has them; between: to other nodes. [its thread] */
void cadre_simulated_world_sent(const struct cadre_simulated_world *world, int rank,
                                uint64_t *bytes, uint64_t *between);

/* A hash of all that a rank has posted: kinds, sizes, reductions, peers, the sizes of
 * groups, and what comes after what. [no rank runs] */
uint64_t cadre_simulated_world_posted(const struct cadre_simulated_world *world,
                                      int rank);

/* The thinned parts along which ranks turned out to differ, a bit each: by a message to
 * one that does not run, or by a group without its representative. [no rank runs] */
uint32_t cadre_simulated_world_unlike(const struct cadre_simulated_world *world);

/* From now on the rank's graph, which is the caller's, is told of what it posts and
 * waits for, as long as the rank communicates. [its thread] */
void cadre_simulated_world_graph(struct cadre_simulated_world *world, int rank,
                                 struct cadre_step_graph *graph);

/* The groups that were made so far, by number: (*n), and the ranks of each, belong to
 * the caller (free). NULL: no memory. No rank runs. */
struct cadre_step_group *
cadre_simulated_world_groups(const struct cadre_simulated_world *world, int *n);

#endif
