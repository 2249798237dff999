/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tune/modules.h"
#include "core/model/unit_private.h"
#include "tests/support/check_main.h"

#include <string.h>

#define BIT(position) (1U << (position))

static uint32_t parsed(enum cadre_arch arch, const char *text)
{
    uint32_t targets = 0;
    ck_assert_int_eq(cadre_modules_parse(arch, text, &targets, NULL), CADRE_OK);
    return targets;
}

START_TEST(names)
{
    const uint32_t proj = BIT(GPT2_PROJ_W) | BIT(GPT2_OUT_W);
    ck_assert_uint_eq(parsed(CADRE_ARCH_LLAMA, "q, v"),
                      BIT(LLAMA_Q_W) | BIT(LLAMA_V_W));
    ck_assert_uint_eq(parsed(CADRE_ARCH_LLAMA, "q_proj,mlp.down_proj"),
                      BIT(LLAMA_Q_W) | BIT(LLAMA_DOWN_W));
    ck_assert_uint_eq(parsed(CADRE_ARCH_LLAMA, "attn"),
                      BIT(LLAMA_Q_W) | BIT(LLAMA_K_W) | BIT(LLAMA_V_W) |
                          BIT(LLAMA_O_W));
    ck_assert_uint_eq(parsed(CADRE_ARCH_LLAMA, "all"),
                      parsed(CADRE_ARCH_LLAMA, "q k v o gate up down"));
    ck_assert_uint_eq(parsed(CADRE_ARCH_GPT2, "c_proj"), proj);
    ck_assert_uint_eq(parsed(CADRE_ARCH_GPT2, "attn.c_proj"), BIT(GPT2_PROJ_W));
    ck_assert_uint_eq(parsed(CADRE_ARCH_GPT2, "mlp"), BIT(GPT2_FC_W) | BIT(GPT2_OUT_W));
    ck_assert_uint_eq(parsed(CADRE_ARCH_GPT2, "all"),
                      parsed(CADRE_ARCH_GPT2, "attn, mlp"));
}
END_TEST

START_TEST(unknown)
{
    struct cadre_error err;
    uint32_t targets;
    ck_assert_int_eq(cadre_modules_parse(CADRE_ARCH_GPT2, "mlp, q", &targets, &err),
                     CADRE_E_INVALID);
    ck_assert(strstr(err.text, "'q' is no module of a gpt2 block"));
    ck_assert_int_eq(cadre_modules_parse(CADRE_ARCH_LLAMA, " ,", &targets, &err),
                     CADRE_E_INVALID);
}
END_TEST

START_TEST(modules_of_peft)
{
    ck_assert_uint_eq(cadre_modules_find(CADRE_ARCH_LLAMA, "o_proj"), BIT(LLAMA_O_W));
    ck_assert_uint_eq(cadre_modules_find(CADRE_ARCH_GPT2, "c_proj"),
                      BIT(GPT2_PROJ_W) | BIT(GPT2_OUT_W));
    ck_assert_uint_eq(cadre_modules_find(CADRE_ARCH_GPT2, "mlp.c_fc"), BIT(GPT2_FC_W));
    ck_assert_uint_eq(cadre_modules_find(CADRE_ARCH_GPT2, "lm_head"), 0);
    ck_assert_uint_eq(cadre_modules_find(CADRE_ARCH_LLAMA, "q"), 0);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("modules");
    TCase *tc = tcase_create("modules");
    tcase_add_test(tc, names);
    tcase_add_test(tc, unknown);
    tcase_add_test(tc, modules_of_peft);
    suite_add_tcase(s, tc);
    return s;
}
