/* SPDX-License-Identifier: Apache-2.0 */
/* The local communicator with ranks as threads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/comm/comm_cases.h"
#include "tests/support/check_main.h"

static cadre_status launch(const char *name, int size, double timeout_s,
                           const char *arg, struct cadre_error *err)
{
    struct cadre_local_config config = {.size = size, .timeout_s = timeout_s};
    memset(err, 0, sizeof *err);
    return cadre_launch_threads(&config, comm_case(name), (void *)(uintptr_t)arg, err);
}

START_TEST(collectives_match_references)
{
    struct cadre_error err;
    ck_assert_msg(launch("collectives", _i, 60, "", &err) == CADRE_OK, "%s", err.text);
}
END_TEST

START_TEST(storm_of_operations)
{
    struct cadre_error err;
    char seed[32];
    const char *given = getenv("CADRE_TEST_SEED");
    snprintf(seed, sizeof seed, "%s", given ? given : "20250101");
    if (!given && getenv("CADRE_TEST_RANDOM"))
        snprintf(seed, sizeof seed, "%lld", (long long)time(NULL));
    printf("seed %s\n", seed);
    ck_assert_msg(launch("storm", _i, 60, seed, &err) == CADRE_OK, "%s (seed %s)",
                  err.text, seed);
}
END_TEST

START_TEST(mismatch_names_both)
{
    struct cadre_error err;
    ck_assert_int_eq(launch("mismatch", 3, 60, "", &err), CADRE_E_COMM);
    ck_assert_msg(strstr(err.text, "rank 0 posted all_reduce #1 'bucket 3'") &&
                      strstr(err.text, "rank 2 posted broadcast #1 'params'") &&
                      strstr(err.text, "step 40"),
                  "%s", err.text);
}
END_TEST

START_TEST(timeout_names_the_missing_rank)
{
    struct cadre_error err;
    ck_assert_int_eq(launch("hang", 3, 0.5, "", &err), CADRE_E_COMM);
    ck_assert_msg(strstr(err.text, "rank 2 has not entered all_reduce #1 'bucket 3'") &&
                      strstr(err.text, "last seen in recv from rank 0 #1 'act'") &&
                      strstr(err.text, "for 0.5 s"),
                  "%s", err.text);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("comm/local");
    TCase *t = tcase_create("threads");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, collectives_match_references, 1, 6);
    tcase_add_loop_test(t, storm_of_operations, 2, 6);
    tcase_add_test(t, mismatch_names_both);
    tcase_add_test(t, timeout_names_the_missing_rank);
    suite_add_tcase(s, t);
    return s;
}
