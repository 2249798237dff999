/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "tests/engine/plan_fixture.h"
#include "tests/support/check_main.h"

static struct plan_fixture f;
static const struct cadre_plan *one, *two, *muon;

/* Rank 2 of dp:4. Parameter 0 is the embedding (16, 8), tied to the head. */
static void setup(void)
{
    const struct cadre_axis_request axes[] = {{"dp", 4, "ddp"}};
    plan_fixture_open(&f, axes, 1, 2);
    one = plan_fixture_plugin(&f, "ddp", "dp", CADRE_ROLE_DATA);
    two = plan_fixture_plugin(&f, "zero", "dp", CADRE_ROLE_DATA);
    muon = plan_fixture_plugin(&f, "muon", NULL, CADRE_ROLE_OPTIMIZER);
}

static void teardown(void)
{
    plan_fixture_close(&f);
}

/* ---- ranges ---- */

START_TEST(ranges_are_inside_their_parameter)
{
    uint64_t size = cadre_shape_count(&f.model->params[1].local);
    static const char *const outside = "elements";
    plan_fixture_refused(
        &f, one->place_range(one->h, 1, CADRE_KIND_OPT, 0, size + 1, 0), outside);
    plan_fixture_refused(
        &f, one->place_range(one->h, 1, CADRE_KIND_OPT, size + 1, 0, 0), outside);
    plan_fixture_refused(
        &f, one->place_range(one->h, 1, CADRE_KIND_OPT, 2, UINT64_MAX, 0), outside);
    plan_fixture_refused(
        &f, one->place_range(one->h, f.model->n_params, CADRE_KIND_OPT, 0, 0, 0),
        "no such parameter or kind");
    plan_fixture_refused(&f, one->place_range(one->h, 1, 4, 0, 0, 0),
                         "no such parameter or kind");
    plan_fixture_refused(&f, one->place_range(one->h, 1, 0, 0, 0, 0),
                         "no such parameter or kind");
    plan_fixture_refused(
        &f, one->place_range(one->h, 1, CADRE_KIND_GRAD, 0, 1, CADRE_SPACE_HOST),
        "only optimizer states can lie outside the device");
    plan_fixture_refused(&f, one->place_range(one->h, 1, CADRE_KIND_OPT, 0, size, 3),
                         "in space 3");
    plan_fixture_refused(&f, one->place_range(one->h, 1, CADRE_KIND_OPT, 1, 5, 0),
                         "expected whole units of 4096 elements (range_unit)");
    ck_assert_int_eq(one->place_range(one->h, 1, CADRE_KIND_OPT, size, 0, 0), CADRE_OK);
    ck_assert(f.plan.param[1].share[CADRE_KIND_OPT].placed);
    ck_assert_str_eq(f.plan.param[1].placer[CADRE_KIND_OPT], "ddp");
    plan_fixture_refused(&f, two->place_range(two->h, 1, CADRE_KIND_OPT, 0, size, 0),
                         "'zero' places 'transformer.wpe.weight', kind 3, which 'ddp' "
                         "placed already");
    ck_assert_int_eq(two->place_range(two->h, 1, CADRE_KIND_GRAD, 0, 1, 0), CADRE_OK);
}
END_TEST

/* 128 elements of int8 are two blocks of 64 codes and a scale. */
START_TEST(ranges_of_a_form_are_whole_blocks)
{
    uint32_t elements, bytes;
    cadre_rank_plan_block(&f.plan, 0, &elements, &bytes);
    ck_assert_uint_eq(elements, 1);
    ck_assert_uint_eq(bytes, 4);
    ck_assert_uint_eq(cadre_rank_plan_stored(&f.plan, 0), 128);
    ck_assert_int_eq(one->train(one->h, 0, 0), CADRE_OK);
    ck_assert_int_eq(one->store(one->h, 0, CADRE_FORM_INT8), CADRE_OK);
    cadre_rank_plan_block(&f.plan, 0, &elements, &bytes);
    ck_assert_uint_eq(elements, 64);
    ck_assert_uint_eq(bytes, 68);
    ck_assert_uint_eq(cadre_rank_plan_stored(&f.plan, 0), 136);
    plan_fixture_refused(&f, two->place_range(two->h, 0, CADRE_KIND_PARAM, 0, 128, 0),
                         "expected whole blocks of 68 bytes");
    plan_fixture_refused(&f, two->place_range(two->h, 0, CADRE_KIND_PARAM, 68, 136, 0),
                         "which has 136 bytes");
    ck_assert_int_eq(two->place_range(two->h, 0, CADRE_KIND_PARAM, 68, 68, 0),
                     CADRE_OK);
    plan_fixture_finish(&f);
    /* 8 elements are one block, padded */
    for (uint32_t i = 0; i < f.model->n_params; i++)
        if (cadre_shape_count(&f.model->params[i].local) == 8) {
            one->train(one->h, i, 0);
            ck_assert_int_eq(one->store(one->h, i, CADRE_FORM_INT8), CADRE_OK);
            ck_assert_uint_eq(cadre_rank_plan_stored(&f.plan, i), 68);
        }
}
END_TEST

