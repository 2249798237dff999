/* SPDX-License-Identifier: Apache-2.0 */
/* Records that are packed into one window: attention within each alone, and positions
 * that begin again. A record's rows are a segment; an op that depends on time is called
 * once for each, so its bits are those of the record alone. Without positions in the
 * pass a unit's rows are its B sequences, in one call. Private to core/model and its
 * tests. */
#ifndef CADRE_MODEL_SEGMENTS_H
#define CADRE_MODEL_SEGMENTS_H

#include "core/model/unit_private.h"

/* Rows that follow each other, positions 0, 1, ... */
struct cadre_segment {
    int64_t row, rows;
};

/* Step to the next segment of the pass; begin with {0}. false: there is none. The pass
 * has positions. */
bool cadre_segment_next(const struct cadre_unit *unit, struct cadre_segment *segment);

/* ops->attention_fwd or attention_bwd of all rows; `a` is that of the whole
 * micro-batch. */
cadre_status cadre_segments_attention(const struct cadre_unit *unit,
                                      const struct cadre_attention *a, bool backward);

/* ops->rope of all rows of x (N, heads, D), row stride ld. */
cadre_status cadre_segments_rope(const struct cadre_unit *unit, void *x, int64_t ld,
                                 int64_t heads, bool inverse);

/* ops->embed_fwd, and embed_bwd_positions, of all rows. */
cadre_status cadre_segments_embed(const struct cadre_unit *unit,
                                  const struct cadre_embed *embed);
cadre_status cadre_segments_embed_positions(const struct cadre_unit *unit,
                                            const struct cadre_embed *embed);

#endif
