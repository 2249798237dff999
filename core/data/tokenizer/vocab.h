/* SPDX-License-Identifier: Apache-2.0 */
/* A vocabulary: the bytes of every id, and the id of given bytes. */
#ifndef CADRE_DATA_TOKENIZER_VOCAB_H
#define CADRE_DATA_TOKENIZER_VOCAB_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

struct cadre_vocab_entry {
    uint32_t offset;
    uint32_t size;
    uint32_t is_set;
};

/* Fields are read through the functions below. */
struct cadre_vocab {
    int32_t count;
    struct cadre_vocab_entry *entries; /* (count) */
    char *pool;
    size_t pool_size;
    size_t pool_capacity;
    int32_t *slots; /* hash table of ids, -1 where free */
    uint32_t slot_mask;
};

enum { CADRE_VOCAB_MAX = 1 << 22 };

/* Room for ids 0 to count - 1, none set. 1 <= count <= CADRE_VOCAB_MAX.
 * Errors: CADRE_E_RESOURCE. */
cadre_status cadre_vocab_init(struct cadre_vocab *vocab, int32_t count);

/* Safe on a zeroed vocabulary. */
void cadre_vocab_fini(struct cadre_vocab *vocab);

/* Give id its bytes, which are copied. Bytes that an earlier id has keep finding that
 * one. Errors: CADRE_E_INVALID id out of range or set before; CADRE_E_RESOURCE. */
cadre_status cadre_vocab_set(struct cadre_vocab *vocab, int32_t id, const char *bytes,
                             size_t size);

/* The same, but these bytes are not found. */
cadre_status cadre_vocab_put(struct cadre_vocab *vocab, int32_t id, const char *bytes,
                             size_t size);

/* The id with these bytes, or -1. */
int32_t cadre_vocab_find(const struct cadre_vocab *vocab, const char *bytes,
                         size_t size);

/* The bytes of a set id; NULL where id is out of range or not set. */
const char *cadre_vocab_get(const struct cadre_vocab *vocab, int32_t id, size_t *size);

#endif
