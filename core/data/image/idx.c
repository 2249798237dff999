/* SPDX-License-Identifier: Apache-2.0 */
#include "core/data/image/idx.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "core/base/memory.h"

#define MAX_BYTES (UINT64_C(1) << 40)

enum { BLOCK = 1 << 16, BYTES_TYPE = 0x08 };

struct file {
    const char *path;
    gzFile gz;
    struct cadre_error *err;
};

/* Why fewer bytes came than were asked for. */
static cadre_status refuse_short(const struct file *file, uint64_t want, uint64_t got)
{
    int code = Z_OK;
    const char *why = gzerror(file->gz, &code);
    if (code == Z_ERRNO)
        return cadre_fail_errno(file->err, CADRE_E_IO, errno, "cannot read \"%s\"",
                                file->path);
    if (code == Z_OK || code == Z_BUF_ERROR)
        return cadre_fail(file->err, CADRE_E_INVALID,
                          "\"%s\": expected %llu bytes after the header, found %llu: "
                          "the file is cut off; get it again",
                          file->path, (unsigned long long)want,
                          (unsigned long long)got);
    return cadre_fail(file->err, CADRE_E_INVALID,
                      "\"%s\": its compressed data is damaged (%s); get the file again",
                      file->path, why);
}

static uint32_t big_endian(const uint8_t *b)
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static cadre_status read_header(const struct file *file, int least, int most,
                                struct cadre_idx *idx)
{
    uint8_t head[4], dim[4];
    if (gzread(file->gz, head, 4) != 4)
        return refuse_short(file, 4, 0);
    if (head[0] || head[1] || head[2] != BYTES_TYPE || head[3] < least ||
        head[3] > most)
        return cadre_fail(
            file->err, CADRE_E_INVALID,
            "\"%s\": expected the magic number 0x0000080%d of an idx file of bytes "
            "with %d dimension%s, found 0x%08x; is it the right file?",
            file->path, least, least, least == 1 ? "" : "s", big_endian(head));
    idx->n_dims = head[3];
    idx->count = 1;
    for (int d = 0; d < idx->n_dims; d++) {
        if (gzread(file->gz, dim, 4) != 4)
            return refuse_short(file, 4 * (uint64_t)idx->n_dims, 4 * (uint64_t)d);
        idx->dim[d] = big_endian(dim);
        if (idx->dim[d] == 0 || idx->dim[d] > MAX_BYTES / idx->count)
            return cadre_fail(file->err, CADRE_E_INVALID,
                              "\"%s\": dimension %d of its header is %llu; expected "
                              "from 1 on, and at most 2^40 bytes in all",
                              file->path, d, (unsigned long long)idx->dim[d]);
        idx->count *= idx->dim[d];
    }
    return CADRE_OK;
}

/* In blocks: memory is taken for what is there, not for what a header says. */
static cadre_status read_bytes(const struct file *file, struct cadre_idx *idx)
{
    uint64_t room = 0;
    for (uint64_t got = 0; got < idx->count;) {
        const uint64_t left = idx->count - got, n = left < BLOCK ? left : BLOCK;
        if (got + n > room) {
            room = idx->count < 2 * room + BLOCK ? idx->count : 2 * room + BLOCK;
            uint8_t *grown = cadre_realloc(idx->bytes, room, 1);
            if (!grown)
                return cadre_no_memory(file->err, "the images of a file");
            idx->bytes = grown;
        }
        const int now = gzread(file->gz, idx->bytes + got, (unsigned)n);
        if (now <= 0)
            return refuse_short(file, idx->count, got);
        got += (uint64_t)now;
    }
    uint8_t more;
    const int end = gzread(file->gz, &more, 1);
    if (end < 0)
        return refuse_short(file, idx->count, idx->count);
    if (end > 0)
        return cadre_fail(
            file->err, CADRE_E_INVALID,
            "\"%s\": expected %llu bytes after the header, found more; is "
            "it one file?",
            file->path, (unsigned long long)idx->count);
    return CADRE_OK;
}

cadre_status cadre_idx_init(const char *path, int least, int most,
                            struct cadre_idx *out, struct cadre_error *err)
{
    struct file file = {.path = path, .gz = gzopen(path, "rb"), .err = err};
    struct cadre_idx idx = {0};
    cadre_status rc;
    if (!file.gz)
        return cadre_fail_errno(err, CADRE_E_IO, errno, "cannot open \"%s\"", path);
    CADRE_TRY_OR(read_header(&file, least, most, &idx), fail);
    CADRE_TRY_OR(read_bytes(&file, &idx), fail);
    if (gzclose(file.gz) == Z_BUF_ERROR) {
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "\"%s\": it ends inside its compressed data, before the "
                        "checksum; get the file again",
                        path);
        cadre_idx_fini(&idx);
        return rc;
    }
    *out = idx;
    return CADRE_OK;
fail:
    gzclose(file.gz);
    cadre_idx_fini(&idx);
    return rc;
}

void cadre_idx_fini(struct cadre_idx *idx)
{
    free(idx->bytes);
    memset(idx, 0, sizeof *idx);
}
