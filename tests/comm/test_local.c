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
    return cadre_launch_threads(&config, NULL, comm_case(name), (void *)(uintptr_t)arg,
                                err);
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
    double timeout_s = test_patience();
    char text[32], waited[48];
    snprintf(text, sizeof text, "%g", timeout_s);
    snprintf(waited, sizeof waited, "for %g s", timeout_s);
    ck_assert_int_eq(launch("hang", 3, timeout_s, text, &err), CADRE_E_COMM);
    ck_assert_msg(strstr(err.text, "rank 2 has not entered all_reduce #2 'bucket 3'") &&
                      strstr(err.text, "last seen in recv from rank 0 #1 'act'") &&
                      strstr(err.text, waited),
                  "%s", err.text);
}
END_TEST

/* Cases that report their own errors. */
static const struct {
    const char *name;
    int size;
    cadre_status expected;
    const char *text; /* in the failure */
} plain[] = {
    {"independence", 2, CADRE_OK, NULL},
    {"messages", 2, CADRE_OK, NULL},
    {"messages", 4, CADRE_OK, NULL},
    {"groups", 2, CADRE_OK, NULL},
    {"groups", 5, CADRE_OK, NULL},
    {"exhaust", 3, CADRE_E_COMM, "no room for another communicator of 3 ranks"},
    {"refusals", 2, CADRE_OK, NULL},
    {"counts", 3, CADRE_OK, NULL},
    {"checksums", 3, CADRE_OK, NULL},
    {"aborted", 1, CADRE_E_ABORTED, "loss is not finite at step 5"},
    {"aborted", 2, CADRE_E_ABORTED, "loss is not finite at step 5"},
    {"aborted", 4, CADRE_E_ABORTED, "loss is not finite at step 5"},
    {"leaver", 2, CADRE_E_COMM, "rank 1 "},
    {"leaver", 4, CADRE_E_COMM, "rank 3 "},
    {"unequal", 2, CADRE_E_COMM, "8 elements"},
    {"orphaned", 2, CADRE_E_COMM, "rank 0 "},
    {"messages", 8, CADRE_OK, NULL},
    {"groups", 8, CADRE_OK, NULL},
};

START_TEST(plain_cases)
{
    struct cadre_error err;
    cadre_status rc = launch(plain[_i].name, plain[_i].size, 60, "", &err);
    ck_assert_msg(rc == plain[_i].expected, "%s at %d ranks: %d %s", plain[_i].name,
                  plain[_i].size, rc, err.text);
    if (plain[_i].text)
        ck_assert_msg(strstr(err.text, plain[_i].text), "%s", err.text);
}
END_TEST

START_TEST(timeout_names_the_group)
{
    struct cadre_error err;
    ck_assert_int_eq(launch("absent", 4, 0.5 * test_patience(), "", &err),
                     CADRE_E_COMM);
    ck_assert_msg(
        strstr(err.text, "rank 2 has not entered barrier #1 'half' of ranks 0,2 "),
        "%s", err.text);
}
END_TEST

START_TEST(link_delays)
{
    struct cadre_error err;
    struct cadre_local_config config = {
        .size = 2, .timeout_s = 60, .link = {.gbytes_s = 0.1, .latency_s = 5e-3}};
    cadre_status rc =
        cadre_launch_threads(&config, NULL, comm_case("link"), NULL, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
}
END_TEST

START_TEST(levels_are_counted_and_delayed)
{
    struct cadre_error err;
    struct cadre_local_config config = {
        .size = 4, .timeout_s = 60, .link = {100, 0}, .between = {0.1, 5e-3}};
    cadre_status rc =
        cadre_launch_threads(&config, NULL, comm_case("levels"), NULL, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
}
END_TEST

START_TEST(ranks_open_once)
{
    struct cadre_local_config config = {.size = 2, .timeout_s = 1};
    struct cadre_local_segment *segment;
    struct cadre_comm *comm, *again;
    struct cadre_error err;
    ck_assert_int_eq(cadre_local_segment_create(&config, &segment, &err), CADRE_OK);
    ck_assert_int_eq(cadre_local_open(segment, 2, &comm, &err), CADRE_E_INVALID);
    ck_assert_int_eq(cadre_local_open(segment, -1, &comm, &err), CADRE_E_INVALID);
    ck_assert_int_eq(cadre_local_open(segment, 1, &comm, &err), CADRE_OK);
    ck_assert_int_eq(cadre_local_open(segment, 1, &again, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "rank 1"));
    cadre_comm_destroy(comm);
    cadre_local_segment_close(segment);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("comm/local");
    TCase *t = tcase_create("threads");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, collectives_match_references, 1, 6);
    tcase_add_loop_test(t, storm_of_operations, 2, 6);
    tcase_add_test(t, mismatch_names_both);
    tcase_add_test(t, timeout_names_the_missing_rank);
    tcase_add_loop_test(t, plain_cases, 0, (int)(sizeof plain / sizeof plain[0]));
    tcase_add_test(t, timeout_names_the_group);
    tcase_add_test(t, link_delays);
    tcase_add_test(t, levels_are_counted_and_delayed);
    tcase_add_test(t, ranks_open_once);
    suite_add_tcase(s, t);
    return s;
}
