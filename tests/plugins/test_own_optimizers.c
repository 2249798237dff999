/* SPDX-License-Identifier: Apache-2.0 */
/* Lion and AdamW with states of 8 bits, which are the core's own, against themselves
 * under every stack. What they compute is held by tests/optim/test_optimizer.c. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/engine/layout/opt_storage.h"
#include "tests/plugins/thread_run.h"
#include "tests/support/check_main.h"

static struct spec_fixture f;
static struct thread_run single, run;

static void setup(void)
{
    spec_fixture_open(&f);
    single = run = (struct thread_run){.fixture = &f, .steps = 3};
}

static void teardown(void)
{
    spec_fixture_close(&f);
}

static const char *const names[] = {"lion", "adamw8bit"};
enum { NAMES = 2 };

/* ---- equality ---- */

/* Sizes that nothing divides: parameters of more than one chunk, ends of blocks inside
 * of rows. */
#define SIZED                                                                          \
    "run.exact=yes model.channels=66 model.heads=6 optim.clip=0.1 "                    \
    "optim.weight_decay=0.25 optim.schedule=linear optim.warmup=2 "

static const char *const exact[] = {
    "ddp:2",
    "ddp:4 train.micro_batch=1",
    "zero:2 zero.stage=1",
    "zero:2 zero.stage=2 train.micro_batch=1",
    "zero:4 zero.stage=3 train.micro_batch=1",
    "zero:2 zero.stage=3 train.recompute=block model.arch=llama model.channels=72",
    "zero:2 zero.stage=2 train.precision=bf16",
    "zero:4 zero.stage=1 train.precision=fp64 train.micro_batch=1",
    "zero:2 zero.offload=optimizer",
    "pipeline:2",
    "pipeline:2,zero:2 zero.stage=1",
    "hsdp:2,zero:2 zero.stage=2",
};
enum { EXACT = sizeof exact / sizeof *exact };

START_TEST(has_the_bits_of_single)
{
    char sets[400];
    const char *name = names[_i % NAMES], *stack = exact[_i / NAMES];
    const size_t n = strcspn(stack, " ");
    snprintf(sets, sizeof sets, SIZED "optim.name=%s strategy.stack=single%s", name,
             stack + n);
    thread_run(&single, sets);
    snprintf(sets, sizeof sets, SIZED "optim.name=%s strategy.stack=%s", name, stack);
    thread_run(&run, sets);
    ck_assert_msg(thread_runs_same(&single, &run), "%s, %s differs by %g", name, stack,
                  thread_runs_differ(&single, &run));
}
END_TEST

static const char *const tensor[] = {
    "tensor:2,ddp:2",
    "tensor:2,zero:2 zero.stage=1",
    "zero:2,tensor:2 zero.stage=3",
    "pipeline:2,tensor:2",
};
enum { TENSOR = sizeof tensor / sizeof *tensor };

START_TEST(lion_has_the_bits_of_its_tensor_size)
{
    char sets[400];
    thread_run(&single, SIZED "optim.name=lion strategy.stack=tensor:2");
    snprintf(sets, sizeof sets, SIZED "optim.name=lion strategy.stack=%s", tensor[_i]);
    thread_run(&run, sets);
    ck_assert_msg(thread_runs_same(&single, &run), "%s differs by %g", tensor[_i],
                  thread_runs_differ(&single, &run));
}
END_TEST

/* Shards of rows of 512 have whole blocks of the parameter, in another order. */
#define WHOLE_BLOCKS                                                                   \
    "run.exact=yes run.exact_parts=2 model.channels=512 model.heads=2 model.layers=1 " \
    "optim.clip=0.1 optim.weight_decay=0.25 "

static const char *const joined[] = {"tensor:2", "tensor:2,ddp:2",
                                     "tensor:2,zero:2 zero.stage=1",
                                     "zero:2,tensor:2 zero.stage=3"};
enum { JOINED = sizeof joined / sizeof *joined };

START_TEST(with_exact_parts_tensor_has_the_bits_of_single)
{
    char sets[400];
    const char *name = names[_i % NAMES],
               *sized = _i % NAMES ? WHOLE_BLOCKS : SIZED "run.exact_parts=2 ";
    snprintf(sets, sizeof sets, "%soptim.name=%s strategy.stack=single", sized, name);
    thread_run(&single, sets);
    snprintf(sets, sizeof sets, "%soptim.name=%s strategy.stack=%s", sized, name,
             joined[_i / NAMES]);
    thread_run(&run, sets);
    ck_assert_msg(thread_runs_same(&single, &run), "%s, %s differs by %g", name,
                  joined[_i / NAMES], thread_runs_differ(&single, &run));
}
END_TEST

