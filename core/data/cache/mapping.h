/* SPDX-License-Identifier: Apache-2.0 */
/* Files for reading: small ones whole into memory, others mapped. */
#ifndef CADRE_DATA_CACHE_MAPPING_H
#define CADRE_DATA_CACHE_MAPPING_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

/* Read a regular file of at most `limit` bytes; the caller frees *text, which has a
 * zero byte after its `size` bytes. [any thread] Errors: CADRE_E_IO; CADRE_E_INVALID
 * where it is larger or no regular file; CADRE_E_RESOURCE. */
cadre_status cadre_mapping_read(const char *path, size_t limit, char **text,
                                size_t *size, struct cadre_error *err);

struct cadre_mapping {
    const uint8_t *bytes; /* NULL where size is 0 */
    uint64_t size;
    int64_t mtime_ns; /* last change of the contents */
};

/* Map a regular file for reading. cadre_mapping_fini unmaps. The file must not be
 * shortened while mapped. [any thread] Errors: as cadre_mapping_read. */
cadre_status cadre_mapping_init(const char *path, struct cadre_mapping *map,
                                struct cadre_error *err);

/* As above from an open descriptor, which stays the caller's. */
cadre_status cadre_mapping_init_fd(int fd, const char *path, struct cadre_mapping *map,
                                   struct cadre_error *err);

/* Safe on a zeroed mapping. */
void cadre_mapping_fini(struct cadre_mapping *map);

#endif
