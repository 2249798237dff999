/* SPDX-License-Identifier: Apache-2.0 */
/* run.verify: no bit of a run is another one with it, and every bit that is flipped in
 * what a rank keeps between two updates, or in what came from another, is found. */
#include "core/engine/verify.h"

#include <stdio.h>
#include <string.h>

#include "tests/engine/rank_fixture.h"
#include "tests/plugins/thread_run.h"
#include "tests/support/check_main.h"

/* ---- it changes nothing ---- */

static const char *const stacks[] = {
    "single",
    "single train.precision=bf16 optim.name=adamw8bit",
    "ddp:2",
    "ddp:2 optim.name=muon",
    "zero:2 zero.stage=1",
    "zero:2 zero.stage=3 train.precision=bf16",
    "zero:2 zero.offload=optimizer optim.name=lion",
    "hsdp:2,zero:2 zero.stage=2",
    "pipeline:2",
    "tensor:2,ddp:2",
    "pipeline:2,zero:2 zero.stage=1 model.tied=no",
    "diloco:2 diloco.period=2",
    "diloco:2 diloco.period=4",
    "diloco:2 diloco.period=2 diloco.fragments=2",
    "diloco:2 diloco.period=4 diloco.fragments=2 diloco.overlap=1",
    "zero:2 zero.stage=3 model.arch=llama",
};
enum { STACKS = sizeof stacks / sizeof *stacks };

/* As before an evaluation or a checkpoint: DRAIN may change values. */
static void drain(struct cadre_rank *rank, int step)
{
    if (step == 3)
        ck_assert_msg(cadre_rank_drain(rank) == CADRE_OK, "%s", rank->failure.text);
}

START_TEST(no_bit_is_another)
{
    struct spec_fixture f;
    struct thread_run with = {.fixture = &f, .steps = 6, .each = drain}, without = with;
    char sets[256];
    spec_fixture_open(&f);
    snprintf(sets, sizeof sets, "train.micro_batch=1 strategy.stack=%s", stacks[_i]);
    thread_run(&without, sets);
    snprintf(sets, sizeof sets, "train.micro_batch=1 run.verify=%d strategy.stack=%s",
             1 + _i % 2, stacks[_i]);
    thread_run(&with, sets);
    ck_assert_msg(thread_runs_same(&with, &without), "%s differs by %g", stacks[_i],
                  thread_runs_differ(&with, &without));
    spec_fixture_close(&f);
}
END_TEST

/* ---- every bit is found ---- */

static struct rank_fixture f;
static unsigned flipped, found;

/* Flip each bit of some bytes of a range, one after the other. */
static void flip_each(void *data, uint64_t bytes, const char *what, const char *name)
{
    struct cadre_verify *verify = &f.rank.verify;
    const uint64_t some[] = {0, bytes / 2, bytes - 1};
    for (int s = 0; s < 3; s++)
        for (int bit = 0; bit < 8; bit++) {
            unsigned char *at = (unsigned char *)data + some[s];
            struct cadre_error why = {0};
            *at ^= (unsigned char)(1 << bit);
            flipped++;
            if (cadre_verify_rest(verify, &why) == CADRE_E_INTERNAL) {
                found++;
                ck_assert_msg(strstr(why.text, what) && strstr(why.text, name), "%s",
                              why.text);
            }
            *at ^= (unsigned char)(1 << bit);
        }
}

/* By the optimizer and precision: what else is kept. */
static const struct {
    enum cadre_optimizer_kind kind;
    uint32_t dtype;
} kept[] = {
    {CADRE_OPTIMIZER_ADAMW, CADRE_F32},
    {CADRE_OPTIMIZER_ADAMW, CADRE_BF16},
    {CADRE_OPTIMIZER_SGD, CADRE_F32},
    {CADRE_OPTIMIZER_ADAMW8BIT, CADRE_F32},
};
enum { KEPT = sizeof kept / sizeof *kept };

START_TEST(every_bit_is_found)
{
    rank_fixture_open(&f);
    f.spec.verify = 1;
    f.spec.optim.kind = kept[_i].kind;
    f.spec.model.dtype = kept[_i].dtype;
    rank_fixture_start(&f);
    rank_fixture_step(&f, 1);
    const struct cadre_store *store = &f.rank.store;
    flipped = found = 0;
    for (uint32_t i = 0; i < store->model->n_params; i++) {
        const struct cadre_store_param *p = &store->param[i];
        const char *name = store->model->params[i].name;
        const uint64_t wide = p->count * store->wide_bytes;
        if (store->model->params[i].tied_to >= 0)
            continue;
        flip_each(p->data, p->count * store->elem_bytes, "values of", name);
        if (p->master)
            flip_each(p->master, wide, "the values of", name);
        if (p->exp_avg)
            flip_each(p->exp_avg, wide, "first moments of", name);
        if (p->exp_avg_sq)
            flip_each(p->exp_avg_sq, wide, "second moments of", name);
    }
    for (uint32_t s = 0; s < store->plan->n_states; s++)
        flip_each(store->opt.state[s].data,
                  store->opt.state[s].count *
                      cadre_dtype_bytes(store->opt.state[s].dtype),
                  store->plan->state[s].key, "on rank 0");
    ck_assert_uint_ge(flipped, 27 * 24);
    ck_assert_uint_eq(found, flipped);
    rank_fixture_step(&f, 2);
    rank_fixture_close(&f);
}
END_TEST

