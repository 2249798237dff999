/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tests/engine/plan_fixture.h"
#include "tests/support/check_main.h"

static struct plan_fixture f;
static const struct cadre_plan *one, *two, *three;

/* Mesh rep:2 x dp:4, seen by rank `rank`, planned by three plugins. */
static void open_rank(int rank)
{
    const struct cadre_axis_request axes[] = {{"rep", 2, "hsdp"}, {"dp", 4, "zero"}};
    plan_fixture_open(&f, axes, 2, rank);
    one = plan_fixture_plugin(&f, "hsdp", "rep", CADRE_ROLE_DATA);
    two = plan_fixture_plugin(&f, "zero", "dp", CADRE_ROLE_DATA);
    three = plan_fixture_plugin(&f, "other", NULL, CADRE_ROLE_OBSERVER);
}

static void setup(void)
{
    open_rank(5);
}

static void teardown(void)
{
    plan_fixture_close(&f);
}

static void reopen(int rank)
{
    plan_fixture_close(&f);
    open_rank(rank);
}

static void must(cadre_status rc)
{
    ck_assert_msg(rc == CADRE_OK, "%s", f.said.text);
}

static void split_both(void)
{
    must(one->use_axis(one->h, "rep", CADRE_BATCH_SPLIT));
    must(two->use_axis(two->h, "dp", CADRE_BATCH_SPLIT));
}

/* ---- every part of the mesh is reduced once ---- */

START_TEST(a_split_axis_needs_a_reducer)
{
    split_both();
    must(two->reduces(two->h, "dp", 0));
    plan_fixture_cannot(&f, "plugin 'hsdp' in plan: use_axis('rep', CADRE_BATCH_SPLIT) "
                            "splits the batch over 2 ranks, but no plugin reduces "
                            "gradients along it; call reduces('rep', level), or claim "
                            "param.diverges@rep");
    must(one->reduces(one->h, "rep", 16));
    plan_fixture_finish(&f);
}
END_TEST

START_TEST(replicas_that_diverge_need_none)
{
    split_both();
    must(two->reduces(two->h, "dp", 0));
    must(one->claim(one->h, "param.diverges", "rep", 0));
    plan_fixture_finish(&f);
    must(one->reduces(one->h, "rep", 16));
    plan_fixture_cannot(&f,
                        "strategy.stack: 'hsdp' reduces gradients along 'rep', whose "
                        "ranks hold replicas that diverge (param.diverges of 'hsdp')");
}
END_TEST

START_TEST(split_time_needs_a_reducer_and_a_claim)
{
    must(one->use_axis(one->h, "rep", CADRE_BATCH_TIME));
    plan_fixture_cannot(&f, "plugin 'hsdp' in plan: use_axis('rep', CADRE_BATCH_TIME), "
                            "but no plugin claims time.shard@rep");
    must(one->claim(one->h, "time.shard", "rep", 0));
    plan_fixture_cannot(&f, "use_axis('rep', CADRE_BATCH_TIME) splits the time over 2 "
                            "ranks, but no plugin reduces");
    must(three->reduces(three->h, "rep", 3));
    plan_fixture_finish(&f);
}
END_TEST

START_TEST(time_is_claimed_where_it_is_split)
{
    must(one->use_axis(one->h, "rep", CADRE_BATCH_SAME));
    must(one->claim(one->h, "time.shard", "rep", 0));
    plan_fixture_cannot(&f, "claim of time.shard@rep, whose ranks see the same time");
}
END_TEST

START_TEST(an_axis_of_the_same_samples_is_not_reduced)
{
    must(one->use_axis(one->h, "rep", CADRE_BATCH_SAME));
    must(one->reduces(one->h, "rep", 0));
    plan_fixture_cannot(&f,
                        "plugin 'hsdp' in plan: reduces('rep'), whose ranks see the "
                        "same samples along 'rep', so that the sum counts them "
                        "several times");
}
END_TEST

