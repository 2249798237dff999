/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a cache file, and their writer; for cache*.c and for `cadre inspect`. */
#ifndef CADRE_DATA_CACHE_CACHE_FORMAT_H
#define CADRE_DATA_CACHE_CACHE_FORMAT_H

#include <stdint.h>

#include "core/base/error.h"
#include "core/data/cache/cache.h"

enum { CADRE_CACHE_DATA_OFFSET = 4096 };

/* Above this size the data's hash is not recomputed at each start, only the index's. */
#define CADRE_CACHE_HASHED_BYTES_MAX (UINT64_C(1) << 30)

struct cadre_cache_header {
    char magic[8];
    uint64_t version;
    uint64_t key;
    uint64_t file_bytes;
    uint64_t index_offset;
    uint64_t record_count;
    uint64_t names_bytes;
    uint64_t data_hash; /* [4096, index_offset) */
    uint64_t index_hash; /* [index_offset, file_bytes) */
    uint64_t header_hash;
};

struct cadre_cache_entry {
    uint64_t name_offset; /* in the names */
    uint64_t tokens_offset;
    uint64_t token_count;
    uint64_t labels_offset;
    uint64_t label_count;
};

extern const char cadre_cache_magic[8];
enum {
    CADRE_CACHE_VERSION = 1,
    CADRE_CACHE_VERSION_WIDE = 2, /* tokens of 4 bytes */
};

uint64_t cadre_cache_header_hash(const struct cadre_cache_header *header);

/* Write to fd, which stays the caller's, from its start. */
cadre_status cadre_cache_writer_create(int fd, const char *path,
                                       struct cadre_cache_writer **out,
                                       struct cadre_error *err);

/* Write the rest. Synced to disk only if later starts do not verify the data: a smaller
 * file that a crash damaged is detected and made again. The writer must still be
 * destroyed. */
cadre_status cadre_cache_writer_finish(struct cadre_cache_writer *writer, uint64_t key,
                                       struct cadre_error *err);

void cadre_cache_writer_destroy(struct cadre_cache_writer *writer);

#endif
