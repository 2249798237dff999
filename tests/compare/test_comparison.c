/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/verdict/comparison.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/rng.h"
#include "core/compare/report/report.h"
#include "tests/compare/fixture.h"
#include "tests/support/check_main.h"

static char *dir;
static struct cadre_comparison c;

static void setup(void)
{
    dir = test_tmpdir();
}

static void teardown(void)
{
    cadre_comparison_fini(&c);
    test_tmpdir_destroy(dir);
}

/* Judge `run` against a plain baseline; the run's verdict is returned. */
static const struct cadre_compared_run *judged(struct fixture_run run,
                                               const struct fixture_run *perturbation)
{
    const struct fixture_run runs[] = {{.name = "base", .exact = run.exact}, run};
    fixture_judge(dir, runs, 2, perturbation, &c);
    ck_assert(c.run[0].equal == CADRE_EQUAL_EXACT);
    return &c.run[1];
}

static const struct fixture_run rounding = {.name = "reordered",
                                            .loss_shift = 1e-6,
                                            .norm_factor = 1 + 1e-6,
                                            .param_shift = 1e-5,
                                            .state_shift = 1e-6};

START_TEST(figures_follow_the_formulas)
{
    const struct fixture_run runs[] = {
        {.name = "base", .ranks = 1, .step_s = 0.5},
        {.name = "more", .ranks = 2, .step_s = 0.25},
        {.name = "many", .ranks = 4, .step_s = 0.25},
    };
    fixture_judge(dir, runs, 3, NULL, &c);
    ck_assert(c.run[0].speed.speedup.value == 1 && c.run[0].efficiency.value == 1);
    ck_assert(c.run[0].speed.overhead_s.value == 0);
    /* N is relative to the baseline's ranks: 2 and 4 here */
    ck_assert(c.run[1].speed.speedup.value == 2 && c.run[1].efficiency.value == 1);
    ck_assert(c.run[2].speed.speedup.value == 2 && c.run[2].efficiency.value == 0.5);
    ck_assert(c.run[2].speed.overhead_s.value == 0.25 - 0.5 / 4);
    ck_assert(c.run[1].tokens_per_s == 100 / 0.25);
    ck_assert(cadre_comparison_is_fair(&c));
    ck_assert_int_eq(cadre_comparison_first_step(&c), 3);
    ck_assert_int_eq(cadre_comparison_last_step(&c), 6);
}
END_TEST

#define SITE(hosts, cpu, kinds, cores, threads)                                        \
    "\"machine\": {\"hosts\": [" hosts "], \"cpu\": \"" cpu "\", \"kinds\": " #kinds   \
    ", \"cores\": " #cores "}, \"threads\": " #threads

/* What a run says of its own machine decides, wherever the comparison is judged. */
START_TEST(times_compare_on_machines_of_one_kind)
{
    const struct fixture_run runs[] = {
        {.name = "base", .site = SITE("\"n1\"", "fast", 1, 8, 2)},
        {.name = "wide", .ranks = 8, .site = SITE("\"n1\", \"n2\"", "fast", 1, 16, 2)},
        {.name = "narrow", .ranks = 8, .site = SITE("\"n1\"", "fast", 1, 8, 2)},
        {.name = "more", .site = SITE("\"n1\"", "fast", 1, 8, 4)},
        {.name = "mixed", .site = SITE("\"n1\", \"n3\"", "fast", 2, 16, 2)},
        {.name = "slow", .site = SITE("\"n3\"", "slow", 1, 8, 2)},
    };
    static const char *const why[] = {
        "",
        "",
        "8 ranks of 2 cores each, but there are 8 cores",
        "its ranks have 4 cores each, those of the baseline 2",
        "its ranks ran on 2 kinds of processors",
        "it ran on slow, the baseline on fast",
    };
    fixture_judge(dir, runs, 6, NULL, &c);
    for (size_t i = 0; i < 6; i++) {
        ck_assert_str_eq(c.run[i].unfair, why[i]);
        ck_assert(c.run[i].fair == (why[i][0] == 0));
    }
    struct cadre_text text = {0};
    cadre_report_notes(&c, &text);
    ck_assert_msg(strstr(cadre_text_str(&text),
                         "The runs had other hosts: base on n1; wide on n1, n2; "),
                  "%s", cadre_text_str(&text));
    ck_assert_ptr_nonnull(strstr(cadre_text_str(&text),
                                 "fair: false for slow: it ran on slow, the baseline "
                                 "on fast."));
    cadre_text_reset(&text);
    cadre_report_json(&c, &text);
    ck_assert_ptr_nonnull(strstr(cadre_text_str(&text), "\"hosts\""));
    ck_assert_ptr_nonnull(strstr(cadre_text_str(&text), "\"cpu\": \"slow\""));
    cadre_text_fini(&text);
}
END_TEST

