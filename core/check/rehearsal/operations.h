/* SPDX-License-Identifier: Apache-2.0 */
/* Between the parts of communication: matching (operations.c), arithmetic
 * (collectives.c) and the service's table (comm.c). */
#ifndef CADRE_CHECK_REHEARSAL_OPERATIONS_H
#define CADRE_CHECK_REHEARSAL_OPERATIONS_H

#include "core/check/rehearsal/private.h"

const char *play_operation_name(enum operation_kind kind);

/* Bytes that the rank sends, by the formulas of core/comm/comm.h. */
uint64_t play_operation_sends(const struct operation *op, int ranks, int rank);

/* Fill `result` of op, which belongs to `p`, from `before` of all ranks' (NULL: takes
 * no part). Errors: CADRE_E_RESOURCE; an operation that cannot be, refused. */
cadre_status play_compute_operation(struct cadre_player *p, struct operation *op,
                                    struct operation *const *all);

/* Deliver a computed operation, and check that its buffers were left alone. */
void play_finish_operation(struct cadre_player *p, struct operation *op);

/* Post it; sets post->done. */
cadre_status play_post_operation(struct cadre_player *p, const struct operation *wanted,
                                 struct cadre_post *post);

cadre_status play_test_operation(struct cadre_player *p, cadre_event event,
                                 uint32_t *happened);

#endif
