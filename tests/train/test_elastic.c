/* SPDX-License-Identifier: Apache-2.0 */
/* What follows the loss of a rank, without ranks: the choice of a stack, when a run is
 * given up, and the arguments of the next start. */
#include <stdlib.h>
#include <string.h>

#include "core/base/path.h"
#include "core/checkpoint/save.h"
#include "core/train/elastic.h"
#include "tests/support/check_main.h"
#include "tests/train/spec_fixture.h"

static struct spec_fixture f;

static void setup(void)
{
    spec_fixture_open(&f);
}

static void teardown(void)
{
    spec_fixture_close(&f);
}

/* A stack of processes, and what it becomes with so many ranks; NULL: none is left, and
 * the error has `says`. The model has 2 blocks, 2 heads, and 4 micro-batches. */
static const struct {
    const char *sets, *after, *says;
    int ranks;
} choices[] = {
    {"strategy.stack=ddp:4", "ddp:2", NULL, 3},
    {"strategy.stack=ddp:4", "ddp:2", NULL, 2},
    {"strategy.stack=ddp:4", "ddp:1", NULL, 1},
    {"strategy.stack=ddp:4", NULL, "no rank is left", 0},
    {"strategy.stack=zero:4 zero.stage=3", "zero:2", NULL, 3},
    /* 6 micro-batches: exact mode wants 1, 2, 4, ... of them on each of several ranks
     */
    {"strategy.stack=ddp:6 train.global_batch=12", "ddp:3", NULL, 5},
    {"strategy.stack=ddp:6 train.global_batch=12", "ddp:2", NULL, 2},
    {"strategy.stack=ddp:6 train.global_batch=12 run.exact=yes", "ddp:3", NULL, 5},
    {"strategy.stack=ddp:6 train.global_batch=12 run.exact=yes", "ddp:1", NULL, 2},
    /* what is no data axis is kept, while it can be */
    {"strategy.stack=pipeline:2,ddp:2", "pipeline:2, ddp:1", NULL, 3},
    {"strategy.stack=ddp:2,tensor:2", "ddp:1, tensor:2", NULL, 3},
    {"strategy.stack=tensor:2,zero:4", "tensor:2, zero:2", NULL, 7},
    {"strategy.stack=pipeline:2,ddp:2", "pipeline:1, ddp:1", NULL, 1},
    {"strategy.stack=pipeline:2,tensor:2", "pipeline:2, tensor:1", NULL, 3},
    {"strategy.stack=pipeline:4,ddp:2 model.layers=4", "pipeline:3, ddp:1", NULL, 3},
    {"strategy.stack=pipeline:2", "pipeline:1", NULL, 1},
    /* partitioned by hand for two stages: with one the list does not fit */
    {"strategy.stack=pipeline:2 pipeline.balance=2\t2", NULL, "pipeline.balance", 1},
};

START_TEST(a_smaller_stack)
{
    char sets[256], *text = NULL;
    struct cadre_error err = {0};
    snprintf(sets, sizeof sets, "comm.ranks=processes %s", choices[_i].sets);
    struct cadre_spec *spec = spec_fixture_make(&f, sets);
    cadre_status rc = cadre_elastic_choose(spec, choices[_i].ranks, &text, &err);
    if (choices[_i].after) {
        ck_assert_msg(rc == CADRE_OK, "%s: %s", choices[_i].sets, err.text);
        ck_assert_str_eq(text, choices[_i].after);
    } else {
        ck_assert_int_eq(rc, CADRE_E_INVALID);
        ck_assert_msg(strstr(err.text, choices[_i].says) != NULL, "%s", err.text);
    }
    free(text);
    cadre_spec_destroy(spec);
}
END_TEST

static const char killed[] = "rank 1 was killed by signal 9 (Killed)";

/* A start of *spec ended with the loss of a rank: *spec becomes what is next. */
static cadre_status lose(struct cadre_elastic *elastic, struct cadre_spec **spec,
                         bool asked)
{
    const struct cadre_launch_end end = {.lost = 1, .asked = asked};
    struct cadre_spec *next;
    cadre_fail(&f.err, CADRE_E_COMM, "%s", killed);
    cadre_status rc = cadre_elastic_next(elastic, *spec, &end, &next, &f.err);
    ck_assert((rc == CADRE_OK) == (next != NULL));
    if (next) {
        cadre_spec_destroy(*spec);
        *spec = next;
    } else {
        ck_assert_int_eq(f.err.code, rc);
        ck_assert_ptr_nonnull(strstr(f.err.text, killed));
    }
    return rc;
}

/* Leave a checkpoint of the run after `step`. */
static void save(int64_t step)
{
    struct cadre_spec *spec = spec_fixture_make(&f, "");
    struct cadre_rank rank;
    spec_fixture_rank(&f, spec, &rank);
    ck_assert_int_eq(cadre_save(&rank, spec->out, step, &f.err), CADRE_OK);
    cadre_rank_fini(&rank);
    cadre_spec_destroy(spec);
}

static struct cadre_spec *begin(struct cadre_elastic *elastic, const char *stack)
{
    char sets[256];
    snprintf(sets, sizeof sets,
             "comm.ranks=processes run.elastic=yes strategy.stack=%s", stack);
    struct cadre_spec *spec = spec_fixture_make(&f, sets);
    cadre_elastic_begin(elastic, spec);
    ck_assert(elastic->on);
    ck_assert_int_eq(cadre_path_make_dirs(f.out, &f.err), CADRE_OK);
    return spec;
}

