/* SPDX-License-Identifier: Apache-2.0 */
/* A library for LD_PRELOAD, of tests alone: counts the calls of the C library that can
 * fail by their call stack, and fails the one that its table names. What goes to stderr
 * is never failed, since the error line is what the test reads. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/fault_calls.h"

enum { FILES = 96 };

static struct fault_table *table;
static __thread __attribute__((tls_model("initial-exec"))) int busy;

/* ---- files that code came from ---- */

struct file {
    uintptr_t begin, end, base;
    uint64_t name; /* a hash */
    bool runtime; /* the C library, this one, a sanitizer */
    char text[40];
};
static struct file files[FILES];
static _Atomic int n_files, adding;

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash ^= value;
    hash *= 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 29);
}

static bool is_runtime(const char *name)
{
    static const char *const begins[] = {"libc.so", "libasan.so", "fault_calls.so"};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (strncmp(name, begins[i], strlen(begins[i])) == 0)
            return true;
    return false;
}

static int add_file(struct dl_phdr_info *info, size_t size, void *arg)
{
    const char *name = strrchr(info->dlpi_name, '/');
    (void)size;
    (void)arg;
    name = name ? name + 1 : info->dlpi_name;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        const int at = atomic_load(&n_files);
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X) || at >= FILES)
            continue;
        const uintptr_t begin = info->dlpi_addr + part->p_vaddr;
        bool known = false;
        for (int k = 0; k < at; k++)
            known |= files[k].begin == begin;
        if (known)
            continue;
        files[at].begin = begin;
        files[at].end = begin + part->p_memsz;
        files[at].base = info->dlpi_addr;
        files[at].name = 7;
        for (const char *c = name; *c; c++)
            files[at].name = mix(files[at].name, (unsigned char)*c);
        snprintf(files[at].text, sizeof files[at].text, "%s", *name ? name : "program");
        files[at].runtime = is_runtime(name);
        atomic_store(&n_files, at + 1);
    }
    return 0;
}

static const struct file *file_of(uintptr_t address)
{
    for (int again = 0; again < 2; again++) {
        const int n = atomic_load(&n_files);
        for (int i = 0; i < n; i++)
            if (address >= files[i].begin && address < files[i].end)
                return &files[i];
        int free_now = 0;
        if (!atomic_compare_exchange_strong(&adding, &free_now, 1))
            continue;
        dl_iterate_phdr(add_file, NULL);
        atomic_store(&adding, 0);
    }
    return NULL;
}

/* ---- the table ---- */

static void note_trace(void *const *frame, int n)
{
    size_t used = 0;
    for (int i = 2; i < n && used + 100 < FAULT_TRACE; i++) {
        const struct file *file = file_of((uintptr_t)frame[i]);
        Dl_info info = {0};
        const char *name =
            dladdr(frame[i], &info) && info.dli_sname ? info.dli_sname : "";
        used += (size_t)snprintf(
            table->trace + used, FAULT_TRACE - used, "%s+0x%lx %.40s\n",
            file ? file->text : "?",
            (unsigned long)((uintptr_t)frame[i] - (file ? file->base : 0)), name);
    }
}

/* Of a call's stack, as a hash; 0 where no code but a runtime's asked for anything, as
 * AddressSanitizer does where a thread begins: it ends the program where it gets none.
 */
static uint64_t stack_of(enum fault_kind kind, void *const *frame, int n)
{
    uint64_t stack = mix(kind, 1);
    bool asked = false;
    for (int i = 2; i < n; i++) {
        const struct file *file = file_of((uintptr_t)frame[i]);
        if (!file)
            continue;
        stack = mix(stack, ((uintptr_t)frame[i] - file->base) ^ file->name);
        asked |= !file->runtime;
    }
    return asked ? stack | (stack == 0) : 0;
}

/* Count a call by its stack, `frame`; 0, or the error that it has to return. */
static int count_call(enum fault_kind kind, void *const *frame, int n)
{
    const uint64_t stack = stack_of(kind, frame, n);
    size_t at = stack % FAULT_SLOTS;
    if (stack == 0)
        return 0;
    for (size_t tries = 0; tries < FAULT_SLOTS; tries++, at = (at + 1) % FAULT_SLOTS) {
        struct fault_slot *slot = &table->slot[at];
        uint64_t is = atomic_load(&slot->stack);
        if (is == 0 && atomic_compare_exchange_strong(&slot->stack, &is, stack))
            is = stack;
        if (is != stack)
            continue;
        atomic_store(&slot->kind, kind);
        const uint32_t calls = atomic_fetch_add(&slot->calls, 1) + 1;
        if (!table->fails || table->stack != stack || table->at != calls)
            return 0;
        note_trace(frame, n);
        atomic_fetch_add(&table->delivered, 1);
        return table->error;
    }
    atomic_store(&table->full, 1);
    return 0;
}

