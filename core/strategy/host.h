/* SPDX-License-Identifier: Apache-2.0 */
/* The host side of the plugin ABI: the service tables, filled by the core. */
#ifndef CADRE_STRATEGY_HOST_H
#define CADRE_STRATEGY_HOST_H

#include "core/strategy/chain.h"

/* Fill the host table that `ctx`'s plugin gets. It lives as long as ctx. */
void cadre_host_init(struct cadre_host *host, struct cadre_ctx *ctx);

/* Tables of host_comm.c. */
extern const struct cadre_comm_svc cadre_comm_service;
extern const struct cadre_stream_svc cadre_stream_service;
extern const struct cadre_ops_svc cadre_ops_service;

#endif
