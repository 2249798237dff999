/* SPDX-License-Identifier: Apache-2.0 */
/* What a reader makes of pages that are damaged, foreign or being written. What whole
 * ones say: test_rank_page.c. */
#include "core/base/rank_seen.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "tests/support/check_main.h"

static char *dir, *path;
static struct cadre_rank_page *page;
static struct cadre_rank_seen seen;
static struct cadre_error err;

static void setup(void)
{
    dir = test_tmpdir();
    const struct cadre_rank_page_request request = {.dir = dir,
                                                    .rank = 0,
                                                    .ranks = 2,
                                                    .name = "n",
                                                    .stack = "ddp:2",
                                                    .last_step = 9};
    ck_assert_int_eq(cadre_rank_page_create(&request, &page, &err), CADRE_OK);
    path = cadre_rank_page_path(dir, 0);
}

static void teardown(void)
{
    cadre_rank_page_close(page);
    free(path);
    test_tmpdir_destroy(dir);
}

static void refused(const char *words)
{
    ck_assert_int_eq(cadre_rank_seen_read(path, &seen, &err), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, words) != NULL, "%s", err.text);
}

static void accepted(void)
{
    cadre_status rc = cadre_rank_seen_read(path, &seen, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
}

START_TEST(another_version_is_refused)
{
    page->shared->head.version = 77;
    refused("version 77");
}
END_TEST

START_TEST(another_file_is_refused)
{
    char *text = calloc(1, 4096);
    memset(text, 'x', 4096);
    free(path);
    path = strdup(test_file_put(dir, "other", text, 4096));
    refused("no rank's status page");
    free(text);
}
END_TEST

START_TEST(a_cut_page_is_refused)
{
    static struct cadre_rank_page_shared copy;
    memcpy(&copy, page->shared, sizeof copy);
    for (size_t bytes = 0; bytes < sizeof copy; bytes += 4093) {
        char *cut = test_tmpdir();
        const char *file = test_file_put(cut, "rank-00000", &copy, bytes);
        ck_assert_int_eq(cadre_rank_seen_read(file, &seen, &err), CADRE_E_INVALID);
        test_tmpdir_destroy(cut);
    }
}
END_TEST

START_TEST(what_is_no_file_is_refused)
{
    ck_assert_int_eq(cadre_rank_seen_read(dir, &seen, &err), CADRE_E_INVALID);
    ck_assert_int_eq(cadre_rank_seen_read("/dev/zero", &seen, &err), CADRE_E_INVALID);
    ck_assert_int_eq(cadre_rank_seen_read("/nonexistent", &seen, &err), CADRE_E_IO);
}
END_TEST

START_TEST(impossible_heads_are_damage)
{
    const struct cadre_rank_page_head good = page->shared->head;
    struct cadre_rank_page_head *head = &page->shared->head;
    head->rank = 2;
    refused("damaged");
    *head = good;
    head->ranks = 0;
    refused("damaged");
    *head = good;
    head->bytes = 1;
    refused("damaged");
    *head = good;
    head->pid = -1;
    refused("damaged");
    *head = good;
    head->clock_offset_s = NAN;
    refused("damaged");
    *head = good;
    memset(head->host, 'x', sizeof head->host); /* without an end */
    head->stack[0] = '\033';
    accepted();
    ck_assert_uint_eq(strlen(seen.head.host), sizeof head->host - 1);
    ck_assert_str_eq(seen.head.stack, "?dp:2");
}
END_TEST

/* Whatever the bytes: no crash, no text without an end, no number out of range. */
START_TEST(noise)
{
    static struct cadre_rank_page_shared bytes;
    uint64_t x = (uint64_t)_i * 7919 + 1;
    memcpy(&bytes, page->shared, sizeof bytes);
    for (size_t i = sizeof bytes.head; i < sizeof bytes; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        ((unsigned char *)&bytes)[i] = (unsigned char)(x >> 56);
    }
    const char *file = test_file_put(dir, "noise", &bytes, sizeof bytes);
    cadre_status rc = cadre_rank_seen_read(file, &seen, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    ck_assert(seen.state < CADRE_RANK_STATES && seen.phase < CADRE_PHASES);
    ck_assert_uint_le(seen.n_times, CADRE_RANK_PAGE_STEPS);
    ck_assert_uint_le(seen.passes[0].n, CADRE_RANK_PAGE_PASSES);
    ck_assert_ptr_nonnull(memchr(seen.said, 0, sizeof seen.said));
    ck_assert_ptr_nonnull(memchr(seen.last.op.label, 0, sizeof seen.last.op.label));
    ck_assert(isnan(seen.phase_s) || seen.phase_s >= 0);
}
END_TEST

/* A writer that died inside a cell: that cell alone is unknown. */
START_TEST(a_torn_cell_is_unknown)
{
    const struct cadre_rank_page_result result = {.step = 1, .loss = 2};
    cadre_rank_page_result(page, &result);
    cadre_rank_page_say(page, "text");
    page->shared->result.turn++;
    accepted();
    ck_assert(isnan(seen.result.loss));
    ck_assert_str_eq(seen.said, "text");
}
END_TEST

static atomic_bool stop;

static void *write_always(void *arg)
{
    struct cadre_rank_page_result r = {0};
    (void)arg;
    for (uint64_t n = 1; !stop; n++) {
        r.step = n;
        r.loss = r.grad_norm = r.lr = r.valid_loss = (double)n;
        cadre_rank_page_result(page, &r);
    }
    return NULL;
}

/* What is read while it is written is whole, or unknown. */
START_TEST(a_cell_that_changes_all_the_time)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, write_always, NULL), 0);
    for (int i = 0; i < (test_lean() ? 200 : 2000); i++) {
        accepted();
        const struct cadre_rank_page_result *r = &seen.result;
        if (!isnan(r->loss))
            ck_assert(r->loss == (double)r->step && r->grad_norm == r->loss &&
                      r->lr == r->loss && r->valid_loss == r->loss);
    }
    stop = true;
    pthread_join(thread, NULL);
}
END_TEST

