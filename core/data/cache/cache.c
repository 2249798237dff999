/* SPDX-License-Identifier: Apache-2.0 */
/* Finds, verifies and makes the file. Nothing of a mapped file is used before it is
 * checked: every offset and count of the index is compared with the file's size. */
#include "core/data/cache/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/data/cache/cache_format.h"

enum { PATH_BYTES = 4096 };

static bool is_within(uint64_t offset, uint64_t count, uint64_t size, uint64_t limit)
{
    return offset >= CADRE_CACHE_DATA_OFFSET && offset <= limit &&
           count <= (limit - offset) / size;
}

static bool is_header_good(const struct cadre_cache_header *head, uint64_t file_bytes,
                           uint64_t key)
{
    return memcmp(head->magic, cadre_cache_magic, sizeof head->magic) == 0 &&
           (head->version == CADRE_CACHE_VERSION ||
            head->version == CADRE_CACHE_VERSION_WIDE) &&
           head->key == key && head->header_hash == cadre_cache_header_hash(head) &&
           head->file_bytes == file_bytes && head->index_offset % 8 == 0 &&
           is_within(head->index_offset, head->record_count,
                     sizeof(struct cadre_cache_entry), file_bytes) &&
           head->names_bytes ==
               file_bytes - head->index_offset -
                   head->record_count * sizeof(struct cadre_cache_entry);
}

static bool is_data_good(const struct cadre_cache_header *head, const uint8_t *bytes)
{
    uint64_t data_bytes = head->index_offset - CADRE_CACHE_DATA_OFFSET;
    if (cadre_hash_of(bytes + head->index_offset, head->file_bytes - head->index_offset,
                      0) != head->index_hash)
        return false;
    return data_bytes > CADRE_CACHE_HASHED_BYTES_MAX ||
           cadre_hash_of(bytes + CADRE_CACHE_DATA_OFFSET, data_bytes, 0) ==
               head->data_hash;
}

static bool fill_records(const struct cadre_cache_header *head, const uint8_t *bytes,
                         struct cadre_cache_record *records)
{
    const struct cadre_cache_entry *entries =
        (const void *)(bytes + head->index_offset);
    const char *names = (const char *)(entries + head->record_count);
    const bool is_wide = head->version == CADRE_CACHE_VERSION_WIDE;
    const uint64_t width = is_wide ? sizeof(uint32_t) : sizeof(uint16_t);
    for (uint64_t r = 0; r < head->record_count; r++) {
        const struct cadre_cache_entry *entry = &entries[r];
        if (entry->tokens_offset % width != 0 ||
            !is_within(entry->tokens_offset, entry->token_count, width,
                       head->index_offset) ||
            !is_within(entry->labels_offset, entry->label_count, 1,
                       head->index_offset) ||
            entry->name_offset >= head->names_bytes ||
            !memchr(names + entry->name_offset, '\0',
                    head->names_bytes - entry->name_offset))
            return false;
        records[r] = (struct cadre_cache_record){
            .name = names + entry->name_offset,
            .tokens = is_wide ? NULL : (const void *)(bytes + entry->tokens_offset),
            .wide = is_wide ? (const void *)(bytes + entry->tokens_offset) : NULL,
            .token_count = entry->token_count,
            .labels = bytes + entry->labels_offset,
            .label_count = entry->label_count,
        };
    }
    return true;
}

/* Take ownership of the mapping if it verifies. */
static cadre_status adopt(struct cadre_mapping *map, uint64_t key, const char *path,
                          struct cadre_cache *cache, struct cadre_error *err)
{
    struct cadre_cache_header head;
    struct cadre_cache_record *records = NULL;
    if (map->size < CADRE_CACHE_DATA_OFFSET)
        return cadre_fail(err, CADRE_E_INVALID, "token cache \"%s\" is truncated",
                          path);
    memcpy(&head, map->bytes, sizeof head);
    if (!is_header_good(&head, map->size, key) || !is_data_good(&head, map->bytes))
        return cadre_fail(err, CADRE_E_INVALID, "token cache \"%s\" is damaged", path);
    records = cadre_calloc(head.record_count, sizeof *records);
    if (!records)
        return cadre_no_memory(err, "the records of \"%s\"", path);
    if (!fill_records(&head, map->bytes, records)) {
        free(records);
        return cadre_fail(err, CADRE_E_INVALID, "token cache \"%s\" is damaged", path);
    }
    uint64_t hashes[2] = {head.data_hash, head.index_hash};
    *cache =
        (struct cadre_cache){.map = *map,
                             .records = records,
                             .count = head.record_count,
                             .content_hash = cadre_hash_of(hashes, sizeof hashes, 0)};
    memset(map, 0, sizeof *map);
    return CADRE_OK;
}

static cadre_status open_path(const char *path, uint64_t key, struct cadre_cache *cache,
                              struct cadre_error *err)
{
    struct cadre_mapping map = {0};
    cadre_status rc = cadre_mapping_init(path, &map, err);
    if (rc == CADRE_OK)
        rc = adopt(&map, key, path, cache, err);
    cadre_mapping_fini(&map);
    return rc;
}

