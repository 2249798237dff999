/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters that are frozen, and stored in int8. */
#include "core/engine/layout/forms.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cadre/helpers.h>

#include "core/model/init.h"
#include "tests/plugins/thread_run.h"
#include "tests/support/check_main.h"

enum { PARAMS = 40 };

static struct spec_fixture f;
static struct thread_run single, run;
static const char *names; /* a text of the names of frozen parameters */
static uint32_t form;

static void setup(void)
{
    spec_fixture_open(&f);
    single = run = (struct thread_run){.fixture = &f, .steps = 3};
    names = "mlp";
    form = CADRE_FORM_INT8;
}

static void teardown(void)
{
    spec_fixture_close(&f);
}

/* ---- runs ---- */

struct cadre_self {
    const struct cadre_host *host;
};

static cadre_status create(const struct cadre_create *c, struct cadre_self **out)
{
    CADRE_TRY(cadre_self_create(c->host, NULL, sizeof **out, out));
    (*out)->host = c->host;
    return CADRE_OK;
}

static void destroy(struct cadre_self *self, const struct cadre_end *end)
{
    (void)end;
    free(self);
}

static cadre_status bind(struct cadre_self *self, const struct cadre_bind *bind)
{
    (void)self;
    (void)bind;
    return CADRE_OK;
}

static cadre_status sync(struct cadre_self *self, const struct cadre_sync *sync)
{
    (void)self;
    (void)sync;
    return CADRE_OK;
}

static bool is_frozen(const struct cadre_param *p)
{
    return strstr(p->name, names) != NULL;
}

static cadre_status plan(struct cadre_self *self, const struct cadre_plan *plan)
{
    const struct cadre_model *model = self->host->ctx->services->model;
    for (uint32_t id = 0; id < model->n_params; id++) {
        const struct cadre_param *p = &model->params[id];
        if (p->tied_to >= 0 || !is_frozen(p))
            continue;
        CADRE_TRY(plan->train(plan->h, id, 0));
        if (form != CADRE_FORM_PLAIN)
            CADRE_TRY(plan->store(plan->h, id, form));
    }
    return CADRE_OK;
}

static const struct cadre_strategy_ops freezer = {
    .struct_size = sizeof freezer,
    .create = create,
    .plan = plan,
    .bind = bind,
    .sync = sync,
    .destroy = destroy,
};

/* Of each parameter of rank 0: how far it is from its initial values. */
static double moved[PARAMS], largest[PARAMS];
static struct cadre_param param[PARAMS];
static uint32_t n_params;

static void compare_with_start(struct cadre_rank *rank, int step)
{
    const struct cadre_store *store = &rank->store;
    if (rank->index != 0 || step != run.steps)
        return;
    n_params = store->model->n_params;
    for (uint32_t i = 0; i < n_params; i++) {
        const struct cadre_share own = cadre_store_elements(store, i);
        float *was = calloc(own.count + 1, sizeof *was);
        float *now = calloc(own.count + 1, sizeof *now);
        param[i] = store->model->params[i];
        moved[i] = largest[i] = 0;
        cadre_model_init_range(store->model, i, rank->spec->seed, own.begin, own.count,
                               was);
        cadre_store_get(store, i, 0, own.count, now);
        for (uint64_t e = 0; e < own.count; e++) {
            moved[i] = fmax(moved[i], fabs((double)now[e] - (double)was[e]));
            largest[i] = fmax(largest[i], fabs((double)was[e]));
        }
        free(was);
        free(now);
    }
}

/* Frozen ones keep their values, or those that the form has for them; others train. */
START_TEST(frozen_ones_stay)
{
    form = (uint32_t)_i;
    run.probe = &freezer;
    run.each = compare_with_start;
    thread_run(&run, "");
    for (uint32_t i = 0; i < n_params; i++) {
        const double step =
            form == CADRE_FORM_NF4 ? largest[i] * 0.31 : largest[i] / 127;
        if (param[i].tied_to >= 0)
            continue;
        if (!is_frozen(&param[i]))
            ck_assert_msg(moved[i] > 1e-4, "'%s' did not train", param[i].name);
        else if (_i && param[i].shape.ndim == 2)
            ck_assert(moved[i] > 0 && moved[i] <= step / 2 * 1.0001);
        else
            ck_assert_double_le(moved[i], _i ? step : 0);
    }
}
END_TEST

/* Values of one unit in 127 have little effect on the loss, and some. */
START_TEST(int8_is_close_to_plain)
{
    form = CADRE_FORM_PLAIN;
    single.probe = run.probe = &freezer;
    thread_run(&single, "");
    form = CADRE_FORM_INT8;
    thread_run(&run, "");
    ck_assert_double_lt(thread_runs_differ(&single, &run), 0.05);
    ck_assert_double_gt(thread_runs_differ(&single, &run), 0);
}
END_TEST