/* Records are of trainings apart in time: figures, and nothing more. */
START_TEST(records_alone_rank_nothing)
{
    const struct fixture_run runs[] = {{.name = "base", .step_s = 0.5},
                                       {.name = "fast", .step_s = 0.25}};
    struct cadre_error err = {0};
    fixture_compare(dir, runs, 2, NULL, &c);
    snprintf(c.unranked, sizeof c.unranked, "they were apart");
    ck_assert_int_eq(cadre_comparison_judge(&c, &err), CADRE_OK);
    const struct cadre_speed_run *fast = &c.run[1].speed;
    ck_assert(fast->period_s.value == 0.25 && isnan(fast->period_s.low));
    ck_assert(fast->speedup.value == 2 && isnan(fast->speedup.high));
    ck_assert(isnan(fast->overhead_s.low) && isnan(c.run[1].efficiency.high));
    ck_assert(fast->verdict == CADRE_SPEED_NOT_RANKED && !fast->leading);
    ck_assert_str_eq(fast->why, "they were apart");
}
END_TEST

/* As a run that failed is: it has no record. */
static void fail_run(struct cadre_compared_run *run)
{
    cadre_record_fini(&run->record);
    snprintf(run->failure, sizeof run->failure, "exit status 3");
}

START_TEST(a_run_that_failed_leaves_the_others)
{
    const struct fixture_run runs[] = {
        {.name = "base"}, {.name = "failed"}, {.name = "other", .step_s = 0.05}};
    struct cadre_error err = {0};
    fixture_compare(dir, runs, 3, &rounding, &c);
    fail_run(&c.run[1]);
    ck_assert_int_eq(cadre_comparison_judge(&c, &err), CADRE_OK);
    ck_assert(c.run[1].limit == CADRE_LIMIT_NONE && !*c.run[1].why);
    ck_assert(isnan(c.run[1].speed.speedup.value) && isnan(c.run[1].loss_max_diff));
    ck_assert(c.run[2].equal == CADRE_EQUAL_EXACT);
    ck_assert_double_eq(c.run[2].speed.speedup.value, 2);
    ck_assert_int_eq(cadre_comparison_last_step(&c), 6);
    ck_assert_ptr_null(cadre_comparison_differing(&c));
}
END_TEST

START_TEST(without_a_baseline_nothing_is_compared)
{
    const struct fixture_run runs[] = {{.name = "base"},
                                       {.name = "one", .exact = true},
                                       {.name = "two", .loss_shift = 1}};
    struct cadre_error err = {0};
    fixture_compare(dir, runs, 3, &rounding, &c);
    fail_run(&c.run[0]);
    ck_assert_int_eq(cadre_comparison_judge(&c, &err), CADRE_OK);
    for (int i = 0; i < 3; i++) {
        ck_assert(c.run[i].limit == CADRE_LIMIT_NONE);
        ck_assert(isnan(c.run[i].speed.speedup.value));
        ck_assert(isnan(c.run[i].efficiency.value));
    }
    ck_assert_uint_ne(c.run[1].diff.of[0].hash, 0);
    ck_assert_double_eq(c.run[1].tokens_per_s, 1000);
    ck_assert_ptr_null(cadre_comparison_differing(&c));
}
END_TEST

START_TEST(same_bits_are_exact)
{
    const struct cadre_compared_run *run =
        judged((struct fixture_run){.name = "same", .exact = true}, NULL);
    ck_assert(run->equal == CADRE_EQUAL_EXACT && run->limit == CADRE_LIMIT_BITS);
    ck_assert_uint_eq(run->digest, c.run[0].digest);
    ck_assert_uint_eq(run->diff.of[0].hash, c.run[0].diff.of[0].hash);
    ck_assert_ptr_null(cadre_comparison_differing(&c));
}
END_TEST