/* 0, or the error that this call has to return. */
__attribute__((noinline)) int fault_of_call(enum fault_kind kind)
{
    void *frame[FAULT_FRAMES];
    const int kept = errno;
    if (!table || busy || !(table->kinds & (1u << kind)))
        return 0;
    busy = 1;
    const int error = count_call(kind, frame, backtrace(frame, FAULT_FRAMES));
    busy = 0;
    errno = kept;
    return error;
}

static __attribute__((constructor)) void begin(void)
{
    const char *path = getenv(FAULT_TABLE_ENV);
    void *frame[4];
    if (!path)
        return;
    busy = 1;
    backtrace(frame, 4); /* loads what it needs */
    dl_iterate_phdr(add_file, NULL);
    const int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
    void *at = fd < 0 ? MAP_FAILED
                      : (void *)syscall(SYS_mmap, NULL, sizeof *table,
                                        PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        syscall(SYS_close, fd);
    busy = 0;
    if (at != MAP_FAILED)
        table = at;
}

void fault_pause(void)
{
    busy++;
}

void fault_go_on(void)
{
    busy--;
}

/* FAILS(kind, value): as the C library fails. */
#define FAILS(kind, value)                                                             \
    do {                                                                               \
        const int failed = fault_of_call(kind);                                        \
        if (failed) {                                                                  \
            errno = failed > 0 ? failed : EIO;                                         \
            return value;                                                              \
        }                                                                              \
    } while (0)

/* ---- memory ---- */

/* The next definition is the C library's, or that of AddressSanitizer. */

FAULT_EXPORT void *malloc(size_t bytes)
{
    FAULT_NEXT(malloc)
    FAILS(FAULT_MEMORY, NULL);
    return next(bytes);
}

FAULT_EXPORT void *calloc(size_t n, size_t bytes)
{
    FAULT_NEXT(calloc)
    FAILS(FAULT_MEMORY, NULL);
    return next(n, bytes);
}

FAULT_EXPORT void *realloc(void *old, size_t bytes)
{
    FAULT_NEXT(realloc)
    FAILS(FAULT_MEMORY, NULL);
    return next(old, bytes);
}

FAULT_EXPORT int posix_memalign(void **out, size_t unit, size_t bytes)
{
    FAULT_NEXT(posix_memalign)
    return fault_of_call(FAULT_MEMORY) ? ENOMEM : next(out, unit, bytes);
}

FAULT_EXPORT void *aligned_alloc(size_t unit, size_t bytes)
{
    FAULT_NEXT(aligned_alloc)
    FAILS(FAULT_MEMORY, NULL);
    return next(unit, bytes);
}

FAULT_EXPORT void *memalign(size_t unit, size_t bytes)
{
    FAULT_NEXT(memalign)
    FAILS(FAULT_MEMORY, NULL);
    return next(unit, bytes);
}

FAULT_EXPORT void *mmap(void *at, size_t bytes, int rights, int flags, int fd,
                        off_t offset)
{
    FAILS(FAULT_MMAP, MAP_FAILED);
    return (void *)syscall(SYS_mmap, at, bytes, rights, flags, fd, offset);
}

FAULT_EXPORT void *mmap64(void *at, size_t bytes, int rights, int flags, int fd,
                          off_t offset)
{
    FAILS(FAULT_MMAP, MAP_FAILED);
    return (void *)syscall(SYS_mmap, at, bytes, rights, flags, fd, offset);
}

/* ---- files ---- */

static mode_t mode_of(int flags, va_list ap)
{
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
}

#define OPENS(name)                                                                    \
    FAULT_EXPORT int name(const char *path, int flags, ...)                            \
    {                                                                                  \
        va_list ap;                                                                    \
        va_start(ap, flags);                                                           \
        const mode_t mode = mode_of(flags, ap);                                        \
        va_end(ap);                                                                    \
        FAILS(FAULT_OPEN, -1);                                                         \
        return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);                  \
    }
OPENS(open)
OPENS(open64)

#define OPENS_AT(name)                                                                 \
    FAULT_EXPORT int name(int folder, const char *path, int flags, ...)                \
    {                                                                                  \
        va_list ap;                                                                    \
        va_start(ap, flags);                                                           \
        const mode_t mode = mode_of(flags, ap);                                        \
        va_end(ap);                                                                    \
        FAILS(FAULT_OPEN, -1);                                                         \
        return (int)syscall(SYS_openat, folder, path, flags, mode);                    \
    }
