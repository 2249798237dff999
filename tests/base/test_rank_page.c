/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/rank_page.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/path.h"
#include "core/base/rank_seen.h"
#include "tests/support/check_main.h"

static char *dir;
static struct cadre_rank_page *page;
static struct cadre_rank_seen seen;
static struct cadre_error err;

static struct cadre_rank_page_request request(void)
{
    return (struct cadre_rank_page_request){
        .dir = dir,
        .rank = 3,
        .ranks = 8,
        .name = "first",
        .stack = "ddp:8",
        .first_step = 10,
        .last_step = 100,
        .step_tokens = 512,
        .planned_bytes = 1 << 20,
    };
}

static void open_page(bool copied)
{
    struct cadre_rank_page_request r = request();
    r.copied = copied;
    ck_assert_msg(cadre_rank_page_create(&r, &page, &err) == CADRE_OK, "%s", err.text);
}

static void setup(void)
{
    dir = test_tmpdir();
    open_page(false);
}

static void teardown(void)
{
    cadre_rank_page_close(page);
    test_tmpdir_destroy(dir);
}

static const struct cadre_rank_seen *look(void)
{
    char *path = cadre_rank_page_path(dir, 3);
    cadre_status rc = cadre_rank_seen_read(path, &seen, &err);
    free(path);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    return &seen;
}

static void pause_s(double s)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)(1e9 * s)}, NULL);
}

START_TEST(a_fresh_page)
{
    const struct cadre_rank_seen *s = look();
    ck_assert_int_eq(s->head.rank, 3);
    ck_assert_int_eq(s->head.ranks, 8);
    ck_assert_int_eq(s->head.pid, getpid());
    ck_assert_str_eq(s->head.name, "first");
    ck_assert_str_eq(s->head.stack, "ddp:8");
    ck_assert_int_eq(s->head.first_step, 10);
    ck_assert_int_eq(s->head.last_step, 100);
    ck_assert_int_eq(s->head.step_tokens, 512);
    ck_assert_uint_eq(s->head.planned_bytes, 1 << 20);
    ck_assert_int_eq(s->state, CADRE_RANK_STARTING);
    ck_assert_int_eq(s->alive, CADRE_RANK_ALIVE);
    ck_assert(s->phase_s >= 0 && s->phase_s < 60 * test_patience());
    ck_assert(isnan(s->begun_s) && isnan(s->result.loss));
    ck_assert(!s->has_pending && !s->has_ended);
    ck_assert_uint_eq(s->n_times, 0);
    ck_assert_uint_eq(s->passes[0].n, 0);
    ck_assert_str_eq(s->said, "");
}
END_TEST

/* The inner phase counts, and the parts are the whole. */
START_TEST(the_parts_of_a_step_sum_to_it)
{
    cadre_rank_page_schedule(page);
    cadre_rank_page_begin_step(page, 11);
    uint64_t outer = cadre_rank_page_enter(page, CADRE_PHASE_FORWARD, 1, 7);
    pause_s(0.004);
    ck_assert_int_eq(look()->phase, CADRE_PHASE_FORWARD);
    ck_assert_uint_eq(seen.chunk, 1);
    ck_assert_uint_eq(seen.microbatch, 7);
    uint64_t inner = cadre_rank_page_enter(page, CADRE_PHASE_COMM, 0, 0);
    ck_assert_int_eq(look()->phase, CADRE_PHASE_COMM);
    pause_s(0.006);
    cadre_rank_page_leave(page, inner);
    ck_assert_int_eq(look()->phase, CADRE_PHASE_FORWARD);
    ck_assert_uint_eq(seen.microbatch, 7);
    cadre_rank_page_leave(page, outer);
    outer = cadre_rank_page_enter(page, CADRE_PHASE_OPTIMIZER, 0, 0);
    pause_s(0.002);
    cadre_rank_page_leave(page, outer);
    cadre_rank_page_end_step(page, 0.001, 0.002);
    ck_assert_uint_eq(look()->n_times, 1);
    const struct cadre_rank_page_step *t = &seen.times[0];
    ck_assert_uint_eq(t->step, 11);
    ck_assert_double_ge(t->compute_s, 0.004);
    ck_assert_double_ge(t->optim_s, 0.002);
    ck_assert_double_eq_tol(t->comm_exposed_s, 0.001, 1e-12);
    ck_assert_double_eq_tol(t->wait_ranks_s, 0.002, 1e-12);
    ck_assert_double_ge(t->bubble_s, 0.003 - 1e-9);
    ck_assert_double_eq_tol(t->compute_s + t->optim_s + t->comm_exposed_s +
                                t->wait_ranks_s + t->bubble_s + t->data_s + t->other_s,
                            t->step_s, 1e-9);
    ck_assert(seen.begun_s >= t->step_s);
}
END_TEST

