/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/unit_seconds.h"

#include <string.h>

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

static void measure(double seconds[4])
{
    cadre_status rc = cadre_rank_plan(&f.rank, &f.spec, 0, &f.err);
    if (rc == CADRE_OK)
        rc = cadre_unit_seconds_measure(&f.spec, f.rank.model, seconds, &f.err);
    ck_assert_msg(rc == CADRE_OK, "%s", f.err.text);
    for (int u = 0; u < 4; u++)
        ck_assert_double_gt(seconds[u], 0);
    ck_assert_double_eq(seconds[1], seconds[2]); /* blocks are alike */
    for (uint32_t i = 0; i < f.rank.model->n_params; i++)
        ck_assert_ptr_null(f.rank.model->params[i].data);
    rank_fixture_stop(&f);
}

START_TEST(every_unit_is_measured)
{
    double seconds[4];
    measure(seconds);
    f.spec.model.arch = CADRE_ARCH_LLAMA;
    f.spec.model.tied = false;
    f.spec.model.dtype = CADRE_F64;
    f.spec.recompute = true;
    measure(seconds);
    f.spec.model.classes = 3;
    measure(seconds);
}
END_TEST

/* Of a rank that shares its experts with others: without them. */
START_TEST(experts_are_measured_alone)
{
    double seconds[4] = {0};
    f.spec.model.experts = 4;
    ck_assert_int_eq(cadre_rank_plan(&f.rank, &f.spec, 0, &f.err), CADRE_OK);
    f.rank.model->ep_rank = 1;
    f.rank.model->ep_size = 2;
    ck_assert_int_eq(cadre_unit_seconds_measure(&f.spec, f.rank.model, seconds, &f.err),
                     CADRE_OK);
    for (int u = 0; u < 4; u++)
        ck_assert_double_gt(seconds[u], 0);
    ck_assert_int_eq(f.rank.model->ep_rank, 1);
    ck_assert_int_eq(f.rank.model->ep_size, 2);
}
END_TEST

static cadre_status split_time(struct cadre_self *self, const struct cadre_plan *abi)
{
    (void)self;
    CADRE_TRY(abi->use_axis(abi->h, abi->axis, CADRE_BATCH_TIME));
    CADRE_TRY(abi->claim(abi->h, "time.shard", abi->axis, 0));
    return abi->reduces(abi->h, abi->axis, 32);
}

static cadre_status pass_on(struct cadre_self *self,
                            const struct cadre_redistribute_ev *ev)
{
    (void)self, (void)ev;
    return CADRE_OK;
}

/* Without the ranks that have the other keys. */
START_TEST(a_part_of_the_time_is_measured)
{
    const struct cadre_strategy_ops ops = {
        .plan = split_time, .on_grad = rank_fixture_reduce, .on_redistribute = pass_on};
    double seconds[4];
    rank_fixture_plug(&f, "cp", CADRE_ROLE_DATA, 2, &ops);
    measure(seconds);
}
END_TEST

/* A device that cannot be opened is an error, and nothing leaks. */
START_TEST(no_device)
{
    double seconds[4];
    ck_assert_int_eq(cadre_rank_plan(&f.rank, &f.spec, 0, &f.err), CADRE_OK);
    f.spec.device.kind = "none";
    ck_assert_int_eq(cadre_unit_seconds_measure(&f.spec, f.rank.model, seconds, &f.err),
                     CADRE_E_INVALID);
    ck_assert_ptr_ne(strstr(f.err.text, "none"), NULL);
}
END_TEST

/* A request in plan is recorded; the answer is the value in the spec. */
static double heard;
static const struct cadre_host *host;

static cadre_status create(const struct cadre_create *args, struct cadre_self **out)
{
    host = args->host;
    *out = (struct cadre_self *)(uintptr_t)host;
    return CADRE_OK;
}

static cadre_status plan(struct cadre_self *self, const struct cadre_plan *abi)
{
    const struct cadre_model_svc *model = host->service(host->ctx, CADRE_SERVICE_MODEL);
    (void)self;
    heard = model->unit_seconds(host->ctx, abi->n_units - 1);
    return CADRE_OK;
}

START_TEST(plugins_hear_what_was_measured)
{
    static const double seconds[4] = {1, 2, 2, 7};
    const struct cadre_strategy_ops ops = {.create = create, .plan = plan};
    ck_assert_int_eq(cadre_rank_plan(&f.rank, &f.spec, 0, &f.err), CADRE_OK);
    ck_assert(!f.rank.services.asked_seconds);
    rank_fixture_stop(&f);
    rank_fixture_plug(&f, "asks", CADRE_ROLE_DATA, 1, &ops);
    ck_assert_int_eq(cadre_rank_plan(&f.rank, &f.spec, 0, &f.err), CADRE_OK);
    ck_assert(f.rank.services.asked_seconds);
    ck_assert_double_eq(heard, 0);
    rank_fixture_stop(&f);
    f.spec.unit_seconds = seconds;
    ck_assert_int_eq(cadre_rank_plan(&f.rank, &f.spec, 0, &f.err), CADRE_OK);
    ck_assert_double_eq(heard, 7);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("unit_seconds");
    TCase *tc = tcase_create("unit_seconds");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, every_unit_is_measured);
    tcase_add_test(tc, experts_are_measured_alone);
    tcase_add_test(tc, a_part_of_the_time_is_measured);
    tcase_add_test(tc, no_device);
    tcase_add_test(tc, plugins_hear_what_was_measured);
    suite_add_tcase(s, tc);
    return s;
}
