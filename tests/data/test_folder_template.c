/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/data/chat/folder_template.h"
#include "tests/support/check_main.h"

static char *dir;

static void setup(void)
{
    dir = test_tmpdir();
}

static void teardown(void)
{
    test_tmpdir_destroy(dir);
}

static const char *put(const char *name, const char *text)
{
    return test_file_put(dir, name, text, strlen(text));
}

static void gives(const char *spec, bool prompt, const char *want)
{
    struct cadre_folder_template *form = NULL;
    struct cadre_text got = {0};
    struct cadre_error err = {0};
    const time_t now = 0;
    json_t *messages = json_pack("[{ssss}]", "role", "user", "content", "Hi");
    ck_assert(cadre_folder_template_exists(spec));
    ck_assert_msg(cadre_folder_template_open(spec, &form, &err) == CADRE_OK, "%s",
                  err.text);
    ck_assert_msg(cadre_folder_template_render(form, messages, prompt, &now, &got,
                                               &err) == CADRE_OK,
                  "%s", err.text);
    ck_assert_str_eq(cadre_text_str(&got), want);
    cadre_text_fini(&got);
    json_decref(messages);
    cadre_folder_template_close(form);
}

static uint64_t hash_of(void)
{
    struct cadre_folder_template *form = NULL;
    ck_assert_int_eq(cadre_folder_template_open(dir, &form, NULL), CADRE_OK);
    const uint64_t hash = cadre_folder_template_hash(form);
    cadre_folder_template_close(form);
    return hash;
}

START_TEST(takes_the_folders_template)
{
    ck_assert(!cadre_folder_template_exists(dir));
    put("special_tokens_map.json",
        "{\"bos_token\": {\"content\": \"<map>\"}, \"unk_token\": \"<unk>\"}");
    put("tokenizer_config.json",
        "{\"bos_token\": \"<b>\", \"eos_token\": null, \"chat_template\": "
        "\"{{ bos_token }}{{ unk_token }}{{ eos_token is defined }}"
        "{{ messages[0].content }}\"}");
    gives(dir, false, "<b><unk>FalseHi");
    const uint64_t hash = hash_of();
    put("tokenizer_config.json",
        "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"no\"}, "
        "{\"name\": \"default\", \"template\": \"{{ bos_token }}{{ tools is none }}"
        "{{ documents is none }}{{ strftime_now('%Y') }}\"}]}");
    gives(dir, false, "<map>TrueTrue1970");
    ck_assert(hash_of() != hash);
    /* the file of its own wins; a tokenizer's file has its folder's */
    put("chat_template.jinja", "{{ messages|length }}{{ add_generation_prompt }}\n");
    gives(dir, true, "1True");
    gives(put("tokenizer.json", "{}"), false, "1False");
}
END_TEST

static void refuses(const char *says)
{
    struct cadre_folder_template *form = NULL;
    struct cadre_error err = {0};
    struct cadre_text got = {0};
    json_t *messages = json_array();
    cadre_status rc = cadre_folder_template_open(dir, &form, &err);
    if (rc == CADRE_OK)
        rc = cadre_folder_template_render(form, messages, false, NULL, &got, &err);
    ck_assert_int_ne(rc, CADRE_OK);
    ck_assert_msg(strstr(err.text, says) != NULL, "'%s' has no '%s'", err.text, says);
    cadre_text_fini(&got);
    json_decref(messages);
    cadre_folder_template_close(form);
}

START_TEST(names_the_file)
{
    refuses("has no chat template: expected chat_template.jinja");
    put("tokenizer_config.json", "[1]");
    refuses("tokenizer_config.json\": expected an object");
    put("tokenizer_config.json", "{\"chat_template\": [{\"name\": \"rag\"}]}");
    refuses("has no chat template");
    put("tokenizer_config.json", "{\"chat_template\": \"a\\n{% if %}\"}");
    refuses("tokenizer_config.json': line 2: expected an expression");
    put("chat_template.jinja", "{{ raise_exception('Nobody spoke') }}");
    refuses("chat_template.jinja': line 1: the template says: Nobody spoke");
    put("chat_template.jinja", "\xff\xfe");
    refuses("expected UTF-8");
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("folder_template");
    TCase *tc = tcase_create("folder_template");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, takes_the_folders_template);
    tcase_add_test(tc, names_the_file);
    suite_add_tcase(s, tc);
    return s;
}
