/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a dialogue by a template: pieces in order, each all target or all masked.
 * docs/fine-tuning.md shows the templates. */
#ifndef CADRE_DATA_CHAT_DIALOGUE_TEXT_H
#define CADRE_DATA_CHAT_DIALOGUE_TEXT_H

#include "core/data/chat/dialogue.h"

enum cadre_chat_template {
    CADRE_CHAT_ALPACA,
    CADRE_CHAT_CHATML,
    CADRE_CHAT_PLAIN,
    CADRE_CHAT_MODEL, /* of the tokenizer's folder: dialogue_render.h */
};

struct cadre_piece {
    const char *text; /* (size), valid for the call */
    size_t size; /* may be 0 */
    bool trained;
    bool ends; /* the end of a sequence follows, a token that is trained as the piece */
};

/* "alpaca", "chatml", "plain" or "model"; NULL and "" are alpaca. Errors:
 * CADRE_E_INVALID. */
cadre_status cadre_chat_template_parse(const char *name, enum cadre_chat_template *out,
                                       struct cadre_error *err);

/* By a form other than CADRE_CHAT_MODEL: pass the pieces to `put`, neighbours that are
 * masked in one. Errors: those of put; CADRE_E_RESOURCE. [any thread] */
cadre_status cadre_dialogue_text(
    const struct cadre_dialogue *dialogue, enum cadre_chat_template form,
    cadre_status (*put)(void *arg, const struct cadre_piece *piece), void *arg);

#endif
