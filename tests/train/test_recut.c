/* SPDX-License-Identifier: Apache-2.0 */
/* Which cut is chosen from which seconds, and what the launcher does with it, without
 * ranks. Training through a cut is in tests/cli/test_train_recut.sh. */
#include "core/train/recut.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/checkpoint/save.h"
#include "core/run/recuts.h"
#include "core/train/costs.h"
#include "tests/support/check_main.h"
#include "tests/train/spec_fixture.h"

static struct spec_fixture f;

static void setup(void)
{
    spec_fixture_open(&f);
}

static void teardown(void)
{
    spec_fixture_close(&f);
}

/* A run of 8 units that take a second each. */
static struct cadre_spec *make(const char *sets)
{
    char all[512];
    snprintf(all, sizeof all,
             "model.layers=6 pipeline.balance=measured checkpoint.every=2 %s", sets);
    struct cadre_spec *spec = spec_fixture_make(&f, all);
    double *seconds = cadre_calloc(8, sizeof *seconds);
    for (int u = 0; u < 8; u++)
        seconds[u] = 1;
    cadre_costs_set(spec, seconds, NULL, 8);
    return spec;
}

/* The paces of up to 4 stages, the cut before and after; NULL: it stays. */
static const struct {
    const char *sets;
    double pace_s[4];
    const char *from, *to;
    double before_s, after_s;
} choices[] = {
    {"strategy.stack=pipeline:2 run.recut=0.01", {1, 1}, NULL, NULL, 0, 0},
    {"strategy.stack=pipeline:2 run.recut=0.01", {2, 1}, "4 4", "3 5", 8, 6},
    {"strategy.stack=pipeline:2 run.recut=0.01", {1, 3}, "4 4", "6 2", 12, 6},
    {"strategy.stack=pipeline:2 run.recut=0.01", {100, 1}, "4 4", "1 7", 400, 100},
    {"strategy.stack=pipeline:2 run.recut=0.3", {2, 1}, NULL, NULL, 0, 0},
    {"strategy.stack=pipeline:2 run.recut=0.24", {2, 1}, "4 4", "3 5", 8, 6},
    {"strategy.stack=pipeline:4 run.recut=0.01",
     {1, 1, 1, 4},
     "2 2 2 2",
     "3 3 1 1",
     8,
     4},
    /* a slow rank in one of the replicas sets the pace of its stage */
    {"strategy.stack=ddp:2,pipeline:2 run.recut=0.01", {2, 1}, "4 4", "3 5", 8, 6},
    {"strategy.stack=pipeline:2,ddp:2 run.recut=0.01", {2, 1}, "4 4", "3 5", 8, 6},
};

START_TEST(the_slowest_gets_fewer)
{
    struct cadre_recut_choice choice;
    struct cadre_spec *spec = make(choices[_i].sets);
    bool found = false;
    cadre_status rc =
        cadre_recut_choose(spec, choices[_i].pace_s, &found, &choice, &f.err);
    ck_assert_msg(rc == CADRE_OK, "%s", f.err.text);
    ck_assert_int_eq(found, choices[_i].to != NULL);
    if (found) {
        ck_assert_str_eq(choice.from, choices[_i].from);
        ck_assert_double_eq(choice.before_s, choices[_i].before_s);
        ck_assert_double_eq_tol(choice.after_s, choices[_i].after_s, 1e-12);
        ck_assert_str_eq(choice.to, choices[_i].to);
    } else {
        ck_assert_ptr_null(choice.seconds);
    }
    cadre_recut_choice_fini(&choice);
    cadre_spec_destroy(spec);
}
END_TEST

/* The seconds that a choice was planned with make the same cut again, and from the new
 * cut, with the same paces, nothing is left to gain. */
START_TEST(a_cut_is_stable)
{
    static const double pace_s[] = {2, 1};
    struct cadre_recut_choice choice, again;
    struct cadre_spec *spec = make("strategy.stack=pipeline:2 run.recut=0.01");
    bool found = false;
    ck_assert_int_eq(cadre_recut_choose(spec, pace_s, &found, &choice, &f.err),
                     CADRE_OK);
    ck_assert(found);
    double *measured = cadre_calloc(8, sizeof *measured);
    memcpy(measured, spec->unit_seconds, 8 * sizeof *measured);
    cadre_costs_set(spec, measured, choice.seconds, 8);
    choice.seconds = NULL;
    ck_assert_int_eq(cadre_recut_choose(spec, pace_s, &found, &again, &f.err),
                     CADRE_OK);
    ck_assert(!found);
    cadre_recut_choice_fini(&choice);
    cadre_recut_choice_fini(&again);
    cadre_spec_destroy(spec);
}
END_TEST

