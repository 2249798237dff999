/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/check_main.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include <cadre/types.h>

#include "core/checkpoint/format/float.h"

/* IEEE 754 binary16 by its definition, in doubles. */
static double f16_by_definition(uint16_t bits)
{
    int exponent = bits >> 10 & 0x1f;
    double mantissa = bits & 0x3ff;
    double sign = bits & 0x8000 ? -1.0 : 1.0;
    if (exponent == 0)
        return sign * ldexp(mantissa, -24);
    return sign * ldexp(1024.0 + mantissa, exponent - 25);
}

static float widened(uint32_t bits, uint32_t dtype)
{
    uint16_t half = (uint16_t)bits;
    float got;
    cadre_float_convert(&half, dtype, 1, &got, CADRE_F32);
    return got;
}

START_TEST(every_f16_value_is_exact)
{
    for (uint32_t bits = 0; bits <= 0xffff; bits++) {
        float got = widened(bits, CADRE_F16);
        if ((bits & 0x7c00) != 0x7c00) {
            ck_assert((double)got == f16_by_definition((uint16_t)bits));
            ck_assert_int_eq(!!signbit(got), !!(bits & 0x8000));
        } else if (bits & 0x3ff) {
            ck_assert(isnan(got));
        } else {
            ck_assert(isinf(got) && (got < 0) == !!(bits & 0x8000));
        }
    }
}
END_TEST

START_TEST(every_bf16_value_is_the_upper_half)
{
    for (uint32_t bits = 0; bits <= 0xffff; bits++) {
        float got = widened(bits, CADRE_BF16);
        uint32_t word;
        memcpy(&word, &got, sizeof word);
        uint32_t quiet = (bits & 0x7fff) > 0x7f80 ? 0x400000 : 0; /* a NaN */
        ck_assert_uint_eq(word, bits << 16 | quiet);
    }
}
END_TEST

START_TEST(arrays_convert_from_unaligned_bytes)
{
    static const uint16_t half[] = {0x3c00, 0xc000, 0x0001};
    static const double wide[] = {1.0, 1.0 + 0x1p-24, -0x1p-149};
    unsigned char bytes[64];
    double f64[3];
    float f32[3];
    memcpy(bytes + 1, half, sizeof half);
    cadre_float_convert(bytes + 1, CADRE_F16, 3, f64, CADRE_F64);
    ck_assert(f64[0] == 1.0 && f64[1] == -2.0 && f64[2] == 0x1p-24);
    cadre_float_convert(bytes + 1, CADRE_BF16, 3, f32, CADRE_F32);
    ck_assert(f32[0] == 0x1p-7f && f32[1] == -2.0f && f32[2] == 0x1p-133f);
    memcpy(bytes + 1, wide, sizeof wide);
    cadre_float_convert(bytes + 1, CADRE_F64, 3, f32, CADRE_F32);
    ck_assert(f32[0] == 1.0f && f32[1] == 1.0f && f32[2] == -0x1p-149f);
    cadre_float_convert(f32, CADRE_F32, 3, f64, CADRE_F64);
    ck_assert(f64[2] == -0x1p-149);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("float");
    TCase *tc = tcase_create("float");
    tcase_add_test(tc, every_f16_value_is_exact);
    tcase_add_test(tc, every_bf16_value_is_the_upper_half);
    tcase_add_test(tc, arrays_convert_from_unaligned_bytes);
    suite_add_tcase(suite, tc);
    return suite;
}
