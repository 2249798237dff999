/* SPDX-License-Identifier: Apache-2.0 */
/* A step of a run, simulated: the plugins of its stack and the core make it as they do
 * in training, on devices and communicators that take the time of a hardware file and
 * compute nothing. Memory is accounted by the same ledgers, bytes sent by the same
 * communicator table. */
#ifndef CADRE_SIMULATE_SIMULATION_H
#define CADRE_SIMULATE_SIMULATION_H

#include "core/engine/layout/timeline.h"
#include "core/export/step_graph.h"
#include "core/plan/hardware.h"
#include "core/run/parts_of_step.h"
#include "core/run/spec.h"

enum {
    CADRE_SIMULATION_RANKS = 256, /* most that are simulated, each as a thread */
    CADRE_SIMULATION_WORLD = 1 << 16, /* most of a run */
    CADRE_SIMULATION_APART = 64, /* of a run of more, ranks represent each other */
};

/* Seconds are means over the steps that count. */
struct cadre_simulated_rank {
    int index, represents; /* its rank, and how many it stands for, 1 for itself */
    double step_s;
    struct cadre_step_parts parts; /* of it */
    struct cadre_ledger memory; /* its table alone: bytes by tag, now and at most */
    double sent_bytes, between_bytes; /* in a step; between: to other nodes */
    double product_flops; /* of a step */
    double reads; /* how often plugins have read values in a step */
    struct cadre_span *pass; /* (n_passes) owned: passes of the last step, where they
                                were asked for */
    size_t n_passes;
};

struct cadre_simulation {
    int ranks, steps; /* steps that count; one before them does not */
    int n; /* ranks that were simulated */
    struct cadre_simulated_rank *rank; /* (n) owned, ascending */
    int largest; /* of these, the one with the most bytes at a time */
    /* means over all ranks; `other_s`: what the parts leave of a step */
    double step_s, other_s, sent_bytes;
    struct cadre_step_parts parts;
    uint64_t params;
    /* of the steps that count, where they were asked for; owned */
    struct cadre_step_graph *graph; /* (n) */
    struct cadre_step_group *group; /* (n_groups) by number, none of a single rank */
    int n_groups;
};

#define CADRE_SIMULATION_ALIKE 0.02

struct cadre_simulation_request {
    const char *trace_dir, *trace_name; /* of the last step, as perfetto.h has it; NULL:
                                           none */
    bool passes; /* keep those of each rank */
    bool graphs; /* make them */
    int apart; /* instead of CADRE_SIMULATION_APART, where it is not 0 */
};

/* Change options of a run, before its spec is made, to those of a simulation: its
 * device is none of this machine. Errors: CADRE_E_INVALID, CADRE_E_RESOURCE. */
cadre_status cadre_simulation_options(struct cadre_options *options,
                                      struct cadre_error *err);

/* Simulate. Of more than CADRE_SIMULATION_APART ranks, where no trace and no graphs are
 * asked for, some represent others (representatives.h). Those that ran and lie along
 * one axis must have posted the same and made the same products; seconds of computing,
 * bytes sent, and the most bytes kept are within CADRE_SIMULATION_ALIKE of each other.
 * Else it is simulated again without representatives along that axis. A spec without
 * data has token 0 everywhere. hw outlives the call. *out is written on success and
 * ended by cadre_simulation_fini. [main] Errors: CADRE_E_UNSUPPORTED for what cannot be
 * simulated: device.pace, fp64, more ranks than CADRE_SIMULATION_RANKS to run, products
 * in a type that hw has no peak for; those of a rank, of a plugin, CADRE_E_RESOURCE. */
cadre_status cadre_simulate(struct cadre_spec *spec, const struct cadre_hardware *hw,
                            const struct cadre_simulation_request *request,
                            struct cadre_simulation *out, struct cadre_error *err);
void cadre_simulation_fini(struct cadre_simulation *simulation); /* also a zeroed one */

#endif