START_TEST(a_clock_has_the_last_steps)
{
    struct cadre_recut_clock clock;
    struct cadre_spec *spec = make("strategy.stack=pipeline:2 run.recut=0.01");
    struct cadre_step_report report = {.times.compute_s = 1};
    cadre_recut_clock_init(&clock, spec, 4, false);
    ck_assert(clock.on);
    cadre_recut_clock_report(&clock, &report); /* of no step */
    report.step = 5;
    cadre_recut_clock_report(&clock, &report); /* libraries set up the rest */
    ck_assert_uint_eq(clock.n, 0);
    for (report.step = 6; report.step < 6 + CADRE_RECUT_STEPS + 1; report.step++) {
        report.times.compute_s = (double)report.step;
        cadre_recut_clock_report(&clock, &report);
    }
    ck_assert_uint_eq(clock.n, CADRE_RECUT_STEPS + 1);
    ck_assert_double_eq(clock.compute_s[0], 6 + CADRE_RECUT_STEPS);
    ck_assert_double_eq(clock.compute_s[1], 7);
    cadre_recut_clock_init(&clock, spec, 4, true); /* of an external launcher */
    ck_assert(!clock.on);
    cadre_spec_destroy(spec);
}
END_TEST

static const struct {
    const char *sets, *says;
} refusals[] = {
    {"strategy.stack=ddp:2 run.recut=0.1", "no plugin cuts by them"},
    {"strategy.stack=pipeline:2 run.recut=0.1 checkpoint.every=0",
     "checkpoint.every = 0 makes none"},
    {"strategy.stack=pipeline:2 run.recut=0.1", NULL},
    {"strategy.stack=pipeline:2", NULL},
    {"strategy.stack=ddp:2", NULL},
    {"strategy.stack=pipeline:1 run.recut=0.1", NULL}, /* nothing to cut */
    {"strategy.stack=ddp:2 run.recut=0.1 bench.steps=2", NULL},
};

START_TEST(what_cannot_be_cut_is_refused)
{
    struct cadre_spec *spec = make(refusals[_i].sets);
    cadre_status rc = cadre_recut_check(spec, false, &f.err);
    if (refusals[_i].says) {
        ck_assert_int_eq(rc, CADRE_E_INVALID);
        ck_assert_msg(strstr(f.err.text, refusals[_i].says) != NULL, "%s", f.err.text);
    } else {
        ck_assert_msg(rc == CADRE_OK, "%s", f.err.text);
    }
    cadre_spec_destroy(spec);
}
END_TEST

/* From what rank 0 leaves to the spec of the next start. */
START_TEST(the_launcher_goes_on_with_it)
{
    static const double pace_s[] = {2, 1};
    struct cadre_recut_choice choice;
    struct cadre_spec *spec = make("strategy.stack=pipeline:2 run.recut=0.01");
    struct cadre_spec *next;
    bool found;
    ck_assert_int_eq(cadre_path_make_dirs(f.out, &f.err), CADRE_OK);
    ck_assert_int_eq(cadre_recut_next(spec, 0, &next, &f.err), CADRE_OK);
    ck_assert_ptr_null(next);
    ck_assert_int_eq(cadre_recut_choose(spec, pace_s, &found, &choice, &f.err),
                     CADRE_OK);
    ck_assert_int_eq(cadre_recut_leave(&choice, spec, 6, &f.err), CADRE_OK);
    ck_assert_int_eq(cadre_recut_next(spec, 1, &next, &f.err), CADRE_OK);
    ck_assert_ptr_null(next); /* it was there before this start */
    cadre_status rc = cadre_recut_next(spec, 0, &next, &f.err);
    ck_assert_msg(rc == CADRE_OK && next, "%s", f.err.text);
    ck_assert_str_eq(next->stack, spec->stack);
    ck_assert_str_eq(cadre_options_raw(next->options, "checkpoint.resume"), "auto");
    ck_assert_mem_eq(next->unit_seconds, spec->unit_seconds, 8 * sizeof(double));
    ck_assert_mem_eq(next->run.unit_seconds, choice.seconds, 8 * sizeof(double));
    ck_assert_uint_ne(next->run.fingerprint, spec->run.fingerprint);
    struct cadre_rank rank;
    ck_assert_int_eq(cadre_rank_plan(&rank, &next->run, 0, &f.err), CADRE_OK);
    ck_assert_uint_eq(rank.plan.chunk[0].end, 3);
    cadre_rank_fini(&rank);
    cadre_recut_choice_fini(&choice);
    cadre_spec_destroy(next);
    cadre_spec_destroy(spec);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("train/recut");
    TCase *t = tcase_create("recut");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, the_slowest_gets_fewer, 0,
                        sizeof choices / sizeof choices[0]);
    tcase_add_test(t, a_cut_is_stable);
    tcase_add_test(t, a_clock_has_the_last_steps);
    tcase_add_loop_test(t, what_cannot_be_cut_is_refused, 0,
                        sizeof refusals / sizeof refusals[0]);
    tcase_add_test(t, the_launcher_goes_on_with_it);
    suite_add_tcase(s, t);
    return s;
}