START_TEST(a_range_before_its_form_is_checked_at_the_end)
{
    ck_assert_int_eq(two->place_range(two->h, 0, CADRE_KIND_PARAM, 0, 100, 0),
                     CADRE_OK);
    ck_assert_int_eq(one->train(one->h, 0, 0), CADRE_OK);
    ck_assert_int_eq(one->store(one->h, 0, CADRE_FORM_INT8), CADRE_OK);
    plan_fixture_cannot(&f, "plugin 'zero' in plan: range [0, +100) of "
                            "'transformer.wte.weight', which 'ddp' stores in another "
                            "form; expected whole blocks of its 136 bytes, 68 each");
}
END_TEST

/* ---- memory ---- */

START_TEST(planned_memory_is_noted_under_its_plugin)
{
    ck_assert_int_eq(one->memory(one->h, CADRE_SPACE_HOST, 4096, "staging"), CADRE_OK);
    ck_assert_int_eq(one->memory(one->h, CADRE_SPACE_HOST, 4, "staging"), CADRE_OK);
    ck_assert_int_eq(two->memory(two->h, CADRE_SPACE_HOST, 1, "staging"), CADRE_OK);
    ck_assert_uint_eq(f.plan.planned.now_bytes, 4101);
    ck_assert_str_eq(f.plan.planned.entry[0].tag, "ddp: staging");
    ck_assert_uint_eq(
        cadre_rank_plan_budget(&f.plan, "ddp", CADRE_SPACE_HOST, "staging"), 4100);
    ck_assert_uint_eq(
        cadre_rank_plan_budget(&f.plan, "zero", CADRE_SPACE_HOST, "staging"), 1);
    ck_assert_uint_eq(
        cadre_rank_plan_budget(&f.plan, "ddp", CADRE_SPACE_DEVICE, "staging"), 0);
    ck_assert_uint_eq(cadre_rank_plan_budget(&f.plan, "ddp", CADRE_SPACE_HOST, "other"),
                      0);
}
END_TEST

START_TEST(wrong_memory_is_refused)
{
    static const char *const tag31 = "a23456789012345678901234567890b";
    char text[16];
    plan_fixture_refused(&f, one->memory(one->h, 0, 1, NULL), "with the tag '(NULL)'");
    plan_fixture_refused(&f, one->memory(one->h, 0, 1, ""), "expected 1 to 31");
    plan_fixture_refused(&f,
                         one->memory(one->h, 0, 1, "a23456789012345678901234567890bc"),
                         "expected 1 to 31");
    plan_fixture_refused(&f, one->memory(one->h, 3, 1, "x"), "in space 3");
    plan_fixture_refused(&f, one->memory(one->h, 0, UINT64_MAX, "x"), "at most 2^60");
    ck_assert_int_eq(one->memory(one->h, 0, 1, tag31), CADRE_OK);
    ck_assert_uint_eq(cadre_rank_plan_budget(&f.plan, "ddp", 0, tag31), 1);
    for (int i = 1; i < CADRE_MAX_BUDGETS; i++) {
        snprintf(text, sizeof text, "tag %d", i);
        ck_assert_int_eq(one->memory(one->h, 0, 1, text), CADRE_OK);
    }
    plan_fixture_refused(&f, one->memory(one->h, 0, 1, "more"),
                         "more than 64 tags in one stack");
    ck_assert_int_eq(one->memory(one->h, 0, 1, tag31), CADRE_OK);
}
END_TEST

/* ---- frozen parameters ---- */

