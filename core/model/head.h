/* SPDX-License-Identifier: Apache-2.0 */
/* The last unit's logits, for evaluation, and how many rows it scores at once. */
#ifndef CADRE_MODEL_HEAD_H
#define CADRE_MODEL_HEAD_H

#include "core/model/unit.h"

/* After the head's forward and before backward: logits of its rows (N, V) or (B, K)
 * from `begin` on. *rows of them lie at *out, in `saved` or, computed anew, in
 * `scratch`: all that follow, or as many as the head has at once. [stream] */
cadre_status cadre_head_logits(const struct cadre_model *, const struct cadre_pass *,
                               int64_t begin, int64_t *rows, const void **out);

/* head_rows for micro-batches of `rows` rows, where config->head_rows is what was asked
 * for and its 0 means all rows, unless their logits take more than 1 GiB. 0 where
 * nothing is to be cut. Tensor ranks score all rows of their part of the vocabulary
 * each: there create refuses what was asked for. */
int64_t cadre_model_head_rows(const struct cadre_model_config *config, int64_t rows,
                              int tp_size);

#endif
