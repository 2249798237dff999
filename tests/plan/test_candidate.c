/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/candidate.h"

#include <string.h>

#include "tests/plan/plan_fixture.h"
#include "tests/support/check_main.h"

#define AT(t, p, x, d, v, type)                                                        \
    {                                                                                  \
        .tensor = (t), .pipeline = (p), .context = (x), .data = (d), .chunks = (v),    \
        .micro_batch = 1, .global_batch = 16, .dtype = CADRE_PLAN_##type               \
    }
static const struct {
    struct cadre_candidate c;
    const char *why;
} wrong[] = {
    {AT(3, 1, 1, 1, 1, BF16), "tensor 3 does not divide heads 16"},
    {AT(1, 9, 1, 1, 1, BF16), "pipeline 9 is more than layers 8"},
    {AT(1, 1, 3, 1, 1, BF16), "context ranks 3 do not divide 1024"},
    {AT(1, 1, 1, 3, 1, BF16), "3 do not divide global batch 16"},
    {AT(1, 1, 1, 1, 2, BF16), "chunks 2 need a pipeline"},
    {AT(1, 4, 1, 1, 3, BF16), "chunks 3 are more than layers of a stage, 2"},
    {AT(1, 4, 1, 8, 2, BF16), "stages 4 are more than micro-batches 2"},
    {AT(1, 1, 1, 1, 1, FP8), "has no peak for fp8"},
};

START_TEST(refuses)
{
    struct cadre_error err;
    const cadre_status rc =
        cadre_candidate_check(&wrong[_i].c, &small_model, &round_machine, &err);
    ck_assert_int_ne(rc, CADRE_OK);
    ck_assert_msg(strstr(err.text, wrong[_i].why) != NULL, "%s", err.text);
}
END_TEST

START_TEST(a_stack_as_an_option_has_it)
{
    char text[80];
    struct cadre_candidate c = one_rank;
    cadre_candidate_stack(&c, text, sizeof text);
    ck_assert_str_eq(text, "single");
    c.tensor = 8, c.pipeline = 4, c.data = 2;
    cadre_candidate_stack(&c, text, sizeof text);
    ck_assert_str_eq(text, "pipeline:4, ddp:2, tensor:8");
    c.zero = 3, c.pipeline = 1;
    cadre_candidate_stack(&c, text, sizeof text);
    ck_assert_str_eq(text, "zero:2, tensor:8");
    ck_assert_int_eq(cadre_candidate_ranks(&c), 16);
    ck_assert_int_eq(cadre_candidate_micro_batches(&c), 8);
}
END_TEST

/* Megatron takes whole groups of an interleaved pipeline alone. */
START_TEST(interleaved_groups_of_megatron)
{
    struct cadre_error err;
    struct cadre_hardware hw = round_machine;
    struct cadre_candidate c = one_rank;
    c.pipeline = 4, c.chunks = 2, c.global_batch = 6;
    ck_assert_int_eq(cadre_candidate_check(&c, &small_model, &hw, &err), CADRE_OK);
    hw.accounting = CADRE_ACCOUNTING_MEGATRON;
    ck_assert_int_ne(cadre_candidate_check(&c, &small_model, &hw, &err), CADRE_OK);
    ck_assert_ptr_nonnull(strstr(err.text, "does not divide micro-batches 6"));
    c.schedule = CADRE_PLAN_DUALPIPEV;
    ck_assert_int_ne(cadre_candidate_check(&c, &small_model, &hw, &err), CADRE_OK);
    ck_assert_ptr_nonnull(strstr(err.text, "dualpipev"));
}
END_TEST

START_TEST(groups_of_shards_and_their_form)
{
    char text[CADRE_CANDIDATE_FORM];
    struct cadre_candidate c = one_rank;
    c.data = 8, c.replicas = 2, c.zero = 3, c.pipeline = 2;
    c.schedule = CADRE_PLAN_ZB_H1;
    cadre_candidate_stack(&c, text, sizeof text);
    ck_assert_str_eq(text, "pipeline:2, hsdp:2, zero:4");
    ck_assert_int_eq(cadre_candidate_shards(&c), 4);
    ck_assert(cadre_candidate_splits(&c) && !cadre_candidate_turns_back(&c));
    cadre_candidate_form(&c, text, sizeof text);
    ck_assert_str_eq(text, "stage 3, micro-batch 1, zb-h1 of 1 chunk, recompute none, "
                           "bf16");
    c.chunks = 2, c.schedule = CADRE_PLAN_1F1B;
    ck_assert_int_eq(cadre_candidate_schedule(&c), CADRE_PLAN_INTERLEAVED);
}
END_TEST

START_TEST(the_largest_stage_of_uneven_ones)
{
    struct cadre_candidate c = one_rank;
    c.pipeline = 3;
    ck_assert_int_eq(cadre_candidate_stage_layers(&c, &small_model), 3);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("candidate");
    TCase *tc = tcase_create("candidate");
    tcase_add_loop_test(tc, refuses, 0, (int)(sizeof wrong / sizeof *wrong));
    tcase_add_test(tc, a_stack_as_an_option_has_it);
    tcase_add_test(tc, interleaved_groups_of_megatron);
    tcase_add_test(tc, groups_of_shards_and_their_form);
    tcase_add_test(tc, the_largest_stage_of_uneven_ones);
    suite_add_tcase(s, tc);
    return s;
}
