/* SPDX-License-Identifier: Apache-2.0 */
/* comm.link is parsed strictly; its delays are in test_local. */
#include <math.h>
#include <string.h>

#include "core/comm/local.h"
#include "tests/support/check_main.h"

static const struct {
    const char *text;
    struct cadre_link inside, between;
} good[] = {
    {"", {0, 0}, {0, 0}},
    {"10:50", {10, 50e-6}, {0, 0}},
    {"0.5:0", {0.5, 0}, {0, 0}},
    {"12.5:1.5", {12.5, 1.5e-6}, {0, 0}},
    {"12.5:5, 1.25:30", {12.5, 5e-6}, {1.25, 30e-6}},
    {"1:2,3:0", {1, 2e-6}, {3, 0}},
};

static const char *const bad[] = {
    "10",      ":50",      "10:",     "10:50 ",    " 10:50",   "-1:50",
    "10:-5",   "0:50",     "1e3:5",   "nan:1",     "inf:1",    "10:5us",
    "10:50:1", "1..2:3",   ".:.",     "1:x",       "10;50",    "1:99999999999999999999",
    "1:2,",    ",1:2",     "1:2, ",   "1:2,3",     "1:2 ,3:4", "1:2,3:4,5:6",
    "1:2;3:4", "1:2, 0:4", "0:2,3:4", "1:2, 3:4 ", "1:2,,3:4"};

static bool equal(const struct cadre_link *a, const struct cadre_link *b)
{
    return fabs(a->gbytes_s - b->gbytes_s) < 1e-12 &&
           fabs(a->latency_s - b->latency_s) < 1e-12;
}

START_TEST(good_texts)
{
    struct cadre_link inside = {-1, -1}, between = {-1, -1};
    ck_assert_int_eq(cadre_link_parse(good[_i].text, &inside, &between, NULL),
                     CADRE_OK);
    ck_assert(equal(&inside, &good[_i].inside));
    ck_assert(equal(&between, &good[_i].between));
}
END_TEST

START_TEST(bad_texts)
{
    struct cadre_link inside = {-1, -1}, between = {-1, -1};
    struct cadre_error err;
    ck_assert_msg(cadre_link_parse(bad[_i], &inside, &between, &err) == CADRE_E_INVALID,
                  "\"%s\" was taken", bad[_i]);
    ck_assert_ptr_nonnull(strstr(err.text, "comm.link"));
    ck_assert(inside.gbytes_s == -1 && inside.latency_s == -1);
    ck_assert(between.gbytes_s == -1 && between.latency_s == -1);
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