/* A product reduces all of its axes, the parts of an axis together the whole. */
START_TEST(products_and_parts_reduce)
{
    split_both();
    must(one->product_axis(one->h, "rep*dp"));
    must(one->reduces(one->h, "rep*dp", 0));
    plan_fixture_finish(&f);
    must(two->reduces(two->h, "dp", 3));
    plan_fixture_cannot(&f, "strategy.stack: 'hsdp' and 'zero' both reduce gradients "
                            "along 'dp'; only one");
    reopen(5);
    split_both();
    must(one->split_axis(one->h, "dp", 2));
    must(one->product_axis(one->h, "rep*dp.outer"));
    must(two->reduces(two->h, "dp.inner", 0));
    plan_fixture_cannot(&f, "no plugin reduces gradients along it");
    must(one->reduces(one->h, "rep*dp.outer", 1));
    plan_fixture_finish(&f);
}
END_TEST

START_TEST(levels_differ)
{
    split_both();
    must(one->reduces(one->h, "rep", 3));
    must(two->reduces(two->h, "dp", 3));
    plan_fixture_cannot(&f, "strategy.stack: 'hsdp' reduces gradients along 'rep' and "
                            "'zero' along 'dp', both at level 3; give the one that is "
                            "to get what the other has reduced a higher level");
}
END_TEST

START_TEST(one_rank_needs_no_reducer)
{
    const struct cadre_axis_request axes[] = {{"rep", 1, "hsdp"}, {"dp", 1, "zero"}};
    plan_fixture_close(&f);
    plan_fixture_open(&f, axes, 2, 0);
    one = plan_fixture_plugin(&f, "hsdp", "rep", CADRE_ROLE_DATA);
    two = plan_fixture_plugin(&f, "zero", "dp", CADRE_ROLE_DATA);
    split_both();
    if (_i) { /* and two may have one level */
        must(one->reduces(one->h, "rep", 0));
        must(two->reduces(two->h, "dp", 0));
    }
    plan_fixture_finish(&f);
}
END_TEST

/* ---- levels decide the order ---- */

/* rep varies slowest where it is reduced last, dp where that is; never by the order of
 * calls. */
START_TEST(data_ranks_are_numbered_by_level)
{
    for (int r = 0; r < 8; r++)
        for (int rep_last = 0; rep_last < 2; rep_last++)
            for (int swap = 0; swap < 2; swap++) {
                reopen(r);
                split_both();
                if (swap)
                    must(two->reduces(two->h, "dp", 7));
                must(one->reduces(one->h, "rep", rep_last ? 9 : 5));
                if (!swap)
                    must(two->reduces(two->h, "dp", 7));
                plan_fixture_finish(&f);
                int rep = r / 4, dp = r % 4;
                int index = rep_last ? 4 * rep + dp : 2 * dp + rep;
                ck_assert_int_eq(cadre_mesh_data_index(&f.mesh), index);
                ck_assert_int_eq(f.plan.first_microbatch, index);
                ck_assert_str_eq(f.plan.reducer[0].plugin, rep_last ? "zero" : "hsdp");
                for (int d = 0; d < 8; d++) {
                    int rank = rep_last ? d : d % 2 * 4 + d / 2;
                    ck_assert_int_eq(cadre_mesh_data_rank(&f.mesh, d), rank);
                }
            }
}
END_TEST

START_TEST(replicas_that_diverge_vary_slowest)
{
    for (int r = 0; r < 8; r++) {
        reopen(r);
        split_both();
        must(two->claim(two->h, "param.diverges", "dp", 0));
        must(one->reduces(one->h, "rep", 200));
        plan_fixture_finish(&f);
        ck_assert_int_eq(cadre_mesh_data_index(&f.mesh), r % 4 * 2 + r / 4);
    }
}
END_TEST

/* Ranks that see parts of the same samples run the same micro-batches. */
START_TEST(time_does_not_count_for_samples)
{
    for (int r = 0; r < 8; r++) {
        reopen(r);
        must(one->use_axis(one->h, "rep", CADRE_BATCH_TIME));
        must(one->claim(one->h, "time.shard", "rep", 0));
        must(two->use_axis(two->h, "dp", CADRE_BATCH_SPLIT));
        must(two->product_axis(two->h, "dp*rep"));
        must(two->reduces(two->h, "dp*rep", 0));
        plan_fixture_finish(&f);
        ck_assert_int_eq(cadre_mesh_data_index(&f.mesh), r % 4);
        ck_assert_int_eq(f.plan.n_microbatches, 2);
        ck_assert(!cadre_rank_plan_settled(&f.plan, &f.request));
        ck_assert_int_eq(f.request.time_ranks, 2);
    }
}
END_TEST

