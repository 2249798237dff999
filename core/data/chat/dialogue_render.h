/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a dialogue by the template of a model's folder, and which bytes of it are
 * trained on. An answer is what the template adds behind the prompt before it, which is
 * the messages so far and what an answer begins behind: so prompts are those of
 * `cadre generate --chat`. */
#ifndef CADRE_DATA_CHAT_DIALOGUE_RENDER_H
#define CADRE_DATA_CHAT_DIALOGUE_RENDER_H

#include "core/data/chat/dialogue.h"
#include "core/data/chat/folder_template.h"

struct cadre_span {
    size_t begin, end; /* bytes */
};

/* A list of {"role", "content"} of the first `count` messages, an input on a line of
 * its own; a new reference, NULL where there is no memory. */
json_t *cadre_dialogue_messages(const struct cadre_dialogue *dialogue, size_t count);

/* Append the text to `out`, which is empty, and fill spans (dialogue.count): *n, in
 * order, one for each message that is trained on. Errors: those of the template;
 * CADRE_E_UNSUPPORTED where a prompt or an answer, rendered alone, is not how the
 * whole text begins. */
cadre_status cadre_dialogue_render(const struct cadre_dialogue *dialogue,
                                   const struct cadre_folder_template *form,
                                   struct cadre_text *out, struct cadre_span *spans,
                                   size_t *n, struct cadre_error *err);

#endif
