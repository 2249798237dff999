/* SPDX-License-Identifier: Apache-2.0 */
/* A library for LD_PRELOAD, of tests alone: a file system that becomes read-only in the
 * midst of a save, one of another machine, and a clock that is set back.
 *
 * ODD_BELOW=DIR, ODD_INSIDE=TEXT, ODD_AFTER=N, ODD_MARK=FILE: of the files below DIR
 * whose paths have TEXT in them the Nth change fails, and then every change below DIR,
 * by any process: FILE, which is made, says that it has come to this. A change is an
 * open for writing, a write by its descriptor, a name that is made, changed or removed.
 * Streams that were open before go on. ODD_NETWORK=1: files lie on NFS, as fstatfs
 * tells it. ODD_CLOCK=FILE: once FILE exists the time of day
 * is an hour earlier. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { BACK_S = 3600 };

static const char *below, *inside, *mark, *hidden, *set_back;
static long after;
static _Atomic long changes;

static __attribute__((constructor)) void begin(void)
{
    const char *n = getenv("ODD_AFTER");
    below = getenv("ODD_BELOW");
    inside = getenv("ODD_INSIDE");
    mark = getenv("ODD_MARK");
    hidden = getenv("ODD_HIDDEN");
    set_back = getenv("ODD_CLOCK");
    after = n ? atol(n) : 0;
}

static bool exists(const char *path)
{
    struct stat info;
    return path && syscall(SYS_newfstatat, AT_FDCWD, path, &info, 0) == 0;
}

/* Has the change of this file to fail? The one that is the Nth inside leaves the mark.
 */
static bool is_read_only(const char *path)
{
    if (!below || !mark || !path || !strstr(path, below))
        return false;
    if (exists(mark))
        return true;
    if (!strstr(path, inside) || atomic_fetch_add(&changes, 1) + 1 < after)
        return false;
    const int fd =
        (int)syscall(SYS_openat, AT_FDCWD, mark, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (fd >= 0)
        syscall(SYS_close, fd);
    return true;
}

/* `name` in the folder `fd`, or the file `fd` where name is NULL. */
static bool is_read_only_at(int fd, const char *name)
{
    char link[64], path[4096];
    if (!below || (name && (fd == AT_FDCWD || *name == '/')))
        return is_read_only(name);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, path, sizeof path - 300);
    if (n < 0)
        return false;
    path[n] = '\0';
    if (name)
        snprintf(path + n, sizeof path - (size_t)n, "/%.250s", name);
    return is_read_only(path);
}

#define REFUSES(fd, name)                                                              \
    do {                                                                               \
        const int kept = errno;                                                        \
        if (is_read_only_at(fd, name)) {                                               \
            errno = EROFS;                                                             \
            return -1;                                                                 \
        }                                                                              \
        errno = kept;                                                                  \
    } while (0)

/* ---- opening ---- */

static bool is_hidden(const char *path)
{
    return hidden && strstr(path, hidden);
}

#define LISTS(type, name)                                                              \
    EXPORT struct type *name(DIR *dir)                                                 \
    {                                                                                  \
        static struct type *(*next)(DIR *);                                            \
        struct type *entry;                                                            \
        if (!next)                                                                     \
            *(void **)&next = dlsym(RTLD_NEXT, #name);                                 \
        do                                                                             \
            entry = next(dir);                                                         \
        while (entry && is_hidden(entry->d_name));                                     \
        return entry;                                                                  \
    }
LISTS(dirent, readdir)
LISTS(dirent64, readdir64)

static bool writes(int flags)
{
    return (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)) != 0;
}

#define OPENS(name, first, folder)                                                     \
    EXPORT int name first                                                              \
    {                                                                                  \
        va_list ap;                                                                    \
        va_start(ap, flags);                                                           \
        const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;    \
        va_end(ap);                                                                    \
        if (is_hidden(path)) {                                                         \
            errno = ENOENT;                                                            \
            return -1;                                                                 \
        }                                                                              \
        if (writes(flags))                                                             \
            REFUSES(folder, path);                                                     \
        return (int)syscall(SYS_openat, folder, path, flags, mode);                    \
    }
OPENS(open, (const char *path, int flags, ...), AT_FDCWD)
OPENS(open64, (const char *path, int flags, ...), AT_FDCWD)
OPENS(openat, (int folder, const char *path, int flags, ...), folder)
OPENS(openat64, (int folder, const char *path, int flags, ...), folder)

#define STREAMS(name)                                                                  \
    EXPORT FILE *name(const char *path, const char *mode)                              \
    {                                                                                  \
        static FILE *(*next)(const char *, const char *);                              \
        if (!next)                                                                     \
            *(void **)&next = dlsym(RTLD_NEXT, #name);                                 \
        if (strpbrk(mode, "wa+") && is_read_only(path)) {                              \
            errno = EROFS;                                                             \
            return NULL;                                                               \
        }                                                                              \
        return next(path, mode);                                                       \
    }
STREAMS(fopen)
STREAMS(fopen64)

/* ---- changing ---- */

EXPORT ssize_t write(int fd, const void *data, size_t bytes)
{
    REFUSES(fd, NULL);
    return syscall(SYS_write, fd, data, bytes);
}

EXPORT ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at)
{
    REFUSES(fd, NULL);
    return syscall(SYS_pwrite64, fd, data, bytes, at);
}

EXPORT ssize_t pwrite64(int fd, const void *data, size_t bytes, off_t at)
{
    REFUSES(fd, NULL);
    return syscall(SYS_pwrite64, fd, data, bytes, at);
}

EXPORT int mkdir(const char *path, mode_t mode)
{
    REFUSES(AT_FDCWD, path);
    return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

EXPORT int rename(const char *from, const char *to)
{
    REFUSES(AT_FDCWD, from);
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

EXPORT int renameat2(int a, const char *from, int b, const char *to, unsigned flags)
{
    REFUSES(a, from);
    return (int)syscall(SYS_renameat2, a, from, b, to, flags);
}

EXPORT int unlink(const char *path)
{
    REFUSES(AT_FDCWD, path);
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

EXPORT int unlinkat(int folder, const char *path, int flags)
{
    REFUSES(folder, path);
    return (int)syscall(SYS_unlinkat, folder, path, flags);
}

EXPORT int rmdir(const char *path)
{
    REFUSES(AT_FDCWD, path);
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}

/* ---- whose file system ---- */

EXPORT int fstatfs(int fd, struct statfs *info)
{
    const int rc = (int)syscall(SYS_fstatfs, fd, info);
    if (rc == 0 && getenv("ODD_NETWORK"))
        info->f_type = NFS_SUPER_MAGIC;
    return rc;
}

EXPORT int fstatfs64(int fd, struct statfs64 *info)
{
    return fstatfs(fd, (struct statfs *)info);
}

/* ---- the time of day ---- */

static long back(void)
{
    return exists(set_back) ? BACK_S : 0;
}

EXPORT int clock_gettime(clockid_t clock, struct timespec *now)
{
    const int rc = (int)syscall(SYS_clock_gettime, clock, now);
    if (rc == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec -= back();
    return rc;
}

EXPORT int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec time;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &time);
    now->tv_sec = time.tv_sec;
    now->tv_usec = time.tv_nsec / 1000;
    return 0;
}

EXPORT time_t time(time_t *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}
