/* SPDX-License-Identifier: Apache-2.0 */
/* The flight recorder: the last operations in their order, with their ends, also of a
 * writer that was killed or is at work; noise is no event. */
#include "core/base/rank_events.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/rank_seen.h"
#include "tests/support/check_main.h"

static char *dir, *path;
static struct cadre_rank_page *page;
static struct cadre_rank_event event[CADRE_RANK_PAGE_EVENTS];
static size_t n;
static struct cadre_error err;

static void open_page(void)
{
    const struct cadre_rank_page_request request = {
        .dir = dir, .ranks = 2, .name = "n", .stack = "ddp:2", .last_step = 9};
    ck_assert_int_eq(cadre_rank_page_create(&request, &page, &err), CADRE_OK);
}

static void setup(void)
{
    dir = test_tmpdir();
    path = cadre_rank_page_path(dir, 0);
    open_page();
}

static void teardown(void)
{
    cadre_rank_page_close(page);
    free(path);
    test_tmpdir_destroy(dir);
}

static uint64_t post(uint64_t i)
{
    struct cadre_rank_page_op op = {
        .posted_s = (double)i, .bytes = 8 * i, .step = i / 3, .ranks = 2};
    snprintf(op.kind, sizeof op.kind, "all_reduce");
    snprintf(op.label, sizeof op.label, "op %llu", (unsigned long long)i);
    snprintf(op.comm, sizeof op.comm, "dp");
    snprintf(op.plugin, sizeof op.plugin, "ddp");
    uint64_t posted = cadre_rank_page_posted(page, &op);
    cadre_rank_page_queued(page, posted, 2 * i);
    return posted;
}

static void look(void)
{
    ck_assert_int_eq(cadre_rank_events_read(path, event, &n, &err), CADRE_OK);
}

START_TEST(an_operation_from_post_to_end)
{
    look();
    ck_assert_uint_eq(n, 0);
    cadre_rank_page_enter(page, CADRE_PHASE_BACKWARD, 0, 1);
    const uint64_t one = post(1), two = post(2), three = post(3);
    cadre_rank_page_ended(page, two, 7.5);
    cadre_rank_page_ended(page, three, 0);
    look();
    ck_assert_uint_eq(n, 3);
    ck_assert_int_eq(event[0].state, CADRE_RANK_EVENT_PENDING);
    ck_assert_int_eq(event[1].state, CADRE_RANK_EVENT_ENDED);
    ck_assert_int_eq(event[2].state, CADRE_RANK_EVENT_REFUSED);
    ck_assert(isnan(event[0].ended_s) && isnan(event[2].ended_s));
    ck_assert_double_eq_tol(event[1].ended_s, 7.5, 1e-6);
    ck_assert_str_eq(event[1].op.label, "op 2");
    ck_assert_str_eq(event[1].op.kind, "all_reduce");
    ck_assert_str_eq(event[1].op.plugin, "ddp");
    ck_assert_uint_eq(event[1].op.bytes, 16);
    ck_assert_uint_eq(event[1].sequence, 4);
    ck_assert_uint_eq(event[1].op.phase, CADRE_PHASE_BACKWARD);
    cadre_rank_page_ended(page, one, 9);
    look();
    ck_assert_int_eq(event[0].state, CADRE_RANK_EVENT_ENDED);
}
END_TEST

/* The last ones are kept; what ends after it was overwritten changes no other. */
START_TEST(the_last_of_many)
{
    const uint64_t first = post(1);
    for (uint64_t i = 2; i <= 3 * CADRE_RANK_PAGE_EVENTS; i++)
        cadre_rank_page_ended(page, post(i), (double)i + 0.5);
    cadre_rank_page_ended(page, first, 0);
    look();
    ck_assert_uint_eq(n, CADRE_RANK_PAGE_EVENTS);
    for (size_t i = 0; i < n; i++) {
        const uint64_t number = 2 * CADRE_RANK_PAGE_EVENTS + 1 + i;
        ck_assert_uint_eq(event[i].op.number, number);
        ck_assert_uint_eq(event[i].sequence, 2 * number);
        ck_assert_int_eq(event[i].state, CADRE_RANK_EVENT_ENDED);
        ck_assert_double_eq_tol(event[i].ended_s, (double)number + 0.5, 1e-6);
    }
}
END_TEST

/* More at once than there are entries for: all have an end. */
START_TEST(many_at_once)
{
    uint64_t posted[100];
    for (uint64_t i = 0; i < 100; i++)
        posted[i] = post(i + 1);
    for (int i = 0; i < 100; i += 2)
        cadre_rank_page_ended(page, posted[i], 1000);
    look();
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(event[i].state,
                         i % 2 ? CADRE_RANK_EVENT_PENDING : CADRE_RANK_EVENT_ENDED);
}
END_TEST

START_TEST(the_events_outlive_their_writer)
{
    int status;
    const pid_t child = fork();
    if (child == 0) {
        open_page();
        cadre_rank_page_ended(page, post(1), 2);
        post(2);
        raise(SIGKILL);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    look();
    ck_assert_uint_eq(n, 2);
    ck_assert_int_eq(event[1].state, CADRE_RANK_EVENT_PENDING);
    ck_assert_str_eq(event[1].op.label, "op 2");
}
END_TEST

static _Atomic bool stop;

static void *writer(void *arg)
{
    (void)arg;
    for (uint64_t i = 1; !stop; i++)
        cadre_rank_page_ended(page, post(i), (double)i);
    return NULL;
}

/* What is read is whole: its parts are of one operation. */
START_TEST(no_event_is_torn)
{
    pthread_t thread;
    char label[32];
    ck_assert_int_eq(pthread_create(&thread, NULL, writer, NULL), 0);
    for (int turn = 0; turn < 50; turn++) {
        look();
        for (size_t i = 0; i < n; i++) {
            const struct cadre_rank_page_op *op = &event[i].op;
            snprintf(label, sizeof label, "op %llu", (unsigned long long)op->number);
            ck_assert_str_eq(op->label, label);
            ck_assert_uint_eq(op->bytes, 8 * op->number);
        }
    }
    stop = true;
    pthread_join(thread, NULL);
}
END_TEST

START_TEST(noise_is_not_believed)
{
    uint64_t x = 88172645463325252u;
    unsigned char *at = (unsigned char *)page->shared->event;
    for (size_t i = 0; i < sizeof page->shared->event; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        at[i] = (unsigned char)x;
    }
    look();
    ck_assert_uint_le(n, CADRE_RANK_PAGE_EVENTS);
    for (size_t i = 0; i < n; i++) {
        ck_assert_uint_lt(strlen(event[i].op.label), sizeof event[i].op.label);
        ck_assert_uint_lt(event[i].op.phase, CADRE_PHASES);
        ck_assert(isfinite(event[i].op.posted_s));
    }
    ck_assert_int_eq(truncate(path, 4096), 0);
    ck_assert_int_eq(cadre_rank_events_read(path, event, &n, &err), CADRE_E_INVALID);
    ck_assert_int_eq(cadre_rank_events_read("/nonexistent", event, &n, &err),
                     CADRE_E_IO);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("base/rank_events");
    TCase *t = tcase_create("events");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, an_operation_from_post_to_end);
    tcase_add_test(t, the_last_of_many);
    tcase_add_test(t, many_at_once);
    tcase_add_test(t, the_events_outlive_their_writer);
    tcase_add_test(t, no_event_is_torn);
    tcase_add_test(t, noise_is_not_believed);
    suite_add_tcase(s, t);
    return s;
}
