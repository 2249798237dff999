/* SPDX-License-Identifier: Apache-2.0 */
/* Positioned input and output: all bytes or an error. */
#include "core/checkpoint/format/file.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/memory.h"

cadre_status cadre_file_read_at(int fd, const char *path, void *data, size_t bytes,
                                uint64_t offset, struct cadre_error *err)
{
    char *out = data;
    size_t done = 0;
    while (done < bytes) {
        ssize_t n = pread(fd, out + done, bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return cadre_fail_errno(err, CADRE_E_IO, errno,
                                    "%s: cannot read at byte %" PRIu64, path,
                                    offset + done);
        if (n == 0)
            return cadre_fail(err, CADRE_E_INVALID,
                              "%s: the file ends at byte %" PRIu64
                              ", expected bytes up to %" PRIu64
                              ": it was truncated; use another copy",
                              path, offset + done, offset + bytes);
        done += (size_t)n;
    }
    return CADRE_OK;
}

cadre_status cadre_file_write_failed(const char *path, int errnum,
                                     struct cadre_error *err)
{
    if (errnum == ENOSPC || errnum == EDQUOT || errnum == EFBIG)
        return cadre_fail_errno(
            err, CADRE_E_RESOURCE, errnum,
            "%s: cannot be written; free space on its disk, or point run.out elsewhere",
            path);
    return cadre_fail_errno(err, CADRE_E_IO, errnum, "%s: cannot be written", path);
}

cadre_status cadre_file_write_at(int fd, const char *path, const void *data,
                                 size_t bytes, uint64_t offset, struct cadre_error *err)
{
    const char *in = data;
    size_t done = 0;
    while (done < bytes) {
        ssize_t n = pwrite(fd, in + done, bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return cadre_file_write_failed(path, errno, err);
        done += (size_t)n;
    }
    return CADRE_OK;
}

cadre_status cadre_file_reserve(int fd, const char *path, uint64_t bytes,
                                struct cadre_error *err)
{
    int failed;
    if (bytes > INT64_MAX)
        return cadre_file_write_failed(path, EFBIG, err);
    do {
        failed = bytes > 0 ? fallocate(fd, 0, 0, (off_t)bytes) : 0;
    } while (failed && errno == EINTR);
    if (failed && errno != EOPNOTSUPP && errno != ENOSYS)
        return cadre_file_write_failed(path, errno, err);
    if (failed && ftruncate(fd, (off_t)bytes) != 0)
        return cadre_file_write_failed(path, errno, err);
    return CADRE_OK;
}

cadre_status cadre_file_open_failed(const char *path, int errnum,
                                    struct cadre_error *err)
{
    cadre_status code = CADRE_E_IO;
    if (errnum == ENOENT)
        code = CADRE_E_INVALID;
    else if (errnum == EMFILE || errnum == ENFILE || errnum == ENOMEM)
        code = CADRE_E_RESOURCE;
    return cadre_fail_errno(err, code, errnum, "%s: cannot be opened", path);
}

cadre_status cadre_file_read_whole(const char *path, size_t limit, char **data,
                                   size_t *bytes, struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    struct stat st;
    char *text = NULL;
    /* not blocking: a named pipe must not make it wait for a writer */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return cadre_file_open_failed(path, errno, err);
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        rc = cadre_fail(err, CADRE_E_INVALID, "%s: expected a regular file", path);
    else if ((uint64_t)st.st_size > limit)
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "%s: expected at most %zu bytes, found %" PRIu64, path, limit,
                        (uint64_t)st.st_size);
    if (rc != CADRE_OK)
        goto out;
    text = malloc((size_t)st.st_size + 1);
    if (!text)
        rc = cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory to read it", path);
    else
        rc = cadre_file_read_at(fd, path, text, (size_t)st.st_size, 0, err);
    if (rc == CADRE_OK) {
        text[st.st_size] = '\0';
        *bytes = (size_t)st.st_size;
        *data = text;
        text = NULL;
    }
out:
    free(text);
    close(fd);
    return rc;
}

cadre_status cadre_file_write_whole(const char *path, const void *data, size_t bytes,
                                    struct cadre_error *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return cadre_file_write_failed(path, errno, err);
    cadre_status rc = cadre_file_write_at(fd, path, data, bytes, 0, err);
    if (rc == CADRE_OK && fsync(fd) != 0)
        rc = cadre_file_write_failed(path, errno, err);
    if (close(fd) != 0 && rc == CADRE_OK)
        rc = cadre_file_write_failed(path, errno, err);
    return rc;
}

cadre_status cadre_file_sync_folder(const char *path, struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return cadre_fail_errno(err, CADRE_E_IO, errno, "%s: cannot be opened", path);
    /* A file system that cannot sync a folder (EINVAL) has nothing to sync. */
    if (fsync(fd) != 0 && errno != EINVAL)
        rc = cadre_fail_errno(err, CADRE_E_IO, errno, "%s: cannot be synced", path);
    close(fd);
    return rc;
}

static int remove_entry(const char *path, const struct stat *st, int type,
                        struct FTW *where)
{
    (void)st;
    (void)type;
    (void)where;
    return remove(path) != 0 && errno != ENOENT ? -1 : 0;
}

cadre_status cadre_file_remove_tree(const char *path, struct cadre_error *err)
{
    enum { OPEN_FOLDERS = 16 };
    if (nftw(path, remove_entry, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS) != 0 &&
        errno != ENOENT)
        return cadre_fail_errno(err, CADRE_E_IO, errno, "%s: cannot be removed", path);
    return CADRE_OK;
}
