/* SPDX-License-Identifier: Apache-2.0 */
/* What `cadre generate --chat` adds: a conversation by the chat template of the
 * tokenizer's folder, and where an answer ends. */
#ifndef CADRE_CLI_GENERATE_CHAT_H
#define CADRE_CLI_GENERATE_CHAT_H

#include <jansson.h>

#include "core/data/chat/folder_template.h"
#include "core/data/tokenizer/tokenizer.h"

/* Zero-initialised is none. */
struct cadre_chat {
    struct cadre_folder_template *form;
    const struct cadre_tokenizer *tokenizer; /* borrowed */
    json_t *messages; /* so far */
    int32_t *ends; /* (n_ends): tokens that end an answer */
    size_t n_ends;
    char *stop; /* the text that does, where it is no token; else NULL */
};

/* A conversation that begins with `system`, if that is not NULL. Answers end at the
 * tokenizer's end of a sequence, at eos_token_id of generation_config.json in its
 * folder `spec`, and at what the template writes behind an answer. The caller frees
 * with cadre_chat_fini, also after a failure. Errors: those of the template and its
 * files. */
cadre_status cadre_chat_init(const char *spec, const struct cadre_tokenizer *tokenizer,
                             const char *system, struct cadre_chat *out,
                             struct cadre_error *err);
void cadre_chat_fini(struct cadre_chat *chat);

/* Add a message, role "user" or "assistant". Errors: CADRE_E_RESOURCE, CADRE_E_INVALID
 * what is not UTF-8. */
cadre_status cadre_chat_add(struct cadre_chat *chat, const char *role, const char *text,
                            size_t size, struct cadre_error *err);

/* Add an answer that was generated: bytes that are not UTF-8 become U+FFFD. */
cadre_status cadre_chat_add_answer(struct cadre_chat *chat, const char *text,
                                   size_t size, struct cadre_error *err);

/* *ids (*n), which the caller frees: the conversation, and what an answer begins
 * behind. Errors: those of the template and of the tokenizer. */
cadre_status cadre_chat_prompt(const struct cadre_chat *chat, int32_t **ids, size_t *n,
                               struct cadre_error *err);

bool cadre_chat_ends(const struct cadre_chat *chat, int32_t id);

#endif
