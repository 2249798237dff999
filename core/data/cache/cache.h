/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of a tokenised set: one file of records, each a run of tokens (uint16; in a
 * file of version 2 uint32, for vocabularies of more than 65536 ids) and of uint8
 * labels, written once as a stream and mapped afterwards.
 *
 *   0     struct header (its own hash, the hashes of what follows, the key)
 *   4096  per record: tokens, labels, padding to 8 bytes
 *   index the record table, then the names
 *
 * The file's name holds the key, a hash of everything that the tokens were made from.
 * It is written under a temporary name and renamed. A process that finds it missing or
 * damaged makes it under a lock of the folder, so ranks that start together make it
 * once. Little-endian hosts only. */
#ifndef CADRE_DATA_CACHE_CACHE_H
#define CADRE_DATA_CACHE_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/data/cache/mapping.h"

struct cadre_cache_record {
    const char *name;
    const uint16_t *tokens; /* (token_count); NULL where they are wide */
    const uint32_t *wide; /* (token_count) */
    uint64_t token_count;
    const uint8_t *labels; /* (label_count) */
    uint64_t label_count;
};

struct cadre_cache {
    struct cadre_mapping map;
    struct cadre_cache_record
        *records; /* (count), owned; they point into the mapping */
    uint64_t count;
    uint64_t content_hash; /* of records, tokens, labels and names: free of the key */
};

struct cadre_cache_writer;

/* Make the records: called at most once by cadre_cache_init, writes in order. */
typedef cadre_status cadre_cache_build(void *context, struct cadre_cache_writer *writer,
                                       struct cadre_error *err);

/* Map the cache of `key` in `folder` (made if missing), building it first if it
 * is missing or fails verification (with a log line). folder NULL: an unnamed
 * temporary file. On success the caller frees with cadre_cache_fini; on failure *cache
 * is untouched. [any thread; several threads and processes at once] Errors: those of
 * build; CADRE_E_IO; CADRE_E_RESOURCE. */
cadre_status cadre_cache_init(const char *folder, uint64_t key,
                              cadre_cache_build *build, void *context,
                              struct cadre_cache *cache, struct cadre_error *err);

/* Safe on a zeroed cache. */
void cadre_cache_fini(struct cadre_cache *cache);

/* Start a record; tokens, then labels, of the record begun last. Errors: CADRE_E_IO,
 * also for an earlier failure; CADRE_E_RESOURCE. */
cadre_status cadre_cache_write_record(struct cadre_cache_writer *writer,
                                      const char *name);
cadre_status cadre_cache_write_tokens(struct cadre_cache_writer *writer,
                                      const uint16_t *tokens, size_t count);
/* The same of 4 bytes each. All tokens of a cache are of one kind: CADRE_E_INVALID. */
cadre_status cadre_cache_write_wide(struct cadre_cache_writer *writer,
                                    const uint32_t *tokens, size_t count);
cadre_status cadre_cache_write_labels(struct cadre_cache_writer *writer,
                                      const uint8_t *labels, size_t count);

#endif