OPENS_AT(openat)
OPENS_AT(openat64)

/* What a fortified program calls where it gives no mode. */
FAULT_EXPORT int __open_2(const char *path, int flags);
FAULT_EXPORT int __open_2(const char *path, int flags)
{
    FAILS(FAULT_OPEN, -1);
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0);
}

FAULT_EXPORT int __open64_2(const char *path, int flags);
FAULT_EXPORT int __open64_2(const char *path, int flags)
{
    FAILS(FAULT_OPEN, -1);
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0);
}

FAULT_EXPORT int __openat_2(int folder, const char *path, int flags);
FAULT_EXPORT int __openat_2(int folder, const char *path, int flags)
{
    FAILS(FAULT_OPEN, -1);
    return (int)syscall(SYS_openat, folder, path, flags, 0);
}

FAULT_EXPORT FILE *fopen(const char *path, const char *mode)
{
    FAULT_NEXT(fopen)
    FAILS(FAULT_OPEN, NULL);
    return next(path, mode);
}

FAULT_EXPORT FILE *fopen64(const char *path, const char *mode)
{
    FAULT_NEXT(fopen64)
    FAILS(FAULT_OPEN, NULL);
    return next(path, mode);
}

FAULT_EXPORT FILE *fdopen(int fd, const char *mode)
{
    FAULT_NEXT(fdopen)
    FAILS(FAULT_OPEN, NULL);
    return next(fd, mode);
}

FAULT_EXPORT DIR *opendir(const char *path)
{
    FAULT_NEXT(opendir)
    FAILS(FAULT_OPEN, NULL);
    return next(path);
}

FAULT_EXPORT int memfd_create(const char *name, unsigned flags)
{
    FAILS(FAULT_OPEN, -1);
    return (int)syscall(SYS_memfd_create, name, flags);
}

/* How many bytes a call that is failed still moves, or -1 for none and an error. */
#define MOVES(kind, bytes)                                                             \
    do {                                                                               \
        const int failed = fault_of_call(kind);                                        \
        if (failed > 0 || (failed == FAULT_SHORT && (bytes) < 2)) {                    \
            errno = failed > 0 ? failed : EINTR;                                       \
            return -1;                                                                 \
        }                                                                              \
        if (failed == FAULT_SHORT)                                                     \
            (bytes) /= 2;                                                              \
    } while (0)

FAULT_EXPORT ssize_t read(int fd, void *data, size_t bytes)
{
    MOVES(FAULT_READ, bytes);
    return syscall(SYS_read, fd, data, bytes);
}

FAULT_EXPORT ssize_t __read_chk(int fd, void *data, size_t bytes, size_t room);
FAULT_EXPORT ssize_t __read_chk(int fd, void *data, size_t bytes, size_t room)
{
    (void)room;
    MOVES(FAULT_READ, bytes);
    return syscall(SYS_read, fd, data, bytes);
}

FAULT_EXPORT ssize_t pread(int fd, void *data, size_t bytes, off_t at)
{
    MOVES(FAULT_READ, bytes);
    return syscall(SYS_pread64, fd, data, bytes, at);
}

FAULT_EXPORT ssize_t pread64(int fd, void *data, size_t bytes, off_t at)
{
    MOVES(FAULT_READ, bytes);
    return syscall(SYS_pread64, fd, data, bytes, at);
}

FAULT_EXPORT ssize_t __pread64_chk(int fd, void *data, size_t bytes, off_t at,
                                   size_t room);
FAULT_EXPORT ssize_t __pread64_chk(int fd, void *data, size_t bytes, off_t at,
                                   size_t room)
{
    (void)room;
    MOVES(FAULT_READ, bytes);
    return syscall(SYS_pread64, fd, data, bytes, at);
}

FAULT_EXPORT ssize_t write(int fd, const void *data, size_t bytes)
{
    if (fd != STDERR_FILENO)
        MOVES(FAULT_WRITE, bytes);
    return syscall(SYS_write, fd, data, bytes);
}

FAULT_EXPORT ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at)
{
    MOVES(FAULT_WRITE, bytes);
    return syscall(SYS_pwrite64, fd, data, bytes, at);
}

FAULT_EXPORT ssize_t pwrite64(int fd, const void *data, size_t bytes, off_t at)
{
    MOVES(FAULT_WRITE, bytes);
    return syscall(SYS_pwrite64, fd, data, bytes, at);
}

FAULT_EXPORT int fsync(int fd)
{
    FAILS(FAULT_SYNC, -1);
    return (int)syscall(SYS_fsync, fd);
}

