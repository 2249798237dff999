/* SPDX-License-Identifier: Apache-2.0 */
/* A stream with a running hash: only the record table is kept in memory. */
#include "core/data/cache/cache_format.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "core/base/memory.h"

enum { BUFFER_BYTES = 1 << 18 };

struct cadre_cache_writer {
    int fd;
    const char *path;
    uint64_t offset; /* of the next byte in the file */
    size_t used; /* of the buffer */
    int errnum; /* the first failure; nothing is written after it */
    size_t width; /* bytes of a token; 0: none was written yet */
    struct cadre_hash hash;
    struct cadre_cache_entry *entries;
    uint64_t count;
    uint64_t capacity;
    struct cadre_text names;
    uint8_t buffer[BUFFER_BYTES];
};

const char cadre_cache_magic[8] = "CADRTOK";

uint64_t cadre_cache_header_hash(const struct cadre_cache_header *header)
{
    struct cadre_cache_header plain = *header;
    plain.header_hash = 0;
    return cadre_hash_of(&plain, sizeof plain, CADRE_CACHE_VERSION);
}

cadre_status cadre_cache_writer_create(int fd, const char *path,
                                       struct cadre_cache_writer **out,
                                       struct cadre_error *err)
{
    struct cadre_cache_writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return cadre_fail(err, CADRE_E_RESOURCE, "no memory to write \"%s\"", path);
    writer->fd = fd;
    writer->path = path;
    writer->offset = CADRE_CACHE_DATA_OFFSET;
    cadre_hash_init(&writer->hash, 0);
    *out = writer;
    return CADRE_OK;
}

void cadre_cache_writer_destroy(struct cadre_cache_writer *writer)
{
    if (!writer)
        return;
    cadre_text_fini(&writer->names);
    free(writer->entries);
    free(writer);
}

static void write_at(struct cadre_cache_writer *writer, const void *bytes, size_t size,
                     uint64_t offset)
{
    const uint8_t *at = bytes;
    while (size > 0 && writer->errnum == 0) {
        ssize_t put = pwrite(writer->fd, at, size, (off_t)offset);
        if (put == 0 || (put < 0 && errno != EINTR))
            writer->errnum = put == 0 ? EIO : errno;
        if (put <= 0)
            continue;
        at += put;
        size -= (size_t)put;
        offset += (uint64_t)put;
    }
}

/* Output is hashed by whole buffers, while they are in the CPU cache. */
static void flush(struct cadre_cache_writer *writer)
{
    cadre_hash_update(&writer->hash, writer->buffer, writer->used);
    write_at(writer, writer->buffer, writer->used, writer->offset - writer->used);
    writer->used = 0;
}

static cadre_status put(struct cadre_cache_writer *writer, const void *bytes,
                        size_t size)
{
    const uint8_t *at = bytes;
    while (size > 0) {
        size_t room = BUFFER_BYTES - writer->used;
        size_t n = size < room ? size : room;
        memcpy(writer->buffer + writer->used, at, n);
        writer->used += n;
        writer->offset += n;
        at += n;
        size -= n;
        if (writer->used == BUFFER_BYTES)
            flush(writer);
    }
    return writer->errnum ? CADRE_E_IO : CADRE_OK;
}

static cadre_status pad(struct cadre_cache_writer *writer)
{
    static const uint8_t zeros[8];
    return put(writer, zeros, (8 - writer->offset % 8) % 8);
}

cadre_status cadre_cache_write_record(struct cadre_cache_writer *writer,
                                      const char *name)
{
    if (writer->count == writer->capacity) {
        uint64_t capacity = 2 * writer->capacity + 16;
        struct cadre_cache_entry *grown =
            cadre_realloc(writer->entries, capacity, sizeof *grown);
        if (!grown)
            return CADRE_E_RESOURCE;
        writer->entries = grown;
        writer->capacity = capacity;
    }
    cadre_status rc = pad(writer);
    writer->entries[writer->count++] =
        (struct cadre_cache_entry){.name_offset = writer->names.len,
                                   .tokens_offset = writer->offset,
                                   .labels_offset = writer->offset};
    cadre_text_append(&writer->names, name, strlen(name) + 1);
    return writer->names.failed ? CADRE_E_RESOURCE : rc;
}

static cadre_status write_tokens(struct cadre_cache_writer *writer, const void *tokens,
                                 size_t count, size_t width)
{
    struct cadre_cache_entry *entry = &writer->entries[writer->count - 1];
    if (writer->width != 0 && writer->width != width)
        return CADRE_E_INVALID;
    writer->width = width;
    cadre_status rc = put(writer, tokens, count * width);
    entry->token_count += count;
    entry->labels_offset = writer->offset;
    return rc;
}

cadre_status cadre_cache_write_tokens(struct cadre_cache_writer *writer,
                                      const uint16_t *tokens, size_t count)
{
    return write_tokens(writer, tokens, count, sizeof *tokens);
}

cadre_status cadre_cache_write_wide(struct cadre_cache_writer *writer,
                                    const uint32_t *tokens, size_t count)
{
    return write_tokens(writer, tokens, count, sizeof *tokens);
}

cadre_status cadre_cache_write_labels(struct cadre_cache_writer *writer,
                                      const uint8_t *labels, size_t count)
{
    writer->entries[writer->count - 1].label_count += count;
    return put(writer, labels, count);
}

cadre_status cadre_cache_writer_finish(struct cadre_cache_writer *writer, uint64_t key,
                                       struct cadre_error *err)
{
    struct cadre_cache_header header = {.version = writer->width == sizeof(uint32_t)
                                                       ? CADRE_CACHE_VERSION_WIDE
                                                       : CADRE_CACHE_VERSION,
                                        .key = key};
    memcpy(header.magic, cadre_cache_magic, sizeof header.magic);
    pad(writer);
    flush(writer);
    header.index_offset = writer->offset;
    header.data_hash = cadre_hash_final(&writer->hash);
    cadre_hash_init(&writer->hash, 0);
    put(writer, writer->entries, writer->count * sizeof *writer->entries);
    put(writer, writer->names.data, writer->names.len);
    flush(writer);
    header.index_hash = cadre_hash_final(&writer->hash);
    header.record_count = writer->count;
    header.names_bytes = writer->names.len;
    header.file_bytes = writer->offset;
    header.header_hash = cadre_cache_header_hash(&header);
    write_at(writer, &header, sizeof header, 0);
    if (writer->errnum == 0 && header.file_bytes > CADRE_CACHE_HASHED_BYTES_MAX &&
        fsync(writer->fd) != 0)
        writer->errnum = errno;
    if (writer->errnum)
        return cadre_fail_errno(err, CADRE_E_IO, writer->errnum,
                                "cannot write the token cache \"%s\"", writer->path);
    return CADRE_OK;
}
