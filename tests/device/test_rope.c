/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "tests/device/op_testing.h"
#include "tests/support/check_main.h"

struct shape {
    int64_t batch, time, heads, head_size, pad, position;
};

/* Later calls use a table made by earlier ones. */
static const struct shape shapes[] = {
    {1, 1, 1, 2, 0, 0},   {2, 7, 3, 8, 5, 0},   {1, 33, 2, 16, 0, 3},
    {1, 1, 2, 16, 0, 36}, {1, 1, 2, 16, 0, 37}, {1, 1, 2, 16, 0, 40},
    {1, 65, 1, 62, 1, 0}, {1, 3, 1, 62, 1, 7},  {1, 2, 1, 62, 0, 900},
};
#define SHAPES ((int)(sizeof shapes / sizeof *shapes))

static const struct cadre_rotary turns[] = {
    {.theta = 10000},
    {.theta = 500000},
    {10000, CADRE_ROTARY_LINEAR, 3, 0, 0, 0},
    {500000, CADRE_ROTARY_LLAMA3, 8, 1, 4, 32},
};
#define TURNS ((int)(sizeof turns / sizeof *turns))

static void check_shape(struct cadre_device *device, uint32_t dtype, struct shape s,
                        const struct cadre_rotary *rotary)
{
    const int64_t ld = s.heads * s.head_size + s.pad, rows = s.batch * s.time;
    const int64_t D = s.head_size;
    struct tensor x = tensor_make(device, dtype, rows * ld, 1);
    struct tensor old = tensor_make(device, dtype, rows * ld, 1);
    ck_assert_int_eq(device->ops->rope(device, dtype, x.data, ld, s.batch, s.time,
                                       s.heads, D, rotary, s.position, false),
                     CADRE_OK);
    for (int64_t i = 0; i < rows * ld; i++) {
        const int64_t row = i / ld, column = i % ld, d = column % D, pair = d % (D / 2);
        double want = tensor_get(&old, i);
        if (column < s.heads * D) {
            const double angle = (double)(s.position + row % s.time) *
                                 cadre_rotary_frequency(rotary, pair, D / 2);
            const double other = tensor_get(&old, d < D / 2 ? i + D / 2 : i - D / 2);
            want = want * cos(angle) + (d < D / 2 ? -other : other) * sin(angle);
        }
        check_close(tensor_get(&x, i), want, slack(dtype, 2), "rope", i);
    }
    ck_assert_int_eq(device->ops->rope(device, dtype, x.data, ld, s.batch, s.time,
                                       s.heads, D, rotary, s.position, true),
                     CADRE_OK);
    for (int64_t i = 0; i < rows * ld; i++)
        check_close(tensor_get(&x, i), tensor_get(&old, i), slack(dtype, 2), "back", i);
    tensor_free(&x);
    tensor_free(&old);
}

START_TEST(turns_and_turns_back)
{
    struct cadre_device *device = open_cpu(2);
    for (int i = 0; i < SHAPES * 5; i++)
        check_shape(device, _i ? CADRE_F64 : CADRE_F32, shapes[i % SHAPES],
                    &turns[i / SHAPES % TURNS]);
    check_shape(device, _i ? CADRE_F32 : CADRE_F64, shapes[2], &turns[0]);
    cadre_device_close(device);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("rope");
    TCase *tc = tcase_create("rope");
    tcase_add_loop_test(tc, turns_and_turns_back, 0, 2);
    suite_add_tcase(suite, tc);
    return suite;
}
