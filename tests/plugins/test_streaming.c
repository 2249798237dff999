/* SPDX-License-Identifier: Apache-2.0 */
/* diloco in fragments, on ranks that are threads: which units take their outer step
 * when, what overlap and mixing make of it, and the bytes of each step. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/plugins/thread_run.h"
#include "tests/plugins/value_probe.h"
#include "tests/support/built_plugin.h"
#include "tests/support/check_main.h"

static const double lr = 0.7, momentum = 0.9; /* of the outer steps, as by default */

static struct spec_fixture f;
static struct thread_run run, other;

static void setup(void)
{
    spec_fixture_open(&f);
    run = other = (struct thread_run){.fixture = &f, .steps = 12};
}

static void teardown(void)
{
    value_probe_forget();
    spec_fixture_close(&f);
}

struct streaming {
    int period, fragments, overlap;
    double mixing;
};

/* ---- the formula ---- */

/* One value on both replicas, and what the plugin keeps of it. */
struct value {
    double x[2], anchor, u, change;
    int due; /* 0: none is in flight */
};

static void apply(const struct streaming *o, struct value *v)
{
    v->u = momentum * v->u + v->change;
    v->anchor += lr * (v->change + momentum * v->u);
    v->due = 0;
    for (int r = 0; r < 2; r++)
        v->x[r] = o->mixing * v->x[r] + (1 - o->mixing) * v->anchor;
}

static void meet(const struct streaming *o, struct value *v, uint32_t unit, int step)
{
    const int fragment = (int)unit % o->fragments;
    if (v->due == step)
        apply(o, v);
    if (step % o->period != fragment * o->period / o->fragments)
        return;
    v->change = (v->x[0] + v->x[1]) / 2 - v->anchor;
    v->due = step + o->overlap;
    if (o->overlap == 0)
        apply(o, v);
}

/* Hold all steps of a rank and the same rank of the other replica to the formula. */
static void hold(const struct streaming *o, int rank, int replica)
{
    const struct value_probe *a = &value_probe_after[rank];
    const struct value_probe *b = &value_probe_after[rank + replica];
    size_t n = a->step[0].n, changed = 0;
    struct value *v = calloc(n, sizeof *v);
    ck_assert_uint_gt(n, 0);
    for (size_t i = 0; i < n; i++)
        v[i].anchor = a->step[0].x[i];
    for (int s = 1; s <= run.steps; s++)
        for (size_t i = 0; i < n; i++) {
            v[i].x[0] = value_probe_before[rank].step[s].x[i];
            v[i].x[1] = value_probe_before[rank + replica].step[s].x[i];
            meet(o, &v[i], a->step[0].unit[i], s);
            ck_assert_double_eq_tol(a->step[s].x[i], v[i].x[0], 2e-6);
            ck_assert_double_eq_tol(b->step[s].x[i], v[i].x[1], 2e-6);
            changed += a->step[s].x[i] != value_probe_before[rank].step[s].x[i];
        }
    ck_assert_uint_gt(changed, 0);
    free(v);
}

static void settings(char sets[256], const char *stack, const struct streaming *o)
{
    snprintf(sets, 256,
             "strategy.stack=%s model.layers=3 diloco.period=%d diloco.fragments=%d "
             "diloco.overlap=%d diloco.mixing=%g",
             stack, o->period, o->fragments, o->overlap, o->mixing);
}

static const char *const stacks[] = {
    "diloco:2",
    "diloco:2,zero:2 zero.stage=3",
    "diloco:2,pipeline:2",
    "diloco:2,zero:2 zero.stage=1 train.precision=bf16",
};

/* Also periods that the fragments do not divide, and fragments that the units (5) do
 * not. */
START_TEST(takes_outer_steps_in_turn)
{
    static const struct streaming streaming[] = {
        {4, 2, 0, 0}, {5, 3, 0, 0},    {3, 5, 0, 0},   {4, 2, 2, 0.5},
        {5, 2, 1, 0}, {7, 3, 2, 0.25}, {2, 1, 2, 0.5}, {3, 2, 0, 0.5},
    };
    const struct streaming *o = &streaming[_i / 4];
    char sets[256];
    settings(sets, stacks[_i % 4], o);
    run.probe = &value_probe;
    thread_run(&run, sets);
    for (int r = 0; r < run.ranks / 2; r++)
        hold(o, r, run.ranks / 2);
}
END_TEST