static const struct {
    const char *names, *stack, *sets;
} stacks[] = {
    {"mlp", "ddp:2", ""},
    {"mlp", "zero:2", "zero.stage=1"},
    {"mlp", "zero:2", "zero.stage=2"},
    {"mlp", "zero:2", "zero.stage=3"},
    {"mlp", "zero:2", "zero.stage=3 train.recompute=block"},
    {"mlp", "single", "train.recompute=block"},
    {"mlp", "pipeline:2", ""},
    {"mlp", "pipeline:2,zero:2", "zero.stage=1 pipeline.schedule=zb-h1"},
    {"wte", "ddp:2", ""},
    {"wte", "pipeline:2", ""},
    {"wte", "zero:2", "zero.stage=3"},
    {"ln_", "zero:2", "zero.stage=2"},
    {"mlp", "ddp:2", "train.precision=bf16"},
    {"mlp", "zero:2", "optim.name=muon zero.stage=1"},
    {"mlp", "zero:2", "train.precision=fp64 zero.stage=2"},
};
enum { STACKS = sizeof stacks / sizeof *stacks };

/* In all forms, the tied embedding too. */
START_TEST(has_the_bits_of_single)
{
    char sets[300];
    const int s = _i / 3;
    names = stacks[s].names;
    form = (uint32_t)(_i % 3);
    single.probe = run.probe = &freezer;
    snprintf(sets, sizeof sets, "model.channels=64 run.exact=yes %s", stacks[s].sets);
    thread_run(&single, sets);
    snprintf(sets, sizeof sets, "model.channels=64 run.exact=yes strategy.stack=%s %s",
             stacks[s].stack, stacks[s].sets);
    thread_run(&run, sets);
    ck_assert_msg(thread_runs_same(&single, &run), "%s %s differs by %g",
                  stacks[s].stack, stacks[s].sets, thread_runs_differ(&single, &run));
}
END_TEST

/* ---- memory ---- */

static uint64_t planned, taken, parameters;

static uint64_t bytes_of(const struct cadre_ledger *ledger, const char *tag)
{
    uint64_t bytes = 0;
    for (int i = 0; i < ledger->n; i++)
        if (strcmp(ledger->entry[i].tag, tag) == 0)
            bytes += ledger->entry[i].bytes;
    return bytes;
}

static void weigh(struct cadre_rank *rank, int step)
{
    struct cadre_ledger table = {0};
    if (rank->index != 0 || step != 1)
        return;
    cadre_store_note(rank->model, &rank->plan, CADRE_OPTIMIZER_ADAMW, &table);
    planned = taken = 0;
    for (int i = 0; i < table.n; i++) {
        planned += table.entry[i].bytes;
        taken += bytes_of(&rank->ledger, table.entry[i].tag);
    }
    parameters = bytes_of(&table, "parameters") + bytes_of(&table, "gradients") +
                 bytes_of(&table, "optimizer states") +
                 bytes_of(&table, "scales of nf4");
}

/* In nf4 a frozen element takes at most 4.13 bits, whoever asks for it. */
START_TEST(nf4_takes_4_13_bits)
{
    uint64_t all, rest;
    const uint64_t C = 128, mlp = 2 * 8 * C * C;
    names = "mlp.c_fc.weight";
    run.steps = 1;
    run.each = weigh;
    form = CADRE_FORM_PLAIN;
    run.probe = &freezer;
    thread_run(&run, "model.channels=128");
    all = parameters;
    form = _i ? CADRE_FORM_PLAIN : CADRE_FORM_NF4;
    thread_run(&run, _i ? "model.channels=128 tune.base=nf4" : "model.channels=128");
    ck_assert_uint_eq(planned, taken);
    rest = all - parameters;
    ck_assert_double_ge((double)rest * 8, (32 - 4.13) * (double)mlp / 2);
    ck_assert_double_le((double)rest * 8, (32 - 4.12) * (double)mlp / 2);
}
END_TEST

/* What is planned is taken, and frozen int8 takes 17/64 of 16 bytes an element. */
START_TEST(memory_is_saved)
{
    uint64_t all;
    const uint64_t C = 64, mlp = 2 * (8 * C * C + 5 * C);
    run.steps = 1;
    run.each = weigh;
    thread_run(&run, "model.channels=64");
    all = parameters;
    run.probe = &freezer;
    thread_run(&run, "model.channels=64");
    ck_assert_uint_eq(planned, taken);
    ck_assert_uint_lt(parameters, all - 14 * mlp);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("forms");
    TCase *tc = tcase_create("forms");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, frozen_ones_stay, 0, 3);
    tcase_add_test(tc, int8_is_close_to_plain);
    tcase_add_loop_test(tc, has_the_bits_of_single, 0, 3 * STACKS);
    tcase_add_test(tc, memory_is_saved);
    tcase_add_loop_test(tc, nf4_takes_4_13_bits, 0, 2);
    suite_add_tcase(suite, tc);
    return suite;
}