/* ---- parts of the time ---- */

static void split_time(uint32_t level)
{
    must(one->use_axis(one->h, "rep", CADRE_BATCH_TIME));
    must(one->claim(one->h, "time.shard", "rep", 0));
    must(one->reduces(one->h, "rep", level));
    must(two->use_axis(two->h, "dp", CADRE_BATCH_SPLIT));
    must(two->reduces(two->h, "dp", 0));
}

/* Plugins are told of it once it is known. */
START_TEST(a_rank_has_its_part_of_the_time)
{
    for (int r = 0; r < 8; r++) {
        reopen(r);
        for (int pass = 0; pass < 2; pass++) {
            ck_assert_uint_eq(one->time, pass ? 4 : 8);
            split_time(32);
            plan_fixture_finish(&f);
            ck_assert_int_eq(f.plan.time, 4);
            ck_assert_int_eq(f.plan.first_position, r / 4 * 4);
            bool settled = cadre_rank_plan_settled(&f.plan, &f.request);
            ck_assert_int_eq(settled, pass == 1);
            plan_fixture_again(&f);
            one = plan_fixture_plugin(&f, "hsdp", "rep", CADRE_ROLE_DATA);
            two = plan_fixture_plugin(&f, "zero", "dp", CADRE_ROLE_DATA);
        }
    }
    reopen(5);
    plan_fixture_finish(&f);
    ck_assert_int_eq(f.plan.time, 8);
    ck_assert_int_eq(f.plan.first_position, 0);
}
END_TEST

START_TEST(time_that_cannot_be_split)
{
    split_time(32);
    f.request.time = 9;
    plan_fixture_cannot(&f, "samples of 9 tokens (model.context) do not divide evenly "
                            "over the 2 ranks along 'rep'");
    f.request.time = 8;
    f.model->config.classes = 3;
    plan_fixture_cannot(&f, "the time of samples along 'rep', and a classification "
                            "head reads the last token");
}
END_TEST

START_TEST(exact_sums_over_the_time_come_last)
{
    f.request.exact = true;
    split_time(_i == 1 ? 32 : 16);
    if (_i == 0)
        must(two->microbatch_map(two->h, CADRE_MICROBATCHES_CYCLIC, NULL));
    if (_i == 2) {
        reopen(5);
        f.request.exact = true;
        must(one->use_axis(one->h, "rep", CADRE_BATCH_TIME));
        must(one->claim(one->h, "time.shard", "rep", 0));
        must(two->use_axis(two->h, "dp", CADRE_BATCH_SPLIT));
        must(two->product_axis(two->h, "dp*rep"));
        must(two->reduces(two->h, "dp*rep", 0));
    }
    if (_i == 0)
        plan_fixture_cannot(&f, "split over 'rep' needs the sums of whole steps, and "
                                "'zero' maps micro-batches in turn");
    else if (_i == 1)
        plan_fixture_finish(&f);
    else
        plan_fixture_cannot(&f, "needs gradients reduced along it last and alone, and "
                                "'zero' reduces along 'dp*rep' at level 0");
}
END_TEST

/* An inner sum over the time. */
START_TEST(exact_sums_over_the_time_are_not_inner)
{
    f.request.exact = true;
    must(one->use_axis(one->h, "rep", CADRE_BATCH_TIME));
    must(one->claim(one->h, "time.shard", "rep", 0));
    must(one->reduces(one->h, "rep", 0));
    must(two->use_axis(two->h, "dp", CADRE_BATCH_SPLIT));
    must(two->reduces(two->h, "dp", 8));
    plan_fixture_cannot(&f, "'zero' reduces along 'dp' at level 8");
}
END_TEST

