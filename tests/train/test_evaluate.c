/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluation against a count by hand over the same samples, one at a time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/train/evaluate.h"
#include "tests/support/check_main.h"
#include "tests/train/spec_fixture.h"

enum { CLASS_V = 2 }; /* N, S, V, F, Q */

static struct spec_fixture f;
static struct cadre_spec *spec;
static struct cadre_rank rank;
static struct cadre_evaluation hand;

static void setup(void)
{
    spec_fixture_open(&f);
    memset(&hand, 0, sizeof hand);
}

static void teardown(void)
{
    spec_fixture_close(&f);
}

static void begin(const char *sets)
{
    spec = spec_fixture_make(&f, sets);
    spec_fixture_rank(&f, spec, &rank);
    struct cadre_step_report report;
    for (uint64_t step = 1; step <= 5; step++)
        ck_assert_int_eq(cadre_rank_step(&rank, step, &report), CADRE_OK);
}

static void end(void)
{
    cadre_rank_fini(&rank);
    cadre_spec_destroy(spec);
}

static int64_t best_of(const float *row, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        best = row[i] > row[best] ? i : best;
    return best;
}

static void count_class(int64_t guess, int64_t truth)
{
    if (guess == truth) {
        hand.count[truth].true_positive++;
    } else {
        hand.count[guess].false_positive++;
        hand.count[truth].false_negative++;
    }
}

/* Logits computed some rows at a time, compared with all of them. */
struct chunks {
    const float *all;
    float some[3 * 64];
    int64_t cols, next;
};

static void same_rows(void *arg, int64_t first, int64_t n)
{
    struct chunks *p = arg;
    ck_assert_int_eq(first, p->next);
    ck_assert(n >= 1 && n <= 3);
    ck_assert_mem_eq(p->some, p->all + first * p->cols,
                     (size_t)(n * p->cols) * sizeof *p->some);
    p->next += n;
}

static void in_chunks(const struct cadre_eval *whole, int64_t rows, int64_t cols)
{
    struct chunks p = {.all = whole->logits, .cols = cols};
    struct cadre_eval eval = *whole;
    if (cols > 64)
        return;
    eval.logits = p.some;
    eval.some_rows = 3;
    eval.each_rows = same_rows;
    eval.arg = &p;
    ck_assert_int_eq(cadre_executor_eval(rank.exec, &eval, &f.err), CADRE_OK);
    ck_assert_int_eq(p.next, rows);
}

/* n validation samples, evenly over all there are, one by one. */
static void by_hand(uint64_t n)
{
    int64_t time = spec->run.time, classes = spec->run.model.classes;
    int64_t rows = classes ? 1 : time, cols = classes ? classes : spec->run.model.vocab;
    int32_t *inputs = calloc((size_t)time, 4), *targets = calloc((size_t)time, 4);
    float *logits = calloc((size_t)(rows * cols), sizeof *logits);
    int64_t right = 0;
    for (uint64_t i = 0; i < n; i++) {
        struct cadre_eval eval = {.inputs = inputs,
                                  .targets = targets,
                                  .batch = 1,
                                  .time = time,
                                  .logits = logits};
        uint64_t sample = i * spec->data_info.valid_samples / n;
        ck_assert_int_eq(cadre_dataset_sample(spec->data, CADRE_SPLIT_VALID, sample,
                                              inputs, classes ? NULL : targets,
                                              classes ? targets : NULL),
                         CADRE_OK);
        ck_assert_int_eq(cadre_executor_eval(rank.exec, &eval, &f.err), CADRE_OK);
        in_chunks(&eval, rows, cols);
        hand.loss += eval.loss_sum;
        hand.targets += eval.n_targets;
        for (int64_t r = 0; r < rows; r++) {
            int64_t guess = best_of(logits + r * cols, cols);
            right += guess == targets[r];
            if (classes)
                count_class(guess, targets[r]);
        }
    }
    hand.loss /= (double)hand.targets;
    hand.accuracy = (double)right / (double)hand.targets;
    hand.samples = (int64_t)n;
    free(inputs);
    free(targets);
    free(logits);
}

