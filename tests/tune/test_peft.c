/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tune/peft.h"
#include "core/model/unit_private.h"
#include "tests/support/check_main.h"

#include <string.h>

static char *dir;

static void setup(void)
{
    dir = test_tmpdir();
}

static void teardown(void)
{
    test_tmpdir_destroy(dir);
}

static cadre_status read_text(const char *text, struct cadre_peft *peft,
                              struct cadre_error *err)
{
    test_file_put(dir, "adapter_config.json", text, strlen(text));
    return cadre_peft_read(dir, CADRE_ARCH_LLAMA, peft, err);
}

/* Files that PEFT has written. */
START_TEST(samples)
{
    struct cadre_peft peft = {0};
    ck_assert_int_eq(cadre_peft_read(test_sample("lora/llama-adapter"),
                                     CADRE_ARCH_LLAMA, &peft, NULL),
                     CADRE_OK);
    ck_assert_int_eq(peft.rank, 4);
    ck_assert(peft.alpha == 6 && peft.rslora && peft.dropout == 0);
    ck_assert_uint_eq(peft.targets, 1U << LLAMA_Q_W | 1U << LLAMA_V_W |
                                        1U << LLAMA_GATE_W | 1U << LLAMA_DOWN_W);
    ck_assert_int_eq(
        cadre_peft_read(test_sample("lora/gpt2-adapter"), CADRE_ARCH_GPT2, &peft, NULL),
        CADRE_OK);
    ck_assert(!peft.rslora);
    ck_assert_uint_eq(peft.targets, 1U << GPT2_QKV_W | 1U << GPT2_PROJ_W |
                                        1U << GPT2_FC_W | 1U << GPT2_OUT_W);
}
END_TEST

START_TEST(written_is_read)
{
    const struct cadre_model_config model = {
        .arch = CADRE_ARCH_GPT2,
        .lora = {.rank = 5,
                 .targets = 1U << GPT2_OUT_W,
                 .alpha = 2.5,
                 .dropout = 0.125,
                 .rslora = true},
    };
    struct cadre_peft peft;
    ck_assert_int_eq(cadre_peft_write(dir, &model, "/models/base", NULL), CADRE_OK);
    ck_assert_int_eq(cadre_peft_read(dir, CADRE_ARCH_GPT2, &peft, NULL), CADRE_OK);
    ck_assert_int_eq(peft.rank, 5);
    ck_assert(peft.alpha == 2.5 && peft.dropout == 0.125 && peft.rslora);
    ck_assert_uint_eq(peft.targets, 1U << GPT2_OUT_W);
}
END_TEST

#define HEAD "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 4, "
static const struct refused {
    const char *text, *says;
} refused[] = {
    {"{\"peft_type\": \"IA3\"}", "expected \"peft_type\": \"LORA\", found 'IA3'"},
    {HEAD "\"target_modules\": [\"lm_head\"]}", "has 'lm_head'"},
    {HEAD "\"target_modules\": \".*proj\"}", "is the pattern '.*proj'"},
    {HEAD "\"target_modules\": []}", "expected a list \"target_modules\""},
    {HEAD "\"target_modules\": [\"q_proj\"], \"use_dora\": true}", "\"use_dora\""},
    {HEAD "\"target_modules\": [\"q_proj\"], \"bias\": \"all\"}", "\"bias\""},
    {HEAD "\"target_modules\": [\"q_proj\"], \"rank_pattern\": {\"a\": 1}}",
     "\"rank_pattern\""},
    {HEAD "\"target_modules\": [\"q_proj\"], \"modules_to_save\": [\"x\"]}",
     "\"modules_to_save\""},
    {HEAD "\"target_modules\": [\"q_proj\"], \"of_the_future\": 1}",
     "\"of_the_future\""},
    {HEAD "\"target_modules\": [\"q_proj\"], \"init_lora_weights\": \"pissa\"}",
     "is 'pissa'"},
    {"{\"peft_type\": \"LORA\", \"lora_alpha\": 1}", "expected a number \"r\""},
    {"{\"peft_type\": \"LORA\", \"r\": 1.5, \"lora_alpha\": 1}", "\"r\" is 1.5"},
};

START_TEST(not_like_ours)
{
    struct cadre_peft peft;
    struct cadre_error err;
    ck_assert_int_ne(read_text(refused[_i].text, &peft, &err), CADRE_OK);
    ck_assert_msg(strstr(err.text, refused[_i].says), "%s", err.text);
}
END_TEST

START_TEST(all_linear)
{
    struct cadre_peft peft = {0};
    ck_assert_int_eq(
        read_text(HEAD "\"target_modules\": \"all-linear\", \"bias\": \"none\", "
                       "\"modules_to_save\": null, \"loftq_config\": {}}",
                  &peft, NULL),
        CADRE_OK);
    ck_assert_uint_eq(peft.targets, 0x3a2a);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("peft");
    TCase *tc = tcase_create("peft");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, samples);
    tcase_add_test(tc, written_is_read);
    tcase_add_test(tc, all_linear);
    tcase_add_loop_test(tc, not_like_ours, 0, sizeof refused / sizeof refused[0]);
    suite_add_tcase(s, tc);
    return s;
}
