/* SPDX-License-Identifier: Apache-2.0 */
/* The last unit's logits, for evaluation, and how many rows it scores at once. */
#ifndef CADRE_MODEL_HEAD_H
#define CADRE_MODEL_HEAD_H

#include "core/model/unit.h"

/* After the head's forward and before backward: logits of its rows (N, V) or (B, K)
 * from `begin` on. *rows of them are at *out, in `saved` or, computed again, in
 * `scratch`: all from `begin` on, or as many as the head computes at once. [stream] */
cadre_status cadre_head_logits(const struct cadre_model *, const struct cadre_pass *,
                               int64_t begin, int64_t *rows, const void **out);

/* head_rows for micro-batches of `rows` rows. config->head_rows is the requested value;
 * 0 means all rows, unless their logits take more than 2 GiB. Returns 0 where rows are
 * not divided into chunks. Each tensor rank scores all rows of its part of the
 * vocabulary, so create refuses a requested value there, and with exact_parts, which
 * have the bits of tensor ranks. */
int64_t cadre_model_head_rows(const struct cadre_model_config *config, int64_t rows,
                              int tp_size);

#endif
