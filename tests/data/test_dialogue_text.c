/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/memory.h"
#include "core/data/chat/dialogue_text.h"
#include "tests/support/check_main.h"

/* Pieces in brackets, trained ones in braces, "$" where the sequence ends. */
static cadre_status put(void *arg, const struct cadre_piece *piece)
{
    struct cadre_text *out = arg;
    cadre_text_printf(out, "%c%.*s%s%c", piece->trained ? '{' : '[', (int)piece->size,
                      piece->size ? piece->text : "", piece->ends ? "$" : "",
                      piece->trained ? '}' : ']');
    return CADRE_OK;
}

static void gives(struct cadre_message *messages, size_t count, const char *name,
                  const char *want)
{
    const struct cadre_dialogue dialogue = {.messages = messages, .count = count};
    enum cadre_chat_template form;
    struct cadre_text got = {0};
    ck_assert_int_eq(cadre_chat_template_parse(name, &form, NULL), CADRE_OK);
    ck_assert_int_eq(cadre_dialogue_text(&dialogue, form, put, &got), CADRE_OK);
    ck_assert_str_eq(cadre_text_str(&got), want);
    cadre_text_fini(&got);
}

#define MESSAGE(who, words, train)                                                     \
    {                                                                                  \
        .role = CADRE_CHAT_##who, .text = (char[]){words}, .trained = train            \
    }

START_TEST(one_answer)
{
    struct cadre_message messages[] = {MESSAGE(USER, "Add.", false),
                                       MESSAGE(ASSISTANT, "3", true)};
    char input[] = "1 2";
    gives(messages, 2, "",
          "[Here is a task. Write a response that does what it asks.\n\n"
          "### Instruction:\nAdd.\n\n### Response:\n]{3$}");
    gives(messages, 2, "chatml",
          "[<|im_start|>user\nAdd.<|im_end|>\n<|im_start|>assistant\n]{3<|im_end|>$}");
    gives(messages, 2, "plain", "[Add.\n]{3$}");
    messages[0].input = input;
    gives(messages, 2, "alpaca",
          "[Here is a task. Write a response that does what it asks.\n\n"
          "### Instruction:\nAdd.\n\n### Input:\n1 2\n\n### Response:\n]{3$}");
    gives(messages, 2, "plain", "[Add.\n1 2\n]{3$}");
}
END_TEST

START_TEST(several_turns)
{
    struct cadre_message messages[] = {
        MESSAGE(SYSTEM, "Be brief.", false), MESSAGE(USER, "Hi", false),
        MESSAGE(ASSISTANT, "Yes?", true), MESSAGE(USER, "Bye", false),
        MESSAGE(ASSISTANT, "Bye.", true)};
    gives(messages, 5, "alpaca",
          "[Be brief.\n\n### Instruction:\nHi\n\n### Response:\n]{Yes?$}"
          "[\n\n### Instruction:\nBye\n\n### Response:\n]{Bye.$}");
    gives(messages, 5, "chatml",
          "[<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
          "<|im_start|>assistant\n]{Yes?<|im_end|>}[\n<|im_start|>user\nBye<|im_end|>\n"
          "<|im_start|>assistant\n]{Bye.<|im_end|>$}");
    messages[2].trained = false; /* it still ends, as in training */
    gives(messages, 5, "plain", "[Be brief.\nHi\nYes?$][\nBye\n]{Bye.$}");
    gives(messages, 4, "plain", "[Be brief.\nHi\nYes?$][\nBye\n]");
}
END_TEST

START_TEST(other_names_are_refused)
{
    enum cadre_chat_template form;
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_chat_template_parse("vicuna", &form, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(
        strstr(err.text, "alpaca, chatml, plain or model, found \"vicuna\""));
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("dialogue_text");
    TCase *tc = tcase_create("dialogue_text");
    tcase_add_test(tc, one_answer);
    tcase_add_test(tc, several_turns);
    tcase_add_test(tc, other_names_are_refused);
    suite_add_tcase(s, tc);
    return s;
}