/* Waits of another thread are in the counters, but not in this thread's phases. */
START_TEST(more_waiting_than_the_thread_did_is_cut)
{
    cadre_rank_page_begin_step(page, 11);
    uint64_t phase = cadre_rank_page_enter(page, CADRE_PHASE_COMM, 0, 0);
    pause_s(0.002);
    cadre_rank_page_leave(page, phase);
    cadre_rank_page_end_step(page, 5, 5);
    const struct cadre_rank_page_step *t = look()->times;
    ck_assert_double_le(t->comm_exposed_s, t->step_s);
    ck_assert_double_eq(t->wait_ranks_s, 0);
    ck_assert_double_eq(t->bubble_s, 0);
}
END_TEST

START_TEST(the_last_steps_are_kept_in_order)
{
    for (uint64_t step = 1; step <= CADRE_RANK_PAGE_STEPS + 5; step++) {
        cadre_rank_page_begin_step(page, step);
        cadre_rank_page_end_step(page, 0, 0);
    }
    ck_assert_uint_eq(look()->n_times, CADRE_RANK_PAGE_STEPS);
    for (size_t i = 0; i < seen.n_times; i++)
        ck_assert_uint_eq(seen.times[i].step, i + 6);
}
END_TEST

static void *other_thread(void *arg)
{
    (void)arg;
    const uint64_t former = cadre_rank_page_enter(page, CADRE_PHASE_COMM, 0, 0);
    ck_assert_uint_eq(former, 0);
    ck_assert_int_eq(look()->phase, CADRE_PHASE_FORWARD);
    cadre_rank_page_leave(page, former);
    return NULL;
}

START_TEST(another_thread_changes_no_phase)
{
    pthread_t thread;
    cadre_rank_page_enter(page, CADRE_PHASE_FORWARD, 0, 2);
    ck_assert_int_eq(pthread_create(&thread, NULL, other_thread, NULL), 0);
    pthread_join(thread, NULL);
    ck_assert_int_eq(look()->phase, CADRE_PHASE_FORWARD);
    ck_assert_uint_eq(seen.microbatch, 2);
}
END_TEST

static uint64_t post(const char *label, double posted_s)
{
    struct cadre_rank_page_op op = {.posted_s = posted_s, .bytes = 64, .ranks = 8};
    snprintf(op.kind, sizeof op.kind, "all_reduce");
    snprintf(op.label, sizeof op.label, "%s", label);
    snprintf(op.comm, sizeof op.comm, "dp");
    return cadre_rank_page_posted(page, &op);
}

START_TEST(operations_are_pending_until_they_end)
{
    const uint64_t one = post("one", 1), two = post("two", 2);
    ck_assert(look()->has_pending && !seen.has_ended);
    ck_assert_str_eq(seen.pending.op.label, "one");
    ck_assert_str_eq(seen.pending.op.kind, "all_reduce");
    ck_assert_str_eq(seen.pending.op.comm, "dp");
    ck_assert_uint_eq(seen.pending.op.bytes, 64);
    cadre_rank_page_ended(page, one, 3);
    ck_assert_str_eq(look()->pending.op.label, "two");
    ck_assert(seen.has_ended);
    ck_assert_str_eq(seen.last.op.label, "one");
    cadre_rank_page_ended(page, two, 4);
    ck_assert(!look()->has_pending);
    ck_assert_str_eq(seen.last.op.label, "two");
    ck_assert_uint_eq(seen.posted, 2);
    ck_assert_uint_eq(seen.ended, 2);
}
END_TEST

START_TEST(a_refused_operation_has_not_ended)
{
    cadre_rank_page_ended(page, post("refused", 1), 0);
    ck_assert(!look()->has_pending && !seen.has_ended);
}
END_TEST