START_TEST(a_tied_entry_is_frozen_with_its_owner)
{
    uint32_t head = f.model->n_params - 1;
    plan_fixture_refused(&f, one->train(one->h, head, 0),
                         "train of 'lm_head.weight', which is tied to "
                         "'transformer.wte.weight'; name that one");
    ck_assert_int_eq(one->train(one->h, 0, 0), CADRE_OK);
    ck_assert(f.plan.param[0].frozen);
    ck_assert_str_eq(f.plan.param[0].froze, "ddp");
    plan_fixture_finish(&f);
    ck_assert(f.plan.param[head].frozen);
    ck_assert(!f.plan.param[1].frozen);
}
END_TEST

START_TEST(one_plugin_freezes)
{
    ck_assert_int_eq(one->train(one->h, 1, 0), CADRE_OK);
    ck_assert_int_eq(two->train(two->h, 1, 0), CADRE_OK);
    plan_fixture_refused(&f, one->train(one->h, 1, 1),
                         "'ddp' trains 'transformer.wpe.weight', which 'zero' has "
                         "frozen");
    ck_assert_int_eq(two->train(two->h, 1, 1), CADRE_OK);
    ck_assert(!f.plan.param[1].frozen);
    plan_fixture_refused(&f, one->train(one->h, 1, 2), "expected 0 (frozen) or 1");
    plan_fixture_refused(&f, one->train(one->h, 999, 0),
                         "train of parameter 999, expected less than");
}
END_TEST

START_TEST(forms_are_of_frozen_parameters)
{
    static const uint32_t wrong[] = {CADRE_FORM_F8, 77};
    for (int i = 0; i < 2; i++)
        plan_fixture_refused(&f, one->store(one->h, 1, wrong[i]),
                             "this version does not know the form");
    ck_assert_int_eq(one->store(one->h, 1, CADRE_FORM_INT8), CADRE_OK);
    plan_fixture_refused(&f, two->store(two->h, 1, CADRE_FORM_PLAIN),
                         "'ddp' and 'zero' store 'transformer.wpe.weight' in different "
                         "forms");
    ck_assert_int_eq(two->store(two->h, 1, CADRE_FORM_INT8), CADRE_OK);
    plan_fixture_cannot(&f,
                        "plugin 'zero' in plan: store('transformer.wpe.weight'): it "
                        "is trained");
    ck_assert_int_eq(one->train(one->h, 1, 0), CADRE_OK);
    plan_fixture_finish(&f);
    plan_fixture_refused(&f, one->store(one->h, f.model->n_params - 1, 1),
                         "is tied to");
}
END_TEST

/* ---- the optimizer ---- */

static struct cadre_opt_state state_of(uint32_t param, const char *key, uint32_t extent)
{
    return (struct cadre_opt_state){.struct_size = sizeof(struct cadre_opt_state),
                                    .param = param,
                                    .key = key,
                                    .dtype = CADRE_F32,
                                    .extent = extent,
                                    .block = 1};
}

START_TEST(states_are_listed_in_order)
{
    struct cadre_opt_state a = state_of(1, "momentum", CADRE_OPT_ELEMENTS);
    struct cadre_opt_state b = state_of(0, "rows", CADRE_OPT_ROWS);
    a.block = 64;
    a.dtype = CADRE_I8;
    ck_assert_int_eq(muon->opt_state(muon->h, &a), CADRE_OK);
    ck_assert_int_eq(muon->opt_state(muon->h, &b), CADRE_OK);
    ck_assert_int_eq(muon->opt_matrix(muon->h, 0), CADRE_OK);
    plan_fixture_finish(&f);
    ck_assert_uint_eq(f.plan.n_states, 2);
    ck_assert_uint_eq(f.plan.state[0].param, 1);
    ck_assert_str_eq(f.plan.state[0].key, "momentum");
    ck_assert_uint_eq(f.plan.state[0].block, 64);
    ck_assert_uint_eq(f.plan.state[0].dtype, CADRE_I8);
    ck_assert_uint_eq(f.plan.state[1].extent, CADRE_OPT_ROWS);
    ck_assert(f.plan.param[0].matrix && !f.plan.param[1].matrix);
    plan_fixture_refused(&f, muon->opt_state(muon->h, &a),
                         "opt_state 'momentum' of 'transformer.wpe.weight' twice");
}
END_TEST