/* The number of a process that is gone may be another's by now. */
START_TEST(who_is_alive)
{
    accepted();
    ck_assert_int_eq(seen.alive, CADRE_RANK_ALIVE);
    page->shared->head.process_begin += 100;
    accepted();
    ck_assert_int_eq(seen.alive, CADRE_RANK_GONE);
    page->shared->head.boot++;
    accepted();
    ck_assert_int_eq(seen.alive, CADRE_RANK_ELSEWHERE);
}
END_TEST

/* Another host's clock is put right by the time of day. */
START_TEST(ages_of_another_host)
{
    page->shared->head.boot++;
    page->shared->head.clock_offset_s += 1000 + cadre_now_s();
    page->shared->beat_ns = 0;
    accepted();
    ck_assert(isnan(seen.phase_s));
    page->shared->head.clock_offset_s -= 1000 + cadre_now_s();
    page->shared->beat_ns = (uint64_t)(1e9 * (cadre_now_s() - 0.001));
    accepted();
    ck_assert(seen.phase_s >= 0 && seen.phase_s < 60 * test_patience());
}
END_TEST

START_TEST(names)
{
    ck_assert_str_eq(cadre_rank_state_name(CADRE_RANK_SAVING), "saving");
    ck_assert_str_eq(cadre_rank_phase_name(CADRE_PHASE_COMM), "collective");
    ck_assert(cadre_rank_state_is_last(CADRE_RANK_STOPPED));
    ck_assert(!cadre_rank_state_is_last(CADRE_RANK_EVALUATING));
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("rank_seen");
    TCase *tc = tcase_create("rank_seen");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, another_version_is_refused);
    tcase_add_test(tc, another_file_is_refused);
    tcase_add_test(tc, a_cut_page_is_refused);
    tcase_add_test(tc, what_is_no_file_is_refused);
    tcase_add_test(tc, impossible_heads_are_damage);
    tcase_add_loop_test(tc, noise, 0, 20);
    tcase_add_test(tc, a_torn_cell_is_unknown);
    tcase_add_test(tc, a_cell_that_changes_all_the_time);
    tcase_add_test(tc, who_is_alive);
    tcase_add_test(tc, ages_of_another_host);
    tcase_add_test(tc, names);
    suite_add_tcase(s, tc);
    return s;
}
