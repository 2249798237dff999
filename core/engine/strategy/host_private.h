/* SPDX-License-Identifier: Apache-2.0 */
/* The service tables, by file, and the checks that all of their functions begin with.
 * */
#ifndef CADRE_ENGINE_STRATEGY_HOST_PRIVATE_H
#define CADRE_ENGINE_STRATEGY_HOST_PRIVATE_H

#include "core/engine/strategy/host.h"

extern const struct cadre_mesh_svc cadre_mesh_service;
extern const struct cadre_model_svc cadre_model_service;
extern const struct cadre_param_svc cadre_param_service;
extern const struct cadre_tree_svc cadre_tree_service;
extern const struct cadre_comm_svc cadre_comm_service;
extern const struct cadre_stream_svc cadre_stream_service;
extern const struct cadre_ops_svc cadre_ops_service;

/* Where a function may be called: sets of callbacks. */
#define CADRE_AT(callback) (1u << (callback))
#define CADRE_AT_CREATE CADRE_AT(CADRE_IN_CREATE)
#define CADRE_AT_PLAN CADRE_AT(CADRE_IN_PLAN)
#define CADRE_AT_BIND CADRE_AT(CADRE_IN_BIND)
#define CADRE_AT_STEP                                                                  \
    (CADRE_AT(CADRE_IN_STEP) | CADRE_AT(CADRE_IN_ON_BLOCK) |                           \
     CADRE_AT(CADRE_IN_ON_GRAD) | CADRE_AT(CADRE_IN_ON_REDISTRIBUTE))
#define CADRE_AT_RUN                                                                   \
    (CADRE_AT_STEP | CADRE_AT(CADRE_IN_SYNC) | CADRE_AT(CADRE_IN_UPDATE) |             \
     CADRE_AT(CADRE_IN_WIRE) | CADRE_AT(CADRE_IN_STATE))

/* May the instance call `function` ("alloc of cadre.mem") where it is? A ctx of NULL is
 * logged. Errors: CADRE_E_INVALID, recorded. */
cadre_status cadre_guard(struct cadre_ctx *ctx, uint32_t at, const char *function);

/* Record "plugin 'x' in on_grad: FUNCTION: TEXT"; returns rc. */
__attribute__((format(printf, 4, 5))) cadre_status
cadre_guard_refuse(struct cadre_ctx *ctx, cadre_status rc, const char *function,
                   const char *fmt, ...);

/* Is `buf` a buffer that may be read or written: not NULL, of a dtype that is known,
 * with storage, and not beyond a block of memory that the host knows? */
cadre_status cadre_guard_buf(struct cadre_ctx *ctx, const char *function,
                             const char *argument, const struct cadre_buf *buf);

/* The same for `bytes` bytes at `pointer`. */
cadre_status cadre_guard_bytes(struct cadre_ctx *ctx, const char *function,
                               const char *argument, const void *pointer,
                               uint64_t bytes);

/* An error of the device or of posting gets a text; returns rc. */
cadre_status cadre_guard_result(struct cadre_ctx *ctx, const char *function,
                                cadre_status rc);

#endif
