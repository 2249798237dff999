/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/engine/execute/accumulation.h"
#include "core/engine/layout/plan_session.h"
#include "tests/support/check_main.h"

static struct cadre_error err, said;
static struct cadre_model *model;
static struct cadre_mesh mesh;
static struct cadre_rank_plan plan;
static struct cadre_plan_request request;
static struct cadre_plan_session one, two;

/* Rank 2 of dp:4 with eight micro-batches, seen by the plugins 'ddp' and 'zero'. */
static void setup(void)
{
    const struct cadre_model_config config = {.arch = CADRE_ARCH_GPT2,
                                              .layers = 2,
                                              .channels = 8,
                                              .heads = 2,
                                              .kv_heads = 2,
                                              .hidden = 32,
                                              .context = 8,
                                              .vocab = 16,
                                              .tied = true,
                                              .norm_eps = 1e-5,
                                              .dtype = CADRE_F32};
    const struct cadre_axis_request axes[] = {{"dp", 4, "ddp", NULL}};
    memset(&err, 0, sizeof err);
    memset(&said, 0, sizeof said);
    ck_assert_int_eq(cadre_model_create(&config, 0, 1, &model, &err), CADRE_OK);
    ck_assert_int_eq(cadre_mesh_init(&mesh, axes, 1, 2, &err), CADRE_OK);
    request = (struct cadre_plan_request){
        .model = model, .mesh = &mesh, .microbatches = 8, .batch = 2, .time = 8};
    ck_assert_int_eq(cadre_rank_plan_init(&plan, &request, &err), CADRE_OK);
    cadre_plan_session_init(&one, &plan, &request, "ddp", &said);
    cadre_plan_session_init(&two, &plan, &request, "zero", &said);
}

static void teardown(void)
{
    cadre_rank_plan_fini(&plan);
    cadre_model_destroy(model);
}

static void refused(cadre_status rc, const struct cadre_error *error, const char *text)
{
    ck_assert_int_ne(rc, CADRE_OK);
    ck_assert_msg(strstr(error->text, text) != NULL, "'%s' lacks '%s'", error->text,
                  text);
}

START_TEST(the_abi_says_what_the_run_is)
{
    const struct cadre_plan *abi = &one.abi;
    ck_assert_uint_eq(abi->struct_size, sizeof *abi);
    ck_assert_uint_eq(abi->rank, 2);
    ck_assert_uint_eq(abi->ranks, 4);
    ck_assert_uint_eq(abi->n_units, 4);
    ck_assert_uint_eq(abi->microbatches, 8);
    ck_assert_uint_eq(abi->channels, 8);
    ck_assert_uint_eq(abi->dtype, CADRE_F32);
}
END_TEST

START_TEST(one_owner_of_an_effect_on_an_axis)
{
    ck_assert_int_eq(one.abi.claim(&one, "grad.reduce", "dp", 0), CADRE_OK);
    ck_assert_int_eq(two.abi.claim(&two, "grad.reduce", "mig", 0), CADRE_OK);
    ck_assert_int_eq(two.abi.claim(&two, "opt.shard", "dp", 0), CADRE_OK);
    cadre_status rc = two.abi.claim(&two, "grad.reduce", "dp", 0);
    refused(rc, &said, "'ddp' and 'zero' both claim grad.reduce@dp");
    ck_assert_str_eq(cadre_rank_plan_claimed(&plan, "grad.reduce"), "ddp");
    ck_assert_ptr_null(cadre_rank_plan_claimed(&plan, "act.complete"));
}
END_TEST

START_TEST(shared_claims_need_both_to_share)
{
    uint32_t shared = CADRE_CLAIM_SHARED;
    ck_assert_int_eq(one.abi.claim(&one, "com.x.y", NULL, shared), CADRE_OK);
    ck_assert_int_eq(two.abi.claim(&two, "com.x.y", NULL, shared), CADRE_OK);
    refused(two.abi.claim(&two, "com.x.y", NULL, 0), &said, "both claim com.x.y; only");
}
END_TEST

