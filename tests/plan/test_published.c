/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/published.h"

#include <stdio.h>
#include <string.h>

#include "tests/plan/plan_fixture.h"
#include "tests/support/check_main.h"

static char *dir;
static struct cadre_csv csv;
static struct cadre_published row;
static struct cadre_error err;

static void setup(void)
{
    dir = test_tmpdir();
}

static void teardown(void)
{
    cadre_csv_fini(&csv);
    test_tmpdir_destroy(dir);
}

static const char names[] =
    "set,source,hw,model,heads,kv,hidden,ffn,layers,vocab,seq,tp,pp,cp,vp,dp,zero,gpus,"
    "mbs,gbs,recompute,dtype,metric,value,experts\n";

static cadre_status read_row(const char *fields)
{
    char text[1024];
    snprintf(text, sizeof text, "%s%s\n", names, fields);
    cadre_csv_fini(&csv);
    ck_assert_int_eq(cadre_csv_load(&csv,
                                    test_file_put(dir, "p.csv", text, strlen(text)),
                                    ',', &err),
                     CADRE_OK);
    return cadre_published_read(&row, &csv, 0, &err);
}

#define HEAD "S,a paper,a machine,M,16,16,1024,4096,12,32000,1024,"

START_TEST(a_row_with_all_that_is_printed)
{
    ck_assert_int_eq(read_row(HEAD "2,4,1,3,2,1,16,2,64,selective+sp,fp16,s_per_step,"
                                   "1.5,"),
                     CADRE_OK);
    ck_assert_str_eq(row.set, "S");
    ck_assert_str_eq(row.hw, "a machine");
    ck_assert_int_eq(row.candidate.chunks, 3);
    ck_assert_int_eq(row.candidate.recompute, CADRE_PLAN_RECOMPUTE_SELECTIVE);
    ck_assert(row.candidate.sequence_parallel && row.chunks_given);
    ck_assert(!row.transformer.gated);
    ck_assert_double_eq(row.seconds, 1.5);
}
END_TEST

/* Data ranks follow from the GPUs; 3 chunks where they divide the layers of a stage. */
START_TEST(what_is_not_printed_is_chosen_by_the_rule)
{
    ck_assert_int_eq(read_row(HEAD "1,2,1,,,,16,,64,full,bf16,tok_s_gpu,1000,"),
                     CADRE_OK);
    ck_assert_int_eq(row.candidate.data, 8);
    ck_assert(!row.chunks_given && !row.micro_batch_given);
    ck_assert_int_eq(cadre_published_settle(&row, &round_machine, &err), CADRE_OK);
    ck_assert_int_eq(row.candidate.chunks, 3);
    ck_assert_int_ge(row.candidate.micro_batch, 1);
    ck_assert_int_eq(
        cadre_candidate_check(&row.candidate, &row.transformer, &round_machine, &err),
        CADRE_OK);
    ck_assert_double_eq_tol(row.seconds, 64 * 1024 / (1000.0 * 16), 1e-9);
}
END_TEST

START_TEST(a_metric_is_its_own_inverse)
{
    static const char *const metrics[] = {"s_per_step",    "TFLOPs_eq3", "model_TFLOPs",
                                          "causal_TFLOPs", "tok_s_gpu",  "tok_s"};
    char text[256];
    snprintf(text, sizeof text, HEAD "1,1,1,1,8,0,8,1,64,none,bf16,%s,123.5,",
             metrics[_i]);
    ck_assert_int_eq(read_row(text), CADRE_OK);
    ck_assert_double_eq_tol(cadre_published_convert(&row, row.seconds), 123.5, 1e-9);
}
END_TEST

/* Other orders, cases and line ends; quotes; fields that are not there. */
START_TEST(columns_in_any_order_and_what_is_empty)
{
    static const char text[] =
        "value,Metric,GBS,mbs,ga,tp,DP,seq,layers,hidden,model,hw,set,year\r\n"
        "\"1.5\",S_per_step,-,2,4,2,n/a,1024,12,1024,\"M, a model\",m,S,2024\r\n"
        "1.5,s_per_step,,2,4,2,8,1024,12,1024,M,m,S,2024\r\n";
    const char *path = test_file_put(dir, "p.csv", text, strlen(text));
    ck_assert_int_eq(cadre_csv_load_ragged(&csv, path, ',', &err), CADRE_OK);
    ck_assert_int_ne(cadre_published_read(&row, &csv, 0, &err), CADRE_OK);
    ck_assert_msg(strstr(err.text, "gpus and dp are empty") != NULL, "%s", err.text);
    ck_assert_int_eq(cadre_published_read(&row, &csv, 1, &err), CADRE_OK);
    ck_assert_int_eq(cadre_candidate_ranks(&row.candidate), 16);
    ck_assert_int_eq(row.candidate.global_batch, 64);
    ck_assert_int_eq(row.transformer.heads, 8);
    ck_assert_int_eq(row.candidate.dtype, CADRE_PLAN_BF16);
    ck_assert_str_eq(row.assumed, "heads, vocab, recompute, dtype");
}
END_TEST

