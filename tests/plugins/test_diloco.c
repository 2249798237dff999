/* SPDX-License-Identifier: Apache-2.0 */
/* diloco on ranks that are threads: every outer step against the formula, from values
 * that a plugin beside it sees before and after. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cadre/helpers.h>

#include "tests/plugins/thread_run.h"
#include "tests/support/built_plugin.h"
#include "tests/support/check_main.h"

/* ---- the plugin that looks ---- */

/* The values that a rank updates, one after the other, in f64. */
struct values {
    double *x;
    size_t n;
};

/* By rank and step. INTRA comes before DATA in sync(UPDATE), and in step. */
static struct values before[THREAD_RANKS][THREAD_STEPS + 1];
static struct values after[THREAD_RANKS][THREAD_STEPS + 1];
static struct values shown[THREAD_RANKS][THREAD_STEPS + 1]; /* by DRAIN */

struct cadre_self {
    const struct cadre_host *host;
    const struct cadre_model_svc *model;
    const struct cadre_param_svc *param;
    uint32_t rank;
};

static const struct cadre_service services[] = {
    CADRE_SERVICE(model, MODEL, param),
    CADRE_SERVICE(param, PARAM, owned),
    {NULL, 0, 0},
};

static cadre_status create(const struct cadre_create *c, struct cadre_self **out)
{
    CADRE_TRY(cadre_self_create(c->host, services, sizeof **out, out));
    (*out)->host = c->host;
    return CADRE_OK;
}

static cadre_status plan(struct cadre_self *self, const struct cadre_plan *p)
{
    self->rank = p->rank;
    return CADRE_OK;
}

static cadre_status bind(struct cadre_self *self, const struct cadre_bind *at)
{
    (void)self, (void)at;
    return CADRE_OK;
}

static cadre_status look(struct cadre_self *self, struct values *out)
{
    struct cadre_param_info info;
    *out = (struct values){0};
    for (cadre_param_id id = 0; cadre_param_next(self->host, self->model, &id, &info);
         id++) {
        struct cadre_buf x;
        if (!info.present)
            continue;
        CADRE_TRY(self->param->owned(self->host->ctx, id, &x));
        out->x = realloc(out->x, (out->n + x.count + 1) * sizeof *out->x);
        for (uint64_t i = 0; i < x.count; i++)
            out->x[out->n++] = x.dtype == CADRE_F64 ? ((const double *)x.data)[i]
                                                    : ((const float *)x.data)[i];
    }
    return CADRE_OK;
}

static cadre_status step(struct cadre_self *self, const struct cadre_step *at,
                         const struct cadre_next *next)
{
    if (at->step == 1)
        CADRE_TRY(look(self, &after[self->rank][0]));
    return next->run(next->h, at);
}

static cadre_status sync(struct cadre_self *self, const struct cadre_sync *at)
{
    if (at->what == CADRE_SYNC_UPDATE)
        return look(self, &before[self->rank][at->step]);
    if (at->what == CADRE_SYNC_METRICS)
        return look(self, &after[self->rank][at->step]);
    return CADRE_OK;
}

static void destroy(struct cadre_self *self, const struct cadre_end *end)
{
    (void)end;
    free(self);
}

static const struct cadre_strategy_ops probe = {
    .struct_size = sizeof probe,
    .create = create,
    .plan = plan,
    .bind = bind,
    .step = step,
    .sync = sync,
    .destroy = destroy,
};

/* ---- the test ---- */

static struct spec_fixture f;
static struct thread_run run, other;

static void forget(struct values values[THREAD_RANKS][THREAD_STEPS + 1])
{
    for (int r = 0; r < THREAD_RANKS; r++)
        for (int s = 0; s <= THREAD_STEPS; s++) {
            free(values[r][s].x);
            values[r][s] = (struct values){0};
        }
}

static void setup(void)
{
    spec_fixture_open(&f);
    run = other = (struct thread_run){.fixture = &f, .steps = 6};
}

static void teardown(void)
{
    forget(before);
    forget(after);
    forget(shown);
    spec_fixture_close(&f);
}

static void same_values(const struct values *a, const struct values *b)
{
    ck_assert_uint_eq(a->n, b->n);
    ck_assert_uint_gt(a->n, 0);
    ck_assert_mem_eq(a->x, b->x, a->n * sizeof *a->x);
}

