/* SPDX-License-Identifier: Apache-2.0 */
/* Open addressing with linear probing; at most half of the slots are ever taken. */
#include "core/data/tokenizer/vocab.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"

cadre_status cadre_vocab_init(struct cadre_vocab *vocab, int32_t count)
{
    uint32_t slots = 16;
    memset(vocab, 0, sizeof *vocab);
    while (slots < (uint32_t)count * 2)
        slots *= 2;
    vocab->count = count;
    vocab->slot_mask = slots - 1;
    vocab->entries = calloc((size_t)count, sizeof *vocab->entries);
    vocab->slots = malloc(slots * sizeof *vocab->slots);
    if (!vocab->entries || !vocab->slots) {
        cadre_vocab_fini(vocab);
        return CADRE_E_RESOURCE;
    }
    memset(vocab->slots, 0xff, slots * sizeof *vocab->slots);
    return CADRE_OK;
}

void cadre_vocab_fini(struct cadre_vocab *vocab)
{
    free(vocab->entries);
    free(vocab->slots);
    free(vocab->pool);
    memset(vocab, 0, sizeof *vocab);
}

/* The slot that holds these bytes, or the free one where they belong. */
static uint32_t find_slot(const struct cadre_vocab *vocab, const char *bytes,
                          size_t size)
{
    uint32_t slot = (uint32_t)cadre_hash_of(bytes, size, 0) & vocab->slot_mask;
    for (; vocab->slots[slot] >= 0; slot = (slot + 1) & vocab->slot_mask) {
        const struct cadre_vocab_entry *entry = &vocab->entries[vocab->slots[slot]];
        if (entry->size == size &&
            memcmp(vocab->pool + entry->offset, bytes, size) == 0)
            break;
    }
    return slot;
}

cadre_status cadre_vocab_put(struct cadre_vocab *vocab, int32_t id, const char *bytes,
                             size_t size)
{
    if (id < 0 || id >= vocab->count || vocab->entries[id].is_set)
        return CADRE_E_INVALID;
    if (size > UINT32_MAX / 4 || vocab->pool_size > UINT32_MAX / 4)
        return CADRE_E_RESOURCE;
    if (vocab->pool_size + size + 1 > vocab->pool_capacity) {
        size_t capacity = (vocab->pool_size + size + 1) * 2;
        char *grown = realloc(vocab->pool, capacity);
        if (!grown)
            return CADRE_E_RESOURCE;
        vocab->pool = grown;
        vocab->pool_capacity = capacity;
    }
    if (size > 0)
        memcpy(vocab->pool + vocab->pool_size, bytes, size);
    vocab->entries[id] =
        (struct cadre_vocab_entry){(uint32_t)vocab->pool_size, (uint32_t)size, 1};
    vocab->pool_size += size;
    return CADRE_OK;
}

cadre_status cadre_vocab_set(struct cadre_vocab *vocab, int32_t id, const char *bytes,
                             size_t size)
{
    CADRE_TRY(cadre_vocab_put(vocab, id, bytes, size));
    const uint32_t slot = find_slot(vocab, bytes, size);
    if (vocab->slots[slot] < 0)
        vocab->slots[slot] = id;
    return CADRE_OK;
}

int32_t cadre_vocab_find(const struct cadre_vocab *vocab, const char *bytes,
                         size_t size)
{
    return vocab->slots[find_slot(vocab, bytes, size)];
}

const char *cadre_vocab_get(const struct cadre_vocab *vocab, int32_t id, size_t *size)
{
    if (id < 0 || id >= vocab->count || !vocab->entries[id].is_set)
        return NULL;
    *size = vocab->entries[id].size;
    return vocab->pool + vocab->entries[id].offset;
}
