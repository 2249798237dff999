/* SPDX-License-Identifier: Apache-2.0 */
/* Service tables of host_comm.c, which host.c returns. */
#ifndef CADRE_ENGINE_STRATEGY_HOST_PRIVATE_H
#define CADRE_ENGINE_STRATEGY_HOST_PRIVATE_H

#include "core/engine/strategy/host.h"

extern const struct cadre_comm_svc cadre_comm_service;
extern const struct cadre_stream_svc cadre_stream_service;
extern const struct cadre_ops_svc cadre_ops_service;

#endif