/* Elsewhere a block of the whole parameter lies on several ranks. */
START_TEST(coded_states_refuse_tensor)
{
    ck_assert_int_eq(
        thread_run_try(&run, SIZED "optim.name=adamw8bit strategy.stack=tensor:2"),
        CADRE_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(run.err.text, "act.complete"));
}
END_TEST

/* ---- memory ---- */

static uint64_t planned, taken, codes, tops;

static void look(struct cadre_rank *rank, int step)
{
    struct cadre_ledger table = {0};
    if (rank->index != 0 || step > 1)
        return;
    cadre_store_note(rank->model, &rank->plan, rank->spec->optim.kind, &table);
    planned = taken = codes = tops = 0;
    for (int i = 0; i < table.n; i++)
        if (strcmp(table.entry[i].tag, "optimizer states") == 0)
            planned += table.entry[i].bytes;
    for (int i = 0; i < rank->ledger.n; i++)
        if (strcmp(rank->ledger.entry[i].tag, "optimizer states") == 0)
            taken += rank->ledger.entry[i].bytes;
    for (uint32_t i = 0; i < rank->plan.n_states; i++) {
        const struct cadre_buf *buf = &rank->store.opt.state[i];
        *(buf->dtype == CADRE_U8 ? &codes : &tops) += buf->count;
    }
    ck_assert_uint_eq(rank->plan.n_states % 4, 0);
}

/* 2 bytes a parameter and 8 a block, as planned, and no more than padding beyond. */
START_TEST(memory_is_as_promised)
{
    run.steps = 1;
    run.each = look;
    thread_run(&run, SIZED "optim.name=adamw8bit strategy.stack=zero:2");
    const uint64_t bytes = codes + tops * sizeof(float);
    ck_assert_uint_eq(planned, taken);
    ck_assert_uint_ge(planned, bytes);
    ck_assert_uint_lt(planned, bytes + UINT64_C(64) * 4 * 40);
    ck_assert_uint_ge(tops, codes / CADRE_ADAMW8_BLOCK);
    thread_run(&run, SIZED "optim.name=lion strategy.stack=zero:2");
    ck_assert_uint_eq(planned, taken);
    const uint64_t lion = planned;
    thread_run(&run, SIZED "optim.name=adamw strategy.stack=zero:2");
    ck_assert_uint_eq(planned, 2 * lion);
}
END_TEST

/* ---- training ---- */

/* Micro-batches are summed before the update: their number makes no difference. */
START_TEST(one_update_a_step)
{
    char sets[200];
    for (int i = 0; i < 2; i++) {
        snprintf(sets, sizeof sets,
                 "optim.name=%s train.precision=fp64 train.micro_batch=%d", names[_i],
                 i ? 1 : 8);
        thread_run(i ? &run : &single, sets);
    }
    ck_assert_double_lt(thread_runs_differ(&single, &run), 1e-6);
    thread_run(&run, "optim.name=adamw train.precision=fp64 train.micro_batch=8");
    ck_assert_double_gt(thread_runs_differ(&single, &run), 1e-6);
}
END_TEST

/* As far as AdamW does, nearly. */
START_TEST(it_learns)
{
    single.steps = run.steps = 12;
    thread_run(&single, "optim.name=adamw optim.lr=0.01");
    const double down = single.loss[1] - single.loss[12];
    thread_run(&run, _i ? "optim.name=adamw8bit optim.lr=0.01"
                        : "optim.name=lion optim.lr=0.01 optim.beta2=0.99");
    ck_assert_double_gt(down, 0.3);
    ck_assert_msg(run.loss[1] - run.loss[12] > 0.7 * down, "%s: %g to %g, adamw to %g",
                  names[_i], run.loss[1], run.loss[12], single.loss[12]);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("own optimizers");
    TCase *tc = tcase_create("own optimizers");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, has_the_bits_of_single, 0, EXACT * NAMES);
    tcase_add_loop_test(tc, lion_has_the_bits_of_its_tensor_size, 0, TENSOR);
    tcase_add_loop_test(tc, with_exact_parts_tensor_has_the_bits_of_single, 0,
                        NAMES * JOINED);
    tcase_add_test(tc, coded_states_refuse_tensor);
    tcase_add_test(tc, memory_is_as_promised);
    tcase_add_loop_test(tc, one_update_a_step, 0, NAMES);
    tcase_add_loop_test(tc, it_learns, 0, NAMES);
    suite_add_tcase(suite, tc);
    return suite;
}
