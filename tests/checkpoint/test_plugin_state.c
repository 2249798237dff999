/* SPDX-License-Identifier: Apache-2.0 */
/* States of tests/plugins/state_plugin.c saved under one stack and loaded under
 * another, ranks being threads. Values are small whole numbers, so sums are exact. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/checkpoint/load.h"
#include "core/checkpoint/save.h"
#include "core/launch/launch.h"
#include "core/launch/world.h"
#include "core/model/init.h"
#include "core/run/rundir.h"
#include "tests/plugins/state_plugin.h"
#include "tests/support/check_main.h"
#include "tests/train/spec_fixture.h"

static struct spec_fixture f;
static char path[1400];

/* A round over all ranks of a stack; none of them may touch Check. */
struct round {
    const struct cadre_spec *spec;
    bool saving, diverging;
    bool lost; /* rank 1 looks for the checkpoint's files where there are none */
    int saved_ranks; /* data ranks of the save that is loaded */
    pthread_mutex_t mutex;
    int wrong; /* wrong values */
    uint64_t spare; /* sum over ranks */
};

static struct cadre_self *self_of(struct cadre_rank *rank)
{
    struct cadre_chain *chain = &rank->chain;
    return chain->link[chain->n - 1].self; /* the observer is the last */
}

static double get(const struct cadre_buf *buf, uint64_t at)
{
    return buf->dtype == CADRE_F64 ? ((double *)buf->data)[at]
                                   : ((float *)buf->data)[at];
}

static void set(const struct cadre_buf *buf, uint64_t at, double value)
{
    if (buf->dtype == CADRE_F64)
        ((double *)buf->data)[at] = value;
    else
        ((float *)buf->data)[at] = (float)value;
}

/* Value of element `at` of a parameter's local part: of its logical place. */
static double base(const struct cadre_rank *rank, uint32_t param, uint64_t at)
{
    const struct cadre_model *m = rank->model;
    uint64_t logical =
        cadre_param_logical(&m->params[param], m->tp_rank, m->tp_size, at);
    return (double)(param * 7 + logical % 1000 + 1);
}

/* What each of R ranks saves, and what each of N loads: sums of 12 are whole twelfths
 * for up to 4 ranks. */
static double wanted(int kind, double value, int ranks, int rank)
{
    return kind == 0 ? value : 12 * value * (kind == 1 ? rank + 1 : ranks - rank);
}

static double back(int kind, double value, int saved, int ranks)
{
    double sum = 12 * value * saved * (saved + 1) / 2;
    return kind == 0 ? value : sum / (kind == 1 ? ranks : saved);
}

/* Optimizer states: of replica r their value times r + 1, then their mean. */
static int visit_moments(struct cadre_rank *rank, const struct round *round)
{
    struct cadre_self *self = self_of(rank);
    double mean = (round->saved_ranks + 1) / 2.0;
    int wrong = 0;
    for (size_t s = 0; s < rank->update.n_slices; s++) {
        const struct cadre_rank_slice *slice = &rank->update.slices[s];
        const struct cadre_slice *update = &rank->update.operands[s];
        float *moment[] = {update->exp_avg, update->exp_avg_sq};
        for (uint64_t e = 0; e < 2 * slice->count; e++) {
            float *at = &moment[e % 2][e / 2];
            double v = base(rank, slice->param, slice->begin + e / 2) + (double)(e % 2);
            if (round->saving)
                *at = (float)(v * (self->data_rank + 1));
            else
                wrong += *at != (float)(v * mean);
        }
    }
    return wrong;
}

static int visit(struct cadre_rank *rank, const struct round *round)
{
    struct cadre_self *self = self_of(rank);
    int wrong = 0;
    for (int k = 0; k < STATE_KINDS; k++)
        for (uint32_t i = 0; i < self->n_params; i++)
            for (uint64_t e = 0; e < self->kept[k][i].count; e++) {
                double v = base(rank, i, self->begin[k][i] + e);
                if (round->saving)
                    set(&self->kept[k][i], e,
                        wanted(k, v, self->data_ranks, self->data_rank));
                else
                    wrong += get(&self->kept[k][i], e) !=
                             back(k, v, round->saved_ranks, self->data_ranks);
            }
    return wrong;
}

static cadre_status work(struct cadre_rank *rank, struct round *round,
                         struct cadre_error *err)
{
    struct cadre_self *self = self_of(rank);
    if (round->lost)
        return cadre_save(rank, rank->index == 1 ? "/nowhere" : round->spec->out, 3,
                          err);
    if (round->saving) {
        visit(rank, round);
        if (round->diverging)
            visit_moments(rank, round);
        self->common = 77;
        self->own = self->spare = self->rank + 5;
        return cadre_save(rank, round->spec->out, 3, err);
    }
    cadre_status rc = cadre_load(rank, path, err);
    pthread_mutex_lock(&round->mutex);
    round->wrong += rc == CADRE_OK ? visit(rank, round) : 0;
    if (round->diverging)
        round->wrong += rc == CADRE_OK ? visit_moments(rank, round) : 0;
    round->wrong += rc == CADRE_OK && self->common != 77;
    round->spare += self->spare;
    pthread_mutex_unlock(&round->mutex);
    return rc;
}

