/* SPDX-License-Identifier: Apache-2.0 */
#include "core/model/lora_dropout.h"

#include "core/base/rng.h"
#include "core/tensor/dtype.h"
#include "core/tensor/half.h"

static void put(uint32_t dtype, const void *x, void *out, int64_t at, double factor)
{
    if (dtype == CADRE_F64)
        ((double *)out)[at] = ((const double *)x)[at] * factor;
    else if (dtype == CADRE_F32)
        ((float *)out)[at] = (float)(((const float *)x)[at] * factor);
    else if (dtype == CADRE_BF16)
        ((uint16_t *)out)[at] = cadre_bf16_from_f32(
            (float)(cadre_bf16_to_f32(((const uint16_t *)x)[at]) * factor));
    else
        ((uint16_t *)out)[at] = cadre_f16_from_f32(
            (float)(cadre_f16_to_f32(((const uint16_t *)x)[at]) * factor));
}

void cadre_lora_drop(const struct cadre_lora_dropout *d, const void *x, void *out)
{
    const uint64_t key = cadre_rng_key(d->seed, d->name);
    const uint32_t limit = (uint32_t)(d->part * 0x1p32);
    const double kept = 1 / (1 - d->part);
    uint64_t block = UINT64_MAX;
    uint32_t words[4] = {0};
    for (int64_t row = 0; row < d->batch * d->time; row++) {
        const uint64_t sample = d->first + (uint64_t)(row / d->time);
        const uint64_t position = (uint64_t)(d->position + row % d->time);
        const uint64_t begin =
            (sample * (uint64_t)d->length + position) * (uint64_t)d->width +
            (uint64_t)d->column;
        for (int64_t c = 0; c < d->columns; c++) {
            const uint64_t element = begin + (uint64_t)c;
            if (element / 4 != block) {
                block = element / 4;
                cadre_rng_block(key, block, words);
            }
            put(d->dtype, x, out, row * d->columns + c,
                words[element % 4] < limit ? 0 : kept);
        }
    }
}
