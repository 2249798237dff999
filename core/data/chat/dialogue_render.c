/* SPDX-License-Identifier: Apache-2.0 */
#include "core/data/chat/dialogue_render.h"

#include <string.h>

static json_t *message_of(const struct cadre_message *message)
{
    struct cadre_text text = {0};
    cadre_text_printf(&text, "%s%s%s", message->text, message->input ? "\n" : "",
                      message->input ? message->input : "");
    json_t *made =
        text.failed ? NULL
                    : json_pack("{ssss}", "role", cadre_chat_role_name(message->role),
                                "content", cadre_text_str(&text));
    cadre_text_fini(&text);
    return made;
}

json_t *cadre_dialogue_messages(const struct cadre_dialogue *dialogue, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < count; i++)
        if (json_array_append_new(list, message_of(&dialogue->messages[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

struct rendering {
    const struct cadre_dialogue *dialogue;
    const struct cadre_folder_template *form;
    const struct cadre_text *whole;
    struct cadre_error *err;
};

/* No time: the same file gives the same tokens on every day. */
static cadre_status render(const struct rendering *r, size_t count, bool prompt,
                           struct cadre_text *out)
{
    json_t *messages = cadre_dialogue_messages(r->dialogue, count);
    if (!messages)
        return cadre_no_memory(r->err, "a dialogue");
    const cadre_status rc =
        cadre_folder_template_render(r->form, messages, prompt, NULL, out, r->err);
    json_decref(messages);
    return rc;
}

/* *size: the bytes of the first `count` messages, where the whole text begins so. */
static cadre_status measure(const struct rendering *r, size_t count, bool prompt,
                            size_t *size)
{
    struct cadre_text part = {0};
    cadre_status rc = render(r, count, prompt, &part);
    if (rc == CADRE_OK &&
        (part.len > r->whole->len ||
         memcmp(cadre_text_str(&part), cadre_text_str(r->whole), part.len) != 0))
        rc = cadre_fail(
            r->err, CADRE_E_UNSUPPORTED,
            "message %zu: the dialogue does not begin with its %s as rendered "
            "alone: the template changes earlier messages, so answers cannot be told "
            "from it; end the dialogue there, give earlier answers loss_weight 0, or "
            "set data.template to alpaca, chatml or plain",
            prompt ? count + 1 : count, prompt ? "prompt" : "messages up to here");
    *size = part.len;
    cadre_text_fini(&part);
    return rc;
}

cadre_status cadre_dialogue_render(const struct cadre_dialogue *dialogue,
                                   const struct cadre_folder_template *form,
                                   struct cadre_text *out, struct cadre_span *spans,
                                   size_t *n, struct cadre_error *err)
{
    const struct rendering r = {dialogue, form, out, err};
    *n = 0;
    CADRE_TRY(render(&r, dialogue->count, false, out));
    for (size_t i = 0; i < dialogue->count; i++) {
        struct cadre_span *span = &spans[*n];
        if (!dialogue->messages[i].trained)
            continue;
        /* what is no answer has no prompt: it begins where the messages before end */
        const bool answers = dialogue->messages[i].role == CADRE_CHAT_ASSISTANT;
        CADRE_TRY(measure(&r, i, answers, &span->begin));
        CADRE_TRY(measure(&r, i + 1, false, &span->end));
        if (span->end < span->begin)
            return cadre_fail(err, CADRE_E_UNSUPPORTED,
                              "message %zu: the template makes it shorter than its "
                              "prompt; set data.template to alpaca, chatml or plain",
                              i + 1);
        (*n)++;
    }
    return CADRE_OK;
}
