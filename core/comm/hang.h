/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks' status pages tell of an operation that does not end
 * (core/base/rank_verdict.h). It is part of the program; modules reach it through
 * their context, where there are pages. */
#ifndef CADRE_COMM_HANG_H
#define CADRE_COMM_HANG_H

#include "core/comm/backend.h"

/* "; stopped: rank 2 (process 812) ...", for the end of a line; "" where nothing is
 * known. `missing` is the world rank that is waited for, -1: not known; `silent`: it
 * does not answer. The own rank: what it does, for another one. [any thread] */
void cadre_comm_hang_text(const struct cadre_comm *comm, const struct cadre_comm_op *op,
                          int missing, bool silent, char *text, size_t size);

#endif
