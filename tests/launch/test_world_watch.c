/* SPDX-License-Identifier: Apache-2.0 */
/* Two worlds of one rank each, as one rank sees them. */
#include <string.h>
#include <time.h>

#include "core/comm/local.h"
#include "core/launch/world_watch.h"
#include "tests/support/check_main.h"

static struct cadre_local_segment *segment[2];
static struct cadre_comm *comm[2];
static struct cadre_world_watch *watch;

static void setup(void)
{
    struct cadre_local_config config = {.size = 1, .timeout_s = 600};
    struct cadre_error err;
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(cadre_local_segment_create(&config, &segment[i], &err),
                         CADRE_OK);
        ck_assert_int_eq(cadre_local_open(segment[i], 0, &comm[i], &err), CADRE_OK);
    }
    ck_assert_int_eq(cadre_world_watch_open(comm[0], comm[1], &watch, &err), CADRE_OK);
}

static void teardown(void)
{
    cadre_world_watch_close(watch);
    for (int i = 0; i < 2; i++) {
        cadre_comm_destroy(comm[i]);
        cadre_local_segment_close(segment[i]);
    }
}

/* The other one fails too, without a query, and with the same text. */
START_TEST(a_failure_is_carried_over)
{
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_world_watch_failure(watch, &err), CADRE_OK);
    if (_i == 0)
        cadre_local_segment_fail(segment[0], 0, "was killed");
    else
        cadre_comm_abort(comm[1], "the other side is gone");
    while (cadre_comm_failure(comm[!_i], &err) == CADRE_OK)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    const char *says = _i == 0 ? "rank 0 was killed" : "the other side is gone";
    ck_assert_msg(strstr(err.text, says), "%s", err.text);
    err = (struct cadre_error){0};
    ck_assert_int_ne(cadre_world_watch_failure(watch, &err), CADRE_OK);
    ck_assert_msg(strstr(err.text, says), "%s", err.text);
}
END_TEST

/* Its text has more detail. */
START_TEST(the_first_one_has_priority)
{
    struct cadre_error err = {0};
    cadre_local_segment_fail(segment[0], 0, "was killed");
    cadre_comm_abort(comm[1], "connection reset");
    ck_assert_int_ne(cadre_world_watch_failure(watch, &err), CADRE_OK);
    ck_assert_msg(strstr(err.text, "was killed"), "%s", err.text);
}
END_TEST

START_TEST(nothing_happens)
{
    struct cadre_error err = {0};
    nanosleep(&(struct timespec){.tv_nsec = 60000000}, NULL);
    ck_assert_int_eq(cadre_world_watch_failure(watch, &err), CADRE_OK);
    ck_assert_int_eq(err.text[0], 0);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("launch/world_watch");
    TCase *t = tcase_create("watch");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, a_failure_is_carried_over, 0, 2);
    tcase_add_test(t, the_first_one_has_priority);
    tcase_add_test(t, nothing_happens);
    suite_add_tcase(s, t);
    return s;
}
