/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout: the factors of a strip of a row, then its elements times them. */
#include "core/base/rng.h"
#include "core/device/cpu/half.h"
#include "core/tensor/half.h"

enum { STRIP = 256, ELEMENTS = 4096 /* of a range, about */ };

struct job {
    const struct cadre_dropout *a;
    uint32_t limit; /* words below it drop */
    double kept;
};

/* Of elements [element, element + n) of the whole. */
static void factors(const struct job *job, uint64_t element, int64_t n, double *factor)
{
    uint32_t words[4];
    for (int64_t i = 0; i < n; i++, element++) {
        if (i == 0 || element % 4 == 0)
            cadre_rng_block(job->a->key, element / 4, words);
        factor[i] = words[element % 4] < job->limit ? 0 : job->kept;
    }
}

static void multiply(const struct cadre_dropout *a, int64_t at, int64_t n,
                     const double *factor)
{
    for (int64_t i = 0; a->dtype == CADRE_F64 && i < n; i++)
        ((double *)a->out)[at + i] = ((const double *)a->x)[at + i] * factor[i];
    for (int64_t i = 0; a->dtype == CADRE_F32 && i < n; i++)
        ((float *)a->out)[at + i] =
            (float)((double)((const float *)a->x)[at + i] * factor[i]);
    for (int64_t i = 0; a->dtype == CADRE_BF16 && i < n; i++) {
        const double x = (double)cadre_bf16_to_f32(((const uint16_t *)a->x)[at + i]);
        ((uint16_t *)a->out)[at + i] = cadre_bf16_from_f32((float)(x * factor[i]));
    }
    for (int64_t i = 0; a->dtype == CADRE_F16 && i < n; i++) {
        const double x = (double)cadre_f16_to_f32(((const uint16_t *)a->x)[at + i]);
        ((uint16_t *)a->out)[at + i] = cadre_f16_from_f32((float)(x * factor[i]));
    }
}

static void rows(const void *args, int64_t begin, int64_t end)
{
    const struct job *job = args;
    const struct cadre_dropout *a = job->a;
    double factor[STRIP];
    for (int64_t row = begin; row < end; row++) {
        const uint64_t sample = a->first + (uint64_t)(row / a->time);
        const uint64_t position = (uint64_t)(a->position + row % a->time);
        const uint64_t element =
            (sample * (uint64_t)a->length + position) * (uint64_t)a->width +
            (uint64_t)a->column;
        for (int64_t c = 0; c < a->columns; c += STRIP) {
            const int64_t n = a->columns - c < STRIP ? a->columns - c : STRIP;
            factors(job, element + (uint64_t)c, n, factor);
            multiply(a, row * a->columns + c, n, factor);
        }
    }
}

cadre_status cadre_cpu_dropout(struct cadre_device *device,
                               const struct cadre_dropout *a)
{
    const struct job job = {
        .a = a, .limit = (uint32_t)(a->part * 0x1p32), .kept = 1 / (1 - a->part)};
    const int64_t grain = a->columns > 0 ? ELEMENTS / a->columns : 0;
    if (!cadre_dtype_is_half(a->dtype) &&
        !cadre_cpu_kernels((struct cadre_cpu *)device, a->dtype))
        return CADRE_E_DEVICE;
    cadre_cpu_ranges((struct cadre_cpu *)device, rows, &job, a->batch * a->time,
                     grain > 0 ? grain : 1);
    return CADRE_OK;
}
