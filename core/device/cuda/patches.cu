/* SPDX-License-Identifier: Apache-2.0 */
/* Images as rows of patches: a block has a row, a thread its elements in turn. Values
 * are computed in double and rounded, which gives the bits of the CPU's table. */
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/math.cuh"

enum { THREADS = 128 };

template <class T> struct patches_job {
    struct cadre_patches a;
    int64_t count;
    T *rows;
};

template <class T> __global__ void patches(const patches_job<T> job)
{
    const struct cadre_patches &a = job.a;
    const int64_t row = blockIdx.x, i = row % (job.count + 1), area = a.size * a.size;
    const int64_t across = a.width / a.size, plane = a.height * a.width;
    const int64_t first = i / across * a.size * a.width + i % across * a.size;
    const uint8_t *image = a.pixels + row / (job.count + 1) * a.stride;
    T *out = job.rows + row * a.channels * area;
    if (threadIdx.x == 0)
        a.kinds[row] = i == job.count;
    for (int64_t e = (int64_t)threadIdx.x; e < a.channels * area; e += THREADS) {
        const int64_t c = e / area;
        const int64_t at = first + e % area / a.size * a.width + e % a.size;
        double value = 0;
        if (i < job.count) {
            const uint8_t byte = image[a.nhwc ? at * a.channels + c : c * plane + at];
            value = (byte / 255.0 - a.mean[c]) / a.std[c];
        }
        out[e] = narrow<T>((wide_t<T>)value);
    }
}

extern "C" cadre_status cadre_cuda_patches(const struct cadre_patches *a, void *stream)
{
    const int64_t count = cadre_patches_count(a), rows = a->batch * (count + 1);
    if (rows <= 0)
        return CADRE_OK;
    CADRE_DISPATCH("patches", a->dtype, {
        const patches_job<T> job = {*a, count, (T *)a->rows};
        CADRE_LAUNCH(patches<T>, (unsigned)rows, THREADS, 0, stream, job);
    });
    return cadre_launch_check("patches");
}