/* The oldest ones stay named; the others are counted. */
START_TEST(more_operations_than_entries)
{
    uint64_t entry[CADRE_RANK_PAGE_OPS + 4];
    for (int i = 0; i < CADRE_RANK_PAGE_OPS + 4; i++) {
        entry[i] = post(i == 0 ? "first" : "later", i + 1);
        ck_assert_int_eq((entry[i] & 0xff) == CADRE_RANK_PAGE_COUNTED,
                         i >= CADRE_RANK_PAGE_OPS);
    }
    ck_assert_str_eq(look()->pending.op.label, "first");
    ck_assert_uint_eq(seen.posted, CADRE_RANK_PAGE_OPS + 4);
    for (int i = 0; i < CADRE_RANK_PAGE_OPS + 4; i++)
        cadre_rank_page_ended(page, entry[i], 100 + i);
    ck_assert(!look()->has_pending);
    ck_assert_uint_eq(seen.ended, CADRE_RANK_PAGE_OPS + 4);
    ck_assert_uint_le(post("again", 200) & 0xff, CADRE_RANK_PAGE_OPS);
    cadre_rank_page_ended(page, 0, 300); /* of before there was a page */
    ck_assert_uint_eq(look()->ended, CADRE_RANK_PAGE_OPS + 4);
    ck_assert_str_eq(look()->pending.op.label, "again");
}
END_TEST

START_TEST(results_and_memory)
{
    struct cadre_rank_page_result r = {
        .step = 12, .loss = 2.5, .grad_norm = 0.5, .lr = 1e-3, .valid_loss = 2.25};
    cadre_rank_page_result(page, &r);
    r.step = 13;
    r.valid_loss = NAN;
    cadre_rank_page_result(page, &r);
    cadre_rank_page_memory(page, 100, 200);
    ck_assert_uint_eq(look()->result.step, 13);
    ck_assert_double_eq(seen.result.loss, 2.5);
    ck_assert_double_eq(seen.result.valid_loss, 2.25); /* of the evaluation before */
    ck_assert_uint_eq(seen.memory_bytes, 100);
    ck_assert_uint_eq(seen.memory_peak_bytes, 200);
}
END_TEST

START_TEST(passes_of_a_step)
{
    static struct cadre_rank_page_passes passes = {.step = 4};
    for (int i = 0; i < CADRE_RANK_PAGE_PASSES; i++)
        passes.pass[i] = (struct cadre_rank_page_pass){
            .kind = (uint32_t)i % 2, .microbatch = (uint32_t)i, .begin = 1, .end = 2};
    for (; passes.step <= 5; passes.step++) {
        passes.n = passes.step - 2;
        cadre_rank_page_passes(page, &passes);
    }
    ck_assert_uint_eq(look()->passes[0].n, 2);
    ck_assert_uint_eq(seen.passes[0].step, 4);
    ck_assert_uint_eq(seen.passes[1].n, 3);
    ck_assert_uint_eq(seen.passes[1].step, 5);
    ck_assert_uint_eq(seen.passes[1].pass[2].microbatch, 2);
}
END_TEST

START_TEST(nobody_looks)
{
    const struct cadre_rank_page_op op = {0};
    const struct cadre_rank_page_result result = {0};
    const struct cadre_rank_page_passes passes = {0};
    cadre_rank_page_state(NULL, CADRE_RANK_ENDED);
    cadre_rank_page_leave(NULL, cadre_rank_page_enter(NULL, CADRE_PHASE_DATA, 0, 0));
    cadre_rank_page_schedule(NULL);
    cadre_rank_page_begin_step(NULL, 1);
    cadre_rank_page_end_step(NULL, 0, 0);
    cadre_rank_page_memory(NULL, 1, 2);
    cadre_rank_page_result(NULL, &result);
    cadre_rank_page_passes(NULL, &passes);
    cadre_rank_page_say(NULL, "x");
    ck_assert_uint_eq(cadre_rank_page_posted(NULL, &op), 0);
    cadre_rank_page_ended(NULL, 1, 1);
    cadre_rank_page_close(NULL);
}
END_TEST

/* ---- the file ---- */