static cadre_status rank_main(void *arg, int index, struct cadre_local_segment *segment)
{
    struct round *round = arg;
    struct cadre_comm *world = NULL;
    struct cadre_rank rank;
    struct cadre_error err = {0};
    CADRE_TRY(cadre_local_open(segment, index, &world, &err));
    cadre_status rc = cadre_rank_plan(&rank, &round->spec->run, index, &err);
    if (rc == CADRE_OK) {
        rc = cadre_rank_bind(&rank, world, 0, &err);
        if (rc == CADRE_OK)
            rc = work(&rank, round, &err);
        rc = cadre_world_tell(&(struct cadre_world){.comm = world}, index, rc, &err);
        cadre_rank_fini(&rank);
    }
    cadre_comm_destroy(world);
    return rc;
}

/* Save or load under `stack`, in which '@' stands for the plugin's path. */
static cadre_status go(const char *stack, const char *sets, struct round *round)
{
    char all[2000], text[1500] = "";
    const char *build = getenv("CADRE_BUILD");
    for (const char *c = stack; *c; c++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, *c == '@' ? "%s%s" : "%.0s%.1s",
                 build ? build : ".",
                 *c == '@' ? "/tests/plugins/.libs/state_plugin.so" : c);
    }
    snprintf(all, sizeof all, "strategy.stack=%s checkpoint.resume=auto %s", text,
             sets);
    struct cadre_spec *spec = spec_fixture_make(&f, all);
    ck_assert_int_eq(cadre_rundir_prepare(spec, true, NULL, &f.err), CADRE_OK);
    round->spec = spec;
    pthread_mutex_init(&round->mutex, NULL);
    cadre_status rc =
        cadre_launch_threads(&spec->local, NULL, rank_main, round, &f.err);
    pthread_mutex_destroy(&round->mutex);
    cadre_spec_destroy(spec);
    return rc;
}

static void save_as(const char *stack, const char *sets)
{
    struct round round = {.saving = true};
    cadre_status rc = go(stack, sets, &round);
    ck_assert_msg(rc == CADRE_OK, "%s: %s", stack, f.err.text);
}

static uint64_t load_as(const char *stack, const char *sets, int saved_ranks)
{
    struct round round = {.saved_ranks = saved_ranks};
    cadre_status rc = go(stack, sets, &round);
    ck_assert_msg(rc == CADRE_OK, "%s: %s", stack, f.err.text);
    ck_assert_msg(round.wrong == 0, "%s: %d values are wrong", stack, round.wrong);
    return round.spare;
}

static void setup(void)
{
    spec_fixture_open(&f);
    snprintf(path, sizeof path, "%s/checkpoints/step-00000003", f.out);
}

static void teardown(void)
{
    spec_fixture_close(&f);
}

static const struct {
    const char *stack;
    int data_ranks;
} stacks[] = {{"@:1", 1},
              {"ddp:2,@:2", 2},
              {"ddp:4,@:4", 4},
              {"pipeline:2,@:1", 1}, /* whose head has a copy of the embedding */
              {"pipeline:2,zero:2,@:2", 2},
              {"tensor:2,ddp:2,@:2", 2},
              {"pipeline:2,tensor:2,@:1", 1}};
enum { STACKS = sizeof stacks / sizeof *stacks };

static const char *const ways[] = {"", "state_plugin.split=yes",
                                   "train.precision=fp64 model.arch=llama"};

/* All ordered pairs of stacks. */
START_TEST(any_size_resumes)
{
    for (int a = 0; a < STACKS; a++) {
        save_as(stacks[a].stack, ways[_i]);
        for (int b = 0; b < STACKS; b++)
            load_as(stacks[b].stack, ways[_i], stacks[a].data_ranks);
    }
}
END_TEST

/* A part that the loading ranks shard differently from the saving ones. */
START_TEST(shares_are_resharded)
{
    save_as("ddp:4,@:4", "state_plugin.split=yes");
    load_as("ddp:2,@:2", "", 4);
    save_as("ddp:2,@:2", "");
    load_as("ddp:4,@:4", "state_plugin.split=yes", 2);
}
END_TEST

/* Diverging replicas save the mean of their optimizer states; any number of replicas
 * loads it. */
