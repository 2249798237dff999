/* SPDX-License-Identifier: Apache-2.0 */
/* The tree over ranks, against the same tree written level by level, bit for bit. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/comm/local/reduce.h"
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

START_TEST(what_is_supported)
{
    ck_assert(cadre_reduce_supports(CADRE_F32, CADRE_SUM));
    ck_assert(cadre_reduce_supports(CADRE_U8, CADRE_MAX));
    ck_assert(!cadre_reduce_supports(CADRE_U8, CADRE_SUM));
    ck_assert(!cadre_reduce_supports(CADRE_BF16, CADRE_SUM));
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
    tcase_add_test(t, what_is_supported);
    suite_add_tcase(s, t);
    return s;
}