/* ---- the run ends ---- */

/* The highest bit of a mantissa, which no update rounds away again. */
static void flip_on_last(struct cadre_rank *rank, int step)
{
    const uint32_t param = 4;
    if (step == 2 && rank->index == rank->mesh.ranks - 1)
        ((unsigned char *)cadre_store_opt_data(&rank->store, param))[2] ^= 0x40;
}

static const struct {
    const char *sets, *says;
} ended[] = {
    {"run.verify=1 strategy.stack=single", "the values of"},
    {"run.verify=1 strategy.stack=ddp:2", "on rank 1 changed after the last update"},
    {"run.verify=1 strategy.stack=ddp:2 train.precision=bf16", "on rank 1 changed"},
    {"run.verify=1 strategy.stack=tensor:2", "on rank 1 changed"},
    /* when it is found, nothing was noted; replicas show it */
    {"run.verify=4 strategy.stack=ddp:2",
     "the parameters and optimizer states of unit 1 along the axis 'dp' are not the "
     "same on its ranks 0 and 1; a"},
    {"run.verify=4 strategy.stack=ddp:3 train.global_batch=12",
     "on its ranks 0 and 2 (rank 2 is not as most are)"},
};
enum { ENDED = sizeof ended / sizeof *ended };

START_TEST(a_run_ends)
{
    struct spec_fixture fixture;
    struct thread_run run = {.fixture = &fixture, .steps = 5, .each = flip_on_last};
    char sets[256];
    spec_fixture_open(&fixture);
    snprintf(sets, sizeof sets, "train.micro_batch=1 %s", ended[_i].sets);
    ck_assert_int_eq(thread_run_try(&run, sets), CADRE_E_INTERNAL);
    ck_assert_msg(strstr(run.err.text, ended[_i].says) != NULL, "%s", run.err.text);
    spec_fixture_close(&fixture);
}
END_TEST

/* ---- messages ---- */

static const struct tampered {
    const char *sets, *kind;
    bool grad; /* of the first parameter, else its values, which rank 1 owns */
    const char *says;
} tampered[] = {
    {"strategy.stack=ddp:2", "all_reduce", true,
     "run.verify: ranks 0 and 1 got other bits from a reduction along the axis 'dp'"},
    {"strategy.stack=zero:2 zero.stage=1", "all_gather", false,
     "run.verify: what rank 1 sent rank 0 along the axis 'dp' came with other bits"},
    {"strategy.stack=ddp:2 run.verify=3", "all_reduce", true,
     "run.verify: ranks 0 and 1 got other bits from a reduction along the axis 'dp'"},
};
static const struct tampered *tampering;

/* A bit of what came, before its event has happened. */
static void turn_a_bit(void *arg, const struct cadre_comm_done *done)
{
    const struct cadre_rank *rank = arg;
    const struct cadre_store_param *p = &rank->store.param[0];
    if (strcmp(done->kind, tampering->kind) == 0 && done->out_count >= p->count)
        *(unsigned char *)(tampering->grad ? p->grad : p->data) ^= 1;
}

static void tamper_on_first(struct cadre_rank *rank, int step)
{
    if (step == 1 && rank->index == 0)
        cadre_comm_observe(rank->world, turn_a_bit, rank);
}

START_TEST(a_message_ends_it)
{
    struct spec_fixture fixture;
    struct thread_run run = {.fixture = &fixture, .steps = 5, .each = tamper_on_first};
    char sets[256];
    tampering = &tampered[_i];
    spec_fixture_open(&fixture);
    snprintf(sets, sizeof sets, "train.micro_batch=1 run.verify=1 %s", tampering->sets);
    ck_assert_int_eq(thread_run_try(&run, sets), CADRE_E_INTERNAL);
    ck_assert_msg(strstr(run.err.text, tampering->says) != NULL, "%s", run.err.text);
    spec_fixture_close(&fixture);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("verify");
    TCase *tc = tcase_create("verify");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, no_bit_is_another, 0, STACKS);
    tcase_add_loop_test(tc, every_bit_is_found, 0, KEPT);
    tcase_add_loop_test(tc, a_run_ends, 0, ENDED);
    tcase_add_loop_test(tc, a_message_ends_it, 0, sizeof tampered / sizeof *tampered);
    suite_add_tcase(suite, tc);
    return suite;
}