/* One unit in the last place is enough, wherever it is. */
static const struct fixture_run inexact[] = {
    {.name = "loss", .exact = true, .loss_shift = 0x1p-51},
    {.name = "norm", .exact = true, .norm_factor = 1 + 0x1p-52},
    {.name = "param", .exact = true, .param_shift = 0x1p-23},
    {.name = "state", .exact = true, .state_shift = 0x1p-23},
};

START_TEST(exact_mode_allows_no_other_bit)
{
    const struct cadre_compared_run *run = judged(inexact[_i], NULL);
    ck_assert(run->equal == CADRE_EQUAL_DIFFERS);
    ck_assert_msg(strstr(run->why, "has other bits"), "%s", run->why);
    ck_assert_ptr_eq(cadre_comparison_differing(&c), run);
}
END_TEST

START_TEST(another_micro_batch_is_not_held_to_bits)
{
    const struct fixture_run runs[] = {
        {.name = "base", .exact = true},
        {.name = "other", .exact = true, .loss_shift = 1e-9},
    };
    struct cadre_error err = {0};
    fixture_compare(dir, runs, 2, NULL, &c);
    c.run[1].micro_batch = 2;
    ck_assert_int_eq(cadre_comparison_judge(&c, &err), CADRE_OK);
    ck_assert(c.run[1].equal == CADRE_EQUAL_WITHIN);
    ck_assert(c.run[1].limit == CADRE_LIMIT_STATED);
}
END_TEST

START_TEST(measured_limits_let_rounding_pass)
{
    const struct cadre_compared_run *run =
        judged((struct fixture_run){.name = "near",
                                    .loss_shift = -5e-6,
                                    .norm_factor = 1 - 5e-6,
                                    .param_shift = 5e-5,
                                    .state_shift = -5e-6},
               &rounding);
    ck_assert_msg(run->equal == CADRE_EQUAL_WITHIN, "%s", run->why);
    ck_assert(run->limit == CADRE_LIMIT_MEASURED);
    ck_assert(fabs(run->loss_max_diff - 5e-6) < 1e-12);
    ck_assert(run->margin[CADRE_QUANTITY_LOSS].limit > 9.3e-5 &&
              run->margin[CADRE_QUANTITY_LOSS].limit < 9.4e-5);
    ck_assert(run->margin[CADRE_QUANTITY_PARAM].limit > 9.3e-4 &&
              run->margin[CADRE_QUANTITY_PARAM].limit < 9.4e-4);
    ck_assert(!cadre_comparison_is_chaotic(&c));
}
END_TEST

static const struct {
    struct fixture_run run;
    const char *says;
} far[] = {
    {{.name = "loss", .loss_shift = 1e-3}, "the loss at step"},
    /* AdamW would hide the factor of a world size from the losses */
    {{.name = "norm", .norm_factor = 2}, "the gradient's norm at step 1"},
    {{.name = "param", .param_shift = 1e-2}, "parameter w"},
    {{.name = "state", .state_shift = 1e-3}, "optimizer state w.exp_avg at step 6"},
    {{.name = "nan", .nan_step = 4}, "the loss at step 4"},
    {{.name = "short", .steps = 5}, "made 5 steps, the baseline 6"},
};

START_TEST(measured_limits_stop_mistakes)
{
    const struct cadre_compared_run *run = judged(far[_i].run, &rounding);
    ck_assert(run->equal == CADRE_EQUAL_DIFFERS);
    ck_assert_msg(strstr(run->why, far[_i].says), "%s", run->why);
}
END_TEST

START_TEST(stated_limits_stop_mistakes)
{
    struct fixture_run run = far[_i].run;
    if (run.state_shift != 0)
        return; /* needs a measurement */
    run.loss_shift *= 100;
    run.param_shift *= 10;
    const struct cadre_compared_run *it = judged(run, NULL);
    ck_assert(it->equal == CADRE_EQUAL_DIFFERS);
    ck_assert_msg(strstr(it->why, far[_i].says), "%s", it->why);
}
END_TEST