/* What an inner level has reduced are the micro-batches of all its ranks. */
START_TEST(an_outer_rank_stands_for_its_group)
{
    int64_t begin, end;
    split_both();
    must(one->reduces(one->h, "rep", 16));
    must(two->reduces(two->h, "dp", 0));
    plan_fixture_finish(&f);
    for (int rep = 0; rep < 2; rep++) {
        cadre_rank_plan_microbatches(&f.plan, cadre_mesh_axis(&f.mesh, "rep"), rep,
                                     &begin, &end);
        ck_assert_int_eq(begin, 4 * rep);
        ck_assert_int_eq(end, 4 * rep + 4);
    }
    for (int dp = 0; dp < 4; dp++) { /* of this rank's replica, 1 */
        cadre_rank_plan_microbatches(&f.plan, cadre_mesh_axis(&f.mesh, "dp"), dp,
                                     &begin, &end);
        ck_assert_int_eq(begin, 4 + dp);
        ck_assert_int_eq(end, 5 + dp);
    }
}
END_TEST

START_TEST(exact_sums_of_an_inner_level_are_nodes)
{
    const struct cadre_axis_request axes[] = {{"rep", 2, "hsdp"}, {"dp", 3, "zero"}};
    plan_fixture_close(&f);
    plan_fixture_open(&f, axes, 2, 0);
    one = plan_fixture_plugin(&f, "hsdp", "rep", CADRE_ROLE_DATA);
    two = plan_fixture_plugin(&f, "zero", "dp", CADRE_ROLE_DATA);
    f.request.microbatches = 12;
    f.request.exact = true;
    split_both();
    must(one->reduces(one->h, "rep", _i ? 0 : 16));
    must(two->reduces(two->h, "dp", 7));
    if (_i)
        plan_fixture_finish(&f); /* pairs, then three of them */
    else
        plan_fixture_cannot(&f, "run.exact needs a power of two of ranks along 'dp', "
                                "whose sums 'hsdp' reduces further, found 3");
}
END_TEST

/* ---- claims that belong together ---- */

START_TEST(sequence_parallelism_is_part_of_tensor_parallelism)
{
    must(one->claim(one->h, "seq.shard", "dp", 0));
    plan_fixture_cannot(&f, "'hsdp' claims seq.shard, but 'no plugin' claims");
    must(two->claim(two->h, "act.complete", "dp", 0));
    plan_fixture_cannot(&f, "'hsdp' claims seq.shard, but 'zero' claims act.complete");
    reopen(5);
    must(one->claim(one->h, "seq.shard", "dp", 0));
    must(one->claim(one->h, "act.complete", "rep", 0));
    plan_fixture_cannot(&f, "one plugin does both, on one axis");
    reopen(5);
    must(one->claim(one->h, "seq.shard", "dp", 0));
    must(one->claim(one->h, "act.complete", "dp", 0));
    plan_fixture_finish(&f);
}
END_TEST

START_TEST(claims_suit_what_ranks_see)
{
    static const struct {
        const char *effect;
        uint32_t use;
        const char *says; /* NULL: fine */
    } cases[] = {
        {"schedule.order", CADRE_BATCH_SAME, NULL},
        {"schedule.order", CADRE_BATCH_SPLIT,
         "plugin 'hsdp' in plan: claim of schedule.order@rep, whose ranks see "
         "different samples; call use_axis('rep', CADRE_BATCH_SAME)"},
        {"act.complete", CADRE_BATCH_SPLIT,
         "act.complete@rep, whose ranks see different"},
        {"act.complete", CADRE_BATCH_INDEPENDENT, "see different samples"},
        {"param.diverges", CADRE_BATCH_SAME,
         "param.diverges@rep, whose ranks see the same samples; call use_axis('rep', "
         "CADRE_BATCH_SPLIT)"},
        {"param.diverges", CADRE_BATCH_SPLIT, NULL},
    };
    must(one->use_axis(one->h, "rep", cases[_i].use));
    must(one->claim(one->h, cases[_i].effect, "rep", 0));
    if (cases[_i].says)
        plan_fixture_cannot(&f, cases[_i].says);
    else
        plan_fixture_finish(&f);
}
END_TEST

