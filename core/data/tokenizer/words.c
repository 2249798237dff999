/* SPDX-License-Identifier: Apache-2.0 */
#include "core/data/tokenizer/words.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"

enum {
    CACHE_SLOTS = 1 << 16,
    CACHE_WORDS_MAX = CACHE_SLOTS / 2,
    CACHED_BYTES_MAX = 64, /* of a word */
    SMALL_BYTES = 1 << 12, /* a text that needs no cache */
};

/* Words of this text already merged: where they stand in it and in the list of ids. */
struct cadre_word_slot {
    size_t at;
    uint32_t bytes; /* 0: free */
    uint32_t count;
    size_t first_id;
};

static struct cadre_word_slot *find_word(struct cadre_words *words, size_t at,
                                         size_t bytes)
{
    size_t slot = cadre_hash_of(words->text + at, bytes, 1) % CACHE_SLOTS;
    struct cadre_word_slot *word = &words->cache[slot];
    while (word->bytes != 0 &&
           (word->bytes != bytes ||
            memcmp(words->text + word->at, words->text + at, bytes) != 0)) {
        slot = (slot + 1) % CACHE_SLOTS;
        word = &words->cache[slot];
    }
    return word;
}

static cadre_status merge_word(struct cadre_words *words, size_t at, size_t bytes)
{
    const size_t first = words->list->count;
    if (words->tok->keeps_words) {
        const int32_t id =
            cadre_vocab_find(&words->tok->vocab, words->text + at, bytes);
        if (id >= 0)
            return cadre_ids_append(words->list, &id, 1);
    }
    CADRE_TRY(words->split(words, at, bytes));
    size_t count = words->list->count - first;
    cadre_status rc = count < 2 ? CADRE_OK
                                : cadre_bpe_merge(&words->rule, &words->scratch,
                                                  words->list->ids + first, &count);
    words->list->count = first + count;
    return rc;
}

static cadre_status copy_word(struct cadre_words *words,
                              const struct cadre_word_slot *word)
{
    cadre_status rc = CADRE_OK;
    for (uint32_t i = 0; i < word->count && rc == CADRE_OK; i++) {
        const int32_t id = words->list->ids[word->first_id + i];
        rc = cadre_ids_append(words->list, &id, 1);
    }
    return rc;
}

cadre_status cadre_words_add(struct cadre_words *words, size_t at, size_t bytes)
{
    if (!words->cache && !words->is_small) {
        words->is_small = words->size <= SMALL_BYTES;
        words->cache =
            words->is_small ? NULL : calloc(CACHE_SLOTS, sizeof *words->cache);
        if (!words->is_small && !words->cache)
            return CADRE_E_RESOURCE;
    }
    if (words->is_small || bytes > CACHED_BYTES_MAX)
        return merge_word(words, at, bytes);
    struct cadre_word_slot *word = find_word(words, at, bytes);
    if (word->bytes != 0)
        return copy_word(words, word);
    const size_t first = words->list->count;
    cadre_status rc = merge_word(words, at, bytes);
    if (rc == CADRE_OK && words->cached < CACHE_WORDS_MAX) {
        *word = (struct cadre_word_slot){at, (uint32_t)bytes,
                                         (uint32_t)(words->list->count - first), first};
        words->cached++;
    }
    return rc;
}

cadre_status cadre_words_split_bytes(struct cadre_words *words, size_t at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        const unsigned char byte = (unsigned char)words->text[at + i];
        const int32_t id = words->tok->byte_ids[byte];
        if (id < 0)
            return cadre_fail(words->err, CADRE_E_INVALID,
                              "byte %zu of the text (0x%02x) has no token in this "
                              "vocabulary",
                              at + i, byte);
        CADRE_TRY(cadre_ids_append(words->list, &id, 1));
    }
    return CADRE_OK;
}

void cadre_words_fini(struct cadre_words *words)
{
    cadre_bpe_scratch_fini(&words->scratch);
    free(words->cache);
    words->cache = NULL;
}