/* Under bf16 a loss is known to a part in 128, and more is still a mistake. */
START_TEST(stated_limits_of_16_bits)
{
    const struct fixture_run runs[] = {
        {.name = "base", .coarse = 0x1p-7},
        {.name = "near", .coarse = 0x1p-7, .loss_shift = 0.02},
        {.name = "far", .coarse = 0x1p-7, .loss_shift = 0.03},
    };
    fixture_judge(dir, runs, 3, NULL, &c);
    ck_assert_msg(c.run[1].equal == CADRE_EQUAL_WITHIN, "%s", c.run[1].why);
    ck_assert(c.run[2].equal == CADRE_EQUAL_DIFFERS);
    ck_assert_msg(strstr(c.run[2].why, "the loss at step 1") != NULL, "%s",
                  c.run[2].why);
}
END_TEST

/* A step that overflowed has no norm: to skip the same is no difference, to skip
 * another is one, whatever the limits. */
START_TEST(steps_skipped_alike_are_equal)
{
    bool exact = _i == 0;
    struct fixture_run others = rounding;
    others.skipped_step = 2;
    const struct fixture_run runs[] = {
        {.name = "base", .exact = exact, .skipped_step = 2},
        {.name = "alike", .exact = exact, .skipped_step = 2},
        {.name = "never", .exact = exact},
        {.name = "later", .exact = exact, .skipped_step = 3},
    };
    fixture_judge(dir, runs, 4, _i == 1 ? &others : NULL, &c);
    ck_assert_msg(c.run[1].equal == CADRE_EQUAL_EXACT, "%s", c.run[1].why);
    ck_assert(c.run[1].limit == (exact     ? CADRE_LIMIT_BITS
                                 : _i == 1 ? CADRE_LIMIT_MEASURED
                                           : CADRE_LIMIT_STATED));
    for (int i = 2; i < 4; i++) {
        ck_assert(c.run[i].equal == CADRE_EQUAL_DIFFERS);
        ck_assert_msg(strstr(c.run[i].why, "norm at step 2") != NULL, "%s",
                      c.run[i].why);
    }
}
END_TEST

/* The baseline is not exact, two runs are. */
START_TEST(exact_runs_are_held_to_each_other)
{
    const struct fixture_run runs[] = {
        {.name = "base"},
        {.name = "one", .exact = true, .loss_shift = 1e-9},
        {.name = "two", .exact = true, .loss_shift = 1e-9},
        {.name = "three", .exact = true, .loss_shift = 2e-9},
    };
    fixture_judge(dir, runs, 4, NULL, &c);
    ck_assert_int_eq(c.run[0].bit_identical, -1);
    ck_assert_int_eq(c.run[1].bit_identical, -1);
    ck_assert_int_eq(c.run[2].bit_identical, 1);
    ck_assert(c.run[2].equal == CADRE_EQUAL_WITHIN);
    ck_assert(c.run[3].equal == CADRE_EQUAL_DIFFERS);
    ck_assert_msg(strstr(c.run[3].why, "other bits than one"), "%s", c.run[3].why);
}
END_TEST

/* If algorithms differ, the reason names them next to the bits; else it does not. */
START_TEST(other_algorithms_explain_other_bits)
{
    static const char reason[] = "took another library or other algorithms than those "
                                 "of one";
    const struct fixture_run runs[] = {
        {.name = "base", .exact = _i, .loss_shift = 1e-9, .algorithms = "0a"},
        {.name = "one", .exact = true, .loss_shift = 1e-9, .algorithms = "0a"},
        {.name = "two", .exact = true, .loss_shift = 2e-9, .algorithms = "0a"},
        {.name = "three", .exact = true, .loss_shift = 2e-9, .algorithms = "0b"},
        {.name = "four", .exact = true, .loss_shift = 1e-9, .algorithms = "0b"},
        {.name = "five", .exact = true, .loss_shift = 2e-9},
    };
    fixture_judge(dir, runs, 6, NULL, &c);
    ck_assert(!cadre_compared_same_gemm(&c.run[1], &c.run[3]));
    ck_assert(cadre_compared_same_gemm(&c.run[1], &c.run[2]));
    ck_assert(cadre_compared_same_gemm(&c.run[1], &c.run[5]));
    const char *said = _i ? "than those of base" : reason;
    for (size_t i = 2; i < 6; i++) {
        bool other = i != 4;
        ck_assert_int_eq(c.run[i].equal == CADRE_EQUAL_DIFFERS, other);
        ck_assert_msg(!strstr(c.run[i].why, said) == (i != 3), "%s", c.run[i].why);
    }
}
END_TEST

