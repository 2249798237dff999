/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/probe.h"

#include <string.h>

#include "tests/support/check_main.h"

static struct cadre_error err;

/* No figure is known; each is one that a machine can have. */
START_TEST(measures_a_rank_and_a_link)
{
    struct cadre_probe p;
    ck_assert_msg(cadre_probe(&p, "cpu", 1, NULL, 0.05, &err) == CADRE_OK, "%s",
                  err.text);
    for (int i = 0; i < CADRE_PROBE_DTYPES; i++)
        ck_assert(p.flops_s[i] > 1e6 && p.flops_s[i] < 1e17);
    ck_assert_double_ge(p.half_flops, 0);
    ck_assert(p.copy_bytes_s > 1e6 && p.rows_bytes_s > 1e5);
    ck_assert(p.attention_flops_s > 1e5 && p.update_bytes_s > 1e5);
    ck_assert(p.op_s > 0 && p.op_s < 1);
    ck_assert(p.link_bytes_s[0] > 1e4 && p.link_latency_s[0] > 0);
    ck_assert_double_eq(p.link_bytes_s[1], p.link_bytes_s[0]);
    ck_assert_int_eq(p.threads, 1);
    ck_assert_str_eq(p.device, "CPU");
}
END_TEST

/* Emulated links are never faster than they say. */
START_TEST(measures_emulated_links)
{
    const struct cadre_link link[2] = {{1, 20e-6}, {0.125, 200e-6}};
    struct cadre_probe p;
    ck_assert_msg(cadre_probe(&p, "cpu", 1, link, 0.05, &err) == CADRE_OK, "%s",
                  err.text);
    for (int i = 0; i < 2; i++) {
        ck_assert_double_le(p.link_bytes_s[i], 1.02e9 * link[i].gbytes_s);
        ck_assert_double_ge(p.link_latency_s[i], link[i].latency_s / 2); /* of a turn */
    }
}
END_TEST

START_TEST(no_such_device)
{
    struct cadre_probe p;
    ck_assert_int_ne(cadre_probe(&p, "abacus", 1, NULL, 0.05, &err), CADRE_OK);
    ck_assert_msg(strstr(err.text, "abacus") != NULL, "%s", err.text);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("probe");
    TCase *tc = tcase_create("probe");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, measures_a_rank_and_a_link);
    tcase_add_test(tc, measures_emulated_links);
    tcase_add_test(tc, no_such_device);
    suite_add_tcase(s, tc);
    return s;
}
