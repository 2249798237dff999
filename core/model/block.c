/* SPDX-License-Identifier: Apache-2.0 */
#include "core/model/block.h"

#include "core/model/lora.h"
#include "core/model/qat.h"

struct cadre_block cadre_block_carve(struct cadre_carver *carver, bool gated,
                                     int64_t wide)
{
    const struct cadre_unit *u = carver->unit;
    const enum cadre_unit_buffer saved = CADRE_UNIT_SAVED,
                                 input = CADRE_UNIT_SAVED_FOR_INPUT,
                                 grads = CADRE_UNIT_GRAD_OUTPUTS,
                                 scratch = CADRE_UNIT_SCRATCH;
    struct cadre_block b = {0};
    /* first, and of a model one at most: lora.c and qat.c find theirs at the begin */
    cadre_lora_carve(carver);
    cadre_qat_carve(carver);
    b.norm1 = cadre_carve(carver, saved, u->R * u->C);
    b.attn = cadre_carve(carver, saved, u->N * u->A);
    b.norm2 = cadre_carve(carver, saved, u->R * u->C);
    b.act = cadre_carve(carver, saved, u->M * u->F);
    b.stats1 = cadre_carve_wide(carver, input, u->R * 2);
    b.qkv = cadre_carve(carver, input, u->N * u->Q);
    b.lse = cadre_carve_wide(carver, input, u->N * u->H);
    b.x1 = cadre_carve(carver, input, u->R * u->C);
    b.stats2 = cadre_carve_wide(carver, input, u->R * 2);
    b.gate = cadre_carve(carver, input, u->M * u->F);
    if (gated)
        b.up = cadre_carve(carver, input, u->N * u->F);
    b.dy = cadre_carve(carver, grads, u->N * u->C);
    b.dgate = cadre_carve(carver, grads, u->M * u->F);
    if (gated)
        b.dup = cadre_carve(carver, grads, u->N * u->F);
    b.dx1 = cadre_carve(carver, grads, u->N * u->C);
    b.dqkv = cadre_carve(carver, grads, u->N * u->Q);
    b.partial = cadre_carve(carver, scratch, u->N * u->C);
    b.whole = cadre_carve(carver, scratch, u->N * u->C);
    b.wide = cadre_carve(carver, scratch, u->N * wide);
    b.norm_parts = cadre_norm_parts_carve(carver);
    b.keys = cadre_keys_carve(carver);
    b.head_norm = cadre_head_norm_carve(carver);
    return b;
}

struct cadre_attention cadre_block_attention(const struct cadre_unit *unit,
                                             const struct cadre_block *block,
                                             bool backward)
{
    struct cadre_attention a =
        cadre_packed_attention(unit, block->qkv, block->attn, block->lse);
    if (backward) {
        a.dout = block->wide;
        a.dq = block->dqkv;
        a.dk = cadre_unit_at(unit, block->dqkv, unit->A);
        a.dv = cadre_unit_at(unit, block->dqkv, unit->A + unit->G * unit->D);
    }
    cadre_keys_attend(unit, &block->keys, &a);
    return a;
}

cadre_status cadre_block_complete(const struct cadre_unit *unit, uint32_t point,
                                  const void *partial, const void *x, void *whole)
{
    cadre_status rc = cadre_complete(unit, point, true, partial, whole, unit->C);
    return rc == CADRE_OK ? cadre_qat_clip_rows(unit, x, whole) : rc;
}

cadre_status cadre_block_row_split(const struct cadre_unit *unit,
                                   const struct cadre_linear *linear, uint32_t point,
                                   const void *in, void *spare, void *sum)
{
    void *partial = cadre_partial(unit, spare, sum);
    cadre_status rc =
        cadre_linear_fwd(unit, linear, in, partial, CADRE_EPILOGUE_NONE, NULL);
    return rc == CADRE_OK ? cadre_complete(unit, point, false, partial, sum, unit->C)
                          : rc;
}
