/* SPDX-License-Identifier: Apache-2.0 */
/* A bare file cannot start with the magic by chance: it would begin with id 55448,
 * which no vocabulary of these files has. */
#include "core/data/text/token_file.h"

#include <string.h>

enum {
    HEADER_BYTES = 1024,
    MAGIC = 20240520,
    MAGIC_32_BIT = 20240801, /* llm.c's files for Llama 3 */
};

static cadre_status read_header(const struct cadre_mapping *map, const char *path,
                                uint64_t *header_bytes, struct cadre_error *err)
{
    int32_t head[3] = {0};
    *header_bytes = 0;
    if (map->size >= sizeof head)
        memcpy(head, map->bytes, sizeof head);
    if (head[0] == MAGIC_32_BIT)
        return cadre_fail(err, CADRE_E_INVALID,
                          "\"%s\": expected 16-bit tokens, found llm.c's 32-bit ones",
                          path);
    if (head[0] != MAGIC)
        return CADRE_OK;
    if (map->size < HEADER_BYTES || head[1] != 1)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "\"%s\": expected llm.c's header of 1024 bytes and version 1, "
            "found %llu bytes and version %d",
            path, (unsigned long long)map->size, head[1]);
    uint64_t held = (map->size - HEADER_BYTES) / sizeof(uint16_t);
    if (head[2] < 0 || (uint64_t)head[2] != held || map->size % 2 != 0)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "\"%s\": expected the %d tokens of its header, found room for "
            "%llu: the file is truncated or damaged",
            path, head[2], (unsigned long long)held);
    *header_bytes = HEADER_BYTES;
    return CADRE_OK;
}

cadre_status cadre_token_file_init(const char *path, struct cadre_token_file *file,
                                   struct cadre_error *err)
{
    struct cadre_mapping map = {0};
    uint64_t header_bytes = 0;
    cadre_status rc;
    CADRE_TRY_OR(cadre_mapping_init(path, &map, err), fail);
    CADRE_TRY_OR(read_header(&map, path, &header_bytes, err), fail);
    if (map.size % sizeof(uint16_t) != 0) {
        rc = cadre_fail(
            err, CADRE_E_INVALID,
            "\"%s\": expected 16-bit tokens, found an odd size of %llu bytes", path,
            (unsigned long long)map.size);
        goto fail;
    }
    file->map = map;
    file->count = (map.size - header_bytes) / sizeof(uint16_t);
    file->tokens = file->count ? (const void *)(map.bytes + header_bytes) : NULL;
    return CADRE_OK;
fail:
    cadre_mapping_fini(&map);
    return rc;
}

void cadre_token_file_fini(struct cadre_token_file *file)
{
    cadre_mapping_fini(&file->map);
    memset(file, 0, sizeof *file);
}