/* A process that is killed leaves what it was at. */
START_TEST(the_page_outlives_its_writer)
{
    int status;
    const pid_t child = fork();
    if (child == 0) {
        open_page(false);
        cadre_rank_page_state(page, CADRE_RANK_TRAINING);
        cadre_rank_page_begin_step(page, 11);
        post("ddp bucket 3", 1);
        cadre_rank_page_enter(page, CADRE_PHASE_COMM, 0, 0);
        raise(SIGKILL);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(look()->alive, CADRE_RANK_GONE);
    ck_assert_int_eq(seen.head.pid, child);
    ck_assert_int_eq(seen.state, CADRE_RANK_TRAINING);
    ck_assert_int_eq(seen.phase, CADRE_PHASE_COMM);
    ck_assert_str_eq(seen.pending.op.label, "ddp bucket 3");
}
END_TEST

START_TEST(a_rank_ends_with_its_reason)
{
    cadre_rank_page_say(page, "rank 3: the loss is not finite");
    cadre_rank_page_state(page, CADRE_RANK_FAILED);
    cadre_rank_page_close(page);
    page = NULL;
    ck_assert_int_eq(look()->state, CADRE_RANK_FAILED);
    ck_assert_str_eq(seen.said, "rank 3: the loss is not finite");
}
END_TEST

/* A reason that is longer than its place says so. */
START_TEST(a_long_reason_ends_in_dots)
{
    char reason[sizeof seen.said + 1];
    memset(reason, 'x', sizeof reason - 1);
    reason[sizeof reason - 1] = '\0';
    cadre_rank_page_say(page, reason + 1); /* the longest that fits */
    ck_assert_str_eq(look()->said, reason + 1);
    cadre_rank_page_say(page, reason);
    ck_assert_uint_eq(strlen(look()->said), sizeof seen.said - 1);
    ck_assert_str_eq(strchr(seen.said, '.'), "...");
}
END_TEST

/* As for a folder of another machine: a thread copies, and a last time at the end. */
START_TEST(a_copied_page)
{
    cadre_rank_page_close(page);
    open_page(true);
    ck_assert_ptr_nonnull(page->copier);
    ck_assert_int_eq(look()->state, CADRE_RANK_STARTING);
    cadre_rank_page_state(page, CADRE_RANK_TRAINING);
    cadre_rank_page_begin_step(page, 11);
    const time_t begin = time(NULL);
    while (look()->step != 11) {
        ck_assert(difftime(time(NULL), begin) < 60 * test_patience());
        pause_s(0.05);
    }
    cadre_rank_page_state(page, CADRE_RANK_ENDED);
    cadre_rank_page_close(page);
    page = NULL;
    ck_assert_int_eq(look()->state, CADRE_RANK_ENDED);
}
END_TEST

START_TEST(a_new_start_replaces_and_clears)
{
    char *path = cadre_rank_page_path(dir, 3);
    struct cadre_rank_page *old = page;
    open_page(false); /* the old one's mapping is of another file by now */
    cadre_rank_page_state(old, CADRE_RANK_FAILED);
    ck_assert_int_eq(look()->state, CADRE_RANK_STARTING);
    cadre_rank_page_close(old);
    ck_assert_int_eq(cadre_rank_page_clear(dir, &err), CADRE_OK);
    ck_assert(!cadre_path_exists(path));
    ck_assert_int_eq(cadre_rank_page_clear(dir, &err), CADRE_OK);
    ck_assert_int_eq(cadre_rank_page_clear("/nonexistent", &err), CADRE_OK);
    free(path);
}
END_TEST

START_TEST(a_folder_that_cannot_be_written)
{
    struct cadre_rank_page_request r = request();
    struct cadre_rank_page *none = NULL;
    r.dir = "/dev/null";
    ck_assert_int_eq(cadre_rank_page_create(&r, &none, &err), CADRE_E_IO);
    ck_assert_ptr_nonnull(strstr(err.text, "/dev/null"));
    ck_assert_ptr_null(none);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("rank_page");
    TCase *tc = tcase_create("rank_page");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_fresh_page);
    tcase_add_test(tc, the_parts_of_a_step_sum_to_it);
    tcase_add_test(tc, more_waiting_than_the_thread_did_is_cut);
    tcase_add_test(tc, the_last_steps_are_kept_in_order);
    tcase_add_test(tc, another_thread_changes_no_phase);
    tcase_add_test(tc, operations_are_pending_until_they_end);
    tcase_add_test(tc, a_refused_operation_has_not_ended);
    tcase_add_test(tc, more_operations_than_entries);
    tcase_add_test(tc, results_and_memory);
    tcase_add_test(tc, passes_of_a_step);
    tcase_add_test(tc, nobody_looks);
    tcase_add_test(tc, the_page_outlives_its_writer);
    tcase_add_test(tc, a_rank_ends_with_its_reason);
    tcase_add_test(tc, a_long_reason_ends_in_dots);
    tcase_add_test(tc, a_copied_page);
    tcase_add_test(tc, a_new_start_replaces_and_clears);
    tcase_add_test(tc, a_folder_that_cannot_be_written);
    suite_add_tcase(s, tc);
    return s;
}
