/* SPDX-License-Identifier: Apache-2.0 */
/* States of an optimizer plugin: saved under one stack, loaded under another and saved
 * again, the files have the same bytes. */
#include "core/checkpoint/opt_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cadre/helpers.h>

#include "core/checkpoint/load.h"
#include "core/checkpoint/save.h"
#include "core/model/init.h"
#include "tests/plugins/thread_run.h"
#include "tests/support/check_main.h"

static struct spec_fixture f;
static struct thread_run run;
static char out[2][1200];
static struct cadre_error failure;

static void setup(void)
{
    spec_fixture_open(&f);
    memset(&failure, 0, sizeof failure);
    run = (struct thread_run){.fixture = &f, .steps = 3};
    for (int i = 0; i < 2; i++) {
        snprintf(out[i], sizeof out[i], "%s/run-%d", f.dir, i);
        ck_assert_int_eq(mkdir(out[i], 0777), 0);
    }
}

static void teardown(void)
{
    spec_fixture_close(&f);
}

static void note(cadre_status rc, const struct cadre_error *err)
{
    if (rc != CADRE_OK && rc != CADRE_E_ABORTED)
        failure = *err;
}

static void save_last(struct cadre_rank *rank, int step)
{
    struct cadre_error err = {0};
    if (step != 3)
        return;
    cadre_status rc = cadre_rank_drain(rank);
    if (rc == CADRE_OK)
        rc = cadre_save(rank, out[0], 3, &err);
    note(rc, rc == CADRE_OK || err.code ? &err : &rank->failure);
}

static void load_and_save(struct cadre_rank *rank, int step)
{
    struct cadre_error err = {0};
    char path[1300];
    if (step != 1)
        return;
    snprintf(path, sizeof path, "%s/checkpoints/step-00000003", out[0]);
    cadre_status rc = cadre_rank_drain(rank);
    if (rc == CADRE_OK)
        rc = cadre_load(rank, path, &err);
    if (rc == CADRE_OK)
        rc = cadre_save(rank, out[1], 3, &err);
    note(rc, err.code ? &err : &rank->failure);
}

static void same_file(const char *name)
{
    size_t n[2];
    char *text[2], path[2600];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/checkpoints/step-00000003/%s", out[i], name);
        text[i] = test_file_read(path, &n[i]);
    }
    ck_assert_uint_eq(n[0], n[1]);
    ck_assert_msg(memcmp(text[0], text[1], n[0]) == 0, "%s differs", name);
    free(text[0]);
    free(text[1]);
}

static void there_and_back(const char *first, const char *second, const char *sets)
{
    char text[400];
    snprintf(text, sizeof text, "%s strategy.stack=%s", sets, first);
    run.each = save_last;
    thread_run(&run, text);
    ck_assert_msg(failure.code == CADRE_OK, "%s", failure.text);
    snprintf(text, sizeof text, "%s strategy.stack=%s", sets, second);
    run.each = load_and_save;
    run.steps = 1;
    thread_run(&run, text);
    ck_assert_msg(failure.code == CADRE_OK, "%s", failure.text);
    same_file("optimizer.safetensors");
    same_file("model.safetensors");
}

static const char *const pairs[][2] = {
    {"single", "zero:2"},
    {"zero:2 zero.stage=3", "single"},
    {"tensor:2", "zero:4 zero.stage=2"},
    {"pipeline:2,zero:2", "tensor:2,zero:2"},
    {"hsdp:2,zero:2", "pipeline:2"},
    {"zero:2,tensor:2 zero.stage=1", "ddp:2"},
};
enum { PAIRS = sizeof pairs / sizeof *pairs };

START_TEST(muon_resumes_anywhere)
{
    there_and_back(pairs[_i][0], pairs[_i][1],
                   "optim.name=muon model.channels=64 model.heads=4 "
                   "train.micro_batch=1");
}
END_TEST

START_TEST(bf16_resumes_anywhere)
{
    there_and_back("zero:2 zero.stage=2", "tensor:2",
                   "optim.name=muon model.channels=64 model.heads=4 "
                   "train.precision=bf16");
}
END_TEST

/* ---- states of every kind ---- */

struct cadre_self {
    const struct cadre_host *host;
};
static uint32_t use_i32, use_block; /* one value of "scales" for so many elements */

