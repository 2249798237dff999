/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout in the bits of the CPU: the generator is that of core/base/rng.c, and the
 * product is one of doubles. A block has a row, a thread the four elements that share
 * a block of random words. */
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/math.cuh"

enum { WORDS = 4, PHILOX_ROUNDS = 10 };

template <class T> struct dropout_job {
    struct cadre_dropout a;
    const T *x;
    T *out;
    uint32_t limit; /* words below it drop */
    double kept;
    bool vec; /* rows begin on blocks of words, and aligned */
};

__device__ static void random_block(uint64_t key, uint64_t counter, uint32_t out[WORDS])
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32), c2 = 0, c3 = 0;
    CADRE_UNROLL
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        const uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

template <class T>
__device__ static T drop(const dropout_job<T> &job, T x, uint32_t word)
{
    const double factor = word < job.limit ? 0 : job.kept;
    return narrow<T>((wide_t<T>)((double)widen(x) * factor));
}

template <class T> __global__ void dropout(const dropout_job<T> job)
{
    const struct cadre_dropout &a = job.a;
    const int64_t row = blockIdx.x;
    const uint64_t sample = a.first + (uint64_t)(row / a.time);
    const uint64_t position = (uint64_t)(a.position + row % a.time);
    const uint64_t element =
        (sample * (uint64_t)a.length + position) * (uint64_t)a.width +
        (uint64_t)a.column;
    const int64_t lead = (int64_t)(element % WORDS);
    const T *x = job.x + row * a.columns;
    T *out = job.out + row * a.columns;
    for (int64_t b = threadIdx.x; b * WORDS < lead + a.columns; b += blockDim.x) {
        const int64_t c = b * WORDS - lead, left = a.columns - c;
        uint32_t words[WORDS];
        random_block(a.key, element / WORDS + (uint64_t)b, words);
        if (job.vec) {
            pack<T, WORDS> p = load<WORDS>(x + c, left, true);
            CADRE_UNROLL
            for (int j = 0; j < WORDS; j++)
                p.v[j] = drop(job, p.v[j], words[j]);
            store<WORDS>(out + c, p, left, true);
            continue;
        }
        CADRE_UNROLL
        for (int j = 0; j < WORDS; j++)
            if (c + j >= 0 && j < left)
                out[c + j] = drop(job, x[c + j], words[j]);
    }
}

extern "C" cadre_status cadre_cuda_dropout(const struct cadre_dropout *a, void *stream)
{
    const int64_t rows = a->batch * a->time;
    const bool whole =
        (a->columns | a->width | a->column) % WORDS == 0 && aligned(a->x, a->out);
    if (rows <= 0 || a->columns <= 0)
        return CADRE_OK;
    CADRE_DISPATCH("dropout", a->dtype, {
        const dropout_job<T> job = {*a,
                                    (const T *)a->x,
                                    (T *)a->out,
                                    (uint32_t)(a->part * 0x1p32),
                                    1 / (1 - a->part),
                                    whole};
        CADRE_LAUNCH(dropout<T>, (unsigned)rows,
                     row_threads(ceil_div(a->columns, WORDS) + 1), 0, stream, job);
    });
    return cadre_launch_check("dropout");
}
