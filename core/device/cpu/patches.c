/* SPDX-License-Identifier: Apache-2.0 */
/* Images as rows of patches. A byte has 256 values, so each channel's are computed once
 * in double, rounded to the dtype, and looked up. */
#include <string.h>

#include "core/device/cpu/half.h"
#include "core/tensor/half.h"

enum { BYTES = 256, WIDEST = 8 };

struct patches_job {
    const struct cadre_patches *a;
    size_t element;
    unsigned char table[CADRE_IMAGE_CHANNELS][BYTES][WIDEST];
};

static void put(uint32_t dtype, double value, unsigned char *out)
{
    const float narrow = (float)value;
    const uint16_t bits =
        dtype == CADRE_BF16 ? cadre_bf16_from_f32(narrow) : cadre_f16_from_f32(narrow);
    if (dtype == CADRE_F64)
        memcpy(out, &value, sizeof value);
    else if (dtype == CADRE_F32)
        memcpy(out, &narrow, sizeof narrow);
    else
        memcpy(out, &bits, sizeof bits);
}

/* Image `b`, patch `i`. */
static void patch_row(const struct patches_job *job, int64_t b, int64_t i,
                      unsigned char *out)
{
    const struct cadre_patches *a = job->a;
    const int64_t across = a->width / a->size, plane = a->height * a->width;
    const int64_t first = i / across * a->size * a->width + i % across * a->size;
    const uint8_t *image = a->pixels + b * a->stride;
    for (int64_t c = 0; c < a->channels; c++)
        for (int64_t y = 0; y < a->size; y++)
            for (int64_t x = 0; x < a->size; x++) {
                const int64_t at = first + y * a->width + x;
                const uint8_t byte =
                    image[a->nhwc ? at * a->channels + c : c * plane + at];
                memcpy(out, job->table[c][byte], job->element);
                out += job->element;
            }
}

static void patches_rows(const void *args, int64_t begin, int64_t end)
{
    const struct patches_job *job = args;
    const struct cadre_patches *a = job->a;
    const int64_t n = cadre_patches_count(a);
    const size_t bytes = (size_t)(a->channels * a->size * a->size) * job->element;
    for (int64_t row = begin; row < end; row++) {
        unsigned char *out = (unsigned char *)a->rows + (size_t)row * bytes;
        const int64_t i = row % (n + 1);
        a->kinds[row] = i == n;
        if (i == n)
            memset(out, 0, bytes);
        else
            patch_row(job, row / (n + 1), i, out);
    }
}

cadre_status cadre_cpu_patches(struct cadre_device *device,
                               const struct cadre_patches *a)
{
    struct patches_job job = {.a = a, .element = cadre_dtype_bytes(a->dtype)};
    for (int64_t c = 0; c < a->channels; c++)
        for (int i = 0; i < BYTES; i++)
            put(a->dtype, (i / 255.0 - a->mean[c]) / a->std[c], job.table[c][i]);
    cadre_cpu_ranges((struct cadre_cpu *)device, patches_rows, &job,
                     a->batch * (cadre_patches_count(a) + 1), 64);
    return CADRE_OK;
}