/* ---- equality ---- */

static const char sgd[] = " optim.name=sgd optim.momentum=0 optim.clip=0 optim.lr=0.1 "
                          "diloco.outer_lr=1 diloco.outer_momentum=0";

/* At period 1 fragments change no bit, and all are as near to ddp as one is. */
START_TEST(fragments_at_period_1_change_no_bit)
{
    static const struct streaming one = {1, 1, 0, 0}, many = {1, 3, 0, 0};
    char sets[256], both[512];
    settings(sets, stacks[_i], &one);
    snprintf(both, sizeof both, "%s%s", sets, sgd);
    thread_run(&other, both);
    settings(sets, stacks[_i], &many);
    snprintf(both, sizeof both, "%s%s", sets, sgd);
    thread_run(&run, both);
    ck_assert(thread_runs_same(&run, &other));
    if (strstr(stacks[_i], "bf16"))
        return;
    thread_run(&other, "strategy.stack=ddp:2 model.layers=3 optim.name=sgd "
                       "optim.momentum=0 optim.clip=0 optim.lr=0.1");
    ck_assert_double_lt(thread_runs_differ(&run, &other), 1e-5);
}
END_TEST

/* ---- bytes ---- */

static double sent[THREAD_STEPS + 1];

static void count_sent(struct cadre_rank *rank, int at)
{
    struct cadre_comm_stats stats;
    cadre_comm_read_stats(cadre_mesh_axis(&rank->mesh, "rep")->comm, &stats);
    if (rank->index == 0)
        sent[at] = (double)stats.bytes;
}

/* A step sends its fragment, and a period every fragment once; in place, or from a
 * copy. */
START_TEST(sends_a_fragment_at_a_time)
{
    static const struct streaming streaming[] = {{4, 2, 0, 0}, {6, 3, 0, 0.5}};
    const struct streaming *o = &streaming[_i];
    double of[3] = {0}, most = 0, all = 0;
    char sets[256];
    settings(sets, "diloco:2", o);
    run.each = count_sent;
    run.probe = &value_probe;
    thread_run(&run, sets);
    for (size_t i = 0; i < value_probe_after[0].step[0].n; i++)
        of[value_probe_after[0].step[0].unit[i] % (uint32_t)o->fragments] += 4;
    for (int s = 2; s <= run.steps; s++) { /* the first has the start too */
        double want = 0;
        for (int k = 0; k < o->fragments; k++)
            want += s % o->period == k * o->period / o->fragments ? of[k] : 0;
        ck_assert_double_eq(sent[s] - sent[s - 1], want);
        most = want > most ? want : most;
    }
    for (int k = 0; k < o->fragments; k++)
        all += of[k];
    ck_assert_double_eq(sent[run.steps] - sent[run.steps - o->period], all);
    ck_assert_double_lt(most, all);
}
END_TEST

/* ---- refusals ---- */

START_TEST(what_cannot_be_is_refused)
{
    static const struct {
        struct streaming o;
        const char *text;
    } cases[] = {
        {{100, 6, 0, 0}, "diloco.fragments = 6, but the model has 5 units"},
        {{8, 3, 3, 0}, "diloco.overlap = 3 steps, but a fragment is sent every 2"},
        {{1, 2, 1, 0}, "diloco.overlap = 1 steps, but a fragment is sent every 0"},
    };
    char sets[256];
    settings(sets, "diloco:2", &cases[_i].o);
    ck_assert_int_eq(thread_run_try(&run, sets), CADRE_E_INVALID);
    ck_assert_msg(strstr(run.err.text, cases[_i].text), "%s", run.err.text);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("streaming");
    TCase *tc = tcase_create("streaming");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, takes_outer_steps_in_turn, 0, 8 * 4);
    tcase_add_loop_test(tc, fragments_at_period_1_change_no_bit, 0, 4);
    tcase_add_loop_test(tc, sends_a_fragment_at_a_time, 0, 2);
    tcase_add_loop_test(tc, what_cannot_be_is_refused, 0, 3);
    suite_add_tcase(s, tc);
    return s;
}
