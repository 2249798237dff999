/* SPDX-License-Identifier: Apache-2.0 */
/* Which part of a rendered dialogue is trained on. */
#include <string.h>

#include "core/data/chat/dialogue_render.h"
#include "tests/support/check_main.h"

enum { MESSAGES_MAX = 8 };

/* The template's text for a record, what is trained on in braces. */
static cadre_status render(const char *template, const char *record,
                           struct cadre_text *out, struct cadre_error *err)
{
    char *dir = test_tmpdir();
    struct cadre_folder_template *form = NULL;
    struct cadre_dialogue dialogue[2] = {{0}, {0}};
    struct cadre_span spans[MESSAGES_MAX];
    struct cadre_text text = {0};
    size_t n = 0, at = 0;
    int dialogues = 0;
    test_file_put(dir, "chat_template.jinja", template, strlen(template));
    json_t *root = json_loads(record, 0, NULL);
    ck_assert_int_eq(cadre_folder_template_open(dir, &form, err), CADRE_OK);
    ck_assert_int_eq(cadre_dialogue_read(root, dialogue, &dialogues, err), CADRE_OK);
    ck_assert_uint_le(dialogue[0].count, MESSAGES_MAX);
    const cadre_status rc =
        cadre_dialogue_render(&dialogue[0], form, &text, spans, &n, err);
    for (size_t i = 0; rc == CADRE_OK && i < n; i++) {
        cadre_text_printf(out, "%.*s{%.*s}", (int)(spans[i].begin - at), text.data + at,
                          (int)(spans[i].end - spans[i].begin),
                          text.data + spans[i].begin);
        at = spans[i].end;
    }
    if (rc == CADRE_OK)
        cadre_text_printf(out, "%s", cadre_text_str(&text) + at);
    cadre_text_fini(&text);
    cadre_dialogue_fini(&dialogue[0]);
    cadre_dialogue_fini(&dialogue[1]);
    cadre_folder_template_close(form);
    json_decref(root);
    test_tmpdir_destroy(dir);
    return rc;
}

static void gives(const char *template, const char *record, const char *want)
{
    struct cadre_text got = {0};
    struct cadre_error err = {0};
    ck_assert_msg(render(template, record, &got, &err) == CADRE_OK, "%s", err.text);
    ck_assert_str_eq(cadre_text_str(&got), want);
    cadre_text_fini(&got);
}

static void refuses(const char *template, const char *record, const char *says)
{
    struct cadre_text got = {0};
    struct cadre_error err = {0};
    ck_assert_int_ne(render(template, record, &got, &err), CADRE_OK);
    ck_assert_msg(strstr(err.text, says) != NULL, "'%s' has no '%s'", err.text, says);
    cadre_text_fini(&got);
}

#define TURNS "{% for m in messages %}<{{ m.role[0] }}>{{ m.content }};{% endfor %}"
#define PROMPT "{% if add_generation_prompt %}<a>{% endif %}"
#define USER "{\"role\": \"user\", \"content\": \"q\"}"
#define ANSWER "{\"role\": \"assistant\", \"content\": \"r\"}"

START_TEST(answers_are_the_rest)
{
    gives(TURNS PROMPT,
          "{\"instruction\": \"Add\", \"input\": \"1\", \"output\": \"2\"}",
          "<u>Add\n1;<a>{2;}");
    gives(TURNS PROMPT,
          "{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, " USER "," ANSWER
          "," USER
          ", {\"role\": \"assistant\", \"content\": \"no\", \"loss_weight\": 0}," USER
          "," ANSWER "]}",
          "<s>s;<u>q;<a>{r;}<u>q;<a>no;<u>q;<a>{r;}");
    /* a template without a prompt: its answers begin with what marks them */
    gives(TURNS, "{\"prompt\": \"q\", \"completion\": \"r\"}", "<u>q;{<a>r;}");
    /* what comes with the last answer alone is a part of it */
    gives("{% for m in messages %}{{ '<think>' if loop.last and m.role != 'user' }}"
          "{{ m.content }};{% endfor %}",
          "{\"prompt\": \"q\", \"completion\": \"r\"}", "q;{<think>r;}");
}
END_TEST

START_TEST(refuses_what_cannot_be_told)
{
    static const char two[] =
        "{\"messages\": [" USER "," ANSWER "," USER "," ANSWER "]}";
    refuses("{% for m in messages %}{{ '<last>' if loop.last }}{{ m.content }};"
            "{% endfor %}",
            two, "message 2: the dialogue does not begin with its prompt");
    refuses("{% for m in messages %}{{ '!' if loop.last and m.role != 'user' }}"
            "{{ m.content }};{% endfor %}",
            two, "message 2: the dialogue does not begin with its messages up to here");
    refuses("{{ messages|length }}", two, "message 2: the dialogue does not begin");
    refuses("{{ raise_exception('never') }}", two, "line 1: the template says: never");
    /* the date of a day would make other tokens on another */
    refuses("{{ strftime_now('%Y') }}", two, "the function strftime_now");
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("dialogue_render");
    TCase *tc = tcase_create("dialogue_render");
    tcase_add_test(tc, answers_are_the_rest);
    tcase_add_test(tc, refuses_what_cannot_be_told);
    suite_add_tcase(s, tc);
    return s;
}
