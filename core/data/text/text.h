/* SPDX-License-Identifier: Apache-2.0 */
/* A text file as two streams of tokens: training, and the end for validation. */
#ifndef CADRE_DATA_TEXT_TEXT_H
#define CADRE_DATA_TEXT_TEXT_H

#include <stdint.h>

#include "core/base/error.h"
#include "core/data/cache/cache.h"
#include "core/data/cache/mapping.h"
#include "core/data/tokenizer/tokenizer.h"

/* Where a text of `size` bytes is divided: its last valid_fraction is for validation,
 * from the start of a character. */
uint64_t cadre_text_split(const uint8_t *text, uint64_t size, double valid_fraction);

/* Refuse what is no text: a compressed file, by its first bytes, whose bytes would be
 * trained on as they are. Errors: CADRE_E_INVALID, naming the program that unpacks it.
 */
cadre_status cadre_text_check(const struct cadre_mapping *text, const char *path,
                              struct cadre_error *err);

/* Encode both parts of a mapped text, or map their cache: record 0 is for training,
 * record 1 for validation. Each is encoded separately, in chunks of about a megabyte.
 * [any thread] Errors: CADRE_E_INVALID,
 * CADRE_E_IO, CADRE_E_RESOURCE. */
cadre_status cadre_text_open(const struct cadre_mapping *text, const char *path,
                             const struct cadre_tokenizer *tok, double valid_fraction,
                             const char *cache_dir, struct cadre_cache *cache,
                             struct cadre_error *err);

#endif
