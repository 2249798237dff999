/* SPDX-License-Identifier: Apache-2.0 */
/* The cuts against transformers' warpers (golden.json), and draws against the
 * probabilities that they are made from. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/generate/sampler.h"
#include "tests/support/check_main.h"

enum { MOST = 32 };

static const struct cadre_sampling plain = {.temperature = 1, .top_p = 1, .seed = 7};

static struct cadre_sampler *open(const struct cadre_sampling *sampling, int64_t vocab)
{
    struct cadre_sampler *s = NULL;
    struct cadre_error err = {0};
    cadre_status rc = cadre_sampler_create(sampling, vocab, &s, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    return s;
}

static int32_t take(struct cadre_sampler *s, const double *logits, uint64_t position)
{
    struct cadre_error err = {0};
    int32_t token = -1;
    cadre_status rc = cadre_sampler_take(s, logits, position, &token, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    return token;
}

static size_t numbers(const json_t *list, double out[MOST])
{
    ck_assert_uint_le(json_array_size(list), MOST);
    for (size_t i = 0; i < json_array_size(list); i++)
        out[i] = json_number_value(json_array_get(list, i));
    return json_array_size(list);
}

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

START_TEST(cuts_are_those_of_transformers)
{
    json_t *root = json_load_file(test_sample("../generate/golden.json"), 0, NULL);
    const json_t *cases = json_object_get(root, "warped");
    ck_assert_uint_ge(json_array_size(cases), 30);
    for (size_t c = 0; c < json_array_size(cases); c++) {
        const json_t *one = json_array_get(cases, c);
        const struct cadre_sampling sampling = {
            .temperature = number(one, "temperature"),
            .top_k = (int64_t)number(one, "top_k"),
            .top_p = number(one, "top_p"),
        };
        double logits[MOST], want[MOST];
        const size_t n = numbers(json_object_get(one, "logits"), logits);
        ck_assert_uint_eq(numbers(json_object_get(one, "probabilities"), want), n);
        struct cadre_sampler *s = open(&sampling, (int64_t)n);
        ck_assert(want[take(s, logits, c)] > 0);
        const double *got = cadre_sampler_probabilities(s);
        for (size_t v = 0; v < n; v++)
            ck_assert_msg(
                fabs(got[v] - want[v]) <= 1e-14 && (got[v] > 0) == (want[v] > 0),
                "case %zu, token %zu: %.17g, not %.17g", c, v, got[v], want[v]);
        cadre_sampler_destroy(s);
    }
    json_decref(root);
}
END_TEST

/* Of 20,000 draws each token has its share, within five standard deviations. */
START_TEST(draws_follow_the_probabilities)
{
    enum { DRAWS = 20000, TOKENS = 6 };
    static const double logits[TOKENS] = {0.5, -1, 2, 1.5, -3, 0};
    const struct cadre_sampling cut = {.temperature = 0.8, .top_k = 4, .top_p = 0.95};
    const struct cadre_sampling *const all[] = {&plain, &cut};
    for (size_t i = 0; i < 2; i++) {
        struct cadre_sampler *s = open(all[i], TOKENS);
        int seen[TOKENS] = {0};
        for (uint64_t position = 0; position < DRAWS; position++)
            seen[take(s, logits, position)]++;
        const double *p = cadre_sampler_probabilities(s);
        for (int v = 0; v < TOKENS; v++)
            ck_assert_double_le(fabs(seen[v] - DRAWS * p[v]),
                                5 * sqrt(DRAWS * p[v] * (1 - p[v])));
        cadre_sampler_destroy(s);
    }
}
END_TEST

/* A draw is of seed and position, whatever was drawn before. */
START_TEST(draws_are_of_seed_and_position)
{
    static const double logits[16] = {0};
    struct cadre_sampling other = plain;
    struct cadre_sampler *a = open(&plain, 16), *b = open(&plain, 16);
    other.seed = 8;
    struct cadre_sampler *c = open(&other, 16);
    int32_t first[64];
    int differ = 0;
    for (uint64_t i = 0; i < 64; i++)
        first[i] = take(a, logits, i);
    for (uint64_t i = 64; i-- > 0;) {
        ck_assert_int_eq(take(b, logits, i), first[i]);
        differ += take(c, logits, i) != first[i];
    }
    ck_assert_int_gt(differ, 40);
    cadre_sampler_destroy(a);
    cadre_sampler_destroy(b);
    cadre_sampler_destroy(c);
}
END_TEST

START_TEST(greedy_takes_the_first_of_the_largest)
{
    static const double logits[] = {-1, 2, 5, 5, 4};
    static const double few[] = {-INFINITY, -INFINITY, -4, -INFINITY, -INFINITY};
    const struct cadre_sampling greedy = {.greedy = true};
    struct cadre_sampler *s = open(&greedy, 5), *chance = open(&plain, 5);
    ck_assert_int_eq(take(s, logits, 0), 2);
    ck_assert_int_eq(take(s, few, 1), 2);
    for (uint64_t i = 0; i < 100; i++)
        ck_assert_int_eq(take(chance, few, i), 2);
    cadre_sampler_destroy(s);
    cadre_sampler_destroy(chance);
}
END_TEST

START_TEST(damaged_logits_are_refused)
{
    static const double wrong[][3] = {
        {0, NAN, 1}, {0, 1, INFINITY}, {-INFINITY, -INFINITY, -INFINITY}};
    struct cadre_sampler *s = open(&plain, 3);
    for (size_t i = 0; i < 3; i++) {
        struct cadre_error err = {0};
        int32_t token = 77;
        ck_assert_int_eq(cadre_sampler_take(s, wrong[i], 0, &token, &err),
                         CADRE_E_NUMERIC);
        ck_assert_ptr_nonnull(strstr(err.text, "logit"));
        ck_assert_int_eq(token, 77);
    }
    cadre_sampler_destroy(s);
}
END_TEST

START_TEST(values_out_of_range_are_refused)
{
    const struct cadre_sampling wrong[] = {
        {.temperature = 0, .top_p = 1},   {.temperature = -1, .top_p = 1},
        {.temperature = NAN, .top_p = 1}, {.temperature = INFINITY, .top_p = 1},
        {.temperature = 1, .top_p = 0},   {.temperature = 1, .top_p = 1.01},
        {.temperature = 1, .top_p = NAN}, {.temperature = 1, .top_k = -1, .top_p = 1},
    };
    static const char *const named[] = {
        "temperature is 0", "temperature is -1", "temperature is", "temperature is inf",
        "top-p is 0",       "top-p is 1.01",     "top-p is",       "top-k is -1"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct cadre_sampler *s = NULL;
        struct cadre_error err = {0};
        ck_assert_int_eq(cadre_sampler_create(&wrong[i], 4, &s, &err), CADRE_E_INVALID);
        ck_assert_msg(strstr(err.text, named[i]) != NULL, "%s", err.text);
        ck_assert_ptr_null(s);
    }
    cadre_sampler_destroy(NULL);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("sampler");
    TCase *tc = tcase_create("sampler");
    tcase_add_test(tc, cuts_are_those_of_transformers);
    tcase_add_test(tc, draws_follow_the_probabilities);
    tcase_add_test(tc, draws_are_of_seed_and_position);
    tcase_add_test(tc, greedy_takes_the_first_of_the_largest);
    tcase_add_test(tc, damaged_logits_are_refused);
    tcase_add_test(tc, values_out_of_range_are_refused);
    suite_add_tcase(s, tc);
    return s;
}
