/* SPDX-License-Identifier: Apache-2.0 */
/* Two ranks whose strategy does, or does not do, what it says: replicas that drift
 * apart are found when nothing is in flight. */
#include <string.h>

#include "core/launch/launch.h"
#include "tests/engine/rank_fixture.h"
#include "tests/support/check_main.h"

static struct rank_fixture f;

static void setup(void)
{
    rank_fixture_open(&f);
}

static void teardown(void)
{
    rank_fixture_close(&f);
}

/* A rank that trains two steps and drains after each. */
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
        for (uint64_t step = 1; rc == CADRE_OK && step < 3; step++) {
            struct cadre_step_report report;
            rc = cadre_rank_step(&rank, step, &report);
            if (rc == CADRE_OK)
                rc = cadre_rank_drain(&rank);
        }
        if (rank.failure.code != CADRE_OK)
            cadre_comm_abort(world, rank.failure.text);
        cadre_rank_fini(&rank);
    }
    cadre_comm_destroy(world);
    return rc;
}

static cadre_status run_two(cadre_status (*on_grad)(struct cadre_self *,
                                                    struct cadre_grad_ev *),
                            struct cadre_error *err)
{
    const struct cadre_local_config config = {.size = 2, .timeout_s = 60};
    const struct cadre_strategy_ops ops = {.plan = rank_fixture_split,
                                           .on_grad = on_grad};
    rank_fixture_plug(&f, "data", CADRE_ROLE_DATA, 2, &ops);
    return cadre_launch_threads(&config, NULL, rank_main, NULL, err);
}

START_TEST(replicas_that_agree_train_on)
{
    struct cadre_error err = {0};
    cadre_status rc = run_two(rank_fixture_reduce, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
}
END_TEST

/* It says that it has reduced, and has not. */
static cadre_status pretend(struct cadre_self *self, struct cadre_grad_ev *ev)
{
    const struct cadre_host *host = rank_fixture_host(self);
    const struct cadre_param_svc *param = host->service(host->ctx, CADRE_SERVICE_PARAM);
    if (!(ev->flags & CADRE_GRAD_FINAL))
        return CADRE_OK;
    return param->reduced(host->ctx, ev->param, ev->grad, 0);
}

/* One gradient only, of the second block. */
static cadre_status forget_one(struct cadre_self *self, struct cadre_grad_ev *ev)
{
    return ev->param == 20 ? pretend(self, ev) : rank_fixture_reduce(self, ev);
}

/* Those of the experts of the first block. */
static cadre_status forget_experts(struct cadre_self *self, struct cadre_grad_ev *ev)
{
    return ev->param >= 11 && ev->param < 19 ? pretend(self, ev)
                                             : rank_fixture_reduce(self, ev);
}

START_TEST(replicas_that_drift_are_named)
{
    struct cadre_error err = {0};
    f.spec.model.experts = _i == 2 ? 2 : 0;
    ck_assert_int_ne(run_two(_i == 2 ? forget_experts
                             : _i    ? forget_one
                                     : pretend,
                             &err),
                     CADRE_OK);
    ck_assert_msg(strstr(err.text, "replicas differ: the parameters of unit") != NULL,
                  "%s", err.text);
    ck_assert_msg(strstr(err.text, "along the axis 'data'") != NULL, "%s", err.text);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("drift");
    TCase *tc = tcase_create("drift");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, replicas_that_agree_train_on);
    tcase_add_loop_test(tc, replicas_that_drift_are_named, 0, 3);
    suite_add_tcase(s, tc);
    return s;
}
