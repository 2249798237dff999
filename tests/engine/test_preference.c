/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/execute/preference.h"
#include "tests/support/check_main.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const double smoothings[] = {0, 0.1, 0.4};
static const double betas[] = {0.01, 0.1, 2};
static const double policies[][2] = {{-3, -4}, {-700, -1}, {-1, -700}, {-20.5, -20.5}};
static const double reference[2] = {-3.25, -3.5};

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* As the paper writes it. */
static double plain_loss(const struct cadre_preference_config *config,
                         const double pi[2])
{
    const double x = config->beta * ((pi[0] - pi[1]) - (reference[0] - reference[1]));
    return -(1 - config->smoothing) * log(sigmoid(x)) -
           config->smoothing * log(sigmoid(-x));
}

static void each(void (*check)(const struct cadre_preference_config *, const double *))
{
    for (size_t b = 0; b < 3; b++)
        for (size_t e = 0; e < 3; e++)
            for (size_t p = 0; p < 4; p++) {
                const struct cadre_preference_config config = {
                    .on = true, .beta = betas[b], .smoothing = smoothings[e]};
                check(&config, policies[p]);
            }
}

static void check_loss(const struct cadre_preference_config *config, const double *pi)
{
    double figures[CADRE_PREFERENCE_JUDGED];
    const double plain = plain_loss(config, pi);
    const double chosen = config->beta * (pi[0] - reference[0]);
    const double rejected = config->beta * (pi[1] - reference[1]);
    cadre_preference_judge(config, pi, reference, figures, NULL);
    if (isfinite(plain) && fabs(config->beta * (pi[0] - pi[1])) < 30)
        ck_assert_double_eq_tol(figures[CADRE_PREFERENCE_LOSS], plain, 1e-13 * plain);
    ck_assert(isfinite(figures[CADRE_PREFERENCE_LOSS]));
    ck_assert(figures[CADRE_PREFERENCE_CHOSEN] == chosen);
    ck_assert(figures[CADRE_PREFERENCE_REJECTED] == rejected);
    ck_assert(figures[CADRE_PREFERENCE_MARGIN] == chosen - rejected);
    ck_assert(figures[CADRE_PREFERENCE_ACCURACY] == (chosen > rejected));
    ck_assert(figures[CADRE_PREFERENCE_LOG_CHOSEN] == pi[0]);
    ck_assert(figures[CADRE_PREFERENCE_LOG_REJECTED] == pi[1]);
}

START_TEST(loss_is_that_of_the_paper)
{
    each(check_loss);
}
END_TEST

static double loss_at(const struct cadre_preference_config *config, const double *pi,
                      double more)
{
    const double moved[2] = {pi[0] + more, pi[1]};
    double figures[CADRE_PREFERENCE_JUDGED];
    cadre_preference_judge(config, moved, reference, figures, NULL);
    return figures[CADRE_PREFERENCE_LOSS];
}

/* The chosen answer's log-probability moves u by as much. */
static void check_slope(const struct cadre_preference_config *config, const double *pi)
{
    const double h = 0.02;
    double slope;
    cadre_preference_judge(config, pi, reference, NULL, &slope);
    const double difference =
        (loss_at(config, pi, -2 * h) - 8 * loss_at(config, pi, -h) +
         8 * loss_at(config, pi, h) - loss_at(config, pi, 2 * h)) /
        (12 * h);
    ck_assert_double_eq_tol(slope, difference, 1e-6 * config->beta);
}

START_TEST(slope_is_the_derivative)
{
    each(check_slope);
}
END_TEST

/* Of a policy that is the reference. */
START_TEST(begins_at_log_2)
{
    for (size_t e = 0; e < 3; e++) {
        const struct cadre_preference_config config = {
            .on = true, .beta = 0.1, .smoothing = smoothings[e]};
        double figures[CADRE_PREFERENCE_JUDGED], slope;
        cadre_preference_judge(&config, reference, reference, figures, &slope);
        ck_assert_double_eq_tol(figures[CADRE_PREFERENCE_LOSS], log(2), DBL_EPSILON);
        ck_assert(slope == -0.1 * (0.5 - smoothings[e]));
        ck_assert(figures[CADRE_PREFERENCE_MARGIN] == 0);
        ck_assert(figures[CADRE_PREFERENCE_ACCURACY] == 0);
    }
}
END_TEST