static void agrees(int64_t batches)
{
    struct cadre_evaluation result;
    bool has = false;
    cadre_status rc = cadre_evaluate(&rank, spec, batches, &result, &has, &f.err);
    ck_assert_msg(rc == CADRE_OK, "%s", f.err.text);
    ck_assert(has);
    ck_assert_int_eq(result.samples, hand.samples);
    ck_assert_int_eq(result.targets, hand.targets);
    ck_assert_double_eq_tol(result.loss, hand.loss, 1e-5);
    ck_assert_double_eq_tol(result.accuracy, hand.accuracy, 1e-12);
    for (int64_t c = 0; c < result.classes; c++)
        ck_assert_mem_eq(&result.count[c], &hand.count[c], sizeof hand.count[c]);
}

START_TEST(text_as_counted_by_hand)
{
    begin("train.global_batch=7 train.micro_batch=7");
    uint64_t samples = spec->data_info.valid_samples;
    ck_assert_uint_gt(samples, 14);
    ck_assert_uint_ne(samples % 7, 0); /* the last batch is short */
    by_hand(_i ? 14 : samples);
    agrees(_i ? 2 : 0);
    if (!_i)
        agrees(1000);
    end();
}
END_TEST

START_TEST(classes_as_counted_by_hand)
{
    const char *mitdb = test_sample("mitdb");
    char sets[1400];
    snprintf(sets, sizeof sets,
             "data.format=wfdb data.path=%s data.window=16 data.task=%s "
             "model.head=classify data.valid_records=119 train.micro_batch=8",
             mitdb, _i ? "beats" : "vbd");
    begin(sets);
    by_hand(160);
    agrees(20);
    end();
}
END_TEST

/* Two records, few windows: both are in the figure, as in that of all windows. The
 * first windows would be the first record's alone. */
START_TEST(few_windows_are_of_all_records)
{
    struct cadre_evaluation few, all;
    bool has = false;
    char sets[1400];
    snprintf(sets, sizeof sets,
             "data.format=wfdb data.path=%s data.window=16 data.task=beats "
             "model.head=classify data.valid_records=100,119 train.micro_batch=4",
             test_sample("mitdb"));
    begin(sets);
    ck_assert_int_eq(cadre_evaluate(&rank, spec, 5, &few, &has, &f.err), CADRE_OK);
    ck_assert_int_eq(cadre_evaluate(&rank, spec, 0, &all, &has, &f.err), CADRE_OK);
    ck_assert_int_eq(few.samples, 20);
    /* only 119 has ventricular beats, and it is the second */
    const struct cadre_class_counts *v = &few.count[CLASS_V];
    ck_assert_uint_gt(v->true_positive + v->false_negative, 0);
    ck_assert_uint_gt(
        all.count[CLASS_V].true_positive + all.count[CLASS_V].false_negative, 0);
    end();
}
END_TEST

START_TEST(nothing_to_evaluate)
{
    struct cadre_evaluation result;
    bool has = true;
    begin("data.valid_fraction=0");
    ck_assert_int_eq(cadre_evaluate(&rank, spec, 0, &result, &has, &f.err), CADRE_OK);
    ck_assert(!has);
    end();
}
END_TEST

/* de Chazal's kind of table: 80 found, 20 missed, 40 false alarms. */
START_TEST(the_formulas)
{
    const struct cadre_class_counts count = {80, 40, 20}, none = {0, 0, 0};
    ck_assert_double_eq_tol(cadre_sensitivity(&count), 0.8, 1e-15);
    ck_assert_double_eq_tol(cadre_predictivity(&count), 80.0 / 120, 1e-15);
    ck_assert_double_eq_tol(cadre_f1(&count), 160.0 / 220, 1e-15);
    ck_assert_double_eq(cadre_sensitivity(&none), 0);
    ck_assert_double_eq(cadre_predictivity(&none), 0);
    ck_assert_double_eq(cadre_f1(&none), 0);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("evaluate");
    TCase *tc = tcase_create("evaluate");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, text_as_counted_by_hand, 0, 2);
    tcase_add_loop_test(tc, classes_as_counted_by_hand, 0, 2);
    tcase_add_test(tc, few_windows_are_of_all_records);
    tcase_add_test(tc, nothing_to_evaluate);
    tcase_add_test(tc, the_formulas);
    suite_add_tcase(s, tc);
    return s;
}