/* A strategy with another reduction signature is compared with limits, and with its
 * like. */
START_TEST(other_sums_are_held_to_each_other)
{
    const struct fixture_run runs[] = {
        {.name = "base", .exact = true},
        {.name = "one", .exact = true, .loss_shift = 1e-9, .sums = "x@tp:2"},
        {.name = "two", .exact = true, .loss_shift = 1e-9, .sums = "x@tp:2"},
        {.name = "more", .exact = true, .loss_shift = 2e-9, .sums = "x@tp:4"},
        {.name = "bad", .exact = true, .loss_shift = 2e-9, .sums = "x@tp:2"},
    };
    fixture_judge(dir, runs, 5, NULL, &c);
    for (size_t i = 1; i < 4; i++)
        ck_assert(c.run[i].equal == CADRE_EQUAL_WITHIN);
    ck_assert(c.run[1].limit == CADRE_LIMIT_STATED);
    ck_assert_int_eq(c.run[2].bit_identical, 1);
    ck_assert_int_eq(c.run[3].bit_identical, -1);
    ck_assert(c.run[4].equal == CADRE_EQUAL_DIFFERS);
    ck_assert_msg(strstr(c.run[4].why, "other bits than one"), "%s", c.run[4].why);
}
END_TEST

START_TEST(stated_limits_judge_the_first_steps)
{
    const struct fixture_run runs[] = {{.name = "base", .steps = 30},
                                       {.name = "far", .steps = 30, .param_shift = 1}};
    struct cadre_error err = {0};
    fixture_compare(dir, runs, 2, NULL, &c);
    c.run[1].record.step[10].loss += 0.5;
    ck_assert_int_eq(cadre_comparison_judge(&c, &err), CADRE_OK);
    ck_assert_int_eq(c.judged_steps, 10);
    ck_assert(c.run[1].equal == CADRE_EQUAL_WITHIN);
    ck_assert(!cadre_comparison_is_chaotic(&c));
    c.run[1].record.step[9].loss += 0.5;
    ck_assert_int_eq(cadre_comparison_judge(&c, &err), CADRE_OK);
    ck_assert(c.run[1].equal == CADRE_EQUAL_DIFFERS);
}
END_TEST

START_TEST(chaos_ends_the_judging)
{
    const struct fixture_run runs[] = {{.name = "base"}, {.name = "far"}};
    struct cadre_error err = {0};
    fixture_compare(dir, runs, 2, &rounding, &c);
    c.perturbation[1].record.step[3].loss += 0.5;
    c.run[1].record.step[4].loss += 0.9;
    ck_assert_int_eq(cadre_comparison_judge(&c, &err), CADRE_OK);
    ck_assert(cadre_comparison_is_chaotic(&c));
    ck_assert_int_eq(c.judged_steps, 3);
    ck_assert(c.run[1].equal == CADRE_EQUAL_WITHIN);
}
END_TEST

START_TEST(a_reordered_run_that_is_wrong_sets_no_limit)
{
    const struct fixture_run wrong = {.name = "wrong", .loss_shift = 1};
    const struct cadre_compared_run *run =
        judged((struct fixture_run){.name = "far", .loss_shift = 0.9}, &wrong);
    ck_assert(run->limit == CADRE_LIMIT_STATED && run->equal == CADRE_EQUAL_DIFFERS);
    ck_assert_ptr_nonnull(strstr(c.note, "from the first step on"));
}
END_TEST

START_TEST(another_training_is_independent)
{
    const struct fixture_run runs[] = {{.name = "base"},
                                       {.name = "other", .loss_shift = 1}};
    struct cadre_error err = {0};
    fixture_compare(dir, runs, 2, NULL, &c);
    free(c.run[1].other_training);
    c.run[1].other_training = cadre_strdup("optim.lr");
    ck_assert_int_eq(cadre_comparison_judge(&c, &err), CADRE_OK);
    ck_assert(c.run[1].equal == CADRE_EQUAL_INDEPENDENT);
    ck_assert(isnan(c.run[1].loss_max_diff));
    ck_assert_uint_ne(c.run[1].diff.of[0].hash, 0);
}
END_TEST