START_TEST(claims_run_out)
{
    char effect[32];
    for (int i = 0; i < CADRE_MAX_CLAIMS; i++) {
        snprintf(effect, sizeof effect, "com.x.%d", i);
        ck_assert_int_eq(one.abi.claim(&one, effect, "dp", 0), CADRE_OK);
    }
    refused(one.abi.claim(&one, "com.y", "dp", 0), &said, "claims in one stack");
}
END_TEST

START_TEST(axes_are_those_of_the_run)
{
    refused(one.abi.use_axis(&one, "tp", CADRE_BATCH_SAME), &said,
            "'ddp' uses the axis 'tp', which this run does not have");
    memset(&said, 0, sizeof said);
    refused(one.abi.use_axis(&one, "dp", 7), &said, "expected CADRE_BATCH_SPLIT");
    ck_assert_int_eq(one.abi.use_axis(&one, "dp", CADRE_BATCH_SPLIT), CADRE_OK);
    ck_assert_int_eq(cadre_mesh_data_size(&mesh), 4);
}
END_TEST

START_TEST(runs_of_their_own_see_the_whole_batch)
{
    const struct cadre_axis_request axes[] = {{"dp", 4, "ddp", NULL},
                                              {"mig", 2, "mig", NULL}};
    ck_assert_int_eq(cadre_mesh_init(&mesh, axes, 2, 5, &err), CADRE_OK);
    ck_assert_int_eq(one.abi.use_axis(&one, "mig", CADRE_BATCH_INDEPENDENT), CADRE_OK);
    ck_assert_ptr_eq(cadre_mesh_own_runs(&mesh), cadre_mesh_axis(&mesh, "mig"));
    ck_assert_int_eq(cadre_mesh_data_size(&mesh), 1);
    refused(two.abi.use_axis(&two, "dp", CADRE_BATCH_INDEPENDENT), &said,
            "'zero' makes independent runs along the axis 'dp', and another plugin "
            "along 'mig'");
    ck_assert_int_eq(one.abi.use_axis(&one, "mig", CADRE_BATCH_SAME), CADRE_OK);
    ck_assert_ptr_null(cadre_mesh_own_runs(&mesh));
}
END_TEST

START_TEST(block_and_cyclic_maps)
{
    ck_assert_int_eq(one.abi.use_axis(&one, "dp", CADRE_BATCH_SPLIT), CADRE_OK);
    if (_i)
        ck_assert_int_eq(one.abi.microbatch_map(&one, CADRE_MICROBATCHES_CYCLIC),
                         CADRE_OK);
    ck_assert_int_eq(cadre_rank_plan_finish(&plan, &request, &err), CADRE_OK);
    ck_assert_int_eq(plan.n_microbatches, 2);
    ck_assert_int_eq(plan.first_microbatch, _i ? 2 : 4);
    ck_assert_int_eq(plan.microbatch_stride, _i ? 4 : 1);
}
END_TEST

START_TEST(without_a_split_every_rank_has_all_microbatches)
{
    ck_assert_int_eq(one.abi.use_axis(&one, "dp", CADRE_BATCH_SAME), CADRE_OK);
    ck_assert_int_eq(cadre_rank_plan_finish(&plan, &request, &err), CADRE_OK);
    ck_assert_int_eq(plan.n_microbatches, 8);
    ck_assert_int_eq(plan.first_microbatch, 0);
}
END_TEST

START_TEST(two_microbatch_maps_conflict)
{
    ck_assert_int_eq(one.abi.microbatch_map(&one, CADRE_MICROBATCHES_BLOCK), CADRE_OK);
    ck_assert_int_eq(two.abi.microbatch_map(&two, CADRE_MICROBATCHES_BLOCK), CADRE_OK);
    refused(two.abi.microbatch_map(&two, CADRE_MICROBATCHES_CYCLIC), &said,
            "want different maps");
}
END_TEST

