/* SPDX-License-Identifier: Apache-2.0 */
#include "core/launch/status_watch.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"

#define SLOTS 3

static struct cadre_status_slot *slot;
static struct cadre_status_watch watch;
static double now_s;

static void setup(void)
{
    slot = calloc(SLOTS, sizeof *slot);
    ck_assert_ptr_nonnull(slot);
    watch = (struct cadre_status_watch){0};
    now_s = 1000;
    cadre_status_begin(&slot[0], CADRE_STATUS_NO_RANK);
    cadre_status_begin(&slot[1], 0);
    cadre_status_begin(&slot[2], 1);
}

static void teardown(void)
{
    free(slot);
}

/* Looks ten times a second for so long; the last answer. */
static int look_for(double seconds)
{
    int found = -1;
    double end = now_s + seconds;
    while (now_s < end) {
        found = cadre_status_watch_look(&watch, slot, SLOTS, 2, now_s);
        now_s += 0.1;
    }
    return found;
}

START_TEST(a_callback_without_progress_is_found)
{
    ck_assert_int_eq(look_for(100), -1); /* outside of callbacks there is no limit */
    cadre_status_enter(&slot[2], "x", "step", 3);
    ck_assert_int_eq(look_for(1.5), -1);
    ck_assert_int_eq(look_for(1), 2);
}
END_TEST

START_TEST(progress_begins_the_time_anew)
{
    cadre_status_enter(&slot[1], "x", "step", 3);
    for (int i = 0; i < 10; i++) {
        ck_assert_int_eq(look_for(1.5), -1);
        cadre_status_beat(&slot[1]);
    }
    uint64_t former = cadre_status_core(&slot[1]); /* the core may take its time */
    ck_assert_int_eq(look_for(100), -1);
    cadre_status_leave(&slot[1], former);
    ck_assert_int_eq(look_for(1.5), -1);
    ck_assert_int_eq(look_for(1), 1);
}
END_TEST

/* The watching process was stopped, and with it those it watches. */
START_TEST(a_pause_of_both_counts_little)
{
    cadre_status_enter(&slot[1], "x", "step", 3);
    ck_assert_int_eq(look_for(0.5), -1);
    now_s += 3600;
    ck_assert_int_eq(cadre_status_watch_look(&watch, slot, SLOTS, 2, now_s), -1);
    now_s += 3600;
    ck_assert_int_eq(cadre_status_watch_look(&watch, slot, SLOTS, 2, now_s), 1);
}
END_TEST

START_TEST(a_process_that_does_not_end_after_its_end)
{
    cadre_status_finished(&slot[1]);
    ck_assert_int_eq(look_for(100), -1); /* a thread, whose process goes on */
    watch.processes = true;
    ck_assert_int_eq(look_for(3), 1);
    watch = (struct cadre_status_watch){0};
    cadre_status_finished(&slot[0]);
    ck_assert_int_eq(look_for(3), 0);
}
END_TEST

START_TEST(without_a_limit_nothing_is_found)
{
    cadre_status_enter(&slot[0], "x", "command", 0);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(cadre_status_watch_look(&watch, slot, SLOTS, 0, now_s++), -1);
    ck_assert(cadre_status_limit_asked(0) > 0);
    ck_assert(cadre_status_limit_asked(600) < 60);
    ck_assert(cadre_status_limit_asked(0.5) == 0.5);
}
END_TEST

/* What a slot that is not whole says is empty, not wrong. */
START_TEST(a_damaged_slot_is_read_safely)
{
    memset(slot, 0xff, sizeof *slot);
    struct cadre_status_seen seen = cadre_status_read(slot);
    ck_assert_str_eq(seen.instance, "");
    atomic_store(&slot->place, 1 << 8 | 1);
    seen = cadre_status_read(slot);
    ck_assert_uint_eq(strlen(seen.instance), CADRE_STATUS_CHARS - 1);
}
END_TEST

START_TEST(who_received_the_signal_is_to_blame)
{
    cadre_status_enter(&slot[1], "a", "step", 3);
    cadre_status_enter(&slot[2], "b", "on_grad", 3);
    atomic_store(&slot[2].fault, SIGSEGV);
    struct cadre_status_seen seen = cadre_status_blame(slot, SLOTS);
    ck_assert_int_eq(seen.rank, 1);
    ck_assert_str_eq(seen.instance, "b");
    atomic_store(&slot[2].fault, 0);
    atomic_store(&slot[1].exits, CADRE_STATUS_EXITS);
    seen = cadre_status_blame(slot, SLOTS);
    ck_assert(seen.rank == 0 && seen.exits);
    /* whose crash follows from the exit of another */
    atomic_store(&slot[1].exits, 0);
    atomic_store(&slot[1].fault, SIGSEGV);
    atomic_store(&slot[2].exits, CADRE_STATUS_EXITS);
    seen = cadre_status_blame(slot, SLOTS);
    ck_assert(seen.rank == 1 && seen.exits);
    /* or from that of a plugin's thread, which waits for it inside the plugin */
    atomic_store(&slot[2].exits, 0);
    atomic_store(&slot[0].exits, CADRE_STATUS_OTHER_EXITS);
    cadre_status_core(&slot[1]);
    seen = cadre_status_blame(slot, SLOTS);
    ck_assert(seen.rank == 1 && seen.other_exits && !seen.exits);
}
END_TEST

