/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of a simulation as threads of which one runs at a time: of those that can go
 * on, the one whose clock is furthest behind. What happens is therefore the same in
 * every run, whatever the machine does, and what ranks share needs no lock.
 *
 * A rank keeps its turn until it waits, looks whether something has happened, or ends.
 * A rank that waits is woken by the one that brings about what it waits for. */
#ifndef CADRE_SIMULATE_TURNS_H
#define CADRE_SIMULATE_TURNS_H

#include <stdbool.h>

#include "core/base/error.h"

struct cadre_turns;

/* All clocks stand at `begin_s`. Errors: CADRE_E_RESOURCE. */
cadre_status cadre_turns_create(int ranks, double begin_s, struct cadre_turns **out,
                                struct cadre_error *err);
/* Accepts NULL. No thread may be inside. */
void cadre_turns_destroy(struct cadre_turns *turns);

/* [main] Every thread was created: the first turn is given. With `run` false none will
 * run: cadre_turns_begin returns false in those that were created. */
void cadre_turns_start(struct cadre_turns *turns, bool run);

/* The clock of a rank: read by its thread through cadre_clock_simulate. */
const double *cadre_turns_clock(const struct cadre_turns *turns, int rank);

/* The rest is called by the thread of `rank`; all but begin, while it has the turn. */

/* Wait for the first turn. False: do not run. */
bool cadre_turns_begin(struct cadre_turns *turns, int rank);
/* No further turn. */
void cadre_turns_end(struct cadre_turns *turns, int rank);

/* Time passes. */
void cadre_turns_spend(struct cadre_turns *turns, int rank, double seconds);
/* The clock is set, also back, for what is told of another moment. */
void cadre_turns_set(struct cadre_turns *turns, int rank, double now_s);

/* Wait until another rank calls cadre_turns_wake for this one. False where none can go
 * on: then all wait for each other, and this rank goes on. */
bool cadre_turns_wait(struct cadre_turns *turns, int rank);
/* `other`, where it waits, can go on, not before `at_s`. */
void cadre_turns_wake(struct cadre_turns *turns, int other, double at_s);

/* Let those go first that are behind. */
void cadre_turns_yield(struct cadre_turns *turns, int rank);

#endif
