/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a tokenizer.json beside its model: what is known is taken over, what is
 * not is refused by name. Included by tokenizer_json*.c only. */
#ifndef CADRE_DATA_TOKENIZER_TOKENIZER_JSON_PRIVATE_H
#define CADRE_DATA_TOKENIZER_TOKENIZER_JSON_PRIVATE_H

#include <jansson.h>

#include "core/data/tokenizer/tokenizer_kind.h"

/* Set tok's kind, normalizer, pre-tokenizer and decoder from `root`. Errors:
 * CADRE_E_UNSUPPORTED names the part and what it holds. */
cadre_status cadre_json_parts_read(struct cadre_tokenizer *tok, const json_t *root,
                                   const char *path, struct cadre_error *err);

/* Set the frame from post_processor. Ids are checked against the vocabulary. Errors:
 * as above, CADRE_E_INVALID. */
cadre_status cadre_json_parts_frame(struct cadre_tokenizer *tok, const json_t *root,
                                    const char *path, struct cadre_error *err);

#endif