/* Judged like others; to differ is no fault, and equal is equal. */
/* Two trainings at the baseline's speed each are twice its tokens per second. */
START_TEST(instances_count_together_and_are_held_against_nothing)
{
    const struct fixture_run runs[] = {
        {.name = "base", .step_s = 0.5},
        {.name = "two", .ranks = 2, .step_s = 0.5, .instances = 2},
        {.name = "slow", .ranks = 2, .step_s = 2, .instances = 2},
    };
    fixture_compare(dir, runs, 3, NULL, &c);
    c.whole = _i == 1;
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_comparison_judge(&c, &err), CADRE_OK);
    ck_assert(cadre_comparison_has_instances(&c));
    for (int i = 1; i < 3; i++) {
        const double times = i == 1 ? 2 : 0.5;
        const struct cadre_compared_run *run = &c.run[i];
        ck_assert(run->equal == CADRE_EQUAL_INDEPENDENT && !*run->why);
        ck_assert(run->limit == CADRE_LIMIT_NONE);
        ck_assert_double_eq(run->speed.speedup.value, times);
        ck_assert_double_eq(run->tokens_per_s, 100 / 0.5 * times);
        ck_assert_double_eq(run->N, _i ? 1 : 2);
        ck_assert_double_eq(run->efficiency.value, _i ? times : times / 2);
    }
    ck_assert_ptr_null(cadre_comparison_differing(&c));
}
END_TEST

START_TEST(a_baseline_of_instances_judges_nobody)
{
    const struct fixture_run runs[] = {
        {.name = "two", .ranks = 2, .step_s = 0.5, .instances = 2},
        {.name = "one", .step_s = 0.5, .loss_shift = 1},
    };
    fixture_judge(dir, runs, 2, NULL, &c);
    ck_assert(c.run[1].equal == CADRE_EQUAL_INDEPENDENT);
    ck_assert_double_eq(c.run[1].speed.speedup.value, 0.5);
    ck_assert_ptr_null(cadre_comparison_differing(&c));
}
END_TEST

START_TEST(a_change_by_design_is_no_fault)
{
    const struct cadre_compared_run *run =
        judged((struct fixture_run){.name = "far", .loss_shift = 1, .changed_by = "x"},
               &rounding);
    ck_assert(run->equal == CADRE_EQUAL_DIFFERS && run->by_design);
    ck_assert_msg(strstr(run->why, "the loss at step 1 differs by 1"), "%s", run->why);
    ck_assert_ptr_null(cadre_comparison_differing(&c));
    cadre_comparison_fini(&c);
    run = judged((struct fixture_run){.name = "near", .changed_by = "x"}, &rounding);
    ck_assert(run->equal == CADRE_EQUAL_EXACT && !run->by_design);
}
END_TEST

START_TEST(norms_of_diverging_replicas_are_not_judged)
{
    const struct cadre_compared_run *run = judged(
        (struct fixture_run){.name = "diverging", .norm_factor = 2, .diverging = true},
        &rounding);
    ck_assert_msg(run->equal == CADRE_EQUAL_EXACT, "%s", run->why);
    ck_assert(isnan(run->margin[CADRE_QUANTITY_GRAD_NORM].diff));
}
END_TEST

START_TEST(a_missing_checkpoint_is_named)
{
    const struct fixture_run runs[] = {{.name = "base"},
                                       {.name = "other", .no_checkpoint = true}};
    struct cadre_error err = {0};
    fixture_compare(dir, runs, 2, NULL, &c);
    ck_assert_int_eq(cadre_comparison_judge(&c, &err), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, "step-00000006/model.safetensors' is missing"), "%s",
                  err.text);
}
END_TEST

/* P(|x| > F max |x_i|) of normal numbers is at most, and nearly, alpha: tried at a
 * tenth of F, which for three makes it 1e-3, so that it can be seen. */
