/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/data/chat/dialogue.h"
#include "tests/support/check_main.h"

static json_t *parse(const char *text)
{
    json_error_t why;
    json_t *record = json_loads(text, JSON_DECODE_ANY, &why);
    ck_assert_msg(record != NULL, "%s: %s", text, why.text);
    return record;
}

/* "S:text" of a system message, "u:" of a user's, "A:" of an assistant's, capital where
 * it is trained, "+" before an input. */
static void describe(const struct cadre_dialogue *dialogue, struct cadre_text *out)
{
    for (size_t i = 0; i < dialogue->count; i++) {
        const struct cadre_message *message = &dialogue->messages[i];
        char role = cadre_chat_role_name(message->role)[0];
        if (message->trained)
            role = (char)(role - 'a' + 'A');
        cadre_text_printf(out, "%s%c:%s", i ? "|" : "", role, message->text);
        if (message->input)
            cadre_text_printf(out, "+%s", message->input);
    }
}

static void reads(const char *text, const char *want)
{
    struct cadre_dialogue dialogue[2] = {{0}, {0}};
    struct cadre_text got = {0};
    struct cadre_error err = {0};
    json_t *record = parse(text);
    int n = 0;
    ck_assert_msg(cadre_dialogue_read(record, dialogue, &n, &err) == CADRE_OK, "%s: %s",
                  text, err.text);
    for (int i = 0; i < n; i++) {
        cadre_text_append(&got, " / ", i ? 3 : 0);
        describe(&dialogue[i], &got);
        cadre_dialogue_fini(&dialogue[i]);
    }
    ck_assert_str_eq(cadre_text_str(&got), want);
    cadre_text_fini(&got);
    json_decref(record);
}

static void refuses(const char *text, const char *says)
{
    struct cadre_dialogue dialogue[2] = {{0}, {0}};
    struct cadre_error err = {0};
    json_t *record = parse(text);
    int n = 0;
    ck_assert_int_eq(cadre_dialogue_read(record, dialogue, &n, &err), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, says) != NULL, "%s: '%s' has no '%s'", text,
                  err.text, says);
    cadre_dialogue_fini(&dialogue[0]);
    cadre_dialogue_fini(&dialogue[1]);
    json_decref(record);
}

START_TEST(single_answers)
{
    reads("{\"instruction\": \"do\", \"input\": \"\", \"output\": \"ok\"}",
          "u:do|A:ok");
    reads("{\"instruction\": \"do\", \"input\": \"it\", \"output\": \"\", \"id\": 7}",
          "u:do+it|A:");
    reads("{\"system\": \"be\", \"instruction\": \"do\", \"output\": \"ok\"}",
          "s:be|u:do|A:ok");
    reads("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": "
          "\"assistant\", \"content\": \"b\"}, {\"role\": \"user\", \"content\": "
          "\"c\"}, {\"role\": \"assistant\", \"content\": \"d\"}]}",
          "u:a|A:b|u:c|A:d");
    reads("{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", "
          "\"value\": \"a\"}, {\"type\": \"text\", \"text\": \"b\"}], \"loss_weight\": "
          "1}, {\"role\": \"assistant\", \"content\": \"c\", \"loss_weight\": 0.0}]}",
          "U:ab|a:c");
    reads("{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, {\"from\": "
          "\"gpt\", \"value\": \"b\"}], \"history\": []}",
          "u:a|A:b");
    reads("{\"prompt\": \"a\", \"completion\": \"b\"}", "u:a|A:b");
    reads("{\"prompt\": \"a\", \"response\": \"b\", \"chosen\": null}", "u:a|A:b");
}
END_TEST

START_TEST(pairs)
{
    reads("{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"c\"}",
          "u:a|A:b / u:a|A:c");
    reads("{\"instruction\": \"a\", \"input\": \"i\", \"chosen\": \"b\", \"rejected\": "
          "\"c\"}",
          "u:a+i|A:b / u:a+i|A:c");
    /* an earlier answer of the prompt is no target */
    reads("{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, {\"from\": "
          "\"gpt\", \"value\": \"x\"}, {\"from\": \"human\", \"value\": \"y\"}], "
          "\"chosen\": {\"from\": \"gpt\", \"value\": \"b\"}, \"rejected\": {\"from\": "
          "\"gpt\", \"value\": \"c\"}}",
          "u:a|a:x|u:y|A:b / u:a|a:x|u:y|A:c");
    /* lists: the answer alone, or the whole dialogue */
    reads("{\"prompt\": [{\"role\": \"user\", \"content\": \"a\"}], \"chosen\": "
          "[{\"role\": \"assistant\", \"content\": \"b\"}], \"rejected\": [{\"role\": "
          "\"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": "
          "\"c\"}]}",
          "u:a|A:b / u:a|A:c");
    reads("{\"chosen_messages\": [{\"role\": \"system\", \"content\": \"s\"}, "
          "{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", "
          "\"content\": \"b\"}], \"rejected_messages\": [{\"role\": \"user\", "
          "\"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"c\"}]}",
          "s:s|u:a|A:b / u:a|A:c");
}
END_TEST

START_TEST(what_is_refused)
{
    refuses("7", "expected an object, found a number");
    refuses("[]", "expected an object, found a list");
    refuses("{}", "found none");
    refuses("{\"question\": 1, \"answer\": 2}", "found question, answer");
    refuses("{\"instruction\": \"do\"}", "expected the key output, found none");
    refuses("{\"instruction\": 5, \"output\": \"a\"}",
            "instruction: expected a text, found a number");
    refuses("{\"messages\": {}}",
            "messages: expected a list of messages, found an obj");
    refuses("{\"messages\": [3]}", "messages: message 1: expected a message");
    refuses("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": "
            "\"tool\", \"content\": \"a\"}]}",
            "message 2: role: expected system, user or human, assistant or gpt, found "
            "tool");
    refuses("{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image\", "
            "\"value\": \"a\"}]}]}",
            "found the type image");
    refuses("{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\", "
            "\"loss_weight\": 0.5}]}",
            "loss_weight: expected 0 or 1, found the number 0.5");
    refuses("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}",
            "expected an answer to train on");
    refuses("{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\", "
            "\"tool_calls\": [1]}]}",
            "tool_calls: expected none");
    refuses("{\"prompt\": \"a\", \"chosen\": \"b\"}", "the key rejected, found none");
    refuses("{\"chosen\": \"b\", \"rejected\": \"c\"}", "the key prompt, found none");
    refuses("{\"chosen_messages\": []}",
            "rejected_messages: expected a list of messages, found nothing");
    refuses(
        "{\"instruction\": \"a\", \"output\": \"b\", \"history\": [[\"x\", \"y\"]]}",
        "history: expected none");
    refuses("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": "
            "\"assistant\", \"content\": \"b\"}], \"images\": [\"x.png\"]}",
            "images: expected none");
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("dialogue");
    TCase *tc = tcase_create("dialogue");
    tcase_add_test(tc, single_answers);
    tcase_add_test(tc, pairs);
    tcase_add_test(tc, what_is_refused);
    suite_add_tcase(s, tc);
    return s;
}
