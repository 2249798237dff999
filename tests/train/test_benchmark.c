/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/benchmark.h"

#include <math.h>

#include "core/base/path.h"
#include "tests/support/check_main.h"
#include "tests/train/spec_fixture.h"

static struct spec_fixture f;
static struct cadre_spec *spec;
static struct cadre_rank rank;
static struct cadre_benchmark benchmark;
static int64_t last;

static void setup(void)
{
    spec_fixture_open(&f);
}

static void teardown(void)
{
    cadre_benchmark_fini(&benchmark);
    cadre_rank_fini(&rank);
    cadre_spec_destroy(spec);
    spec_fixture_close(&f);
}

static void begin(const char *sets, int64_t first)
{
    spec = spec_fixture_make(&f, sets);
    spec_fixture_rank(&f, spec, &rank);
    last = cadre_benchmark_last_step(spec, first);
    ck_assert_int_eq(cadre_benchmark_init(&benchmark, &rank, spec, first, last, &f.err),
                     CADRE_OK);
    ck_assert_int_eq(cadre_benchmark_mark(&benchmark, first, &f.err), CADRE_OK);
}

/* A step with these figures, as the loop makes it. */
static void step(int64_t number, double loss, double exposed)
{
    const struct cadre_step_report report = {
        .step = (uint64_t)number,
        .loss = loss,
        .times = {.comm_exposed_s = exposed, .span_s = 2, .bubble_s = 0.5}};
    cadre_benchmark_report(&benchmark, &report);
    ck_assert_int_eq(cadre_benchmark_mark(&benchmark, number, &f.err), CADRE_OK);
}

START_TEST(a_training_is_none)
{
    begin("", 5);
    ck_assert(!cadre_bench_wanted(&spec->config.bench) && !benchmark.on);
    ck_assert_int_eq(last, 20);
    step(6, 1, 1);
    ck_assert(!benchmark.open && benchmark.bench.n == 0);
}
END_TEST

START_TEST(windows_follow_each_other_after_the_warm_up)
{
    begin("bench.steps=3 bench.windows=2 bench.warmup=2 train.steps=4", 10);
    ck_assert_int_eq(last, 18); /* whatever train.steps is */
    for (int64_t s = 11; s <= last; s++) {
        ck_assert_int_eq(cadre_benchmark_marks(&benchmark, s),
                         s == 12 || s == 15 || s == 18);
        step(s, 1, (double)s);
        ck_assert_int_eq(benchmark.open, s >= 12 && s < 18);
    }
    const struct cadre_bench *bench = &benchmark.bench;
    ck_assert(bench->n == 2 && bench->reached && bench->target_step == 0);
    ck_assert(bench->warmup == 2 && bench->steps == 3 && bench->tokens == 8 * 16);
    ck_assert_double_eq(bench->window[0].comm_exposed_s, 14); /* steps 13, 14, 15 */
    ck_assert_double_eq(bench->window[1].comm_exposed_s, 17);
    ck_assert(bench->window[0].seconds > 0 && bench->window[1].seconds > 0);
    ck_assert(isnan(bench->window[0].bubble_fraction)); /* one rank, no schedule */
}
END_TEST

/* Over all steps of the windows, and none of the warm-up. */
START_TEST(parts_are_means_of_the_windows)
{
    begin("bench.steps=2 bench.windows=2 bench.warmup=1", 0);
    for (int64_t s = 1; s <= last; s++) {
        const struct cadre_step_report report = {
            .step = (uint64_t)s,
            .loss = 1,
            .times = {.compute_s = (double)s,
                      .optim_s = 3,
                      .optim_wait_s = 1,
                      .n_exposed = 1,
                      .exposed = {{"dp", 10 * (double)s}}}};
        ck_assert(!benchmark.bench.parts.known || s > 3);
        cadre_benchmark_report(&benchmark, &report);
        ck_assert_int_eq(cadre_benchmark_mark(&benchmark, s, &f.err), CADRE_OK);
    }
    const struct cadre_step_parts *parts = &benchmark.bench.parts;
    ck_assert(parts->known && parts->exposed.n == 1);
    ck_assert_double_eq(parts->part[CADRE_PART_COMPUTE], 3.5); /* steps 2 to 5 */
    ck_assert_double_eq(parts->part[CADRE_PART_OPTIMIZER], 2);
    ck_assert_double_eq(parts->exposed.of[0].s, 35);
}
END_TEST

