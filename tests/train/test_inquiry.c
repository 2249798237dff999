/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/inquiry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/train/predict.h"
#include "tests/support/check_main.h"

static struct cadre_error err;

static struct cadre_options *options_of(char (*setting)[64], int n)
{
    struct cadre_options *options;
    ck_assert_int_eq(cadre_options_create(&options, &err), CADRE_OK);
    for (int i = 0; i < n; i++)
        ck_assert_msg(cadre_options_set(options, setting[i], "test", &err) == CADRE_OK,
                      "%s", err.text);
    return options;
}

/* A number below n, the same in every run. */
static unsigned draw(unsigned n)
{
    static unsigned state = 20;
    state = state * 1664525u + 1013904223u;
    return (state >> 16) % n;
}

enum { SETTINGS = 12 };

/* A small configuration of up to 8 ranks. Returns how many settings. */
static int random_run(char (*out)[64], int *stages)
{
    static const char *const schedules[] = {"1f1b",  "gpipe", "interleaved",
                                            "zb-h1", "zb-v",  "breadth-first"};
    static const char *const precisions[] = {"fp32", "bf16", "fp16"};
    const int tensor = 1 << draw(2), data = 1 << draw(2), heads = 4;
    const char *shards = draw(2) ? "zero" : "ddp";
    int n = 0;
    *stages = 1 << draw(2);
    snprintf(out[n++], 64, "strategy.stack=pipeline:%d, %s:%d, tensor:%d", *stages,
             shards, data, tensor);
    snprintf(out[n++], 64, "model.layers=%u", 4 + draw(4));
    snprintf(out[n++], 64, "model.channels=%u", 32 * (1 + draw(3)));
    snprintf(out[n++], 64, "model.heads=%d", heads);
    snprintf(out[n++], 64, "model.context=%u", 16u << draw(3));
    snprintf(out[n++], 64, "model.vocab=%u", 64 * (1 + draw(8)));
    snprintf(out[n++], 64, "train.micro_batch=%d", 1 << draw(2));
    snprintf(out[n++], 64, "train.global_batch=16");
    snprintf(out[n++], 64, "train.recompute=%s", draw(2) ? "block" : "none");
    snprintf(out[n++], 64, "train.precision=%s", precisions[draw(3)]);
    if (strcmp(shards, "zero") == 0 && data > 1)
        snprintf(out[n++], 64, "zero.stage=%u", 1 + draw(3));
    if (*stages > 1)
        snprintf(out[n++], 64, "pipeline.schedule=%s", schedules[draw(6)]);
    return n;
}

/* What the dry run has for the rank that asks for most. */
static uint64_t dry_run(char (*setting)[64], int n)
{
    const struct cadre_spec_request request = {.name = "plan"};
    struct cadre_spec *spec;
    struct cadre_prediction p;
    ck_assert_msg(cadre_spec_create(options_of(setting, n), &request, &spec, &err) ==
                      CADRE_OK,
                  "%s", err.text);
    ck_assert_int_eq(cadre_predict(spec, NULL, NULL, &p, &err), CADRE_OK);
    cadre_spec_destroy(spec);
    return p.most;
}

/* 200 random ones, or 20 where code is instrumented: all ranks together ask for what
 * the dry run finds, so none is said to fit that does not. The first rank of each
 * stage alone asks for as much but for pieces of shards, which are not all equal. */
START_TEST(no_random_run_is_said_to_fit_that_does_not)
{
    const int runs = getenv("CADRE_TEST_LEAN") ? 20 : 200;
    char setting[SETTINGS][64];
    int taken = 0;
    for (int i = 0; i < runs; i++) {
        struct cadre_inquiry said;
        int stages;
        const int n = random_run(setting, &stages);
        const cadre_status rc =
            cadre_inquiry(options_of(setting, n), 0, 1, &said, &err);
        if (rc != CADRE_OK) /* refused, with a reason */
            continue;
        const int every = said.ranks / stages;
        const uint64_t most = dry_run(setting, n);
        struct cadre_inquiry few;
        ck_assert_uint_eq(said.bytes, most);
        ck_assert_int_eq(
            cadre_inquiry(options_of(setting, n), said.ranks, every, &few, &err),
            CADRE_OK);
        ck_assert_int_eq(few.asked, stages);
        ck_assert_msg(few.bytes + 262144 >= most, "%s: %llu of %llu", setting[0],
                      (unsigned long long)few.bytes, (unsigned long long)most);
        taken++;
    }
    ck_assert_int_ge(taken, runs / 2);
}
END_TEST

START_TEST(what_ranks_do)
{
    char setting[][64] = {"strategy.stack=pipeline:2, ddp:2",
                          "model.layers=6",
                          "model.channels=32",
                          "model.heads=2",
                          "model.context=16",
                          "model.vocab=64",
                          "train.micro_batch=2",
                          "train.global_batch=16"};
    struct cadre_inquiry said;
    ck_assert_int_eq(cadre_inquiry(options_of(setting, 8), 0, 1, &said, &err),
                     CADRE_OK);
    ck_assert_int_eq(said.ranks, 4);
    ck_assert_int_eq(said.asked, 4);
    ck_assert_int_eq(said.micro_batches, 4);
    ck_assert_int_eq(said.tensor, 1);
    ck_assert_int_eq(said.time, 16);
    ck_assert(said.blocks >= 3 && said.blocks < 6);
    ck_assert(!said.claims_other);
}
END_TEST

START_TEST(a_plugin_that_refuses_says_why)
{
    char setting[][64] = {"strategy.stack=tensor:3", "model.channels=32",
                          "model.heads=4", "model.vocab=64"};
    struct cadre_inquiry said;
    ck_assert_int_ne(cadre_inquiry(options_of(setting, 4), 0, 1, &said, &err),
                     CADRE_OK);
    ck_assert_msg(strstr(err.text, "3") != NULL, "%s", err.text);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("inquiry");
    TCase *tc = tcase_create("inquiry");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, no_random_run_is_said_to_fit_that_does_not);
    tcase_add_test(tc, what_ranks_do);
    tcase_add_test(tc, a_plugin_that_refuses_says_why);
    suite_add_tcase(s, tc);
    return s;
}
