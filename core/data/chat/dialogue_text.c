/* SPDX-License-Identifier: Apache-2.0 */
#include "core/data/chat/dialogue_text.h"

#include <string.h>

#include "core/base/memory.h"

/* What stands around a message; the body is its text. */
struct frame {
    const char *before, *after; /* `after` belongs to the body */
    const char *then; /* masked, where another message follows */
    bool ends;
};

struct writer {
    struct cadre_text masked; /* not passed on yet */
    struct cadre_text body;
    cadre_status (*put)(void *arg, const struct cadre_piece *piece);
    void *arg;
};

cadre_status cadre_chat_template_parse(const char *name, enum cadre_chat_template *out,
                                       struct cadre_error *err)
{
    static const char *const names[] = {"alpaca", "chatml", "plain", "model"};
    if (!name || !*name)
        name = names[0];
    for (int i = 0; i < 4; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (enum cadre_chat_template)i;
            return CADRE_OK;
        }
    return cadre_fail(
        err, CADRE_E_INVALID,
        "data.template: expected alpaca, chatml, plain or model, found \"%.60s\"",
        name);
}

static struct frame alpaca_frame(enum cadre_chat_role role)
{
    static const struct frame frames[] = {
        [CADRE_CHAT_SYSTEM] = {"", "\n\n", "", false},
        [CADRE_CHAT_USER] = {"### Instruction:\n", "\n\n", "", false},
        [CADRE_CHAT_ASSISTANT] = {"### Response:\n", "", "\n\n", true},
    };
    return frames[role];
}

static struct frame chatml_frame(enum cadre_chat_role role, bool last)
{
    static const char *const before[] = {"<|im_start|>system\n", "<|im_start|>user\n",
                                         "<|im_start|>assistant\n"};
    return (struct frame){before[role], "<|im_end|>", "\n",
                          last && role == CADRE_CHAT_ASSISTANT};
}

static struct frame frame_of(enum cadre_chat_template form,
                             const struct cadre_message *message, bool last)
{
    if (form == CADRE_CHAT_ALPACA)
        return alpaca_frame(message->role);
    if (form == CADRE_CHAT_CHATML)
        return chatml_frame(message->role, last);
    if (message->role == CADRE_CHAT_ASSISTANT)
        return (struct frame){"", "", "\n", true};
    return (struct frame){"", "\n", "", false};
}

static void say(struct cadre_text *text, const char *words)
{
    cadre_text_append(text, words, strlen(words));
}

static cadre_status flush(struct writer *w, bool ends)
{
    const struct cadre_piece piece = {w->masked.data, w->masked.len, false, ends};
    if (w->masked.failed || w->body.failed)
        return CADRE_E_RESOURCE;
    const cadre_status rc = piece.size > 0 || ends ? w->put(w->arg, &piece) : CADRE_OK;
    cadre_text_reset(&w->masked);
    return rc;
}

static cadre_status put_message(struct writer *w, const struct cadre_message *message,
                                const struct frame *frame,
                                enum cadre_chat_template form)
{
    struct cadre_text *body = message->trained ? &w->body : &w->masked;
    say(&w->masked, frame->before);
    cadre_text_reset(&w->body);
    say(body, message->text);
    if (message->input) {
        say(body, form == CADRE_CHAT_ALPACA ? "\n\n### Input:\n" : "\n");
        say(body, message->input);
    }
    say(body, frame->after);
    if (!message->trained)
        return frame->ends ? flush(w, true) : CADRE_OK;
    CADRE_TRY(flush(w, false));
    const struct cadre_piece piece = {w->body.data, w->body.len, true, frame->ends};
    return w->put(w->arg, &piece);
}

cadre_status cadre_dialogue_text(
    const struct cadre_dialogue *dialogue, enum cadre_chat_template form,
    cadre_status (*put)(void *arg, const struct cadre_piece *piece), void *arg)
{
    struct writer w = {.put = put, .arg = arg};
    cadre_status rc = CADRE_OK;
    if (form == CADRE_CHAT_ALPACA && dialogue->count > 0 &&
        dialogue->messages[0].role != CADRE_CHAT_SYSTEM)
        say(&w.masked, "Here is a task. Write a response that does what it asks.\n\n");
    for (size_t i = 0; i < dialogue->count && rc == CADRE_OK; i++) {
        const struct cadre_message *message = &dialogue->messages[i];
        const bool last = i + 1 == dialogue->count;
        const struct frame frame = frame_of(form, message, last);
        rc = put_message(&w, message, &frame, form);
        if (!last)
            say(&w.masked, frame.then);
    }
    if (rc == CADRE_OK)
        rc = flush(&w, false);
    cadre_text_fini(&w.masked);
    cadre_text_fini(&w.body);
    return rc;
}