static cadre_status finish(int64_t microbatches, int ranks, bool exact, uint32_t map)
{
    mesh.axis[0].size = ranks;
    mesh.axis[0].index = 0;
    request.microbatches = microbatches;
    request.exact = exact;
    ck_assert_int_eq(one.abi.use_axis(&one, "dp", CADRE_BATCH_SPLIT), CADRE_OK);
    ck_assert_int_eq(one.abi.microbatch_map(&one, map), CADRE_OK);
    return cadre_rank_plan_finish(&plan, &request, &err);
}

START_TEST(a_remainder_names_both_keys)
{
    refused(finish(8, 3, false, CADRE_MICROBATCHES_BLOCK), &err, "train.global_batch");
    ck_assert_ptr_nonnull(strstr(err.text, "train.micro_batch"));
    ck_assert_ptr_nonnull(strstr(err.text, "strategy.stack"));
    ck_assert_ptr_nonnull(strstr(err.text, "8 micro-batches"));
    ck_assert_ptr_nonnull(strstr(err.text, "3 data ranks"));
}
END_TEST

START_TEST(exact_needs_powers_of_two)
{
    static const struct {
        int64_t m;
        int n;
        uint32_t map;
        bool good;
    } cases[] = {
        {12, 4, CADRE_MICROBATCHES_BLOCK, false},
        {12, 3, CADRE_MICROBATCHES_BLOCK, true},
        {24, 3, CADRE_MICROBATCHES_BLOCK, true},
        {16, 4, CADRE_MICROBATCHES_BLOCK, true},
        {12, 4, CADRE_MICROBATCHES_CYCLIC, true},
        {12, 3, CADRE_MICROBATCHES_CYCLIC, false},
        {7, 1, CADRE_MICROBATCHES_BLOCK, true},
        {7, 1, CADRE_MICROBATCHES_CYCLIC, true},
    };
    ck_assert_int_eq(finish(cases[_i].m, cases[_i].n, false, cases[_i].map), CADRE_OK);
    cadre_status rc = finish(cases[_i].m, cases[_i].n, true, cases[_i].map);
    if (cases[_i].good)
        ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    else
        refused(rc, &err, "run.exact");
}
END_TEST

START_TEST(chunks_are_checked)
{
    static const uint32_t bad[][3] = {{0, 0, 1}, {2, 1, 1}, {0, 5, 1}, {0, 4, 0}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        memset(&said, 0, sizeof said);
        refused(one.abi.chunk(&one, bad[i][0], bad[i][1], bad[i][2], 0), &said,
                "expected 0 <= begin < end <= 4");
    }
    for (int i = 0; i < CADRE_MAX_CHUNKS; i++)
        ck_assert_int_eq(one.abi.chunk(&one, 1, 2, 1, 0), CADRE_OK);
    memset(&said, 0, sizeof said);
    refused(one.abi.chunk(&one, 1, 2, 1, 0), &said, "chunks");
}
END_TEST

START_TEST(presence_follows_the_chunks)
{
    ck_assert_int_eq(one.abi.chunk(&one, 1, 2, 3, CADRE_LIVE_SPLIT), CADRE_OK);
    ck_assert_int_eq(cadre_rank_plan_finish(&plan, &request, &err), CADRE_OK);
    ck_assert(plan.chunk[0].split);
    ck_assert_uint_eq(plan.chunk[0].live, 3);
    for (uint32_t i = 0; i < model->n_params; i++)
        ck_assert_int_eq(plan.param[i].present, model->params[i].unit == 1);
}
END_TEST

/* Stage 0 owns the weight and waits for the head's gradient, stage 1 keeps a copy. */
START_TEST(a_tied_head_on_another_stage)
{
    uint32_t end = model->n_units, head = model->n_params - 1;
    ck_assert_int_eq(model->params[head].tied_to, 0);
    ck_assert_int_eq(one.abi.chunk(&one, _i ? 2 : 0, _i ? end : 2, 1, 0), CADRE_OK);
    ck_assert_int_eq(cadre_rank_plan_finish(&plan, &request, &err), CADRE_OK);
    ck_assert_int_eq(plan.param[0].copied, _i);
    ck_assert_int_eq(plan.param[head].elsewhere, !_i);
    ck_assert_int_eq(plan.param[0].present, !_i);
}
END_TEST

