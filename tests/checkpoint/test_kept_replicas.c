/* SPDX-License-Identifier: Apache-2.0 */
/* Replicas that diverge, saved and resumed: as many of them with the bits of a run that
 * never stopped, others from the mean. */
#include "core/checkpoint/kept_replicas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/checkpoint/load.h"
#include "core/checkpoint/save.h"
#include "core/launch/launch.h"
#include "tests/train/spec_fixture.h"
#include "tests/support/check_main.h"

enum { SAVED = 3, LAST = 7 };

static struct spec_fixture f;
static struct cadre_error failure;
static char out[1200], path[1300];
static struct cadre_spec *spec;
static double loss[LAST + 1];
static bool loads;

static void setup(void)
{
    spec_fixture_open(&f);
    memset(&failure, 0, sizeof failure);
    snprintf(out, sizeof out, "%s/kept", f.dir);
    snprintf(path, sizeof path, "%s/checkpoints/step-0000000%d", out, SAVED);
    ck_assert_int_eq(mkdir(out, 0777), 0);
}

static void teardown(void)
{
    spec_fixture_close(&f);
}

/* From the first step, or from the checkpoint on. */
static cadre_status steps(struct cadre_rank *rank, struct cadre_error *err)
{
    if (loads)
        CADRE_TRY(cadre_load(rank, path, err));
    for (int step = loads ? SAVED + 1 : 1; step <= LAST; step++) {
        struct cadre_step_report report = {0};
        if (cadre_rank_step(rank, (uint64_t)step, &report) != CADRE_OK)
            return cadre_fail(err, rank->failure.code, "%s", rank->failure.text);
        if (rank->index == 0)
            loss[step] = report.loss;
        if (step != SAVED || loads)
            continue;
        if (cadre_rank_drain(rank) != CADRE_OK)
            return cadre_fail(err, rank->failure.code, "%s", rank->failure.text);
        CADRE_TRY(cadre_save(rank, out, SAVED, err));
    }
    return cadre_rank_drain(rank);
}

static cadre_status rank_main(void *arg, int index, struct cadre_local_segment *segment)
{
    struct cadre_error err = {0};
    struct cadre_comm *world = NULL;
    struct cadre_rank rank;
    (void)arg;
    CADRE_TRY(cadre_local_open(segment, index, &world, &err));
    cadre_status rc = cadre_rank_plan(&rank, &spec->run, index, &err);
    if (rc == CADRE_OK) {
        rc = cadre_rank_bind(&rank, world, loads ? SAVED : 0, &err);
        if (rc == CADRE_OK)
            rc = steps(&rank, &err);
        cadre_rank_fini(&rank);
    }
    if (rc != CADRE_OK && rc != CADRE_E_ABORTED) {
        failure = err;
        cadre_comm_abort(world, err.text);
    }
    cadre_comm_destroy(world);
    return rc;
}

static void train(const char *sets, bool resumes)
{
    char all[400];
    snprintf(all, sizeof all, "train.micro_batch=1 %s", sets);
    loads = resumes;
    memset(loss, 0, sizeof loss);
    spec = spec_fixture_make(&f, all);
    cadre_status rc = cadre_launch_threads(&spec->local, NULL, rank_main, NULL, &f.err);
    cadre_spec_destroy(spec);
    ck_assert_msg(rc == CADRE_OK, "%s: %s; %s", sets, failure.text, f.err.text);
}

static const char *const runs[] = {
    "strategy.stack=diloco:2 diloco.period=5",
    "strategy.stack=diloco:2 diloco.period=5 optim.name=sgd optim.momentum=0.9",
    "strategy.stack=diloco:2 diloco.period=5 optim.name=muon",
    "strategy.stack=diloco:2,zero:2 diloco.period=5 zero.stage=1 model.channels=64",
    "strategy.stack=diloco:2,ddp:2 diloco.period=2 train.precision=bf16",
    "strategy.stack=diloco:2,pipeline:2 diloco.period=5",
};
enum { RUNS = sizeof runs / sizeof *runs };

/* Between two outer steps: each replica has its own values, moments and states. */
START_TEST(the_same_replicas_continue_alike)
{
    double whole[LAST + 1];
    train(runs[_i], false);
    memcpy(whole, loss, sizeof loss);
    train(runs[_i], true);
    ck_assert_mem_eq(whole + SAVED + 1, loss + SAVED + 1,
                     (LAST - SAVED) * sizeof *loss);
}
END_TEST

/* More, fewer, none: all resume from the mean, and go on. */
START_TEST(other_numbers_resume_from_the_mean)
{
    static const char *const to[] = {"strategy.stack=diloco:4 diloco.period=5",
                                     "strategy.stack=single", "strategy.stack=zero:2"};
    double before[2];
    train(runs[0], false);
    before[0] = loss[1];
    before[1] = loss[LAST];
    train(to[_i], true);
    ck_assert_double_gt(loss[LAST], 0);
    ck_assert_double_lt(loss[LAST], before[0]);
    ck_assert_double_ne(loss[LAST], before[1]);
}
END_TEST

static bool has_file(void)
{
    char file[1400];
    struct stat about;
    snprintf(file, sizeof file, "%s/replicas.safetensors", path);
    return stat(file, &about) == 0;
}

START_TEST(only_replicas_have_the_file)
{
    train(_i ? "strategy.stack=ddp:2" : runs[0], false);
    ck_assert_int_eq(has_file(), _i == 0);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("kept_replicas");
    TCase *tc = tcase_create("kept_replicas");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, the_same_replicas_continue_alike, 0, RUNS);
    tcase_add_loop_test(tc, other_numbers_resume_from_the_mean, 0, 3);
    tcase_add_loop_test(tc, only_replicas_have_the_file, 0, 2);
    suite_add_tcase(suite, tc);
    return suite;
}