static cadre_status create(const struct cadre_create *c, struct cadre_self **self)
{
    CADRE_TRY(cadre_self_create(c->host, NULL, sizeof **self, self));
    (*self)->host = c->host;
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

static const struct cadre_model *model_of(const struct cadre_self *self)
{
    return self->host->ctx->services->model;
}

enum { KINDS = 6 };
static const struct cadre_opt_state kinds[KINDS] = {
    {.key = "plain", .dtype = CADRE_F32, .extent = CADRE_OPT_ELEMENTS},
    {.key = "codes", .dtype = CADRE_I8, .extent = CADRE_OPT_ELEMENTS},
    {.key = "half", .dtype = CADRE_BF16, .extent = CADRE_OPT_ELEMENTS},
    {.key = "scales", .dtype = CADRE_F32, .extent = CADRE_OPT_ELEMENTS},
    {.key = "rows", .dtype = CADRE_F32, .extent = CADRE_OPT_ROWS},
    {.key = "columns", .dtype = CADRE_F16, .extent = CADRE_OPT_COLUMNS},
};

static cadre_status plan(struct cadre_self *self, const struct cadre_plan *plan)
{
    const struct cadre_model *model = model_of(self);
    for (uint32_t id = 0; id < model->n_params; id++) {
        const struct cadre_param *p = &model->params[id];
        if (p->tied_to >= 0)
            continue;
        for (int k = 0; k < KINDS; k++) {
            struct cadre_opt_state state = kinds[k];
            state.struct_size = sizeof state;
            state.param = id;
            state.block = strcmp(state.key, "scales") == 0 ? use_block : 1;
            if (k == 0 && use_i32)
                state.dtype = CADRE_I32;
            if (state.extent == CADRE_OPT_ELEMENTS || p->shape.ndim == 2)
                CADRE_TRY(plan->opt_state(plan->h, &state));
        }
        if (p->shape.ndim == 2)
            CADRE_TRY(plan->opt_matrix(plan->h, id));
    }
    return CADRE_OK;
}

/* Numbers that say which element they are of, small enough for 8 bits. */
static int mark(uint64_t element)
{
    return (int)(element * 31 % 251) - 125;
}

static void put(const struct cadre_self *self, const struct cadre_buf *buf, uint64_t i,
                int value)
{
    struct cadre_device *device = self->host->ctx->services->device;
    const double number = value;
    if (buf->dtype == CADRE_I8)
        ((int8_t *)buf->data)[i] = (int8_t)value;
    else
        device->ops->cast(device, buf->dtype,
                          (char *)buf->data + i * cadre_dtype_size(buf->dtype),
                          CADRE_F64, &number, 1);
}

static cadre_status update(struct cadre_self *self, const struct cadre_update_ev *ev)
{
    const struct cadre_model *model = model_of(self);
    const struct cadre_param *p = &model->params[ev->param];
    for (uint32_t k = 0; k < ev->n_states; k++) {
        const struct cadre_buf *buf = &ev->state[k];
        const bool blocks = buf->data && k == 3 && use_block > 1;
        for (uint64_t i = 0; buf->data && i < buf->count; i++) {
            uint64_t at = i;
            if (blocks)
                at = ev->begin / use_block + i;
            else if (ev->stage != CADRE_UPDATE_MATRIX)
                at = cadre_param_logical(p, model->tp_rank, model->tp_size,
                                         ev->begin + i);
            put(self, buf, i, mark(at + k));
        }
    }
    return CADRE_OK;
}

static const struct cadre_strategy_ops optimizer = {
    .struct_size = sizeof optimizer,
    .create = create,
    .plan = plan,
    .bind = bind,
    .sync = sync,
    .destroy = destroy,
    .update = update,
};

START_TEST(every_kind_resumes_anywhere)
{
    const bool sharded =
        strstr(pairs[_i][0], "tensor") || strstr(pairs[_i][1], "tensor");
    use_i32 = 0;
    use_block = sharded ? 1 : 64;
    run.optimizer = &optimizer;
    there_and_back(pairs[_i][0], pairs[_i][1],
                   "model.channels=64 model.heads=4 train.micro_batch=1");
}
END_TEST

START_TEST(what_cannot_be_saved_is_refused)
{
    use_i32 = _i == 0;
    use_block = _i == 0 ? 1 : 64;
    run.optimizer = &optimizer;
    ck_assert_int_eq(thread_run_try(&run, "strategy.stack=tensor:2"),
                     CADRE_E_UNSUPPORTED);
    ck_assert_msg(strstr(run.err.text, _i == 0 ? "i32" : "act.complete") != NULL, "%s",
                  run.err.text);
}
END_TEST

/* ---- frozen parameters ---- */

static cadre_status freeze(struct cadre_self *self, const struct cadre_plan *plan)
{
    const struct cadre_model *model = model_of(self);
    for (uint32_t id = 0; id < model->n_params; id++) {
        if (!strstr(model->params[id].name, "mlp"))
            continue;
        CADRE_TRY(plan->train(plan->h, id, 0));
        CADRE_TRY(
            plan->store(plan->h, id, use_block ? CADRE_FORM_INT8 : CADRE_FORM_PLAIN));
    }
    return CADRE_OK;
}

static const struct cadre_strategy_ops freezer = {
    .struct_size = sizeof freezer,
    .create = create,
    .plan = freeze,
    .bind = bind,
    .sync = sync,
    .destroy = destroy,
};

/* Blocks of a form are those of a shard, so int8 resumes at one tensor size. */
START_TEST(frozen_parameters_resume_anywhere)
{
    const bool sharded =
        strstr(pairs[_i][0], "tensor") || strstr(pairs[_i][1], "tensor");
    use_block = !sharded;
    run.probe = &freezer;
    there_and_back(pairs[_i][0], pairs[_i][1],
                   "optim.name=muon model.channels=64 model.heads=4 "
                   "train.micro_batch=1");
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("opt_state");
    TCase *tc = tcase_create("opt_state");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, muon_resumes_anywhere, 0, PAIRS);
    tcase_add_test(tc, bf16_resumes_anywhere);
    tcase_add_loop_test(tc, every_kind_resumes_anywhere, 0, PAIRS);
    tcase_add_loop_test(tc, frozen_parameters_resume_anywhere, 0, PAIRS);
    tcase_add_loop_test(tc, what_cannot_be_saved_is_refused, 0, 2);
    suite_add_tcase(suite, tc);
    return suite;
}
