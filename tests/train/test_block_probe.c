/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/block_probe.h"

#include <string.h>

#include "tests/support/check_main.h"

static struct cadre_error err;

/* No figure is known; a block is not done in no time, and eight times the rows and four
 * times the channels, 100 times the work, take longer, of two at a time too. */
START_TEST(times_a_block)
{
    const struct cadre_block_shape small = {32, 2, 16, 1}, large = {128, 4, 64, 2};
    double s = 0, l = 0;
    ck_assert_msg(cadre_block_probe("cpu", 1, 1, &small, 3, &s, &err) == CADRE_OK, "%s",
                  err.text);
    ck_assert_msg(cadre_block_probe("cpu", 1, 2, &large, 3, &l, &err) == CADRE_OK, "%s",
                  err.text);
    ck_assert(s > 0 && l > s && l < 60);
}
END_TEST

START_TEST(no_such_block)
{
    const struct cadre_block_shape odd = {32, 3, 16, 1};
    double s = 0;
    ck_assert_int_eq(cadre_block_probe("cpu", 1, 2, &odd, 1, &s, &err),
                     CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, "heads") != NULL, "%s", err.text);
    ck_assert_int_ne(cadre_block_probe("abacus", 1, 1, &odd, 1, &s, &err), CADRE_OK);
    ck_assert_msg(strstr(err.text, "abacus") != NULL, "%s", err.text);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("block_probe");
    TCase *tc = tcase_create("block_probe");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, times_a_block);
    tcase_add_test(tc, no_such_block);
    suite_add_tcase(s, tc);
    return s;
}
