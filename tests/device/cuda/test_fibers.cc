// SPDX-License-Identifier: Apache-2.0
// The emulation of a block itself: warps, barriers, fragments, copies, and its faults.
#include "core/device/cuda/math.cuh"

extern "C" {
#include <cuda_runtime_api.h>

#include "tests/support/check_main.h"
}
#include <signal.h>

__global__ static void warps(int *out)
{
    const int lane = (int)threadIdx.x % 32;
    int *o = out + 6 * (blockIdx.x * blockDim.x + threadIdx.x);
    o[0] = __shfl_xor_sync(CADRE_FULL_WARP, lane, 5);
    o[1] = __shfl_down_sync(CADRE_FULL_WARP, lane, 3);
    o[2] = __shfl_up_sync(CADRE_FULL_WARP, lane, 3);
    o[3] = __shfl_sync(CADRE_FULL_WARP, lane, 9, 8);
    o[4] = (int)__ballot_sync(CADRE_FULL_WARP, lane % 3 == 0);
    o[5] = __popc(__ballot_sync(CADRE_FULL_WARP, (int)threadIdx.x < 40));
}

START_TEST(lanes)
{
    static int out[2 * 64 * 6];
    CADRE_LAUNCH(warps, 2, 64, 0, NULL, out);
    cudaDeviceSynchronize();
    for (int i = 0; i < 128; i++) {
        const int l = i % 32, *o = out + 6 * i;
        ck_assert_int_eq(o[0], l ^ 5);
        ck_assert_int_eq(o[1], l + 3 < 32 ? l + 3 : l);
        ck_assert_int_eq(o[2], l >= 3 ? l - 3 : l);
        ck_assert_int_eq(o[3], l / 8 * 8 + 1);
        ck_assert_int_eq((unsigned)o[4], 0x49249249u);
        ck_assert_int_eq(o[5], i % 64 < 32 ? 32 : 8);
    }
}
END_TEST

__global__ static void sums(const float *x, float *out)
{
    __shared__ float room[32];
    const float sum = block_sum(x[threadIdx.x], room);
    const float most = block_max(x[threadIdx.x], room);
    out[2 * threadIdx.x] = sum;
    out[2 * threadIdx.x + 1] = most;
}

START_TEST(blocks)
{
    float x[96], out[192];
    for (int i = 0; i < 96; i++)
        x[i] = (float)((i * 37) % 96);
    CADRE_LAUNCH(sums, 1, 96, 0, NULL, x, out);
    cudaDeviceSynchronize();
    for (int i = 0; i < 96; i++) {
        ck_assert(out[2 * i] == 95 * 96 / 2);
        ck_assert(out[2 * i + 1] == 95);
    }
}
END_TEST

// a (16, 16), b (16, 8) as its transpose (8, 16), d (16, 8)
__global__ static void product(const bf16 *a, const bf16 *bt, float *d)
{
    CADRE_DYNAMIC_SHARED(bf16, tile);
    const unsigned l = threadIdx.x, g = l / 4, q = l % 4;
    uint32_t fa[4], fb[2];
    float fd[4] = {0, 0, 0, 0};
    cadre_copy_async16(tile + l * 8, a + l * 8, true);
    cadre_copy_commit();
    cadre_copy_wait<0>();
    __syncwarp();
    cadre_ldmatrix_x4(fa, tile + (l % 16) * 16 + l / 16 * 8);
    for (unsigned i = 0; i < 2; i++)
        memcpy(&fb[i], bt + g * 16 + i * 8 + q * 2, 4);
    cadre_mma_bf16(fd, fa, fb);
    for (unsigned i = 0; i < 4; i++)
        d[(g + i / 2 * 8) * 8 + q * 2 + i % 2] = fd[i];
}

START_TEST(fragments)
{
    alignas(16) bf16 a[256], bt[128];
    float d[128];
    for (int i = 0; i < 256; i++)
        a[i] = bf16_of((float)(i % 7) - 3);
    for (int i = 0; i < 128; i++)
        bt[i] = bf16_of((float)(i % 5) - 2);
    CADRE_LAUNCH(product, 1, 32, 512, NULL, a, bt, d);
    cudaDeviceSynchronize();
    for (int r = 0; r < 16; r++)
        for (int c = 0; c < 8; c++) {
            float sum = 0;
            for (int k = 0; k < 16; k++)
                sum += f32_of(a[r * 16 + k]) * f32_of(bt[c * 16 + k]);
            ck_assert(d[r * 8 + c] == sum);
        }
}
END_TEST

__global__ static void half_a_barrier(int *out)
{
    if (threadIdx.x < 32)
        __syncthreads();
    out[threadIdx.x] = 1;
}

START_TEST(a_barrier_for_some)
{
    int out[64];
    CADRE_LAUNCH(half_a_barrier, 1, 64, 0, NULL, out);
    cudaDeviceSynchronize();
}
END_TEST

__global__ static void half_a_warp(int *out)
{
    out[threadIdx.x] = threadIdx.x < 7 ? __shfl_sync(CADRE_FULL_WARP, 1, 0) : 0;
}

START_TEST(a_shuffle_for_some)
{
    int out[32];
    CADRE_LAUNCH(half_a_warp, 1, 32, 0, NULL, out);
    cudaDeviceSynchronize();
}
END_TEST

START_TEST(too_many_threads)
{
    int out[1];
    CADRE_LAUNCH(half_a_warp, 1, 1056, 0, NULL, out);
    cudaDeviceSynchronize();
}
END_TEST

extern "C" Suite *test_suite(void)
{
    Suite *s = suite_create("fibers");
    TCase *tc = tcase_create("fibers");
    tcase_add_test(tc, lanes);
    tcase_add_test(tc, blocks);
    tcase_add_test(tc, fragments);
    tcase_add_test_raise_signal(tc, a_barrier_for_some, SIGABRT);
    tcase_add_test_raise_signal(tc, a_shuffle_for_some, SIGABRT);
    tcase_add_test_raise_signal(tc, too_many_threads, SIGABRT);
    suite_add_tcase(s, tc);
    return s;
}
