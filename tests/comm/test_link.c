/* SPDX-License-Identifier: Apache-2.0 */
/* comm.link is parsed strictly; its delays are in test_local. */
#include <math.h>
#include <string.h>

#include "core/comm/local.h"
#include "tests/support/check_main.h"

static const struct {
    const char *text;
    double gbytes_s, latency_s;
} good[] = {
    {"", 0, 0},
    {"10:50", 10, 50e-6},
    {"0.5:0", 0.5, 0},
    {"12.5:1.5", 12.5, 1.5e-6},
};

static const char *const bad[] = {
    "10",      ":50",    "10:",   "10:50 ", " 10:50", "-1:50",
    "10:-5",   "0:50",   "1e3:5", "nan:1",  "inf:1",  "10:5us",
    "10:50:1", "1..2:3", ".:.",   "1:x",    "10;50",  "1:99999999999999999999"};

START_TEST(good_texts)
{
    double rate = -1, latency = -1;
    ck_assert_int_eq(cadre_link_parse(good[_i].text, &rate, &latency, NULL), CADRE_OK);
    ck_assert(fabs(rate - good[_i].gbytes_s) < 1e-12);
    ck_assert(fabs(latency - good[_i].latency_s) < 1e-12);
}
END_TEST

START_TEST(bad_texts)
{
    double rate = -1, latency = -1;
    struct cadre_error err;
    ck_assert_msg(cadre_link_parse(bad[_i], &rate, &latency, &err) == CADRE_E_INVALID,
                  "\"%s\" was taken", bad[_i]);
    ck_assert_ptr_nonnull(strstr(err.text, "comm.link"));
    ck_assert(rate == -1 && latency == -1);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("comm/link");
    TCase *t = tcase_create("parse");
    tcase_add_loop_test(t, good_texts, 0, (int)(sizeof good / sizeof good[0]));
    tcase_add_loop_test(t, bad_texts, 0, (int)(sizeof bad / sizeof bad[0]));
    suite_add_tcase(s, t);
    return s;
}
