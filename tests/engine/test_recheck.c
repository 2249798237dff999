/* SPDX-License-Identifier: Apache-2.0 */
/* run.recheck: no bit of a run is another one with it, and a bit that a product flips
 * once is found, or was rounded away and moved nothing. */
#include "core/engine/execute/recheck.h"

#include <stdio.h>
#include <string.h>

#include "tests/engine/rank_fixture.h"
#include "tests/plugins/thread_run.h"
#include "tests/support/check_main.h"

/* ---- it changes nothing ---- */

static const char *const stacks[] = {
    "single",
    "single run.exact=yes",
    "single train.recompute=block train.precision=bf16",
    "single model.head_rows=5 model.arch=llama",
    "single model.experts=4",
    "single train.precision=fp16",
    "ddp:2 run.exact=yes",
    "zero:2 zero.stage=2 zero.reduce=microbatch",
    "zero:2 zero.stage=3 train.precision=bf16",
    "hsdp:2,zero:2 zero.stage=3",
    "pipeline:2",
    "pipeline:2 pipeline.schedule=zb-h1",
    "pipeline:2 pipeline.schedule=zb-h1 model.head_rows=5 train.recompute=block",
    "pipeline:2 pipeline.schedule=zb-v model.layers=4 model.arch=llama",
    "tensor:2,ddp:2",
    "tensor:2 tensor.sequence_parallel=yes run.exact=yes run.exact_parts=2",
    "pipeline:2,tensor:2 pipeline.schedule=zb-h1",
    "diloco:2 diloco.period=2",
};
enum { STACKS = sizeof stacks / sizeof *stacks };

START_TEST(no_bit_is_another)
{
    struct spec_fixture f;
    struct thread_run with = {.fixture = &f, .steps = 4}, without = with;
    char sets[256];
    spec_fixture_open(&f);
    snprintf(sets, sizeof sets, "train.micro_batch=1 strategy.stack=%s", stacks[_i]);
    thread_run(&without, sets);
    snprintf(sets, sizeof sets, "train.micro_batch=1 run.recheck=1 strategy.stack=%s",
             stacks[_i]);
    thread_run(&with, sets);
    ck_assert_msg(thread_runs_same(&with, &without), "%s differs by %g", stacks[_i],
                  thread_runs_differ(&with, &without));
    spec_fixture_close(&f);
}
END_TEST

/* ---- a bit that is flipped once ---- */

static struct rank_fixture f;
static struct cadre_device_ops sound, faulty;
static int products; /* of a step */
static struct {
    int calls, at; /* products so far; the one that goes wrong, from 1 */
    unsigned bit;
} fault;

/* One bit of one element of a product of fp32, another one for each call. */
static cadre_status flip(struct cadre_device *device, const struct cadre_gemm *gemm)
{
    const cadre_status rc = sound.gemm(device, gemm);
    if (++fault.calls == fault.at) {
        const int64_t i = fault.at * 7 % gemm->m, j = fault.at * 5 % gemm->n;
        uint32_t value;
        char *at = (char *)gemm->c + (i * gemm->ldc + j) * (int64_t)sizeof value;
        memcpy(&value, at, sizeof value);
        value ^= UINT32_C(1) << fault.bit;
        memcpy(at, &value, sizeof value);
    }
    return rc;
}

/* One step from the beginning; *params: XXH64 of all after it. */
static cadre_status step(int at, unsigned bit, uint64_t *params)
{
    struct cadre_step_report report;
    rank_fixture_start(&f);
    sound = faulty = *f.rank.device->ops;
    faulty.gemm = flip;
    f.rank.device->ops = &faulty;
    fault.calls = 0;
    fault.at = at;
    fault.bit = bit;
    const cadre_status rc = cadre_rank_step(&f.rank, 1, &report);
    *params = rank_fixture_params(&f);
    return rc;
}

static const struct {
    const char *name;
    unsigned bit;
    double found; /* at least, of all */
} classes[] = {
    {"sign", 31, 0.9},          {"exponent, high", 29, 0.9},
    {"exponent, low", 23, 0.9}, {"mantissa, high", 21, 0.9},
    {"mantissa, low", 0, 0.2},
};
enum { CLASSES = sizeof classes / sizeof *classes };

START_TEST(a_flip_is_found_or_moves_nothing)
{
    int found = 0, harmless = 0;
    uint64_t right, params;
    rank_fixture_open(&f);
    f.spec.recheck = 1;
    f.spec.micro_batch = 8; /* the one that is computed twice */
    ck_assert_int_eq(step(0, 0, &right), CADRE_OK);
    products = fault.calls;
    ck_assert_int_gt(products, 60);
    for (int at = 1; at <= products; at++) {
        rank_fixture_stop(&f);
        const cadre_status rc = step(at, classes[_i].bit, &params);
        if (rc != CADRE_OK && strstr(f.rank.failure.text, "run.recheck: "))
            found++;
        else if (rc == CADRE_OK && params == right)
            harmless++;
        else
            ck_abort_msg("product %d of %d, %s: %s", at, products, classes[_i].name,
                         rc == CADRE_OK ? "not found" : f.rank.failure.text);
    }
    printf("%s: %d of %d found, %d were rounded away\n", classes[_i].name, found,
           products, harmless);
    ck_assert_double_ge(found, classes[_i].found * products);
    rank_fixture_close(&f);
}
END_TEST

static struct cadre_device_ops one_rank;