FAULT_EXPORT int fdatasync(int fd)
{
    FAILS(FAULT_SYNC, -1);
    return (int)syscall(SYS_fdatasync, fd);
}

FAULT_EXPORT int ftruncate(int fd, off_t bytes)
{
    FAILS(FAULT_WRITE, -1);
    return (int)syscall(SYS_ftruncate, fd, bytes);
}

FAULT_EXPORT int ftruncate64(int fd, off_t bytes)
{
    FAILS(FAULT_WRITE, -1);
    return (int)syscall(SYS_ftruncate, fd, bytes);
}

FAULT_EXPORT int rename(const char *from, const char *to)
{
    FAILS(FAULT_RENAME, -1);
    return (int)syscall(SYS_rename, from, to);
}

FAULT_EXPORT int renameat2(int a, const char *from, int b, const char *to,
                           unsigned flags)
{
    FAILS(FAULT_RENAME, -1);
    return (int)syscall(SYS_renameat2, a, from, b, to, flags);
}

/* ---- processes, threads, sockets ---- */

FAULT_EXPORT pid_t fork(void)
{
    FAULT_NEXT(fork)
    FAILS(FAULT_FORK, -1);
    return next();
}

FAULT_EXPORT int posix_spawn(pid_t *pid, const char *path,
                             const posix_spawn_file_actions_t *actions,
                             const posix_spawnattr_t *attributes, char *const argv[],
                             char *const env[])
{
    FAULT_NEXT(posix_spawn)
    const int failed = fault_of_call(FAULT_FORK);
    return failed ? failed : next(pid, path, actions, attributes, argv, env);
}

FAULT_EXPORT int posix_spawnp(pid_t *pid, const char *path,
                              const posix_spawn_file_actions_t *actions,
                              const posix_spawnattr_t *attributes, char *const argv[],
                              char *const env[])
{
    FAULT_NEXT(posix_spawnp)
    const int failed = fault_of_call(FAULT_FORK);
    return failed ? failed : next(pid, path, actions, attributes, argv, env);
}

FAULT_EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                                void *(*run)(void *), void *arg)
{
    FAULT_NEXT(pthread_create)
    const int failed = fault_of_call(FAULT_THREAD);
    return failed ? failed : next(thread, attributes, run, arg);
}

FAULT_EXPORT int socket(int domain, int type, int protocol)
{
    FAILS(FAULT_SOCKET, -1);
    return (int)syscall(SYS_socket, domain, type, protocol);
}

FAULT_EXPORT int socketpair(int domain, int type, int protocol, int pair[2])
{
    FAILS(FAULT_SOCKET, -1);
    return (int)syscall(SYS_socketpair, domain, type, protocol, pair);
}

FAULT_EXPORT int bind(int fd, const struct sockaddr *address, socklen_t bytes)
{
    FAILS(FAULT_SOCKET, -1);
    return (int)syscall(SYS_bind, fd, address, bytes);
}

FAULT_EXPORT int listen(int fd, int waiting)
{
    FAILS(FAULT_SOCKET, -1);
    return (int)syscall(SYS_listen, fd, waiting);
}

FAULT_EXPORT int connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
    FAILS(FAULT_SOCKET, -1);
    return (int)syscall(SYS_connect, fd, address, bytes);
}

FAULT_EXPORT int accept(int fd, struct sockaddr *address, socklen_t *bytes)
{
    FAILS(FAULT_SOCKET, -1);
    return (int)syscall(SYS_accept, fd, address, bytes);
}

FAULT_EXPORT int accept4(int fd, struct sockaddr *address, socklen_t *bytes, int flags)
{
    FAILS(FAULT_SOCKET, -1);
    return (int)syscall(SYS_accept4, fd, address, bytes, flags);
}

FAULT_EXPORT ssize_t send(int fd, const void *data, size_t bytes, int flags)
{
    FAILS(FAULT_SOCKET, -1);
    return syscall(SYS_sendto, fd, data, bytes, flags, NULL, 0);
}

FAULT_EXPORT ssize_t recv(int fd, void *data, size_t bytes, int flags)
{
    FAILS(FAULT_SOCKET, -1);
    return syscall(SYS_recvfrom, fd, data, bytes, flags, NULL, NULL);
}

FAULT_EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    FAILS(FAULT_SOCKET, -1);
    return syscall(SYS_sendmsg, fd, message, flags);
}

FAULT_EXPORT ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    FAILS(FAULT_SOCKET, -1);
    return syscall(SYS_recvmsg, fd, message, flags);
}
