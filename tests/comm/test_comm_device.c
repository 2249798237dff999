/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers in the memory of a device whose streams run as late as allowed: order by
 * events, mixed memories, a device that fails, ranks as processes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/comm/comm_cases.h"
#include "tests/comm/late_device.h"
#include "tests/support/check_main.h"

struct body {
    comm_body run;
};

static cadre_status rank_main(void *arg, int rank, struct cadre_local_segment *segment)
{
    return comm_with_world(((struct body *)arg)->run, NULL, rank, segment);
}

static cadre_status launch(comm_body run, int size, struct cadre_error *err)
{
    struct cadre_local_config config = {.size = size, .timeout_s = 120};
    struct body body = {run};
    memset(err, 0, sizeof *err);
    return cadre_launch_threads(&config, NULL, rank_main, &body, err);
}

START_TEST(events_order_streams_and_queues)
{
    struct cadre_local_config config = {.size = _i, .timeout_s = 120};
    struct cadre_error err = {.code = CADRE_OK};
    cadre_status rc =
        cadre_launch_threads(&config, NULL, comm_case("device"), NULL, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
}
END_TEST

static cadre_status run_both_sides(struct world *w, const char *arg)
{
    float host[4] = {0}, *x = comm_calloc(w, 4, sizeof *x);
    cadre_event e;
    CHECK(w, cadre_comm_all_reduce(w->comm, "a", x, host, 4, CADRE_F32, CADRE_SUM, 0,
                                   &e) == CADRE_E_INVALID);
    CHECK(w, cadre_comm_all_reduce(w->comm, "a", host, x, 4, CADRE_F32, CADRE_SUM, 0,
                                   &e) == CADRE_E_INVALID);
    CHECK(w, cadre_comm_barrier(w->comm, "b", 0, &e) == 0 &&
                 cadre_comm_wait(w->comm, e) == 0);
    comm_free(w, x);
    return CADRE_OK;
}

/* Rank 1 has it in host memory. */
static cadre_status run_unlike(struct world *w, const char *arg)
{
    float host[4] = {0}, *x = comm_calloc(w, 4, sizeof *x);
    float *mine = w->rank == 1 ? host : x;
    cadre_event e;
    CHECK(w, cadre_comm_all_reduce(w->comm, "sum", mine, mine, 4, CADRE_F32, CADRE_SUM,
                                   0, &e) == 0);
    cadre_status rc = cadre_comm_wait(w->comm, e);
    comm_free(w, x);
    return rc;
}

static cadre_status run_unlike_send(struct world *w, const char *arg)
{
    float host[4] = {0}, *x = comm_calloc(w, 4, sizeof *x);
    cadre_event e;
    if (w->rank == 0)
        CHECK(w, cadre_comm_send(w->comm, "act", x, 4, CADRE_F32, 1, 0, &e) == 0);
    else
        CHECK(w, cadre_comm_recv(w->comm, "act", host, 4, CADRE_F32, 0, 0, &e) == 0);
    cadre_status rc = cadre_comm_wait(w->comm, e);
    comm_free(w, x);
    return rc;
}

START_TEST(memories_that_do_not_fit)
{
    struct cadre_error err;
    ck_assert_msg(launch(run_both_sides, 2, &err) == CADRE_OK, "%s", err.text);
    ck_assert_int_eq(launch(run_unlike, 3, &err), CADRE_E_COMM);
    ck_assert_msg(strstr(err.text, "rank 1 posted all_reduce #1 'sum'") &&
                      strstr(err.text, "buffers in host memory, rank 0 with buffers in "
                                       "device memory"),
                  "%s", err.text);
    ck_assert_int_eq(launch(run_unlike_send, 2, &err), CADRE_E_COMM);
    ck_assert_msg(strstr(err.text, "one of the buffers lies in device memory"), "%s",
                  err.text);
}
END_TEST

/* Rank 0's device fails: the others see the failure. */
static cadre_status run_broken(struct world *w, const char *arg)
{
    float *x = comm_calloc(w, 4, sizeof *x);
    cadre_event e;
    if (w->rank == 0)
        late_device_break(w->device);
    CHECK(w, cadre_comm_all_reduce(w->comm, "sum", x, x, 4, CADRE_F32, CADRE_SUM, 0,
                                   &e) == 0);
    cadre_status rc = cadre_comm_wait(w->comm, e);
    comm_free(w, x);
    return rc;
}

START_TEST(a_device_that_fails)
{
    struct cadre_error err;
    ck_assert_int_eq(launch(run_broken, 3, &err), CADRE_E_COMM);
    ck_assert_msg(
        strstr(err.text,
               "rank 0: the device failed to move data for all_reduce #1 'sum'"),
        "%s", err.text);
}
END_TEST

/* comm_rank_device prints "STATUS TEXT" of a case among processes. */
START_TEST(processes_stage_through_the_host)
{
    static const struct {
        const char *name;
        int size;
    } cases[] = {{"collectives", 1}, {"collectives", 3}, {"storm", 2}, {"messages", 3}};
    char command[128], line[512] = "";
    snprintf(command, sizeof command, "./comm_rank_device %s %d 120 20250101",
             cases[_i].name, cases[_i].size);
    FILE *out = popen(command, "r");
    ck_assert_ptr_nonnull(out);
    ck_assert_ptr_nonnull(fgets(line, sizeof line, out));
    ck_assert_int_eq(pclose(out), 0);
    ck_assert_msg(strncmp(line, "0 ", 2) == 0, "%s: %s", command, line);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("comm/device");
    TCase *t = tcase_create("late");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, events_order_streams_and_queues, 1, 6);
    tcase_add_test(t, memories_that_do_not_fit);
    tcase_add_test(t, a_device_that_fails);
    tcase_add_loop_test(t, processes_stage_through_the_host, 0, 4);
    suite_add_tcase(s, t);
    return s;
}