START_TEST(exports_one_symbol)
{
    built_plugin_exports_its_entry(built_plugin_load("diloco"));
}
END_TEST

START_TEST(describes_itself)
{
    const struct cadre_plugin_handle *diloco = built_plugin_load("diloco");
    ck_assert_str_eq(diloco->desc.id, "org.cadre.diloco");
    ck_assert_str_eq(diloco->desc.axis, "rep");
    ck_assert_uint_eq(diloco->desc.role, CADRE_ROLE_DATA);
}
END_TEST

/* ---- the outer step ---- */

struct outer {
    double lr, momentum;
    bool nesterov;
    int period;
};

/* Hold all steps of ranks r and r + replica, the same rank of both replicas, to the
 * formula. */
static void hold(const struct outer *o, int r, int replica)
{
    size_t n = after[r][0].n;
    double *anchor = malloc(n * sizeof *anchor), *u = calloc(n, sizeof *u);
    same_values(&after[r][0], &after[r + replica][0]);
    memcpy(anchor, after[r][0].x, n * sizeof *anchor);
    for (int s = 1; s <= run.steps; s++) {
        const double *a = before[r][s].x, *b = before[r + replica][s].x;
        if (s % o->period) { /* apart */
            same_values(&before[r][s], &after[r][s]);
            ck_assert(memcmp(a, b, n * sizeof *a) != 0);
            continue;
        }
        same_values(&after[r][s], &after[r + replica][s]);
        for (size_t i = 0; i < n; i++) {
            double d = (a[i] + b[i]) / 2 - anchor[i], now = after[r][s].x[i];
            u[i] = o->momentum * u[i] + d;
            double x =
                anchor[i] + o->lr * (o->nesterov ? d + o->momentum * u[i] : u[i]);
            ck_assert_double_eq_tol(now, x, 1e-6);
            anchor[i] = now;
        }
    }
    free(anchor);
    free(u);
}

/* Over every strategy that shards values, and in 16 bits. */
START_TEST(takes_the_outer_step)
{
    static const struct outer outer[] = {
        {0.7, 0.9, true, 2}, {0.7, 0.9, false, 3}, {1, 0, true, 1}};
    static const char *const stacks[] = {
        "diloco:2",
        "diloco:2,ddp:2",
        "diloco:2,zero:2 zero.stage=1",
        "zero:2,diloco:2 zero.stage=2",
        "diloco:2,zero:2 zero.stage=3",
        "diloco:2,zero:2 zero.stage=3 train.precision=bf16",
        "diloco:2,pipeline:2",
        "diloco:2,tensor:2",
    };
    const struct outer *o = &outer[_i % 3];
    const char *stack = stacks[_i / 3];
    char sets[256];
    snprintf(sets, sizeof sets,
             "strategy.stack=%s diloco.period=%d diloco.outer_lr=%g "
             "diloco.outer_momentum=%g diloco.nesterov=%s",
             stack, o->period, o->lr, o->momentum, o->nesterov ? "yes" : "no");
    run.probe = &probe;
    thread_run(&run, sets);
    int inner = run.ranks / 2;
    bool replicas_first = strncmp(stack, "diloco", 6) == 0;
    for (int r = 0; r < inner; r++)
        hold(o, replicas_first ? r : 2 * r, replicas_first ? inner : 1);
}
END_TEST

/* Where it must: plain SGD, one step, no momentum. */
START_TEST(equals_ddp_under_its_setting)
{
    static const char sgd[] = "optim.name=sgd optim.momentum=0 optim.clip=0 "
                              "optim.lr=0.1 ";
    char sets[256];
    run.steps = other.steps = 10;
    snprintf(sets, sizeof sets, "%sstrategy.stack=ddp:2", sgd);
    thread_run(&other, sets);
    snprintf(sets, sizeof sets,
             "%sstrategy.stack=diloco:2%s diloco.period=1 diloco.outer_lr=1 "
             "diloco.outer_momentum=0",
             sgd, _i ? ",zero:2 zero.stage=2" : "");
    thread_run(&run, sets);
    ck_assert_double_lt(thread_runs_differ(&run, &other), 1e-5);
}
END_TEST