START_TEST(else_who_was_inside_a_plugin)
{
    struct cadre_status_seen seen = cadre_status_blame(slot, SLOTS);
    ck_assert(seen.rank == CADRE_STATUS_NO_RANK && !seen.instance[0]);
    cadre_status_enter(&slot[1], "a", "step", 3);
    cadre_status_core(&slot[1]);
    cadre_status_enter(&slot[2], "b", "on_grad", 3);
    seen = cadre_status_blame(slot, SLOTS);
    ck_assert(seen.rank == 1 && strcmp(seen.instance, "b") == 0);
    cadre_status_leave(&slot[1], 0);
    cadre_status_enter(&slot[1], "b", "on_grad", 3);
    seen = cadre_status_blame(slot, SLOTS);
    ck_assert_int_eq(seen.rank, CADRE_STATUS_SOME_RANK);
    ck_assert_str_eq(seen.instance, "b");
    cadre_status_enter(&slot[1], "a", "on_grad", 3);
    seen = cadre_status_blame(slot, SLOTS);
    ck_assert_str_eq(seen.instance, "");
    cadre_status_finished(&slot[1]);
    seen = cadre_status_blame(slot, SLOTS);
    ck_assert_int_eq(seen.rank, 1);
}
END_TEST

/* ---- words ---- */

static struct cadre_status_seen at(int rank, const char *instance, const char *callback,
                                   uint64_t step)
{
    struct cadre_status_seen seen = {
        .state = CADRE_STATUS_RUNNING, .rank = rank, .step = step};
    strcpy(seen.instance, instance);
    strcpy(seen.callback, callback);
    return seen;
}

START_TEST(words_of_signals)
{
    struct cadre_status_seen seen = at(1, "x", "on_grad", 12);
    char text[512];
    cadre_status_tell_signal(&seen, SIGSEGV, text, sizeof text);
    ck_assert_str_eq(text, "plugin 'x' in on_grad at step 12: rank 1 was killed by "
                           "signal 11 (Segmentation fault)");
    cadre_status_tell_signal(&seen, SIGKILL, text, sizeof text);
    ck_assert_str_eq(text, "rank 1 was killed by signal 9 (Killed) at step 12");
    seen.core = true;
    cadre_status_tell_signal(&seen, SIGABRT, text, sizeof text);
    ck_assert_str_eq(text, "rank 1 was killed by signal 6 (Aborted) in the core, which "
                           "plugin 'x' called in on_grad at step 12");
    seen = at(CADRE_STATUS_NO_RANK, "x", "plan", 0);
    cadre_status_tell_signal(&seen, SIGBUS, text, sizeof text);
    ck_assert_str_eq(text, "plugin 'x' in plan: the run was killed by signal 7 (Bus "
                           "error)");
}
END_TEST

START_TEST(words_of_exits)
{
    struct cadre_status_seen seen = at(1, "x", "step", 1);
    char text[512];
    cadre_status_tell_exit(&seen, 0, text, sizeof text);
    ck_assert_str_eq(text, "rank 1 ended without finishing: plugin 'x' called exit in "
                           "step at step 1?");
    seen.exits = true;
    cadre_status_tell_exit(&seen, 3, text, sizeof text);
    ck_assert_str_eq(text, "rank 1 ended without finishing, with status 3: plugin 'x' "
                           "called exit in step at step 1");
    seen = at(CADRE_STATUS_SOME_RANK, "", "", 0);
    cadre_status_tell_exit(&seen, 0, text, sizeof text);
    ck_assert_str_eq(text,
                     "a rank ended without finishing: a thread of a plugin called "
                     "exit?");
}
END_TEST

START_TEST(words_of_stalls)
{
    struct cadre_status_seen seen = at(0, "x", "step", 3);
    char text[512];
    cadre_status_tell_stall(&seen, 60, false, text, sizeof text);
    ck_assert_str_eq(text, "plugin 'x' has not returned from step for 60 s, at step 3 "
                           "on rank 0; raise comm.timeout where it may take longer");
    cadre_status_tell_stall(&seen, 10, true, text, sizeof text);
    ck_assert_str_eq(text, "stopped by a signal without a checkpoint: plugin 'x' has "
                           "not returned from step for 10 s, at step 3 on rank 0");
    seen = at(1, "x", "bind", 0);
    cadre_status_tell_stall(&seen, 0.5, true, text, sizeof text);
    ck_assert_msg(strstr(text, "for 0.5 s, on rank 1"), "%s", text);
    seen = at(CADRE_STATUS_NO_RANK, "x", "plan", 0);
    cadre_status_tell_stall(&seen, 0.5, true, text, sizeof text);
    ck_assert_msg(strstr(text, "from plan for 0.5 s") && !strstr(text, "rank"), "%s",
                  text);
    seen.state = CADRE_STATUS_FINISHED;
    cadre_status_tell_stall(&seen, 60, false, text, sizeof text);
    ck_assert_msg(strstr(text, "the run has finished, but its process has not ended"),
                  "%s", text);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("launch/status_watch");
    TCase *t = tcase_create("watch");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_callback_without_progress_is_found);
    tcase_add_test(t, progress_begins_the_time_anew);
    tcase_add_test(t, a_pause_of_both_counts_little);
    tcase_add_test(t, a_process_that_does_not_end_after_its_end);
    tcase_add_test(t, without_a_limit_nothing_is_found);
    tcase_add_test(t, a_damaged_slot_is_read_safely);
    tcase_add_test(t, who_received_the_signal_is_to_blame);
    tcase_add_test(t, else_who_was_inside_a_plugin);
    tcase_add_test(t, words_of_signals);
    tcase_add_test(t, words_of_exits);
    tcase_add_test(t, words_of_stalls);
    suite_add_tcase(s, t);
    return s;
}
