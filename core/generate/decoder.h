/* SPDX-License-Identifier: Apache-2.0 */
/* The logits of the token that comes next, on one rank that has the whole model. Keys
 * and values of earlier tokens are kept, so that a token costs one row of the model.
 *
 * A model sees at most a context of tokens. When there are more, it goes on from the
 * newest half of a context, which is computed again, and grows from there. */
#ifndef CADRE_GENERATE_DECODER_H
#define CADRE_GENERATE_DECODER_H

#include "core/engine/rank.h"
#include "core/model/kv_cache.h"

struct cadre_decoder;

/* For the model of `rank`, which is borrowed. Where `keeps` is false, nothing is kept
 * and every token costs all rows of what the model sees: to compare. The caller
 * destroys *out. Errors: CADRE_E_INVALID a classifier, CADRE_E_RESOURCE. */
cadre_status cadre_decoder_create(struct cadre_rank *rank, bool keeps,
                                  struct cadre_decoder **out, struct cadre_error *err);
/* NULL is accepted. */
void cadre_decoder_destroy(struct cadre_decoder *decoder);

/* *logits (model.vocab), valid until the next call: of the token behind ids[0, n). ids
 * begins with those of the call before, unless cadre_decoder_reset came between. n > 0.
 * Errors: those of the device and of the strategy. */
cadre_status cadre_decoder_next(struct cadre_decoder *decoder, const int32_t *ids,
                                size_t n, const double **logits,
                                struct cadre_error *err);

/* Another sequence follows. */
void cadre_decoder_reset(struct cadre_decoder *decoder);

/* The tokens that the model sees at most: model.context, or what the rank has room for
 * where a sample is shorter. */
size_t cadre_decoder_context(const struct cadre_decoder *decoder);

/* The first of the ids that the last logits depend on: not 0 where there were more than
 * the model can see. */
size_t cadre_decoder_begin(const struct cadre_decoder *decoder);

/* Rows that the model has computed since create. */
uint64_t cadre_decoder_rows(const struct cadre_decoder *decoder);

#endif