/* From step 2 on, on the last rank. */
static void arm_last(struct cadre_rank *rank, int step)
{
    if (rank->index != rank->mesh.ranks - 1)
        return;
    if (step == 2)
        products = fault.calls;
    if (step != 1)
        return;
    sound = one_rank = *rank->device->ops;
    one_rank.gemm = flip;
    fault.calls = 0;
    rank->device->ops = &one_rank;
}

static const char split[] = "train.global_batch=2 run.recheck=1 model.layers=4 "
                            "strategy.stack=pipeline:2 pipeline.schedule=zb-h1";

/* The same where gradients of weights are computed apart from those of inputs. */
START_TEST(split_passes_hide_nothing)
{
    struct spec_fixture fixture;
    struct thread_run right = {.fixture = &fixture, .steps = 3, .each = arm_last};
    int found = 0;
    spec_fixture_open(&fixture);
    fault.at = 0;
    fault.bit = classes[_i].bit;
    thread_run(&right, split);
    const int n = products;
    ck_assert_int_gt(n, 30);
    for (int at = 1; at <= n; at++) {
        struct thread_run wrong = {.fixture = &fixture, .steps = 3, .each = arm_last};
        fault.at = at;
        if (thread_run_try(&wrong, split) != CADRE_OK)
            found += strstr(wrong.err.text, "run.recheck: ") != NULL;
        else
            ck_assert_msg(thread_runs_same(&wrong, &right),
                          "product %d of %d, %s: not found", at, n, classes[_i].name);
    }
    printf("split, %s: %d of %d found\n", classes[_i].name, found, n);
    ck_assert_double_ge(found, classes[_i].found * n);
    spec_fixture_close(&fixture);
}
END_TEST

/* Without recheck nothing is found, and the training is another one. */
START_TEST(without_it_a_flip_goes_in)
{
    uint64_t right, wrong;
    rank_fixture_open(&f);
    f.spec.micro_batch = 8;
    ck_assert_int_eq(step(0, 0, &right), CADRE_OK);
    rank_fixture_stop(&f);
    ck_assert_int_eq(step(3, 29, &wrong), CADRE_OK);
    ck_assert(wrong != right);
    rank_fixture_close(&f);
}
END_TEST

/* Which steps and micro-batches are computed twice, by the products that were made. */
START_TEST(every_so_many_steps)
{
    struct cadre_step_report report;
    int of_step[6], before = 0;
    uint64_t unused;
    rank_fixture_open(&f);
    f.spec.recheck = 3;
    ck_assert_int_eq(step(0, 0, &unused), CADRE_OK);
    for (int i = 0; i < 6; i++) {
        if (i > 0)
            ck_assert_int_eq(cadre_rank_step(&f.rank, (uint64_t)i + 1, &report),
                             CADRE_OK);
        of_step[i] = fault.calls - before;
        before = fault.calls;
    }
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(of_step[i], i % 3 == 2 ? of_step[2] : of_step[0]);
    /* of 4 micro-batches one: forward three times, backward twice */
    ck_assert_int_gt(of_step[2], of_step[0] * 5 / 4);
    ck_assert_int_lt(of_step[2], of_step[0] * 7 / 4);
    rank_fixture_close(&f);
}
END_TEST

/* ---- the run ends ---- */

/* Every 7th product of a rank goes wrong. */
static cadre_status flip_some(struct cadre_device *device,
                              const struct cadre_gemm *gemm)
{
    const cadre_status rc = sound.gemm(device, gemm);
    if (++fault.calls % 7 == 0)
        ((unsigned char *)gemm->c)[2] ^= 0x40;
    return rc;
}

static void break_last(struct cadre_rank *rank, int step)
{
    if (step != 1 || rank->index != rank->mesh.ranks - 1)
        return;
    sound = one_rank = *rank->device->ops;
    one_rank.gemm = flip_some;
    rank->device->ops = &one_rank;
}

static const struct {
    const char *stack, *seen;
} ended[] = {
    {"ddp:2", "rank 1"},
    {"zero:2 zero.stage=3 train.precision=bf16", "rank 1"},
    {"pipeline:2 pipeline.schedule=zb-h1", "rank 1"},
    {"tensor:2", "rank"}, /* both add the same parts */
};
enum { ENDED = sizeof ended / sizeof *ended };

START_TEST(a_run_ends)
{
    struct spec_fixture fixture;
    struct thread_run run = {.fixture = &fixture, .steps = 3, .each = break_last};
    char sets[256], seen[64];
    spec_fixture_open(&fixture);
    snprintf(sets, sizeof sets, "run.recheck=1 strategy.stack=%s", ended[_i].stack);
    snprintf(seen, sizeof seen, "other bits, seen on %s", ended[_i].seen);
    ck_assert_int_eq(thread_run_try(&run, sets), CADRE_E_INTERNAL);
    ck_assert_msg(strstr(run.err.text, "run.recheck: ") && strstr(run.err.text, seen) &&
                      strstr(run.err.text, " of step 2 was computed again"),
                  "%s", run.err.text);
    spec_fixture_close(&fixture);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("recheck");
    TCase *tc = tcase_create("recheck");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, no_bit_is_another, 0, STACKS);
    tcase_add_loop_test(tc, a_flip_is_found_or_moves_nothing, 0, CLASSES);
    tcase_add_loop_test(tc, split_passes_hide_nothing, 0, CLASSES);
    tcase_add_test(tc, without_it_a_flip_goes_in);
    tcase_add_test(tc, every_so_many_steps);
    tcase_add_loop_test(tc, a_run_ends, 0, ENDED);
    suite_add_tcase(suite, tc);
    return suite;
}