START_TEST(differs_otherwise)
{
    thread_run(&other, "strategy.stack=ddp:2");
    thread_run(&run, "strategy.stack=diloco:2 diloco.period=3");
    ck_assert_double_gt(thread_runs_differ(&run, &other), 1e-4);
}
END_TEST

/* ---- the mean between outer steps ---- */

static void drain_and_look(struct cadre_rank *rank, int at)
{
    struct values *out = &shown[rank->index][at];
    ck_assert_int_eq(cadre_rank_drain(rank), CADRE_OK);
    ck_assert_int_eq(cadre_rank_drain(rank), CADRE_OK); /* may come twice */
    for (uint32_t i = 0; i < rank->model->n_params; i++) {
        const struct cadre_store_param *p = &rank->store.param[i];
        if (rank->model->params[i].tied_to >= 0 || !p->data)
            continue;
        out->x = realloc(out->x, (out->n + p->count) * sizeof *out->x);
        for (uint64_t k = 0; k < p->count; k++)
            out->x[out->n++] = ((const float *)p->data)[k];
    }
}

/* All ranks show the replicas' mean, and the run goes on as if nobody had looked. */
START_TEST(shows_the_mean)
{
    static const char *const sets[] = {
        "strategy.stack=diloco:2 diloco.period=4",
        "strategy.stack=diloco:2,zero:2 zero.stage=1 diloco.period=4",
        "strategy.stack=diloco:2,zero:2 zero.stage=2 diloco.period=4 "
        "zero.overlap=no",
    };
    thread_run(&other, sets[_i]);
    run.each = drain_and_look;
    run.probe = &probe;
    thread_run(&run, sets[_i]);
    ck_assert(thread_runs_same(&run, &other));
    for (int s = 1; s <= run.steps; s++)
        for (int r = 1; r < run.ranks; r++)
            same_values(&shown[0][s], &shown[r][s]);
    for (size_t i = 0; _i == 0 && i < after[0][1].n; i++)
        ck_assert_double_eq_tol(shown[0][1].x[i],
                                (after[0][1].x[i] + after[1][1].x[i]) / 2, 1e-7);
}
END_TEST

/* ---- refusals and nothing to do ---- */

START_TEST(exact_mode_is_refused)
{
    cadre_status rc = thread_run_try(&run, "strategy.stack=diloco:2 run.exact=yes");
    ck_assert_int_eq(rc, CADRE_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(run.err.text, "run.exact = yes: diloco"));
}
END_TEST

START_TEST(one_replica_does_nothing)
{
    thread_run(&other, "run.exact=yes");
    thread_run(&run, "run.exact=yes strategy.stack=diloco:1 diloco.period=2");
    ck_assert(thread_runs_same(&run, &other));
}
END_TEST

/* Nothing is sent between outer steps but what the core exchanges in every step. */
static double bytes[THREAD_STEPS + 1];

static void count_sent(struct cadre_rank *rank, int at)
{
    struct cadre_comm_stats stats;
    cadre_comm_read_stats(cadre_mesh_axis(&rank->mesh, "rep")->comm, &stats);
    if (rank->index == 0)
        bytes[at] = (double)stats.bytes;
}

START_TEST(sends_once_a_period)
{
    uint64_t n = 0;
    run.each = count_sent;
    run.probe = &probe;
    thread_run(&run, "strategy.stack=diloco:2 diloco.period=3");
    n = after[0][1].n;
    for (int s = 2; s <= run.steps; s++) /* the first has the start too */
        ck_assert_double_eq(bytes[s] - bytes[s - 1], s % 3 ? 0 : (double)n * 4);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("diloco");
    TCase *tc = tcase_create("diloco");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, exports_one_symbol);
    tcase_add_test(tc, describes_itself);
    tcase_add_loop_test(tc, takes_the_outer_step, 0, 3 * 8);
    tcase_add_loop_test(tc, equals_ddp_under_its_setting, 0, 2);
    tcase_add_test(tc, differs_otherwise);
    tcase_add_loop_test(tc, shows_the_mean, 0, 3);
    tcase_add_test(tc, exact_mode_is_refused);
    tcase_add_test(tc, one_replica_does_nothing);
    tcase_add_test(tc, sends_once_a_period);
    suite_add_tcase(s, tc);
    return s;
}
