/* SPDX-License-Identifier: Apache-2.0 */
/* What DRAIN's comparison of replicas, run.verify and run.recheck cost, in CPU time of
 * a rank: the ECG model (4 layers, 128 channels, 8 x 256 tokens a rank and step, one
 * micro-batch) on two ranks as threads, one core each. A step whose micro-batch is
 * computed twice, a step, a comparison and a step's hashes in turns, 20 rounds;
 * prints medians and the ratios with their 95 % intervals (of the median: the 6th and
 * the 15th of the ratios of a round) as lines of a markdown table, and Check's own
 * line. */
#include <stdio.h>
#include <time.h>

#include "core/base/median.h"
#include "core/engine/drift.h"
#include "core/launch/launch.h"
#include "tests/engine/rank_fixture.h"
#include "tests/support/check_main.h"

/* NEVER: no step of the bench is verified by itself. */
enum { ROUNDS = 20, LOW = 5, HIGH = 14, NEVER = 1000000 };

static struct rank_fixture f;
static double step_s[2][ROUNDS]; /* by rank */
static double hash_s[2][ROUNDS], verify_s[2][ROUNDS], recheck_s[2][ROUNDS];
static uint64_t bytes;

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static cadre_status measure(struct cadre_rank *rank, int index)
{
    struct cadre_step_report report;
    CADRE_TRY(cadre_rank_step(rank, 1, &report));
    for (int i = 0; i < ROUNDS; i++) {
        double began = cpu_s();
        CADRE_TRY(cadre_rank_step(rank, 2 * (uint64_t)i + 2, &report));
        const double twice_s = cpu_s() - began;
        began = cpu_s();
        CADRE_TRY(cadre_rank_step(rank, 2 * (uint64_t)i + 3, &report));
        step_s[index][i] = cpu_s() - began;
        recheck_s[index][i] = twice_s - step_s[index][i];
        began = cpu_s();
        CADRE_TRY(cadre_drift_check(&rank->store, &rank->mesh, &rank->failure));
        hash_s[index][i] = cpu_s() - began;
        began = cpu_s();
        CADRE_TRY(cadre_verify_note(&rank->verify, NEVER - 1));
        CADRE_TRY(cadre_verify_check(&rank->verify, &rank->failure));
        verify_s[index][i] = cpu_s() - began;
    }
    return CADRE_OK;
}

static cadre_status rank_main(void *arg, int index, struct cadre_local_segment *segment)
{
    (void)arg;
    struct cadre_rank rank;
    struct cadre_comm *world = NULL;
    struct cadre_error err = {0};
    CADRE_TRY(cadre_local_open(segment, index, &world, &err));
    cadre_status rc = cadre_rank_plan(&rank, &f.spec, index, &err);
    if (rc == CADRE_OK) {
        rc = cadre_rank_bind(&rank, world, 0, &err);
        if (rc == CADRE_OK)
            rc = measure(&rank, index);
        for (uint32_t i = 0; index == 0 && i < rank.store.model->n_params; i++)
            bytes += rank.store.param[i].count * 4;
        if (rank.failure.code != CADRE_OK)
            cadre_comm_abort(world, rank.failure.text);
        cadre_rank_fini(&rank);
    }
    cadre_comm_destroy(world);
    return rc;
}

/* A line of the table, of rank 0. */
static void print(const char *what, const char *often, double *took)
{
    double share[ROUNDS];
    for (int i = 0; i < ROUNDS; i++)
        share[i] = 100 * took[i] / step_s[0][i];
    const double middle = cadre_median(share, ROUNDS); /* sorted now */
    printf("| %s | %s | %.0f us | %.3f %% (%.3f to %.3f) |\n", what, often,
           cadre_median(took, ROUNDS) * 1e6, middle, share[LOW], share[HIGH]);
}

START_TEST(replicas_are_compared)
{
    const struct cadre_local_config config = {.size = 2, .timeout_s = 60};
    const struct cadre_strategy_ops ops = {.plan = rank_fixture_split,
                                           .on_grad = rank_fixture_reduce};
    struct cadre_error err = {0};
    char what[64];
    rank_fixture_open(&f);
    f.spec.verify = NEVER;
    f.spec.recheck = 2;
    f.spec.model.layers = 4;
    f.spec.model.channels = 128;
    f.spec.model.heads = f.spec.model.kv_heads = 4;
    f.spec.model.hidden = 512;
    f.spec.global_batch = 256;
    f.spec.micro_batch = 128; /* of 16 tokens */
    f.spec.device.threads = 1;
    rank_fixture_plug(&f, "data", CADRE_ROLE_DATA, 2, &ops);
    cadre_status rc = cadre_launch_threads(&config, NULL, rank_main, NULL, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    snprintf(what, sizeof what, "comparison of replicas, %.1f MB",
             (double)bytes * 1e-6);
    print(what, "1 a DRAIN", hash_s[0]);
    snprintf(what, sizeof what, "`run.verify = 1`, %.1f MB twice",
             3 * (double)bytes * 1e-6);
    print(what, "1", verify_s[0]);
    print("`run.recheck = 1`, the one micro-batch", "1", recheck_s[0]);
    rank_fixture_close(&f);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("bench_drift");
    TCase *tcase = tcase_create("drift");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, replicas_are_compared);
    suite_add_tcase(suite, tcase);
    return suite;
}