/* ---- optimizer ranges ---- */

START_TEST(a_part_for_the_optimizer_needs_its_claim)
{
    uint64_t size = cadre_shape_count(&f.model->params[1].local);
    must(two->place_range(two->h, 1, CADRE_KIND_OPT, 0, size, CADRE_SPACE_HOST));
    plan_fixture_finish(&f); /* the whole, elsewhere */
    must(two->place_range(two->h, 2, CADRE_KIND_OPT, 0, 0, 0));
    plan_fixture_cannot(&f, "but no plugin claims opt.shard");
    must(two->claim(two->h, "opt.shard", "dp", 0));
    plan_fixture_finish(&f);
}
END_TEST

/* ---- storage that a later plugin chooses ---- */

/* The next plan begins with it, so that those before it know: it has other ranges. */
START_TEST(a_form_is_known_in_the_next_plan)
{
    struct cadre_plan_storage storage[64] = {{0}};
    ck_assert_uint_le(f.model->n_params, 64);
    f.request.storage = storage;
    for (int pass = 0; pass < 4; pass++) {
        plan_fixture_again(&f);
        two = plan_fixture_plugin(&f, "zero", "dp", CADRE_ROLE_DATA);
        three = plan_fixture_plugin(&f, "other", NULL, CADRE_ROLE_OBSERVER);
        ck_assert_int_eq(f.plan.param[0].frozen, pass > 0);
        uint64_t size = cadre_rank_plan_stored(&f.plan, 0);
        ck_assert_uint_eq(size, pass ? 136 : 128);
        must(two->place_range(two->h, 0, CADRE_KIND_PARAM, 0, size, 0));
        if (pass < 3) {
            must(three->train(three->h, 0, 0));
            must(three->store(three->h, 0, CADRE_FORM_INT8));
        }
        plan_fixture_finish(&f);
        ck_assert_int_eq(cadre_rank_plan_settled(&f.plan, &f.request), pass == 2);
        ck_assert_int_eq(f.plan.param[0].frozen, pass < 3);
        ck_assert_int_eq(f.plan.param[f.model->n_params - 1].frozen, pass < 3);
        ck_assert_uint_eq(f.plan.param[0].form,
                          pass < 3 ? CADRE_FORM_INT8 : CADRE_FORM_PLAIN);
    }
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("plan_finish");
    TCase *tc = tcase_create("finish");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_split_axis_needs_a_reducer);
    tcase_add_test(tc, replicas_that_diverge_need_none);
    tcase_add_test(tc, split_time_needs_a_reducer_and_a_claim);
    tcase_add_test(tc, time_is_claimed_where_it_is_split);
    tcase_add_test(tc, an_axis_of_the_same_samples_is_not_reduced);
    tcase_add_test(tc, products_and_parts_reduce);
    tcase_add_test(tc, levels_differ);
    tcase_add_loop_test(tc, one_rank_needs_no_reducer, 0, 2);
    tcase_add_test(tc, data_ranks_are_numbered_by_level);
    tcase_add_test(tc, replicas_that_diverge_vary_slowest);
    tcase_add_test(tc, time_does_not_count_for_samples);
    tcase_add_test(tc, a_rank_has_its_part_of_the_time);
    tcase_add_test(tc, time_that_cannot_be_split);
    tcase_add_loop_test(tc, exact_sums_over_the_time_come_last, 0, 3);
    tcase_add_test(tc, exact_sums_over_the_time_are_not_inner);
    tcase_add_test(tc, an_outer_rank_stands_for_its_group);
    tcase_add_loop_test(tc, exact_sums_of_an_inner_level_are_nodes, 0, 2);
    tcase_add_test(tc, sequence_parallelism_is_part_of_tensor_parallelism);
    tcase_add_loop_test(tc, claims_suit_what_ranks_see, 0, 6);
    tcase_add_test(tc, a_part_for_the_optimizer_needs_its_claim);
    tcase_add_test(tc, a_form_is_known_in_the_next_plan);
    suite_add_tcase(s, tc);
    return s;
}
