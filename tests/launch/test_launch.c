/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/launch/launch.h"
#include "tests/support/check_main.h"

struct seen {
    _Atomic int ranks[4];
    cadre_status fails; /* what rank 1 returns */
    const char *why; /* given to abort, or NULL */
};

static cadre_status visit(void *arg, int rank, struct cadre_local_segment *segment)
{
    struct seen *seen = arg;
    atomic_fetch_add(&seen->ranks[rank], 1);
    return cadre_log_rank() == rank ? CADRE_OK : CADRE_E_INTERNAL;
}

/* Rank 1 fails, the others are in a collective with it. */
static cadre_status fail_alone(void *arg, int rank, struct cadre_local_segment *segment)
{
    struct seen *seen = arg;
    struct cadre_comm *comm;
    cadre_event done;
    cadre_status rc = cadre_local_open(segment, rank, &comm, NULL);
    if (rc != CADRE_OK)
        return rc;
    if (rank == 1) {
        if (seen->why)
            cadre_comm_abort(comm, seen->why);
        rc = seen->fails;
    } else {
        rc = cadre_comm_barrier(comm, "all", 0, &done);
        if (rc == CADRE_OK)
            rc = cadre_comm_wait(comm, done);
    }
    cadre_comm_destroy(comm);
    return rc;
}

START_TEST(every_rank_runs_once)
{
    struct cadre_local_config config = {.size = 4, .timeout_s = 60};
    struct seen seen = {.fails = CADRE_OK};
    struct cadre_error err;
    ck_assert_int_eq(cadre_launch_threads(&config, NULL, visit, &seen, &err), CADRE_OK);
    for (int r = 0; r < 4; r++)
        ck_assert_int_eq(atomic_load(&seen.ranks[r]), 1);
}
END_TEST

/* Only the last CPU that this process may use. */
static cpu_set_t last_cpu(void)
{
    cpu_set_t set, last;
    int cpu = CPU_SETSIZE - 1;
    sched_getaffinity(0, sizeof set, &set);
    while (!CPU_ISSET(cpu, &set))
        cpu--;
    CPU_ZERO(&last);
    CPU_SET(cpu, &last);
    return last;
}

static cadre_status compare_cpus(void *arg, int rank,
                                 struct cadre_local_segment *segment)
{
    const struct cadre_launch_place *place = arg;
    cpu_set_t mine;
    sched_getaffinity(0, sizeof mine, &mine);
    return CPU_EQUAL(&mine, &place[rank].cpus) ? CADRE_OK : CADRE_E_INTERNAL;
}

START_TEST(ranks_start_in_their_places)
{
    struct cadre_local_config config = {.size = 2, .timeout_s = 60};
    struct cadre_launch_place place[2] = {{.pinned = true, .cpus = last_cpu()}};
    struct cadre_error err = {0};
    sched_getaffinity(0, sizeof place[1].cpus, &place[1].cpus); /* not pinned */
    ck_assert_int_eq(cadre_launch_threads(&config, place, compare_cpus, place, &err),
                     CADRE_OK);
    CPU_ZERO(&place[0].cpus);
    ck_assert_int_eq(cadre_launch_threads(&config, place, compare_cpus, place, &err),
                     CADRE_E_RESOURCE);
    ck_assert_msg(strstr(err.text, "rank 0 could not be started"), "%s", err.text);
}
END_TEST

START_TEST(first_failure_comes_back)
{
    struct cadre_local_config config = {.size = 4, .timeout_s = 60};
    struct seen seen = {.fails = CADRE_E_NUMERIC, .why = "rank 1: loss is nan"};
    struct cadre_error err;
    ck_assert_int_eq(cadre_launch_threads(&config, NULL, fail_alone, &seen, &err),
                     CADRE_E_NUMERIC);
    ck_assert_str_eq(err.text, "rank 1: loss is nan");
}
END_TEST

/* A rank that ends without a report is named by the others or the launcher. */
START_TEST(silent_failure_is_named)
{
    struct cadre_local_config config = {.size = 2, .timeout_s = 60};
    struct seen seen = {.fails = CADRE_E_IO};
    struct cadre_error err;
    cadre_status rc = cadre_launch_threads(&config, NULL, fail_alone, &seen, &err);
    ck_assert_msg(rc == CADRE_E_IO || rc == CADRE_E_COMM, "%d", rc);
    ck_assert_msg(strstr(err.text, "rank 1 "), "%s", err.text);
}
END_TEST

START_TEST(wrong_configuration)
{
    struct cadre_local_config config = {.size = 0, .timeout_s = 60};
    struct seen seen = {.fails = CADRE_OK};
    struct cadre_error err;
    ck_assert_int_eq(cadre_launch_threads(&config, NULL, visit, &seen, &err),
                     CADRE_E_INVALID);
    config.size = 100000;
    ck_assert_int_eq(cadre_launch_threads(&config, NULL, visit, &seen, &err),
                     CADRE_E_INVALID);
    config.size = 2;
    config.timeout_s = 0;
    ck_assert_int_eq(cadre_launch_threads(&config, NULL, visit, &seen, &err),
                     CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "comm.timeout"));
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("launch/launch");
    TCase *t = tcase_create("threads");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, every_rank_runs_once);
    tcase_add_test(t, ranks_start_in_their_places);
    tcase_add_test(t, first_failure_comes_back);
    tcase_add_test(t, silent_failure_is_named);
    tcase_add_test(t, wrong_configuration);
    suite_add_tcase(s, t);
    return s;
}
