/* SPDX-License-Identifier: Apache-2.0 */
#include "core/model/lora_dropout.h"
#include "core/tensor/dtype.h"
#include "core/tensor/half.h"
#include "tests/support/check_main.h"

#include <stdlib.h>

enum { BATCH = 6, TIME = 10, WIDTH = 22, ALL = BATCH * TIME * WIDTH };

static const struct cadre_lora_dropout whole = {
    .seed = 5,
    .name = "layer",
    .part = 0.3,
    .dtype = CADRE_F64,
    .batch = BATCH,
    .time = TIME,
    .columns = WIDTH,
    .length = TIME,
    .width = WIDTH,
};

static void drop_ones(const struct cadre_lora_dropout *dropout, double *out)
{
    for (int64_t i = 0; i < dropout->batch * dropout->time * dropout->columns; i++)
        out[i] = 1;
    cadre_lora_drop(dropout, out, out);
}

START_TEST(drops_its_part)
{
    static double out[ALL], other[ALL];
    int zero = 0, same = 0;
    drop_ones(&whole, out);
    struct cadre_lora_dropout next = whole;
    next.name = "next layer";
    drop_ones(&next, other);
    for (int i = 0; i < ALL; i++) {
        ck_assert(out[i] == 0 || out[i] == 1 / 0.7);
        zero += out[i] == 0;
        same += (out[i] == 0) == (other[i] == 0);
    }
    ck_assert_int_gt(zero, ALL * 26 / 100);
    ck_assert_int_lt(zero, ALL * 34 / 100);
    ck_assert_int_lt(same, ALL * 65 / 100); /* 0.58 by chance */
}
END_TEST

/* The samples 2 and 3, the times 4 to 8, the columns 11 to 21: as in the whole. */
START_TEST(same_mask_of_a_part)
{
    static double out[ALL], part[ALL];
    struct cadre_lora_dropout cut = whole;
    cut.first = 2;
    cut.batch = 2;
    cut.position = 4;
    cut.time = 5;
    cut.column = 11;
    cut.columns = 11;
    drop_ones(&whole, out);
    drop_ones(&cut, part);
    for (int s = 0; s < 2; s++)
        for (int t = 0; t < 5; t++)
            for (int c = 0; c < 11; c++)
                ck_assert(part[(s * 5 + t) * 11 + c] ==
                          out[((s + 2) * TIME + t + 4) * WIDTH + c + 11]);
}
END_TEST

START_TEST(same_mask_of_every_dtype)
{
    static double out[ALL];
    static float narrow[ALL];
    static uint16_t half[2][ALL];
    struct cadre_lora_dropout dropout = whole;
    drop_ones(&whole, out);
    for (int i = 0; i < ALL; i++) {
        narrow[i] = 1;
        half[0][i] = cadre_bf16_from_f32(1);
        half[1][i] = cadre_f16_from_f32(1);
    }
    dropout.dtype = CADRE_F32;
    cadre_lora_drop(&dropout, narrow, narrow);
    dropout.dtype = CADRE_BF16;
    cadre_lora_drop(&dropout, half[0], half[0]);
    dropout.dtype = CADRE_F16;
    cadre_lora_drop(&dropout, half[1], half[1]);
    for (int i = 0; i < ALL; i++) {
        ck_assert(narrow[i] == (float)out[i]);
        ck_assert(half[0][i] == cadre_bf16_from_f32((float)out[i]));
        ck_assert(half[1][i] == cadre_f16_from_f32((float)out[i]));
    }
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("lora_dropout");
    TCase *tc = tcase_create("lora_dropout");
    tcase_add_test(tc, drops_its_part);
    tcase_add_test(tc, same_mask_of_a_part);
    tcase_add_test(tc, same_mask_of_every_dtype);
    suite_add_tcase(s, tc);
    return s;
}
