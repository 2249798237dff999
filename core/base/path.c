/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/memory.h"

char *cadre_path_join(const char *dir, const char *name)
{
    if (name[0] == '/' || dir[0] == 0)
        return cadre_strdup(name);
    const char *slash = dir[strlen(dir) - 1] == '/' ? "" : "/";
    return cadre_format("%s%s%s", dir, slash, name);
}

char *cadre_path_dirname(const char *path)
{
    const char *base = cadre_path_basename(path);
    size_t n = (size_t)(base - path);
    if (n == 0)
        return cadre_strdup(".");
    while (n > 1 && path[n - 1] == '/')
        n--;
    return cadre_strndup(path, n);
}

const char *cadre_path_basename(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

char *cadre_path_absolute(const char *path)
{
    char here[PATH_MAX];
    if (*path == 0 || *path == '/' || !getcwd(here, sizeof here))
        return cadre_strdup(path);
    while (path[0] == '.' && path[1] == '/')
        path += 2 + strspn(path + 2, "/");
    return *path ? cadre_path_join(here, path) : cadre_strdup(here);
}

bool cadre_path_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

bool cadre_path_is_dir(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* false where it is longer than any path that exists. */
static bool join_into(char out[PATH_MAX], const char *dir, const char *name)
{
    const bool alone = name[0] == '/' || dir[0] == 0;
    const bool slash = !alone && dir[strlen(dir) - 1] != '/';
    const int n =
        snprintf(out, PATH_MAX, "%s%s%s", alone ? "" : dir, slash ? "/" : "", name);
    return n >= 0 && n < PATH_MAX;
}

bool cadre_path_has(const char *dir, const char *name)
{
    char path[PATH_MAX];
    return join_into(path, dir, name) && cadre_path_exists(path);
}

bool cadre_path_has_dir(const char *dir, const char *name)
{
    char path[PATH_MAX];
    return join_into(path, dir, name) && cadre_path_is_dir(path);
}

cadre_status cadre_path_make_dirs(const char *path, struct cadre_error *err)
{
    char part[PATH_MAX];
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof part)
        return cadre_fail(err, CADRE_E_IO, "cannot make folder '%.80s': %s", path,
                          n == 0 ? "its name is empty" : "its name is too long");
    memcpy(part, path, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (part[i] != '/' && part[i] != 0)
            continue;
        part[i] = 0;
        const bool made = mkdir(part, 0777) == 0;
        if (!made && errno == EEXIST && !cadre_path_is_dir(part))
            return cadre_fail(err, CADRE_E_IO,
                              "cannot make folder '%s': there is a file of that name",
                              part);
        if (!made && errno != EEXIST)
            return cadre_fail_errno(err, CADRE_E_IO, errno, "cannot make folder '%s'",
                                    part);
        part[i] = path[i];
    }
    return CADRE_OK;
}

static int write_all(int fd, const char *p, size_t bytes)
{
    while (bytes > 0) {
        ssize_t n = write(fd, p, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        p += n;
        bytes -= (size_t)n;
    }
    return 0;
}

/* errno is the reason where this is not 0. */
static int write_beside(const char *temporary, const void *data, size_t bytes)
{
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return -1;
    int failed = write_all(fd, data, bytes) != 0 || fsync(fd) != 0 ? errno : 0;
    if (close(fd) != 0 && !failed)
        failed = errno;
    if (failed)
        unlink(temporary);
    errno = failed;
    return failed ? -1 : 0;
}

cadre_status cadre_path_write_file(const char *path, const void *data, size_t bytes,
                                   struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    char *dir = cadre_path_dirname(path);
    char *temporary = cadre_format("%s.tmp.%d.%d", path, (int)getpid(), (int)gettid());
    if (!dir || !temporary) {
        rc = cadre_fail(err, CADRE_E_RESOURCE, "out of memory writing '%s'", path);
        goto out;
    }
    if (write_beside(temporary, data, bytes) != 0) {
        rc = cadre_fail_errno(err, CADRE_E_IO, errno, "cannot write '%s'", path);
        goto out;
    }
    if (rename(temporary, path) != 0) {
        rc = cadre_fail_errno(err, CADRE_E_IO, errno, "cannot replace '%s'", path);
        unlink(temporary);
        goto out;
    }
    rc = cadre_path_sync_dir(dir, err);
out:
    free(dir);
    free(temporary);
    return rc;
}

/* Read until the end of the file or max_bytes + 1 bytes; -1 with errno set on failure.
 */
static ssize_t read_up_to(int fd, char *data, size_t max_bytes)
{
    size_t used = 0;
    while (used <= max_bytes) {
        ssize_t n = read(fd, data + used, max_bytes + 1 - used);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        used += (size_t)n;
    }
    return (ssize_t)used;
}

static cadre_status read_open(int fd, const char *path, size_t max_bytes, char **data,
                              size_t *bytes, struct cadre_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return cadre_fail_errno(err, CADRE_E_IO, errno, "cannot read '%s'", path);
    if (!S_ISREG(st.st_mode))
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s' is %s, expected a regular file: name a file", path,
                          S_ISDIR(st.st_mode) ? "a folder" : "not a file");
    size_t size = (size_t)st.st_size;
    if (size > max_bytes)
        return cadre_fail(err, CADRE_E_INVALID,
                          "'%s' has %zu bytes, expected at most %zu: is it the right "
                          "file?",
                          path, size, max_bytes);
    char *buffer = malloc(size + 2);
    if (!buffer)
        return cadre_fail(err, CADRE_E_RESOURCE, "out of memory reading '%s'", path);
    ssize_t n = read_up_to(fd, buffer, size);
    if (n < 0 || (size_t)n > size) {
        int why = n < 0 ? errno : EBUSY;
        free(buffer);
        return cadre_fail_errno(err, CADRE_E_IO, why, "cannot read '%s'", path);
    }
    buffer[n] = 0;
    *data = buffer;
    *bytes = (size_t)n;
    return CADRE_OK;
}

cadre_status cadre_path_read_file(const char *path, size_t max_bytes, char **data,
                                  size_t *bytes, struct cadre_error *err)
{
    /* Not blocking: opening a named pipe must not wait for a writer. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return cadre_fail_errno(err, CADRE_E_IO, errno, "cannot open '%s'", path);
    cadre_status rc = read_open(fd, path, max_bytes, data, bytes, err);
    close(fd);
    return rc;
}

cadre_status cadre_path_next_line(FILE *file, const char *path, char **line,
                                  size_t *room, size_t *n, struct cadre_error *err)
{
    errno = 0;
    const ssize_t got = getline(line, room, file);
    *n = got > 0 ? (size_t)got : 0;
    if (got > 0 || feof(file))
        return CADRE_OK;
    if (errno == ENOMEM)
        return cadre_no_memory(err, "a line of '%s'", path);
    return cadre_fail_errno(err, CADRE_E_IO, errno, "cannot read '%s'", path);
}

cadre_status cadre_path_sync_dir(const char *dir, struct cadre_error *err)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return cadre_fail_errno(err, CADRE_E_IO, errno, "cannot open folder '%s'", dir);
    int failed = fsync(fd) != 0 ? errno : 0;
    close(fd);
    /* Some file systems cannot sync a folder; the file itself is safe. */
    if (failed && failed != EINVAL)
        return cadre_fail_errno(err, CADRE_E_IO, failed, "cannot sync folder '%s'",
                                dir);
    return CADRE_OK;
}

void cadre_path_program_dir(char *out, size_t bytes)
{
    ssize_t n = readlink("/proc/self/exe", out, bytes - 1);
    out[n > 0 ? n : 0] = 0;
    char *slash = strrchr(out, '/');
    if (!slash)
        return;
    *slash = 0;
    char *base = strrchr(out, '/');
    if (base && !strcmp(base, "/.libs")) /* where libtool's wrapper runs it */
        *base = 0;
}

void cadre_path_relative(const char *from, const char *to, char *out, size_t bytes)
{
    size_t common = 0, len = 0;
    for (size_t i = 0;; i++) {
        bool end_from = !from[i] || from[i] == '/', end_to = !to[i] || to[i] == '/';
        if (end_from && end_to)
            common = i;
        if (!from[i] || !to[i] || from[i] != to[i])
            break;
    }
    out[0] = 0;
    for (const char *p = from + common; *p; p++)
        if (*p == '/' && p[1] && p[1] != '/' && len + 4 < bytes)
            len += (size_t)snprintf(out + len, bytes - len, "../");
    const char *rest = to + common;
    rest += strspn(rest, "/");
    snprintf(out + len, bytes - len, "%s", rest);
}
