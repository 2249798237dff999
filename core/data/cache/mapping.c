/* SPDX-License-Identifier: Apache-2.0 */
/* Only regular files are opened: a FIFO or device named by mistake must not block. */
#include "core/data/cache/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static cadre_status open_regular(const char *path, int *fd, struct stat *st,
                                 struct cadre_error *err)
{
    int found = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (found < 0)
        return cadre_fail_errno(err, CADRE_E_IO, errno, "cannot open \"%s\"", path);
    if (fstat(found, st) != 0) {
        int errnum = errno;
        close(found);
        return cadre_fail_errno(err, CADRE_E_IO, errnum, "cannot stat \"%s\"", path);
    }
    if (!S_ISREG(st->st_mode)) {
        close(found);
        return cadre_fail(err, CADRE_E_INVALID, "\"%s\": expected a file, found a %s",
                          path, S_ISDIR(st->st_mode) ? "folder" : "device or pipe");
    }
    *fd = found;
    return CADRE_OK;
}

static cadre_status read_all(int fd, const char *path, char *text, size_t size,
                             struct cadre_error *err)
{
    size_t done = 0;
    while (done < size) {
        ssize_t got = read(fd, text + done, size - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return cadre_fail_errno(err, CADRE_E_IO, errno, "cannot read \"%s\"", path);
        if (got == 0)
            return cadre_fail(err, CADRE_E_IO,
                              "\"%s\": expected %zu bytes, found %zu: it was shortened "
                              "while being read",
                              path, size, done);
        done += (size_t)got;
    }
    text[size] = '\0';
    return CADRE_OK;
}

cadre_status cadre_mapping_read(const char *path, size_t limit, char **text,
                                size_t *size, struct cadre_error *err)
{
    struct stat st;
    char *found = NULL;
    int fd = -1;
    cadre_status rc = open_regular(path, &fd, &st, err);
    if (rc != CADRE_OK)
        return rc;
    if ((uint64_t)st.st_size > limit) {
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "\"%s\": expected at most %zu bytes, found %lld", path, limit,
                        (long long)st.st_size);
        goto out;
    }
    found = malloc((size_t)st.st_size + 1);
    if (!found) {
        rc = cadre_fail(err, CADRE_E_RESOURCE, "\"%s\": no memory for %lld bytes", path,
                        (long long)st.st_size);
        goto out;
    }
    rc = read_all(fd, path, found, (size_t)st.st_size, err);
out:
    close(fd);
    if (rc != CADRE_OK) {
        free(found);
        return rc;
    }
    *text = found;
    *size = (size_t)st.st_size;
    return CADRE_OK;
}

static cadre_status map_fd(int fd, const struct stat *st, const char *path,
                           struct cadre_mapping *map, struct cadre_error *err)
{
    void *bytes = NULL;
    if (st->st_size > 0) {
        bytes = mmap(NULL, (size_t)st->st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (bytes == MAP_FAILED)
            return cadre_fail_errno(err, CADRE_E_RESOURCE, errno, "cannot map \"%s\"",
                                    path);
    }
    map->bytes = bytes;
    map->size = (uint64_t)st->st_size;
    map->mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
    return CADRE_OK;
}

cadre_status cadre_mapping_init_fd(int fd, const char *path, struct cadre_mapping *map,
                                   struct cadre_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return cadre_fail_errno(err, CADRE_E_IO, errno, "cannot stat \"%s\"", path);
    return map_fd(fd, &st, path, map, err);
}

cadre_status cadre_mapping_init(const char *path, struct cadre_mapping *map,
                                struct cadre_error *err)
{
    struct stat st;
    int fd = -1;
    CADRE_TRY(open_regular(path, &fd, &st, err));
    cadre_status rc = map_fd(fd, &st, path, map, err);
    close(fd);
    return rc;
}

void cadre_mapping_fini(struct cadre_mapping *map)
{
    if (map->bytes)
        munmap((void *)(uintptr_t)map->bytes, map->size);
    memset(map, 0, sizeof *map);
}
