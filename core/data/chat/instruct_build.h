/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of instruction data: dialogues as tokens and masks. */
#ifndef CADRE_DATA_CHAT_INSTRUCT_BUILD_H
#define CADRE_DATA_CHAT_INSTRUCT_BUILD_H

#include "core/data/cache/cache.h"
#include "core/data/chat/instruct.h"

/* 16-bit words of a token: 1, or 2 where the tokenizer has more than 65536 ids. */
int cadre_instruct_words(const struct cadre_tokenizer *tokenizer);

/* Map the cache of config's file, made first if it is missing: a record of each
 * dialogue, in their order. Errors: as cadre_instruct_open. */
cadre_status cadre_instruct_build(const struct cadre_instruct_config *config,
                                  struct cadre_cache *cache, struct cadre_error *err);

/* Is the cache's record the chosen one of a pair, which the rejected one follows? */
bool cadre_instruct_is_chosen(const struct cadre_cache_record *record);

#endif