/* The writer's functions give codes only, so a failure of theirs has no text yet. */
static cadre_status build_into(int fd, const char *path, uint64_t key,
                               cadre_cache_build *build, void *context,
                               struct cadre_error *err)
{
    struct cadre_cache_writer *writer = NULL;
    struct cadre_error why = {0};
    cadre_status rc;
    CADRE_TRY_OR(cadre_cache_writer_create(fd, path, &writer, &why), fail);
    rc = build(context, writer, &why);
    if (rc == CADRE_E_RESOURCE && why.code == CADRE_OK)
        cadre_fail(&why, rc, "no memory for the token cache \"%s\"", path);
    if (rc == CADRE_OK || why.code == CADRE_OK)
        rc = cadre_cache_writer_finish(writer, key, &why);
fail:
    cadre_cache_writer_destroy(writer);
    if (rc != CADRE_OK)
        cadre_fail(err, rc, "%s", why.text);
    return rc;
}

/* Make the cache in an unnamed file that is deleted with the mapping. */
static cadre_status init_unnamed(uint64_t key, cadre_cache_build *build, void *context,
                                 struct cadre_cache *cache, struct cadre_error *err)
{
    const char *root = getenv("TMPDIR");
    struct cadre_mapping map = {0};
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/cadre-tokens-XXXXXX",
             root && root[0] ? root : "/tmp");
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return cadre_fail_errno(err, CADRE_E_IO, errno, "cannot make \"%s\"", path);
    unlink(path);
    cadre_status rc = build_into(fd, path, key, build, context, err);
    if (rc == CADRE_OK)
        rc = cadre_mapping_init_fd(fd, path, &map, err);
    if (rc == CADRE_OK)
        rc = adopt(&map, key, path, cache, err);
    cadre_mapping_fini(&map);
    close(fd);
    return rc;
}

/* Build next to `path` and rename. Under the lock the temporary name is fixed, so that
 * the remains of a killed process are overwritten; without a lock it is unique. */
static cadre_status build_named(const char *path, bool locked, uint64_t key,
                                cadre_cache_build *build, void *context,
                                struct cadre_error *err)
{
    char beside[PATH_BYTES + 16];
    int fd = -1;
    if (locked) {
        snprintf(beside, sizeof beside, "%s.tmp", path);
        fd = open(beside, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    } else {
        snprintf(beside, sizeof beside, "%s.tmp.XXXXXX", path);
        fd = mkostemp(beside, O_CLOEXEC);
    }
    if (fd < 0)
        return cadre_fail_errno(err, CADRE_E_IO, errno, "cannot make \"%s\"", beside);
    cadre_status rc = build_into(fd, beside, key, build, context, err);
    close(fd);
    if (rc == CADRE_OK && rename(beside, path) != 0)
        rc = cadre_fail_errno(err, CADRE_E_IO, errno, "cannot rename \"%s\"", beside);
    if (rc != CADRE_OK)
        unlink(beside);
    return rc;
}

static cadre_status make_folder(const char *folder, struct cadre_error *err)
{
    char path[PATH_BYTES];
    if (snprintf(path, sizeof path, "%s", folder) >= (int)sizeof path - 64)
        return cadre_fail(err, CADRE_E_INVALID, "the path \"%.60s...\" is too long",
                          folder);
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0777);
        *slash = '/';
    }
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return cadre_fail_errno(err, CADRE_E_IO, errno, "cannot make the folder \"%s\"",
                                path);
    return CADRE_OK;
}

/* Wait for the folder's lock; -1 where the file system has none. */
static int lock_folder(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = -1;
    while (fd >= 0 && (rc = flock(fd, LOCK_EX)) != 0 && errno == EINTR)
        ;
    if (fd >= 0 && rc != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

cadre_status cadre_cache_init(const char *folder, uint64_t key,
                              cadre_cache_build *build, void *context,
                              struct cadre_cache *cache, struct cadre_error *err)
{
    char path[PATH_BYTES], hex[17];
    struct cadre_error why = {0};
    cadre_status rc;
    if (!folder || folder[0] == '\0')
        return init_unnamed(key, build, context, cache, err);
    CADRE_TRY(make_folder(folder, err));
    snprintf(path, sizeof path, "%s/tokens-%s.cache", folder, cadre_hash_hex(key, hex));
    if (open_path(path, key, cache, NULL) == CADRE_OK)
        return CADRE_OK;
    int lock = lock_folder(folder);
    rc = open_path(path, key, cache,
                   &why); /* another process may have made it meanwhile */
    if (rc != CADRE_OK) {
        if (rc != CADRE_E_IO)
            cadre_log(CADRE_LOG_WARN, "data", "%s; it is made again", why.text);
        rc = build_named(path, lock >= 0, key, build, context, err);
        if (rc == CADRE_OK)
            rc = open_path(path, key, cache, err);
    }
    if (lock >= 0)
        close(lock);
    return rc;
}

void cadre_cache_fini(struct cadre_cache *cache)
{
    free(cache->records);
    cadre_mapping_fini(&cache->map);
    memset(cache, 0, sizeof *cache);
}
