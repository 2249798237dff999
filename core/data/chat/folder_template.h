/* SPDX-License-Identifier: Apache-2.0 */
/* The chat template of a model's folder: chat_template.jinja, else the key
 * chat_template of tokenizer_config.json, where of several that named "default" counts.
 */
#ifndef CADRE_DATA_CHAT_FOLDER_TEMPLATE_H
#define CADRE_DATA_CHAT_FOLDER_TEMPLATE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "core/base/error.h"
#include "core/base/memory.h"

struct cadre_folder_template; /* immutable once open; one thread at a time */

/* Whether the folder of a tokenizer (see cadre_tokenizer_open), or that of its file,
 * has a template. */
bool cadre_folder_template_exists(const char *tokenizer);

/* The caller closes *out. Errors: CADRE_E_INVALID there is none, or it is damaged;
 * CADRE_E_UNSUPPORTED; CADRE_E_IO; CADRE_E_RESOURCE. [any thread] */
cadre_status cadre_folder_template_open(const char *tokenizer,
                                        struct cadre_folder_template **out,
                                        struct cadre_error *err);

/* NULL is accepted. */
void cadre_folder_template_close(struct cadre_folder_template *form);

/* A hash of all that decides a text, but the messages and the time. */
uint64_t cadre_folder_template_hash(const struct cadre_folder_template *form);

/* Append the text of `messages`, a list of {"role", "content"}, and where `prompt` is
 * set what an answer begins behind, as transformers' apply_chat_template with
 * add_generation_prompt. now: as cadre_template_render. Errors: as there, with the
 * template's file. */
cadre_status cadre_folder_template_render(const struct cadre_folder_template *form,
                                          json_t *messages, bool prompt,
                                          const time_t *now, struct cadre_text *out,
                                          struct cadre_error *err);

#endif
