/* SPDX-License-Identifier: Apache-2.0 */
/* A text file as two streams of tokens: what trains, and the end held back. */
#ifndef CADRE_DATA_TEXT_TEXT_H
#define CADRE_DATA_TEXT_TEXT_H

#include <stdint.h>

#include "core/base/error.h"
#include "core/data/cache/cache.h"
#include "core/data/cache/mapping.h"
#include "core/data/tokenizer/tokenizer.h"

/* Where a text of `size` bytes is parted: its last valid_fraction is held back, from
 * the start of a character on. */
uint64_t cadre_text_split(const uint8_t *text, uint64_t size, double valid_fraction);

/* Encode the parts of a mapped text one after the other, or map what was encoded
 * before: the cache's record 0 trains, record 1 validates. Both are encoded by
 * themselves, in pieces of about a megabyte. The vocabulary must be at most 65536. [any
 * thread] Errors: CADRE_E_INVALID, CADRE_E_IO, CADRE_E_RESOURCE. */
cadre_status cadre_text_open(const struct cadre_mapping *text, const char *path,
                             const struct cadre_tokenizer *tok, double valid_fraction,
                             const char *cache_dir, struct cadre_cache *cache,
                             struct cadre_error *err);

#endif
