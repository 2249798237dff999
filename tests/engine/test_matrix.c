/* SPDX-License-Identifier: Apache-2.0 */
/* Whole matrices: an optimizer that writes into each gradient the element's place in
 * the whole parameter, sees it again in the assembled matrix, and sends another number
 * back.
 */
#include "core/engine/matrix.h"

#include <stdlib.h>
#include <string.h>

#include <cadre/helpers.h>

#include "core/model/init.h"
#include "tests/plugins/thread_run.h"
#include "tests/support/check_main.h"

enum { PARAMS = 64 };

static struct spec_fixture f;
static struct thread_run run;
static int computed[THREAD_RANKS][PARAMS]; /* matrices, over all steps */

static void setup(void)
{
    spec_fixture_open(&f);
    memset(computed, 0, sizeof computed);
    run = (struct thread_run){.fixture = &f, .steps = 3};
}

static void teardown(void)
{
    spec_fixture_close(&f);
}

struct cadre_self {
    const struct cadre_host *host;
    uint32_t rank;
};

static const struct cadre_model *model_of(const struct cadre_self *self)
{
    return self->host->ctx->services->model;
}

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

static cadre_status keep(const struct cadre_plan *plan, uint32_t id, const char *key,
                         uint32_t extent)
{
    const struct cadre_opt_state state = {.struct_size = sizeof state,
                                          .param = id,
                                          .key = key,
                                          .dtype = CADRE_F32,
                                          .extent = extent,
                                          .block = 1};
    return plan->opt_state(plan->h, &state);
}

/* Every parameter, the embedding and vectors too, with states of all extents. */
static cadre_status plan(struct cadre_self *self, const struct cadre_plan *plan)
{
    const struct cadre_model *model = model_of(self);
    self->rank = plan->rank;
    for (uint32_t id = 0; id < model->n_params && id < PARAMS; id++) {
        if (model->params[id].tied_to >= 0)
            continue;
        CADRE_TRY(plan->opt_matrix(plan->h, id));
        CADRE_TRY(keep(plan, id, "rows", CADRE_OPT_ROWS));
        CADRE_TRY(keep(plan, id, "each", CADRE_OPT_ELEMENTS));
        CADRE_TRY(keep(plan, id, "columns", CADRE_OPT_COLUMNS));
    }
    return CADRE_OK;
}

static cadre_status wrong(const struct cadre_self *self,
                          const struct cadre_update_ev *ev, const char *what)
{
    return cadre_refuse(self->host, CADRE_E_INTERNAL, "'%s', stage %u, step %llu: %s",
                        model_of(self)->params[ev->param].name, ev->stage,
                        (unsigned long long)ev->step, what);
}

/* Place of an element of a range in the whole parameter, from 1. */
static float place_of(const struct cadre_self *self, const struct cadre_update_ev *ev,
                      uint64_t i)
{
    const struct cadre_model *model = model_of(self);
    return 1.0f + (float)cadre_param_logical(&model->params[ev->param], model->tp_rank,
                                             model->tp_size, ev->begin + i);
}

/* Of the three states, those of the stage are there. */
static bool states_fit(const struct cadre_update_ev *ev)
{
    if (ev->n_states != 3)
        return false;
    const bool matrix = ev->stage == CADRE_UPDATE_MATRIX;
    const struct cadre_buf *rows = &ev->state[0], *each = &ev->state[1];
    const struct cadre_buf *columns = &ev->state[2];
    if (matrix)
        return rows->data && rows->count == ev->rows && !each->data && columns->data &&
               columns->count == ev->columns;
    return !rows->data && each->data && each->count == ev->grad.count && !columns->data;
}

static cadre_status on_whole(struct cadre_self *self, const struct cadre_update_ev *ev)
{
    const struct cadre_shape *shape = &model_of(self)->params[ev->param].shape;
    float *grad = ev->grad.data, *rows = ev->state[0].data;
    if (ev->rows != shape->dim[0] ||
        ev->columns != (shape->ndim == 2 ? shape->dim[1] : 1) ||
        ev->grad.count != ev->rows * ev->columns)
        return wrong(self, ev, "not the shape of the whole");
    for (uint64_t i = 0; i < ev->grad.count; i++) {
        if (grad[i] != (float)(i + 1))
            return wrong(self, ev, "an element is not in its place");
        grad[i] = 2 * grad[i];
    }
    rows[0] += 1;
    if (rows[0] != (float)ev->step)
        return wrong(self, ev, "another rank computed it before");
    computed[self->rank][ev->param]++;
    return CADRE_OK;
}

