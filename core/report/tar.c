/* SPDX-License-Identifier: Apache-2.0 */
#include "core/report/tar.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/memory.h"

enum { BLOCK = 512, NAME = 100, PREFIX = 155, END_BLOCKS = 2 };
#define MOST_BYTES ((uint64_t)1 << 33) /* 11 octal digits */

/* The header of POSIX.1-1988. */
struct header {
    char name[NAME];
    char mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8];
    char type;
    char link[NAME];
    char magic[6], version[2];
    char owner[32], group[32], major[8], minor[8];
    char prefix[PREFIX];
    char rest[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a header is one block");

static cadre_status cannot_write(const struct cadre_tar *tar, struct cadre_error *err)
{
    return cadre_fail_errno(err, CADRE_E_IO, errno, "cannot write '%s'", tar->path);
}

cadre_status cadre_tar_open(const char *path, struct cadre_tar *tar,
                            struct cadre_error *err)
{
    *tar = (struct cadre_tar){.path = cadre_strdup(path),
                              .partial = cadre_format("%s.partial", path)};
    if (!tar->path || !tar->partial) {
        cadre_tar_discard(tar);
        return cadre_no_memory(err, "a path");
    }
    tar->file = fopen(tar->partial, "wb");
    if (!tar->file) {
        cadre_status rc = cannot_write(tar, err);
        cadre_tar_discard(tar);
        return rc;
    }
    return CADRE_OK;
}

/* Where a long name is cut: the slash between prefix and name; NULL if it fits whole.
 * false: it does not fit. */
static bool find_cut(const char *name, const char **cut)
{
    size_t n = strlen(name);
    *cut = NULL;
    if (n <= NAME)
        return n > 0;
    for (const char *at = strchr(name, '/'); at; at = strchr(at + 1, '/'))
        if (at - name <= PREFIX && n - (size_t)(at - name) - 1 <= NAME && at[1])
            *cut = at;
    return *cut != NULL;
}

/* A field of octal digits with a zero behind it. */
static void put_octal(char *field, size_t size, uint64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%0*" PRIo64, (int)size - 1, value);
    memcpy(field, digits, size);
}

static void put_checksum(struct header *header)
{
    const unsigned char *bytes = (const unsigned char *)header;
    unsigned sum = 0;
    memset(header->checksum, ' ', sizeof header->checksum);
    for (size_t i = 0; i < sizeof *header; i++)
        sum += bytes[i];
    put_octal(header->checksum, 7, sum); /* the eighth stays blank */
}

static cadre_status begin(struct cadre_tar *tar, const char *name, uint64_t bytes,
                          int64_t time, struct cadre_error *err)
{
    struct header header = {.type = '0', .magic = "ustar", .version = {'0', '0'}};
    const char *cut;
    if (*name == '/' || !find_cut(name, &cut))
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s' does not fit into an archive: expected a relative path "
                          "of at most 255 bytes, its last part of 100",
                          name);
    if (bytes >= MOST_BYTES)
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s' does not fit into an archive: it has %" PRIu64
                          " bytes, at most 8 GiB do",
                          name, bytes);
    if (cut)
        memcpy(header.prefix, name, (size_t)(cut - name));
    memcpy(header.name, cut ? cut + 1 : name, strlen(cut ? cut + 1 : name));
    put_octal(header.mode, sizeof header.mode, 0644);
    put_octal(header.uid, sizeof header.uid, 0);
    put_octal(header.gid, sizeof header.gid, 0);
    put_octal(header.size, sizeof header.size, bytes);
    put_octal(header.mtime, sizeof header.mtime, time > 0 ? (uint64_t)time : 0);
    put_checksum(&header);
    if (fwrite(&header, sizeof header, 1, tar->file) != 1)
        return cannot_write(tar, err);
    return CADRE_OK;
}

/* Fill the last block. */
static cadre_status pad(struct cadre_tar *tar, uint64_t bytes, struct cadre_error *err)
{
    static const char zeros[BLOCK];
    size_t rest = (size_t)(-bytes % BLOCK);
    return fwrite(zeros, 1, rest, tar->file) == rest ? CADRE_OK
                                                     : cannot_write(tar, err);
}

cadre_status cadre_tar_add_text(struct cadre_tar *tar, const char *name,
                                const char *text, size_t bytes, int64_t time,
                                struct cadre_error *err)
{
    CADRE_TRY(begin(tar, name, bytes, time, err));
    if (fwrite(text, 1, bytes, tar->file) != bytes)
        return cannot_write(tar, err);
    return pad(tar, bytes, err);
}

static cadre_status copy(struct cadre_tar *tar, FILE *from, const char *path,
                         uint64_t bytes, struct cadre_error *err)
{
    char buffer[1 << 14];
    for (uint64_t left = bytes; left > 0;) {
        size_t wanted = left < sizeof buffer ? (size_t)left : sizeof buffer;
        size_t n = fread(buffer, 1, wanted, from);
        if (n == 0)
            return cadre_fail(err, CADRE_E_INVALID,
                              "'%s' became shorter while it was read: archive a run "
                              "that is not at work",
                              path);
        if (fwrite(buffer, 1, n, tar->file) != n)
            return cannot_write(tar, err);
        left -= n;
    }
    return pad(tar, bytes, err);
}

cadre_status cadre_tar_add_file(struct cadre_tar *tar, const char *name,
                                const char *from, struct cadre_error *err)
{
    struct stat info = {0};
    FILE *file = fopen(from, "rb");
    cadre_status rc;
    if (!file || fstat(fileno(file), &info) != 0)
        rc = cadre_fail_errno(err, CADRE_E_IO, errno, "cannot read '%s'", from);
    else if (!S_ISREG(info.st_mode))
        rc = cadre_fail(err, CADRE_E_INVALID, "'%s' is no regular file", from);
    else
        rc = begin(tar, name, (uint64_t)info.st_size, info.st_mtime, err);
    if (rc == CADRE_OK)
        rc = copy(tar, file, from, (uint64_t)info.st_size, err);
    if (file)
        fclose(file);
    return rc;
}

cadre_status cadre_tar_close(struct cadre_tar *tar, struct cadre_error *err)
{
    static const char zeros[END_BLOCKS * BLOCK];
    bool good = fwrite(zeros, sizeof zeros, 1, tar->file) == 1 &&
                fflush(tar->file) == 0 && fsync(fileno(tar->file)) == 0;
    good = fclose(tar->file) == 0 && good;
    tar->file = NULL;
    good = good && rename(tar->partial, tar->path) == 0;
    cadre_status rc = good ? CADRE_OK : cannot_write(tar, err);
    cadre_tar_discard(tar);
    return rc;
}

void cadre_tar_discard(struct cadre_tar *tar)
{
    if (tar->file)
        fclose(tar->file);
    if (tar->partial)
        unlink(tar->partial);
    free(tar->partial);
    free(tar->path);
    *tar = (struct cadre_tar){0};
}