START_TEST(rows_are_of_whole_matrices)
{
    struct cadre_opt_state b = state_of(0, "rows", CADRE_OPT_ROWS);
    ck_assert_int_eq(muon->opt_state(muon->h, &b), CADRE_OK);
    plan_fixture_cannot(&f,
                        "opt_state 'rows' of 'transformer.wte.weight' has one value "
                        "per row or column");
}
END_TEST

START_TEST(only_an_optimizer_has_states)
{
    struct cadre_opt_state a = state_of(1, "momentum", CADRE_OPT_ELEMENTS);
    plan_fixture_refused(&f, one->opt_state(one->h, &a),
                         "opt_state: only a plugin of the role CADRE_ROLE_OPTIMIZER");
    plan_fixture_refused(&f, one->opt_matrix(one->h, 0), "opt_matrix: only a plugin");
}
END_TEST

/* A parameter of one dimension. */
static uint32_t vector(void)
{
    uint32_t i = 0;
    while (f.model->params[i].shape.ndim != 1)
        i++;
    return i;
}

START_TEST(wrong_states_are_refused)
{
    static const struct {
        const char *key;
        uint32_t dtype, extent, block;
        const char *why;
    } wrong[] = {
        {NULL, CADRE_F32, 1, 1, "with the key '(NULL)'"},
        {"", CADRE_F32, 1, 1, "with the key ''"},
        {"Momentum", CADRE_F32, 1, 1, "with the key 'Momentum'"},
        {"a-b", CADRE_F32, 1, 1, "expected 1 to 47 of [a-z0-9_]"},
        {"a23456789012345678901234567890123456789012345678", CADRE_F32, 1, 1,
         "expected 1 to 47"},
        {"m", 0, 1, 1, "with the dtype 0"},
        {"m", CADRE_F8_E4M3, 1, 1, "with the dtype 8"},
        {"m", CADRE_F32, 0, 1, "with the extent 0"},
        {"m", CADRE_F32, 4, 1, "with the extent 4"},
        {"m", CADRE_F32, 1, 0, "with blocks of 0"},
        {"m", CADRE_F32, 1, 3, "with blocks of 3, expected a divisor of 4096"},
        {"m", CADRE_F32, 2, 2, "with blocks of 2, expected a divisor of 1"},
    };
    struct cadre_opt_state state = state_of(0, wrong[_i].key, wrong[_i].extent);
    state.dtype = wrong[_i].dtype;
    state.block = wrong[_i].block;
    plan_fixture_refused(&f, muon->opt_state(muon->h, &state), wrong[_i].why);
    ck_assert_uint_eq(f.plan.n_states, 0);
}
END_TEST

START_TEST(states_and_matrices_are_of_parameters)
{
    struct cadre_opt_state state = state_of(vector(), "m", CADRE_OPT_COLUMNS);
    ck_assert_int_eq(muon->opt_state(muon->h, &state), CADRE_OK);
    ck_assert_int_eq(muon->opt_matrix(muon->h, vector()), CADRE_OK);
    plan_fixture_refused(&f, muon->opt_matrix(muon->h, f.model->n_params),
                         "expected less");
    plan_fixture_refused(&f, muon->opt_matrix(muon->h, f.model->n_params - 1),
                         "is tied");
    plan_fixture_refused(&f, muon->opt_state(muon->h, NULL), "the state is NULL");
    state.struct_size = 8;
    plan_fixture_refused(&f, muon->opt_state(muon->h, &state),
                         "the state is too small");
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("plan_params");
    TCase *tc = tcase_create("params");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, ranges_are_inside_their_parameter);
    tcase_add_test(tc, ranges_of_a_form_are_whole_blocks);
    tcase_add_test(tc, a_range_before_its_form_is_checked_at_the_end);
    tcase_add_test(tc, planned_memory_is_noted_under_its_plugin);
    tcase_add_test(tc, wrong_memory_is_refused);
    tcase_add_test(tc, a_tied_entry_is_frozen_with_its_owner);
    tcase_add_test(tc, one_plugin_freezes);
    tcase_add_test(tc, forms_are_of_frozen_parameters);
    tcase_add_test(tc, states_are_listed_in_order);
    tcase_add_test(tc, rows_are_of_whole_matrices);
    tcase_add_test(tc, only_an_optimizer_has_states);
    tcase_add_loop_test(tc, wrong_states_are_refused, 0, 12);
    tcase_add_test(tc, states_and_matrices_are_of_parameters);
    suite_add_tcase(s, tc);
    return s;
}
