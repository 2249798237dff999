/* SPDX-License-Identifier: Apache-2.0 */
/* Experts over the ranks of an axis: who holds what, and what is refused. */
#include <string.h>

#include "tests/engine/plan_fixture.h"
#include "tests/support/check_main.h"

static struct plan_fixture f;
static const struct cadre_plan *data, *experts;

enum { EXPERTS = 4, RANKS = 4 };

/* Mesh dp:2 x ep:2, seen by rank `rank`, and a model of so many experts. */
static void open_rank(int rank, int64_t n_experts)
{
    const struct cadre_axis_request axes[] = {{"dp", 2, "ddp"}, {"ep", 2, "experts"}};
    plan_fixture_open(&f, axes, 2, rank);
    struct cadre_model_config config = f.model->config;
    cadre_model_destroy(f.model);
    config.experts = n_experts;
    ck_assert_int_eq(cadre_model_create(&config, 0, 1, &f.model, &f.err), CADRE_OK);
    f.request.model = f.model;
    if (n_experts % 2 == 0) {
        f.model->ep_rank = rank % 2;
        f.model->ep_size = 2;
    }
}

static void must(cadre_status rc)
{
    ck_assert_msg(rc == CADRE_OK, "%s", f.said.text);
}

static void plan(void)
{
    plan_fixture_again(&f);
    data = plan_fixture_plugin(&f, "ddp", "dp", CADRE_ROLE_DATA);
    experts = plan_fixture_plugin(&f, "experts", "ep", CADRE_ROLE_DATA);
    must(data->use_axis(data->h, "dp", CADRE_BATCH_SPLIT));
    must(data->reduces(data->h, "dp", 0));
    must(experts->use_axis(experts->h, "ep", CADRE_BATCH_SPLIT));
    must(experts->reduces(experts->h, "ep", 4));
}

static void claim(void)
{
    must(experts->claim(experts->h, "expert.shard", "ep", 0));
}

/* Each expert is on one coordinate of ep, and its primary owner is the first of dp;
 * what is no expert is everywhere, and rank 0 owns it. */
START_TEST(homes_and_owners)
{
    for (int rank = 0; rank < RANKS; rank++) {
        open_rank(rank, EXPERTS);
        plan();
        claim();
        plan_fixture_finish(&f);
        ck_assert_str_eq(cadre_rank_plan_expert_axis(&f.plan)->name, "ep");
        ck_assert(!cadre_rank_plan_replicated(&f.plan));
        for (uint32_t i = 0; i < f.model->n_params; i++) {
            const int32_t expert = f.model->params[i].expert;
            const bool here = expert < 0 || expert / 2 == rank % 2;
            const bool first = rank == 0 || (expert >= 0 && rank == 1);
            ck_assert(f.plan.param[i].present == here);
            ck_assert(cadre_rank_plan_holds(&f.plan, i) == here);
            ck_assert(cadre_rank_plan_is_primary_owner(&f.plan, i, NULL) == first);
        }
        plan_fixture_close(&f);
    }
}
END_TEST

/* A schedule that runs other units holds none of their experts. */
START_TEST(other_units_are_elsewhere)
{
    open_rank(0, EXPERTS);
    plan();
    claim();
    f.plan.chunk[f.plan.n_chunks++] = (struct cadre_chunk){0, 2, 1, false};
    for (uint32_t i = 0; i < f.model->n_params; i++)
        if (f.model->params[i].unit >= 2)
            ck_assert(!cadre_rank_plan_holds(&f.plan, i));
    plan_fixture_close(&f);
}
END_TEST

START_TEST(without_a_claim_all_hold_all)
{
    open_rank(3, EXPERTS);
    f.model->ep_rank = 0;
    f.model->ep_size = 1;
    plan();
    plan_fixture_finish(&f);
    ck_assert_ptr_null(cadre_rank_plan_expert_axis(&f.plan));
    ck_assert(cadre_rank_plan_replicated(&f.plan));
    for (uint32_t i = 0; i < f.model->n_params; i++)
        ck_assert(f.plan.param[i].present);
    plan_fixture_close(&f);
    /* and a claim without experts changes nothing */
    open_rank(3, 0);
    f.model->ep_rank = 0;
    f.model->ep_size = 1;
    plan();
    claim();
    plan_fixture_finish(&f);
    ck_assert_ptr_null(cadre_rank_plan_expert_axis(&f.plan));
    plan_fixture_close(&f);
}
END_TEST

START_TEST(what_is_refused)
{
    const uint64_t first[] = {0, 1, 4, 6, 8};
    open_rank(0, 3);
    plan();
    claim();
    plan_fixture_cannot(&f, "model.experts = 3 do not divide over the 2 ranks along "
                            "'ep'; change model.experts or strategy.stack");
    plan_fixture_close(&f);
    open_rank(0, EXPERTS);
    f.request.exact = true;
    plan();
    claim();
    plan_fixture_cannot(&f, "run.exact = yes: expert gradients are sums over the ranks "
                            "of 'ep'; set run.exact = no");
    f.request.exact = false;
    f.request.data_ranks = 4;
    plan();
    claim();
    must(data->microbatch_map(data->h, CADRE_MICROBATCHES_RANGES, first));
    plan_fixture_cannot(&f, "plugin 'ddp' in plan: microbatch_map with ranges, but the "
                            "ranks along 'ep' run their micro-batches together");
    plan_fixture_close(&f);
}
END_TEST

/* Ranks that see the same samples have the same rows, and nothing to share. */
START_TEST(the_axis_splits_the_batch)
{
    open_rank(0, EXPERTS);
    plan_fixture_again(&f);
    experts = plan_fixture_plugin(&f, "experts", "ep", CADRE_ROLE_DATA);
    must(experts->use_axis(experts->h, "ep", CADRE_BATCH_SAME));
    claim();
    plan_fixture_cannot(&f, "plugin 'experts' in plan: claim of expert.shard@ep, whose "
                            "ranks see the same samples; call use_axis('ep', "
                            "CADRE_BATCH_SPLIT)");
    plan_fixture_close(&f);
}
END_TEST

/* Of a part of each sample it would be another function. */
START_TEST(balance_is_that_of_whole_samples)
{
    for (int balanced = 0; balanced < 2; balanced++) {
        open_rank(0, EXPERTS);
        f.model->ep_rank = 0;
        f.model->ep_size = 1;
        f.model->config.expert_balance = balanced ? 0.5 : 0;
        plan_fixture_again(&f);
        experts = plan_fixture_plugin(&f, "context", "ep", CADRE_ROLE_DATA);
        must(experts->use_axis(experts->h, "ep", CADRE_BATCH_TIME));
        must(experts->claim(experts->h, "time.shard", "ep", 0));
        must(experts->reduces(experts->h, "ep", 32));
        if (balanced)
            plan_fixture_cannot(&f, "model.expert_balance = 0.5 with a strategy that "
                                    "splits the time of samples");
        else
            plan_fixture_finish(&f);
        plan_fixture_close(&f);
    }
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("plan_experts");
    TCase *tc = tcase_create("plan_experts");
    tcase_add_test(tc, homes_and_owners);
    tcase_add_test(tc, other_units_are_elsewhere);
    tcase_add_test(tc, without_a_claim_all_hold_all);
    tcase_add_test(tc, what_is_refused);
    tcase_add_test(tc, balance_is_that_of_whole_samples);
    tcase_add_test(tc, the_axis_splits_the_batch);
    suite_add_tcase(s, tc);
    return s;
}