/* Logits by target, all else by pair. */
START_TEST(means_of_a_step)
{
    double sums[CADRE_PREFERENCE_SUMS], figures[CADRE_PREFERENCE_FIGURES];
    for (int i = 0; i < CADRE_PREFERENCE_JUDGED; i++)
        sums[i] = i + 1;
    sums[CADRE_PREFERENCE_LOGITS_CHOSEN] = 12;
    sums[CADRE_PREFERENCE_LOGITS_REJECTED] = -15;
    sums[CADRE_PREFERENCE_TARGETS_CHOSEN] = 8;
    sums[CADRE_PREFERENCE_TARGETS_REJECTED] = 10;
    cadre_preference_means(sums, 4, figures);
    for (int i = 0; i < CADRE_PREFERENCE_JUDGED; i++)
        ck_assert(figures[i] == (i + 1) / 4.0);
    ck_assert(figures[CADRE_PREFERENCE_LOGITS_CHOSEN] == 1.5);
    ck_assert(figures[CADRE_PREFERENCE_LOGITS_REJECTED] == -1.5);
    sums[CADRE_PREFERENCE_LOGITS_REJECTED] = 0;
    sums[CADRE_PREFERENCE_TARGETS_REJECTED] = 0;
    cadre_preference_means(sums, 4, figures);
    ck_assert(figures[CADRE_PREFERENCE_LOGITS_REJECTED] == 0);
}
END_TEST

START_TEST(names_and_sizes)
{
    ck_assert_str_eq(cadre_preference_name(CADRE_PREFERENCE_LOSS), "loss");
    ck_assert_str_eq(cadre_preference_name(CADRE_PREFERENCE_MARGIN), "rewards/margins");
    ck_assert_str_eq(cadre_preference_name(CADRE_PREFERENCE_LOG_REJECTED),
                     "log_probs/rejected");
    ck_assert_str_eq(cadre_preference_name(CADRE_PREFERENCE_LOGITS_CHOSEN),
                     "logits/chosen");
    ck_assert_str_eq(cadre_preference_name(CADRE_PREFERENCE_LOGITS_REJECTED),
                     "logits/rejected");
    ck_assert_uint_eq(cadre_preference_width(2), CADRE_PREFERENCE_SUMS);
    ck_assert_uint_eq(cadre_preference_width(64), 64);
}
END_TEST

/* Nothing is known until it is measured, and pairs stay together in the order. */
START_TEST(samples_of_a_data_set)
{
    const struct cadre_dataset_config data = {
        .format = "instruct",
        .path = test_sample("dpo/pairs.json"),
        .template_name = "plain",
        .context = 16,
        .valid_fraction = 0.25,
        .shuffle = true,
        .seed = 3,
    };
    const struct cadre_preference_config config = {.on = true, .beta = 0.1};
    struct cadre_preference preference;
    struct cadre_dataset *set;
    struct cadre_error err;
    ck_assert_msg(cadre_dataset_open(&data, &set, &err) == CADRE_OK, "%s", err.text);
    ck_assert_int_eq(cadre_preference_init(&preference, &config, set), CADRE_OK);
    ck_assert_uint_eq(preference.n_train, 24);
    ck_assert_uint_eq(preference.n_valid, 8);
    for (uint64_t i = 0; i < preference.n_train; i++)
        ck_assert(isnan(preference.train[i]));
    for (uint64_t i = 0; i < preference.n_valid; i++)
        ck_assert(isnan(preference.valid[i]));
    for (uint64_t at = 0; at < 96; at += 2) {
        const uint64_t sample = cadre_preference_sample(&preference, at);
        ck_assert_uint_eq(sample % 2, 0);
        ck_assert_uint_eq(cadre_preference_sample(&preference, at + 1), sample + 1);
    }
    cadre_preference_fini(&preference);
    ck_assert_ptr_null(preference.train);
    cadre_dataset_close(set);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("preference");
    TCase *tc = tcase_create("preference");
    tcase_add_test(tc, loss_is_that_of_the_paper);
    tcase_add_test(tc, slope_is_the_derivative);
    tcase_add_test(tc, begins_at_log_2);
    tcase_add_test(tc, means_of_a_step);
    tcase_add_test(tc, names_and_sizes);
    tcase_add_test(tc, samples_of_a_data_set);
    suite_add_tcase(s, tc);
    return s;
}
