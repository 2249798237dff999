/* SPDX-License-Identifier: Apache-2.0 */
/* diloco on ranks that are threads: every outer step against the formula, from values
 * that a plugin beside it sees before and after. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/plugins/thread_run.h"
#include "tests/plugins/value_probe.h"
#include "tests/support/built_plugin.h"
#include "tests/support/check_main.h"

static struct value_probe *const before = value_probe_before;
static struct value_probe *const after = value_probe_after;
static struct value_probe shown[THREAD_RANKS]; /* by DRAIN */

static struct spec_fixture f;
static struct thread_run run, other;

static void setup(void)
{
    spec_fixture_open(&f);
    run = other = (struct thread_run){.fixture = &f, .steps = 6};
}

static void teardown(void)
{
    value_probe_forget();
    value_probe_free(shown);
    spec_fixture_close(&f);
}

static void same_values(const struct seen_values *a, const struct seen_values *b)
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
    size_t n = after[r].step[0].n;
    double *anchor = malloc(n * sizeof *anchor), *u = calloc(n, sizeof *u);
    same_values(&after[r].step[0], &after[r + replica].step[0]);
    memcpy(anchor, after[r].step[0].x, n * sizeof *anchor);
    for (int s = 1; s <= run.steps; s++) {
        const double *a = before[r].step[s].x, *b = before[r + replica].step[s].x;
        if (s % o->period) { /* apart */
            same_values(&before[r].step[s], &after[r].step[s]);
            ck_assert(memcmp(a, b, n * sizeof *a) != 0);
            continue;
        }
        same_values(&after[r].step[s], &after[r + replica].step[s]);
        for (size_t i = 0; i < n; i++) {
            double d = (a[i] + b[i]) / 2 - anchor[i], now = after[r].step[s].x[i];
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
    run.probe = &value_probe;
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
    struct seen_values *out = &shown[rank->index].step[at];
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
    run.probe = &value_probe;
    thread_run(&run, sets[_i]);
    ck_assert(thread_runs_same(&run, &other));
    for (int s = 1; s <= run.steps; s++)
        for (int r = 1; r < run.ranks; r++)
            same_values(&shown[0].step[s], &shown[r].step[s]);
    for (size_t i = 0; _i == 0 && i < after[0].step[1].n; i++)
        ck_assert_double_eq_tol(shown[0].step[1].x[i],
                                (after[0].step[1].x[i] + after[1].step[1].x[i]) / 2,
                                1e-7);
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
    run.probe = &value_probe;
    thread_run(&run, "strategy.stack=diloco:2 diloco.period=3");
    n = after[0].step[1].n;
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