START_TEST(the_next_start)
{
    char *const argv[] = {"cadre", "train", "x.ini", NULL};
    struct cadre_elastic elastic;
    struct cadre_spec *spec = begin(&elastic, "ddp:4");
    ck_assert_int_eq(lose(&elastic, &spec, false), CADRE_OK);
    ck_assert_str_eq(spec->stack, "ddp:2");
    ck_assert_str_eq(spec->out, f.out);
    ck_assert_str_eq(spec->name, "test");
    ck_assert_int_eq(spec->run.ranks, 2);
    ck_assert_ptr_nonnull(spec->run.dataset);
    ck_assert_str_eq(cadre_options_source(spec->options, "strategy.stack"),
                     "run.elastic");
    char **args = cadre_elastic_argv(spec, argv);
    static const char *const more[] = {"--set", "strategy.stack=ddp:2", "--set",
                                       "checkpoint.resume=auto"};
    for (int i = 0; i < 3; i++)
        ck_assert_ptr_eq(args[i], argv[i]);
    for (int i = 0; i < 4; i++)
        ck_assert_str_eq(args[3 + i], more[i]);
    ck_assert_ptr_null(args[7]);
    free(args);
    char *restarts = spec_fixture_read(&f, "run/restarts.json");
    ck_assert_ptr_nonnull(strstr(restarts, killed));
    free(restarts);
    cadre_spec_destroy(spec);
}
END_TEST

/* Not for ever: three times from one step; a checkpoint starts the count again. */
START_TEST(when_it_gives_up)
{
    struct cadre_elastic elastic;
    struct cadre_spec *spec = begin(&elastic, "ddp:8 train.global_batch=96");
    static const int ranks[] = {6, 4, 3};
    for (int i = 0; i < 3; i++) {
        ck_assert_msg(lose(&elastic, &spec, false) == CADRE_OK, "%s", f.err.text);
        ck_assert_int_eq(spec->run.ranks, ranks[i]);
        ck_assert_int_eq(elastic.tries, i + 1);
    }
    ck_assert_int_eq(lose(&elastic, &spec, false), CADRE_E_COMM);
    ck_assert_ptr_nonnull(strstr(f.err.text, "it gives up"));
    cadre_spec_destroy(spec);
}
END_TEST

/* The lost are replaced, but not twice from one step. */
START_TEST(as_many_ranks_again)
{
    struct cadre_elastic elastic;
    struct cadre_spec *spec = begin(&elastic, "ddp:4 run.elastic=replace");
    ck_assert_int_eq(lose(&elastic, &spec, false), CADRE_OK);
    ck_assert_str_eq(spec->stack, "ddp:4");
    ck_assert_int_eq(lose(&elastic, &spec, false), CADRE_OK);
    ck_assert_str_eq(spec->stack, "ddp:2");
    save(7);
    ck_assert_int_eq(lose(&elastic, &spec, false), CADRE_OK);
    ck_assert_str_eq(spec->stack, "ddp:2");
    ck_assert_int_eq(elastic.step, 7);
    cadre_spec_destroy(spec);
}
END_TEST

START_TEST(a_checkpoint_is_progress)
{
    struct cadre_elastic elastic;
    struct cadre_spec *spec = begin(&elastic, "ddp:4");
    ck_assert_int_eq(lose(&elastic, &spec, false), CADRE_OK);
    save(7);
    ck_assert_int_eq(lose(&elastic, &spec, false), CADRE_OK);
    ck_assert_str_eq(spec->stack, "ddp:1");
    ck_assert_int_eq(elastic.step, 7);
    ck_assert_int_eq(elastic.tries, 1);
    ck_assert_int_eq(lose(&elastic, &spec, false), CADRE_E_COMM);
    ck_assert_ptr_nonnull(strstr(f.err.text, "no rank is left"));
    save(20); /* the last of its steps */
    ck_assert_int_eq(lose(&elastic, &spec, false), CADRE_E_COMM);
    ck_assert_ptr_nonnull(strstr(f.err.text, "all 20 steps were done"));
    cadre_spec_destroy(spec);
}
END_TEST

START_TEST(who_asked_for_an_end_gets_it)
{
    struct cadre_elastic elastic;
    struct cadre_spec *spec = begin(&elastic, "ddp:4");
    ck_assert_int_eq(lose(&elastic, &spec, true), CADRE_E_STOPPED);
    ck_assert_ptr_nonnull(strstr(f.err.text, "checkpoint.resume=auto"));
    cadre_spec_destroy(spec);
}
END_TEST

START_TEST(it_is_off_unless_asked_for)
{
    struct cadre_elastic elastic;
    struct cadre_spec *spec = spec_fixture_make(&f, "");
    cadre_elastic_begin(&elastic, spec);
    ck_assert(!elastic.on);
    cadre_spec_destroy(spec);
    spec = spec_fixture_make(&f, "run.elastic=yes bench.steps=5");
    cadre_elastic_begin(&elastic, spec);
    ck_assert(!elastic.on);
    cadre_spec_destroy(spec);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("train/elastic");
    TCase *t = tcase_create("elastic");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, a_smaller_stack, 0, sizeof choices / sizeof choices[0]);
    tcase_add_test(t, the_next_start);
    tcase_add_test(t, when_it_gives_up);
    tcase_add_test(t, as_many_ranks_again);
    tcase_add_test(t, a_checkpoint_is_progress);
    tcase_add_test(t, who_asked_for_an_end_gets_it);
    tcase_add_test(t, it_is_off_unless_asked_for);
    suite_add_tcase(s, t);
    return s;
}
