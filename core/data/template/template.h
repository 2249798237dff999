/* SPDX-License-Identifier: Apache-2.0 */
/* Texts by templates: the part of Jinja 3.1 that the chat templates of model folders
 * use, with the settings and functions that transformers gives it. What is outside of
 * it is refused by name and line, where it is read or where it is reached. A template
 * may be anybody's: it can read nothing but its context, and ends after a bounded
 * number of steps. docs/fine-tuning.md lists what is read. */
#ifndef CADRE_DATA_TEMPLATE_TEMPLATE_H
#define CADRE_DATA_TEMPLATE_TEMPLATE_H

#include <jansson.h>
#include <stddef.h>
#include <time.h>

#include "core/base/error.h"
#include "core/base/memory.h"

struct cadre_template; /* immutable: any number of threads may share it */

/* Read text[0, size), UTF-8 of at most 1 MiB. The caller closes *out. [any thread]
 * Errors: CADRE_E_INVALID what is no template, CADRE_E_UNSUPPORTED what is not read
 * here; both with the line; CADRE_E_RESOURCE. Source: pallets/jinja 3.1 lexer.py,
 * parser.py; huggingface/transformers chat_template_utils.py. */
cadre_status cadre_template_open(const char *text, size_t size,
                                 struct cadre_template **out, struct cadre_error *err);

/* NULL is accepted. */
void cadre_template_close(struct cadre_template *template);

/* Append to `out` what the template prints with the names of `context`, an object of
 * values without numbers with a point. `now` is the time of strftime_now, which is not
 * defined where it is NULL. After a failure `out` has a part. [any thread; the context
 * must not be shared between threads] Errors: CADRE_E_INVALID, with what
 * raise_exception says, and where Python would raise; CADRE_E_UNSUPPORTED;
 * CADRE_E_RESOURCE. */
cadre_status cadre_template_render(const struct cadre_template *template,
                                   json_t *context, const time_t *now,
                                   struct cadre_text *out, struct cadre_error *err);

#endif