START_TEST(diverging_optimizer_states_are_averaged)
{
    static const char *const from[] = {"@:2", "@:4", "pipeline:2,@:2"};
    static const char *const to[] = {"@:1", "ddp:2,@:2", "ddp:4,@:4"};
    static const int ranks[] = {2, 4, 2};
    for (int i = 0; i < 3; i++) {
        struct round save = {.saving = true, .diverging = true};
        struct round load = {.saved_ranks = ranks[i], .diverging = true};
        cadre_status rc = go(from[i], "state_plugin.fault=apart", &save);
        ck_assert_msg(rc == CADRE_OK, "%s: %s", from[i], f.err.text);
        rc = go(to[i], "", &load);
        ck_assert_msg(rc == CADRE_OK, "%s: %s", to[i], f.err.text);
        ck_assert_msg(load.wrong == 0, "%s: %d values are wrong", to[i], load.wrong);
    }
}
END_TEST

/* Droppable state is restored under the same stack only. */
START_TEST(spare_blobs_come_back_to_the_same_stack)
{
    save_as("ddp:2,@:2", "");
    ck_assert_uint_eq(load_as("ddp:2,@:2", "", 2), 5 + 6);
    ck_assert_uint_eq(load_as("@:1", "", 2), 0);
    ck_assert_uint_eq(load_as("ddp:4,@:4", "", 2), 0);
}
END_TEST

START_TEST(a_state_per_rank_keeps_the_size)
{
    struct round round = {.saved_ranks = 2};
    save_as("ddp:2,@:2", "state_plugin.fault=per_rank");
    load_as("ddp:2,@:2", "state_plugin.fault=per_rank", 2);
    ck_assert_int_eq(go("@:1", "", &round), CADRE_E_INVALID);
    ck_assert_msg(strstr(f.err.text, "state of plugin 'state_plugin' for each rank "
                                     "('own'), so it resumes with strategy.stack = "
                                     "ddp:2, state_plugin:2 only") != NULL,
                  "%s", f.err.text);
}
END_TEST

/* A stack without the plugin resumes, and one with a plugin that kept nothing. */
START_TEST(other_plugins_do_not_matter)
{
    struct cadre_rank rank;
    save_as("ddp:2,@:2", "state_plugin.fault=per_rank");
    struct cadre_spec *spec = spec_fixture_make(&f, "");
    spec_fixture_rank(&f, spec, &rank);
    cadre_status rc = cadre_load(&rank, path, &f.err);
    ck_assert_msg(rc == CADRE_OK, "%s", f.err.text);
    ck_assert_int_eq(cadre_rundir_prepare(spec, true, NULL, &f.err), CADRE_OK);
    ck_assert_int_eq(cadre_save(&rank, spec->out, 3, &f.err), CADRE_OK);
    cadre_rank_fini(&rank);
    cadre_spec_destroy(spec);
    struct round round = {0};
    ck_assert_int_eq(go("ddp:2,@:2", "", &round), CADRE_OK);
    ck_assert_int_gt(round.wrong, 1000); /* unchanged: zero */
}
END_TEST

static const struct {
    const char *stack, *fault, *why;
} faults[] = {
    {"ddp:2,@:2", "hole", "no rank holds element"},
    {"ddp:2,@:2", "part", "not every data rank holds the whole"},
    {"ddp:2,@:2", "unlike", "'common' differs between rank 0 and rank 1"},
    {"@:1", "twice", "one parameter described twice"},
    {"@:1", "key", "'No key': expected a key of [a-z0-9_]"},
    {"ddp:2,@:2", "one_key", "state 'No key': expected a key"},
    {"@:1", "dtype", "expected data of type f32, found bf16"},
};

START_TEST(a_wrong_description_is_refused)
{
    struct round round = {.saving = true};
    char sets[100];
    snprintf(sets, sizeof sets, "state_plugin.fault=%s", faults[_i].fault);
    ck_assert_int_ne(go(faults[_i].stack, sets, &round), CADRE_OK);
    ck_assert_msg(strstr(f.err.text, faults[_i].why) != NULL, "%s", f.err.text);
    ck_assert_ptr_nonnull(strstr(f.err.text, "state_plugin"));
}
END_TEST

/* Of two replicas the first writes everything; a failure of the other still counts. */
START_TEST(a_rank_without_a_part_fails_too)
{
    struct round round = {.lost = true};
    ck_assert_int_ne(go("ddp:2", "", &round), CADRE_OK);
    ck_assert_msg(strstr(f.err.text, "/nowhere") != NULL, "%s", f.err.text);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("plugin_state");
    TCase *tc = tcase_create("plugin_state");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, any_size_resumes, 0, 3);
    tcase_add_test(tc, shares_are_resharded);
    tcase_add_test(tc, diverging_optimizer_states_are_averaged);
    tcase_add_test(tc, spare_blobs_come_back_to_the_same_stack);
    tcase_add_test(tc, a_state_per_rank_keeps_the_size);
    tcase_add_test(tc, other_plugins_do_not_matter);
    tcase_add_loop_test(tc, a_wrong_description_is_refused, 0,
                        sizeof faults / sizeof *faults);
    tcase_add_test(tc, a_rank_without_a_part_fails_too);
    suite_add_tcase(s, tc);
    return s;
}
