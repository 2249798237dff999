/* SPDX-License-Identifier: Apache-2.0 */
/* The tree over ranks, against the same tree written level by level, bit for bit. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/comm/reduce.h"
#include "core/tensor/half.h"
#include "tests/support/check_main.h"

#define COUNT 131 /* vector body and tail */

static float sources[256][COUNT];

static void fill(void)
{
    uint32_t x = 7;
    for (int r = 0; r < 256; r++)
        for (int i = 0; i < COUNT; i++) {
            x = x * 1664525u + 1013904223u;
            sources[r][i] = ldexpf((float)(x >> 8) - 8388608.0f, (int)(x >> 27));
        }
}

static uint32_t bits(float v)
{
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

static float level_by_level(int size, int i)
{
    float v[256] = {0};
    for (int r = 0; r < size; r++)
        v[r] = sources[r][i];
    for (; size > 1; size = (size + 1) / 2)
        for (int j = 0; j < (size + 1) / 2; j++)
            v[j] = 2 * j + 1 < size ? v[2 * j] + v[2 * j + 1] : v[2 * j];
    return v[0];
}

START_TEST(sum_is_the_tree)
{
    static const int sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 31, 64, 100, 255, 256};
    const void *srcs[256];
    float out[COUNT];
    fill();
    for (int r = 0; r < 256; r++)
        srcs[r] = sources[r];
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        cadre_reduce_block(out, srcs, sizes[s], COUNT, CADRE_F32, CADRE_SUM);
        for (int i = 0; i < COUNT; i++) {
            float expected = level_by_level(sizes[s], i);
            ck_assert_msg(bits(out[i]) == bits(expected),
                          "%d ranks, element %d: %a, expected %a", sizes[s], i,
                          (double)out[i], (double)expected);
        }
    }
}
END_TEST

START_TEST(other_kinds)
{
    double d[3][2] = {{1, -1}, {2, NAN}, {3, 5}}, dout[2];
    int32_t n[3][2] = {{INT32_MAX, 5}, {1, -7}, {0, 2}}, nout[2];
    uint8_t u[3][2] = {{1, 200}, {255, 3}, {4, 5}}, uout[2];
    const void *ds[] = {d[0], d[1], d[2]}, *ns[] = {n[0], n[1], n[2]};
    const void *us[] = {u[0], u[1], u[2]};
    cadre_reduce_block(dout, ds, 3, 2, CADRE_F64, CADRE_SUM);
    ck_assert(dout[0] == 6 && isnan(dout[1]));
    cadre_reduce_block(dout, ds, 3, 2, CADRE_F64, CADRE_MAX);
    ck_assert(dout[0] == 3 && isnan(dout[1])); /* a NaN is never lost */
    cadre_reduce_block(nout, ns, 3, 2, CADRE_I32, CADRE_SUM);
    ck_assert(nout[0] == INT32_MIN && nout[1] == 0); /* wraps */
    cadre_reduce_block(nout, ns, 3, 2, CADRE_I32, CADRE_MAX);
    ck_assert(nout[0] == INT32_MAX && nout[1] == 5);
    cadre_reduce_block(uout, us, 3, 2, CADRE_U8, CADRE_MAX);
    ck_assert(uout[0] == 255 && uout[1] == 200);
}
END_TEST