START_TEST(the_factor_is_the_stated_one)
{
    ck_assert(fabs(cadre_limit_factor(2) - 797.8845608) < 1e-6);
    ck_assert(fabs(cadre_limit_factor(3) - 93.23881541) < 1e-7);
    ck_assert(fabs(cadre_limit_factor(6) - 12.53012119) < 1e-7);
    int refused = 0, draws = 1000000;
    double F = cadre_limit_factor(3) / 10; /* alpha is 1e-3 */
    for (int i = 0; i < draws; i++) {
        double seen = 0;
        for (uint64_t k = 0; k < 3; k++)
            seen = fmax(seen, fabs(cadre_rng_normal(7, 4 * (uint64_t)i + k)));
        refused += fabs(cadre_rng_normal(7, 4 * (uint64_t)i + 3)) > F * seen;
    }
    ck_assert_msg(refused > 850 && refused <= 1060, "%d", refused);
}
END_TEST

/* The quantity that leaves its limits first is named. */
START_TEST(the_first_step_says_why)
{
    const struct fixture_run runs[] = {{.name = "base"}, {.name = "far"}};
    struct cadre_error err = {0};
    fixture_compare(dir, runs, 2, &rounding, &c);
    c.run[1].record.step[2].grad_norm *= 1.5;
    c.run[1].record.step[3].loss += 0.5;
    ck_assert_int_eq(cadre_comparison_judge(&c, &err), CADRE_OK);
    ck_assert_msg(strstr(c.run[1].why, "the gradient's norm at step 3"), "%s",
                  c.run[1].why);
}
END_TEST

START_TEST(exact_mode_has_a_price)
{
    const struct fixture_run runs[] = {
        {.name = "base"},
        {.name = "exact", .exact = true, .step_s = 0.15},
        {.name = "other", .exact = true, .step_s = 0.15},
    };
    struct cadre_interval price;
    fixture_compare(dir, runs, 3, NULL, &c);
    c.run[2].setup = 1; /* set up otherwise: no partner */
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_comparison_judge(&c, &err), CADRE_OK);
    ck_assert_int_eq(cadre_comparison_price(&c, 0, &price), -1);
    ck_assert_int_eq(cadre_comparison_price(&c, 1, &price), 0);
    ck_assert(fabs(price.value - 0.5) < 1e-12);
    ck_assert(isnan(price.low) && isnan(price.high)); /* apart in time */
    ck_assert_int_eq(cadre_comparison_price(&c, 2, &price), -1);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("comparison");
    TCase *tc = tcase_create("comparison");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, figures_follow_the_formulas);
    tcase_add_test(tc, times_compare_on_machines_of_one_kind);
    tcase_add_test(tc, records_alone_rank_nothing);
    tcase_add_test(tc, a_run_that_failed_leaves_the_others);
    tcase_add_test(tc, without_a_baseline_nothing_is_compared);
    tcase_add_test(tc, same_bits_are_exact);
    tcase_add_loop_test(tc, exact_mode_allows_no_other_bit, 0, 4);
    tcase_add_test(tc, another_micro_batch_is_not_held_to_bits);
    tcase_add_test(tc, measured_limits_let_rounding_pass);
    tcase_add_loop_test(tc, measured_limits_stop_mistakes, 0, 6);
    tcase_add_loop_test(tc, stated_limits_stop_mistakes, 0, 6);
    tcase_add_test(tc, stated_limits_of_16_bits);
    tcase_add_loop_test(tc, steps_skipped_alike_are_equal, 0, 3);
    tcase_add_test(tc, exact_runs_are_held_to_each_other);
    tcase_add_loop_test(tc, other_algorithms_explain_other_bits, 0, 2);
    tcase_add_test(tc, other_sums_are_held_to_each_other);
    tcase_add_test(tc, stated_limits_judge_the_first_steps);
    tcase_add_test(tc, chaos_ends_the_judging);
    tcase_add_test(tc, a_reordered_run_that_is_wrong_sets_no_limit);
    tcase_add_test(tc, another_training_is_independent);
    tcase_add_loop_test(tc, instances_count_together_and_are_held_against_nothing, 0,
                        2);
    tcase_add_test(tc, a_baseline_of_instances_judges_nobody);
    tcase_add_test(tc, a_change_by_design_is_no_fault);
    tcase_add_test(tc, norms_of_diverging_replicas_are_not_judged);
    tcase_add_test(tc, the_factor_is_the_stated_one);
    tcase_add_test(tc, the_first_step_says_why);
    tcase_add_test(tc, exact_mode_has_a_price);
    tcase_add_test(tc, a_missing_checkpoint_is_named);
    suite_add_tcase(suite, tc);
    return suite;
}