START_TEST(a_window_may_begin_at_once)
{
    begin("bench.steps=2 bench.warmup=0", 0);
    ck_assert(benchmark.open);
    step(1, 1, 1);
    step(2, 1, 3);
    ck_assert_uint_eq(benchmark.bench.n, 1);
    ck_assert_double_eq(benchmark.bench.window[0].comm_exposed_s, 2);
}
END_TEST

/* Under a schedule the fraction is of the window's time. */
START_TEST(bubbles_are_those_of_a_schedule)
{
    static const struct cadre_axis axis;
    begin("bench.steps=2 bench.warmup=0", 0);
    rank.exchange.schedule = &axis;
    step(1, 1, 0);
    step(2, 1, 0);
    rank.exchange.schedule = NULL;
    ck_assert_double_eq(benchmark.bench.window[0].bubble_fraction, 0.25);
}
END_TEST

START_TEST(the_mean_of_the_latest_losses_reaches_the_target)
{
    static const double losses[] = {1, 5, 4, 3, 2.5, 2};
    begin("bench.target=3 bench.target_steps=3", 0);
    ck_assert_int_eq(last, 20);
    for (int64_t s = 1; s <= 6; s++) {
        ck_assert(!benchmark.ended);
        step(s, losses[s - 1], 0);
    }
    ck_assert(benchmark.ended && benchmark.bench.reached);
    ck_assert_int_eq(benchmark.bench.target_step, 6); /* (3 + 2.5 + 2) / 3 */
    ck_assert(!benchmark.bench.parts.known);
    step(7, 9, 0); /* the report of a step that had begun */
    ck_assert_uint_eq(benchmark.bench.n, 1);
    ck_assert_int_eq(cadre_path_make_dirs(spec->out, &f.err), CADRE_OK);
    ck_assert_int_eq(cadre_benchmark_write(&benchmark, 0, &f.err), CADRE_OK);
    struct cadre_bench bench;
    ck_assert_int_eq(cadre_bench_read(spec->out, &bench, &f.err), CADRE_OK);
    ck_assert(bench.steps == 6 && bench.warmup == 0 && bench.target_step == 6);
}
END_TEST

START_TEST(a_target_may_not_be_reached)
{
    begin("bench.target=3 bench.target_steps=2 train.steps=4", 0);
    for (int64_t s = 1; s <= 4; s++)
        step(s, 4, 0);
    ck_assert(!benchmark.ended && !benchmark.bench.reached);
    ck_assert_uint_eq(benchmark.bench.n, 1);
    ck_assert_int_eq(benchmark.reports, 4);
}
END_TEST

/* The last step itself may reach it. */
START_TEST(a_target_reached_at_the_end)
{
    begin("bench.target=3 bench.target_steps=2 train.steps=2", 0);
    step(1, 3, 0);
    step(2, 3, 0);
    ck_assert(benchmark.ended && benchmark.bench.target_step == 2);
    ck_assert_uint_eq(benchmark.bench.n, 1);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("train/benchmark");
    TCase *t = tcase_create("benchmark");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_training_is_none);
    tcase_add_test(t, windows_follow_each_other_after_the_warm_up);
    tcase_add_test(t, parts_are_means_of_the_windows);
    tcase_add_test(t, a_window_may_begin_at_once);
    tcase_add_test(t, bubbles_are_those_of_a_schedule);
    tcase_add_test(t, the_mean_of_the_latest_losses_reaches_the_target);
    tcase_add_test(t, a_target_may_not_be_reached);
    tcase_add_test(t, a_target_reached_at_the_end);
    suite_add_tcase(s, t);
    return s;
}