/* All bit patterns to f32 and back; halfway values round to even. */
START_TEST(half_conversions)
{
    for (uint32_t x = 0; x < 0x10000u; x++) {
        float f = cadre_f16_to_f32((uint16_t)x), b = cadre_bf16_to_f32((uint16_t)x);
        uint32_t f_quiet = f != f ? x | 0x200u : x, b_quiet = b != b ? x | 0x40u : x;
        ck_assert_uint_eq(cadre_f16_from_f32(f) | (f != f ? x : 0), f_quiet);
        ck_assert_uint_eq(cadre_bf16_from_f32(b), b_quiet);
    }
    for (uint32_t x = 0; x < 0x7bffu; x++) {
        float low = cadre_f16_to_f32((uint16_t)x),
              high = cadre_f16_to_f32((uint16_t)(x + 1));
        float half = low + (high - low) / 2;
        ck_assert_uint_eq(cadre_f16_from_f32(half), x + x % 2);
        ck_assert_uint_eq(cadre_f16_from_f32(nextafterf(half, 0)), x);
        ck_assert_uint_eq(cadre_f16_from_f32(-nextafterf(half, 1e9f)), 0x8000u + x + 1);
    }
    for (uint32_t x = 0; x < 0x7f7fu; x++) {
        uint32_t half = x << 16 | 0x8000u;
        ck_assert_uint_eq(cadre_bf16_from_f32(cadre_f32_of_bits(half)), x + x % 2);
        ck_assert_uint_eq(cadre_bf16_from_f32(cadre_f32_of_bits(half - 1)), x);
        ck_assert_uint_eq(cadre_bf16_from_f32(cadre_f32_of_bits(half + 1)), x + 1);
    }
    ck_assert_uint_eq(cadre_f16_from_f32(65519.0f), 0x7bffu);
    ck_assert_uint_eq(cadre_f16_from_f32(65520.0f), 0x7c00u);
    ck_assert_uint_eq(cadre_f16_from_f32(1e30f), 0x7c00u);
    ck_assert_uint_eq(cadre_f16_from_f32(0x1p-25f), 0);
    ck_assert_uint_eq(cadre_f16_from_f32(0x1.8p-25f), 1);
    ck_assert_uint_eq(cadre_bf16_from_f32(FLT_MAX), 0x7f80u);
}
END_TEST

/* 256 and 1 + 1 in bf16: the order of the tree is visible. */
START_TEST(sixteen_bits_are_rounded_at_every_node)
{
    uint16_t b[3][2], f[3][2], out[2];
    static const float b_in[3] = {256, 1, 1}, f_in[3] = {2048, 1, 1};
    const void *bs[] = {b[0], b[1], b[2]}, *fs[] = {f[0], f[1], f[2]};
    for (int r = 0; r < 3; r++) {
        b[r][0] = cadre_bf16_from_f32(b_in[r]);
        b[r][1] = cadre_bf16_from_f32(b_in[2 - r]);
        f[r][0] = cadre_f16_from_f32(f_in[r]);
        f[r][1] = cadre_f16_from_f32(f_in[2 - r]);
    }
    cadre_reduce_block(out, bs, 3, 2, CADRE_BF16, CADRE_SUM);
    ck_assert(cadre_bf16_to_f32(out[0]) == 256 && cadre_bf16_to_f32(out[1]) == 258);
    cadre_reduce_block(out, fs, 3, 2, CADRE_F16, CADRE_SUM);
    ck_assert(cadre_f16_to_f32(out[0]) == 2048 && cadre_f16_to_f32(out[1]) == 2050);
    b[1][0] = 0x7fc0u;
    f[2][1] = cadre_f16_from_f32(-1);
    f[1][1] = cadre_f16_from_f32(-2);
    f[0][1] = cadre_f16_from_f32(-3);
    cadre_reduce_block(out, bs, 3, 2, CADRE_BF16, CADRE_MAX);
    ck_assert(isnan(cadre_bf16_to_f32(out[0])) && cadre_bf16_to_f32(out[1]) == 256);
    cadre_reduce_block(out, fs, 3, 2, CADRE_F16, CADRE_MAX);
    ck_assert(cadre_f16_to_f32(out[0]) == 2048 && cadre_f16_to_f32(out[1]) == -1);
}
END_TEST

START_TEST(what_is_supported)
{
    ck_assert(cadre_reduce_supports(CADRE_F32, CADRE_SUM));
    ck_assert(cadre_reduce_supports(CADRE_U8, CADRE_MAX));
    ck_assert(!cadre_reduce_supports(CADRE_U8, CADRE_SUM));
    ck_assert(cadre_reduce_supports(CADRE_BF16, CADRE_SUM));
    ck_assert(cadre_reduce_supports(CADRE_F16, CADRE_MAX));
    ck_assert(!cadre_reduce_supports(CADRE_I8, CADRE_MAX));
    ck_assert(!cadre_reduce_supports(CADRE_F32, 0));
    ck_assert(!cadre_reduce_supports(0, CADRE_MAX));
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("comm/reduce");
    TCase *t = tcase_create("tree");
    tcase_add_test(t, sum_is_the_tree);
    tcase_add_test(t, other_kinds);
    tcase_add_test(t, half_conversions);
    tcase_add_test(t, sixteen_bits_are_rounded_at_every_node);
    tcase_add_test(t, what_is_supported);
    suite_add_tcase(s, t);
    return s;
}