/* 6N + 12LHQT of Chowdhery et al. 2022, appendix B; half of the latter where a row says
 * so. */
START_TEST(the_mfu_of_palm_counts_all_scores)
{
    const double weights = 12.0 * 12 * 1024 * 1024 + 32000.0 * 1024;
    const double scores = 12.0 * 12 * 1024 * 1024;
    ck_assert_int_eq(read_row(HEAD "1,1,1,1,8,0,8,1,64,none,bf16,model_TFLOPs,100,"),
                     CADRE_OK);
    ck_assert_double_eq_tol(row.seconds, 64 * 1024 * (6 * weights + scores) / 8e14,
                            1e-9);
    ck_assert_int_eq(read_row(HEAD "1,1,1,1,8,0,8,1,64,none,bf16,causal_TFLOPs,100,"),
                     CADRE_OK);
    ck_assert_double_eq_tol(row.seconds, 64 * 1024 * (6 * weights + scores / 2) / 8e14,
                            1e-9);
}
END_TEST

static const struct {
    const char *fields, *why;
} wrong[] = {
    {HEAD "1,1,1,1,4,0,8,1,64,none,bf16,s_per_step,1,", "is 4 ranks, gpus is 8"},
    {HEAD "1,1,1,1,8,0,8,,,none,bf16,s_per_step,1,", "gbs is empty"},
    {HEAD "9000000,9000000,9000000,1,9000000,0,8,1,64,none,bf16,s_per_step,1,",
     "ranks, gpus is 8"},
    {HEAD "16,1,1,1,,0,8,1,64,none,bf16,s_per_step,1,", "is 0 ranks, gpus is 8"},
    {HEAD "1,1,1,1,8,0,8,1,64000000000,none,bf16,s_per_step,1,",
     "gbs is '64000000000'"},
    {HEAD "1,1,1,1,8,0,8,1,64,none,int4,s_per_step,1,", "dtype is 'int4'"},
    {HEAD "1,1,1,1,8,0,8,1,64,some,bf16,s_per_step,1,", "recompute is 'some'"},
    {HEAD "1,1,1,1,8,0,8,1,64,none,bf16,days,1,", "metric is 'days'"},
    {HEAD "1,1,1,1,8,0,8,1,64,none,bf16,s_per_step,fast,", "value is 'fast'"},
    {HEAD "1,1,1,1,8,0,8,1,64,none,bf16,s_per_step,-1,", "value is '-1'"},
    {HEAD "1,1,1,1,8,4,8,1,64,none,bf16,s_per_step,1,", "zero is 4"},
    {HEAD "1,1,1,1,8,0,8,1.5,64,none,bf16,s_per_step,1,", "mbs is '1.5'"},
    {HEAD "1,1,1,1,8,0,8,1,64,none,bf16,s_per_step,1,8", "column 'experts' is '8'"},
    {"S,p,m,X LoRA,16,16,1024,4096,12,32000,1024,1,1,1,1,8,0,8,1,64,none,bf16,"
     "s_per_step,1,",
     "adapters (LoRA)"},
    {"S,p,m,M,3,3,1024,4096,12,32000,1024,1,1,1,1,8,0,8,1,64,none,bf16,s_per_step,1,",
     "3 heads must divide"},
};

START_TEST(cannot_be_expressed)
{
    ck_assert_int_ne(read_row(wrong[_i].fields), CADRE_OK);
    ck_assert_msg(strstr(err.text, wrong[_i].why) != NULL, "%s", err.text);
}
END_TEST

START_TEST(a_row_that_cannot_run_is_refused_with_its_reason)
{
    ck_assert_int_eq(read_row(HEAD "1,1,1,1,8,0,8,,65,none,bf16,s_per_step,1,"),
                     CADRE_OK);
    ck_assert_int_ne(cadre_published_settle(&row, &round_machine, &err), CADRE_OK);
    ck_assert_msg(strstr(err.text, "do not divide global batch 65") != NULL, "%s",
                  err.text);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("published");
    TCase *tc = tcase_create("published");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_row_with_all_that_is_printed);
    tcase_add_test(tc, what_is_not_printed_is_chosen_by_the_rule);
    tcase_add_loop_test(tc, a_metric_is_its_own_inverse, 0, 6);
    tcase_add_test(tc, columns_in_any_order_and_what_is_empty);
    tcase_add_test(tc, the_mfu_of_palm_counts_all_scores);
    tcase_add_loop_test(tc, cannot_be_expressed, 0,
                        (int)(sizeof wrong / sizeof *wrong));
    tcase_add_test(tc, a_row_that_cannot_run_is_refused_with_its_reason);
    suite_add_tcase(s, tc);
    return s;
}