static cadre_status update(struct cadre_self *self, const struct cadre_update_ev *ev)
{
    float *grad = ev->grad.data;
    if (!states_fit(ev))
        return wrong(self, ev, "not the states of the stage");
    if (ev->stage == CADRE_UPDATE_MATRIX)
        return on_whole(self, ev);
    for (uint64_t i = 0; i < ev->grad.count; i++) {
        const float place = place_of(self, ev, i);
        if (ev->stage == CADRE_UPDATE_PREPARE)
            grad[i] = place;
        else if (grad[i] != 2 * place)
            return wrong(self, ev, "another element came back");
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

/* `groups`: how many ranks compute a block's matrix, one for each group of ranks that
 * hold different parts of it. */
static const struct {
    const char *stack;
    int groups;
} stacks[] = {
    {"single", 1},
    {"ddp:2", 2},
    {"zero:2 zero.stage=1", 1},
    {"zero:4 zero.stage=2", 1},
    {"zero:2 zero.stage=3", 1},
    {"zero:3 zero.stage=1 train.global_batch=12", 1},
    {"hsdp:2,zero:2 zero.stage=1", 2},
    {"tensor:2", 1},
    {"tensor:4", 1},
    {"tensor:2 model.arch=llama", 1},
    {"ddp:2,tensor:2", 2},
    {"tensor:2,zero:2 zero.stage=2", 1},
    {"zero:2,tensor:2 zero.stage=3 model.arch=llama", 1},
    {"tensor:4,zero:2 zero.stage=1", 1},
    {"pipeline:2", 1},
    {"pipeline:2,zero:2 zero.stage=1", 1},
    {"pipeline:2,tensor:2,zero:2 zero.stage=1", 1},
};
enum { STACKS = sizeof stacks / sizeof *stacks };

/* Each matrix is whole, in the order of a checkpoint, and computed once by each group
 * and step; every range comes back to its rank. Matrices of several range units, so
 * that zero divides them. */
START_TEST(wholes_are_whole)
{
    char sets[256];
    snprintf(sets, sizeof sets,
             "model.channels=64 model.heads=4 train.micro_batch=1 strategy.stack=%s",
             stacks[_i].stack);
    run.optimizer = &optimizer;
    thread_run(&run, sets);
    int matrices = 0;
    for (int p = 0; p < PARAMS; p++) {
        int sum = 0;
        for (int r = 0; r < run.ranks; r++) {
            ck_assert_int_le(computed[r][p], run.steps);
            sum += computed[r][p];
        }
        matrices += sum > 0;
        /* a parameter that no tensor rank shards has a group in each */
        ck_assert_int_eq(sum % (run.steps * stacks[_i].groups), 0);
        ck_assert_int_le(sum, run.steps * stacks[_i].groups * 4);
    }
    /* two blocks of 12 of GPT-2, or 9 of LLaMA; the embedding, the last norm */
    ck_assert_int_ge(matrices, 20);
}
END_TEST

/* What is sent: each part once to its owner, each result once back. */
static uint64_t sent[THREAD_RANKS];

static void count_sent(struct cadre_rank *rank, int step)
{
    struct cadre_comm_stats stats;
    cadre_comm_read_stats(rank->world, &stats);
    if (step == 1)
        sent[rank->index] = stats.bytes;
    if (step == run.steps)
        sent[rank->index] = stats.bytes - sent[rank->index];
}

static uint64_t all_sent(const char *sets, const struct cadre_strategy_ops *ops)
{
    uint64_t all = 0;
    run.optimizer = ops;
    run.each = count_sent;
    thread_run(&run, sets);
    for (int r = 0; r < run.ranks; r++)
        all += sent[r];
    return all;
}

START_TEST(parts_travel_once)
{
    const char *sets = "model.channels=64 model.heads=4 strategy.stack=zero:2";
    const uint64_t C = 64, steps = 2;
    const uint64_t elements = 2 * (12 * C * C + 13 * C) + 256 * C + 16 * C + 2 * C;
    const uint64_t most = 2 * elements * sizeof(float) * steps;
    const uint64_t without = all_sent(sets, NULL);
    const uint64_t with = all_sent(sets, &optimizer);
    ck_assert_uint_gt(with, without);
    ck_assert_uint_le(with - without, most);
    ck_assert_uint_eq((with - without) % (2 * sizeof(float) * steps), 0);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("matrix");
    TCase *tc = tcase_create("matrix");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, wholes_are_whole, 0, STACKS);
    tcase_add_test(tc, parts_travel_once);
    suite_add_tcase(suite, tc);
    return suite;
}
