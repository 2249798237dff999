/* SPDX-License-Identifier: Apache-2.0 */
/* A rank of two along an axis "x", with nothing but what the services of communication
 * need: a plugin "pair" that is inside of its step. */
#ifndef CADRE_TESTS_COMM_PAIR_H
#define CADRE_TESTS_COMM_PAIR_H

#include "core/engine/strategy/host_private.h"

struct comm_pair {
    struct cadre_error failure;
    struct cadre_plugin_handle plugin;
    struct cadre_device *device; /* a CPU of its own */
    struct cadre_ledger ledger;
    struct cadre_services services;
    struct cadre_ctx ctx;
    struct cadre_axis axis;
};

/* The pair must not move. `world` stays the caller's. [any thread] Errors: those of
 * cadre_device_open. */
cadre_status comm_pair_open(struct comm_pair *pair, int rank, struct cadre_comm *world);
void comm_pair_close(struct comm_pair *pair);

#endif