START_TEST(ranges_are_inside_their_parameter)
{
    uint64_t size = cadre_shape_count(&model->params[1].local);
    static const char *const external = "elements";
    refused(one.abi.place_range(&one, 1, CADRE_KIND_OPT, 0, size + 1, 0), &said,
            external);
    memset(&said, 0, sizeof said);
    refused(one.abi.place_range(&one, 1, CADRE_KIND_OPT, size + 1, 0, 0), &said,
            external);
    memset(&said, 0, sizeof said);
    refused(one.abi.place_range(&one, 1, CADRE_KIND_OPT, 2, UINT64_MAX, 0), &said,
            external);
    memset(&said, 0, sizeof said);
    refused(one.abi.place_range(&one, model->n_params, CADRE_KIND_OPT, 0, 0, 0), &said,
            "no such parameter or kind");
    memset(&said, 0, sizeof said);
    refused(one.abi.place_range(&one, 1, 4, 0, 0, 0), &said,
            "no such parameter or kind");
    memset(&said, 0, sizeof said);
    refused(one.abi.place_range(&one, 1, CADRE_KIND_GRAD, 0, 1, CADRE_SPACE_HOST),
            &said, "only optimizer states can lie outside the device");
    memset(&said, 0, sizeof said);
    refused(one.abi.place_range(&one, 1, CADRE_KIND_OPT, 0, size, 3), &said,
            "in space 3");
    ck_assert_int_eq(one.abi.place_range(&one, 1, CADRE_KIND_OPT, size, 0, 0),
                     CADRE_OK);
    ck_assert(plan.param[1].share[CADRE_KIND_OPT].placed);
    memset(&said, 0, sizeof said);
    refused(two.abi.place_range(&two, 1, CADRE_KIND_OPT, 0, size, 0), &said,
            "'zero' places");
    ck_assert_int_eq(two.abi.place_range(&two, 1, CADRE_KIND_GRAD, 0, 1, 0), CADRE_OK);
}
END_TEST

START_TEST(planned_memory_is_noted_under_its_plugin)
{
    ck_assert_int_eq(one.abi.memory(&one, CADRE_SPACE_HOST, 4096, "staging"), CADRE_OK);
    ck_assert_uint_eq(plan.planned.now_bytes, 4096);
    ck_assert_str_eq(plan.planned.entry[0].tag, "ddp: staging");
}
END_TEST

START_TEST(levels_of_the_accumulation)
{
    static const int levels[] = {0, 0, 1, 2, 2, 3, 3, 3, 3, 4};
    for (int n = 1; n < 10; n++)
        ck_assert_int_eq(cadre_accumulation_levels(n), levels[n]);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("rank_plan");
    TCase *tc = tcase_create("plan");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, the_abi_says_what_the_run_is);
    tcase_add_test(tc, one_owner_of_an_effect_on_an_axis);
    tcase_add_test(tc, shared_claims_need_both_to_share);
    tcase_add_test(tc, claims_run_out);
    tcase_add_test(tc, axes_are_those_of_the_run);
    tcase_add_test(tc, runs_of_their_own_see_the_whole_batch);
    tcase_add_loop_test(tc, block_and_cyclic_maps, 0, 2);
    tcase_add_test(tc, without_a_split_every_rank_has_all_microbatches);
    tcase_add_test(tc, two_microbatch_maps_conflict);
    tcase_add_test(tc, a_remainder_names_both_keys);
    tcase_add_loop_test(tc, exact_needs_powers_of_two, 0, 8);
    tcase_add_test(tc, chunks_are_checked);
    tcase_add_test(tc, presence_follows_the_chunks);
    tcase_add_loop_test(tc, a_tied_head_on_another_stage, 0, 2);
    tcase_add_test(tc, ranges_are_inside_their_parameter);
    tcase_add_test(tc, planned_memory_is_noted_under_its_plugin);
    tcase_add_test(tc, levels_of_the_accumulation);
    suite_add_tcase(s, tc);
    return s;
}
