/* SPDX-License-Identifier: Apache-2.0 */
/* Dialogues: what one record of an instruction file says, whichever of the usual shapes
 * it has. docs/fine-tuning.md lists them. */
#ifndef CADRE_DATA_CHAT_DIALOGUE_H
#define CADRE_DATA_CHAT_DIALOGUE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/base/error.h"

enum cadre_chat_role {
    CADRE_CHAT_SYSTEM,
    CADRE_CHAT_USER,
    CADRE_CHAT_ASSISTANT,
};

struct cadre_message {
    enum cadre_chat_role role;
    char *text; /* owned, UTF-8, ends with a zero; may be empty */
    char *input; /* owned; what an instruction is about; NULL: none */
    bool trained; /* its tokens are targets: the assistant's, unless loss_weight says */
};

/* Zero-initialised is empty. */
struct cadre_dialogue {
    struct cadre_message *messages; /* (count), owned */
    size_t count, capacity;
};

/* Read a record into out[0]; a pair's chosen answer is there and the rejected one in
 * out[1]. *n is 1 or 2. Both of `out` are empty before; the caller frees both with
 * cadre_dialogue_fini, also after a failure. [any thread] Errors: CADRE_E_INVALID, what
 * was expected and found, without the file and line; CADRE_E_RESOURCE. */
cadre_status cadre_dialogue_read(const json_t *record, struct cadre_dialogue out[2],
                                 int *n, struct cadre_error *err);

/* Safe on an empty dialogue, which it becomes. */
void cadre_dialogue_fini(struct cadre_dialogue *dialogue);

/* "system", "user", "assistant". Static storage. */
const char *cadre_chat_role_name(enum cadre_chat_role role);

#endif
