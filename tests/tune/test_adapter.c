/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tune/adapter.h"
#include "tests/support/check_main.h"

#include <stdio.h>
#include <string.h>

/* Of [tune] keys "key=value" between blanks. */
static cadre_status set_up(const char *keys, enum cadre_arch arch,
                           struct cadre_lora_config *lora, struct cadre_error *err)
{
    struct cadre_model_config model = {.arch = arch};
    struct cadre_options *options;
    struct cadre_config config;
    char text[512], key[256];
    ck_assert_int_eq(cadre_options_create(&options, NULL), CADRE_OK);
    snprintf(text, sizeof text, "%s", keys);
    for (char *at = strtok(text, " "); at; at = strtok(NULL, " ")) {
        snprintf(key, sizeof key, "tune.%s", at);
        ck_assert_int_eq(cadre_options_set(options, key, "the test", NULL), CADRE_OK);
    }
    ck_assert_int_eq(cadre_options_resolve(options, NULL), CADRE_OK);
    cadre_config_fill(&config, options);
    cadre_status rc = cadre_adapter_setup(&config, options, &model, err);
    *lora = model.lora;
    cadre_options_destroy(options);
    return rc;
}

START_TEST(scales)
{
    struct cadre_lora_config lora;
    ck_assert_int_eq(set_up("", CADRE_ARCH_GPT2, &lora, NULL), CADRE_OK);
    ck_assert_int_eq(lora.rank, 0);
    ck_assert_int_eq(set_up("method=lora", CADRE_ARCH_GPT2, &lora, NULL), CADRE_OK);
    ck_assert(lora.rank == 8 && lora.scale == 2 && lora.dropout == 0);
    ck_assert_int_eq(
        set_up("method=lora rank=4 alpha=6 rslora=yes", CADRE_ARCH_LLAMA, &lora, NULL),
        CADRE_OK);
    ck_assert(lora.scale == 3);
    ck_assert_int_eq(set_up("method=dpo beta=0.2", CADRE_ARCH_GPT2, &lora, NULL),
                     CADRE_OK);
    ck_assert_int_eq(lora.rank, 0);
    ck_assert_int_eq(
        set_up("method=dpo adapters=lora rank=4", CADRE_ARCH_GPT2, &lora, NULL),
        CADRE_OK);
    ck_assert_int_eq(lora.rank, 4);
}
END_TEST

START_TEST(folder_wins_over_defaults)
{
    struct cadre_lora_config lora;
    struct cadre_error err;
    char keys[400];
    const char *dir = test_sample("lora/llama-adapter");
    ck_assert(cadre_adapter_is(dir));
    ck_assert(!cadre_adapter_is(test_sample("lora/llama")));
    snprintf(keys, sizeof keys, "method=lora adapter=%s", dir);
    ck_assert_int_eq(set_up(keys, CADRE_ARCH_LLAMA, &lora, NULL), CADRE_OK);
    ck_assert(lora.rank == 4 && lora.alpha == 6 && lora.rslora && lora.scale == 3);
    snprintf(keys, sizeof keys, "method=lora rank=5 adapter=%s", dir);
    ck_assert_int_eq(set_up(keys, CADRE_ARCH_LLAMA, &lora, &err), CADRE_E_INVALID);
    ck_assert(strstr(err.text, "tune.rank = 5 (the test)"));
    ck_assert_int_ne(set_up(keys, CADRE_ARCH_GPT2, &lora, &err), CADRE_OK);
}
END_TEST

static const struct refused {
    const char *keys, *says;
} refused[] = {
    {"rank=4", "tune.rank = 4 (the test) is of adapters"},
    {"method=dpo rank=4",
     "of adapters, but tune.method = dpo has none; set tune.adapters"},
    {"method=lora beta=0.2", "tune.beta = 0.2 (the test) is of preferences, but"},
    {"adapters=lora", "of preferences, but tune.method = full learns none"},
    {"method=dpo reference=/nowhere", "tune.reference = /nowhere without model.init"},
    {"group=8", "tune.group = 8 (the test) is of quantization"},
    {"method=lora group=8", "tune.group = 8 (the test) is of quantization"},
    {"method=qat rank=4", "tune.rank = 4 (the test) is of adapters"},
    {"method=qat base=nf4", "tune.base = nf4 is of frozen weights"},
    {"method=qat quantized=yes", "has no int4.safetensors"},
    {"method=lora targets=q", "'q' is no module of a gpt2 block"},
    {"method=lora adapter=/nowhere", "/nowhere"},
};

START_TEST(wrong)
{
    struct cadre_lora_config lora;
    struct cadre_error err;
    ck_assert_int_ne(set_up(refused[_i].keys, CADRE_ARCH_GPT2, &lora, &err), CADRE_OK);
    ck_assert_msg(strstr(err.text, refused[_i].says), "%s", err.text);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("adapter");
    TCase *tc = tcase_create("adapter");
    tcase_add_test(tc, scales);
    tcase_add_test(tc, folder_wins_over_defaults);
    tcase_add_loop_test(tc, wrong, 0, sizeof refused / sizeof refused[0]);
    suite_add_tcase(s, tc);
    return s;
}
