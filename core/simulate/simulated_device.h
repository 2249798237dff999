/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated device of one rank: a table of ops that move the rank's clock and
 * nothing else, over memory that is reserved (reserve.h). As on the CPU every op has
 * ended when it returns. */
#ifndef CADRE_SIMULATE_SIMULATED_DEVICE_H
#define CADRE_SIMULATE_SIMULATED_DEVICE_H

#include "core/device/device.h"
#include "core/export/step_graph.h"
#include "core/plan/hardware.h"
#include "core/simulate/op_cost.h"
#include "core/simulate/reserve.h"
#include "core/simulate/turns.h"

/* `ops` is the first member, as of every device. */
struct cadre_simulated_device {
    struct cadre_device device;
    const struct cadre_hardware *hw;
    struct cadre_turns *turns;
    int turn; /* of its rank */
    struct cadre_reserve *memory, *pinned;
    double flops; /* of products so far */
    struct cadre_step_graph *graph; /* told of what is computed; NULL: nobody. The
                                       caller's */
    uint32_t unknown; /* an element type that it was to multiply and cannot; 0: none */
};

/* hw and turns outlive it. The thread that has `turn` calls its ops. `bytes` of address
 * space are reserved, once for its memory and once for the host's that is pinned.
 * Errors: those of cadre_reserve_open. */
cadre_status cadre_simulated_device_open(const struct cadre_hardware *hw,
                                         struct cadre_turns *turns, int turn,
                                         size_t bytes,
                                         struct cadre_simulated_device **out,
                                         struct cadre_error *err);
/* Accepts NULL. */
void cadre_simulated_device_close(struct cadre_simulated_device *device);

/* simulated_ops.c: enter what computes into the table. */
void cadre_simulated_fill_ops(struct cadre_device_ops *ops);

/* An op takes `seconds`. */
void cadre_simulated_spend(struct cadre_simulated_device *device, double seconds,
                           struct cadre_op_work work);

/* `bytes` of memory are read or written. Returns CADRE_OK. */
cadre_status cadre_simulated_pass(struct cadre_device *device, double bytes);

#endif
