/* SPDX-License-Identifier: Apache-2.0 */
/* The vocabularies of JSON files, objects from strings to integers: read here since a
 * key may hold U+0000, which jansson has no room for. */
#ifndef CADRE_DATA_TOKENIZER_ID_MAP_H
#define CADRE_DATA_TOKENIZER_ID_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

struct cadre_id_map_entry {
    size_t at; /* of the key in keys */
    size_t size;
    int64_t id;
};

/* Zero-initialised is empty. */
struct cadre_id_map {
    struct cadre_id_map_entry *entries; /* (count), in the order of the file */
    size_t count;
    size_t capacity;
    char *keys; /* UTF-8, not ended by zeros */
    size_t keys_size;
};

/* Read the object that is all of text[0, size); `path` names it. Whether a key comes
 * twice is the caller's to see. The caller frees with fini, also after a failure.
 * [any thread] Errors: CADRE_E_INVALID with the line, CADRE_E_RESOURCE. */
cadre_status cadre_id_map_read(struct cadre_id_map *map, const char *text, size_t size,
                               const char *path, struct cadre_error *err);
void cadre_id_map_fini(struct cadre_id_map *map);

/* Where the value text[*begin, *end) of the key `inner` in the object `outer` of a JSON
 * text stands; false where it is not found. What is around it is not checked. */
bool cadre_id_map_locate(const char *text, size_t size, const char *outer,
                         const char *inner, size_t *begin, size_t *end);

#endif
