/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define HAVE_ASAN 1
#elif __has_feature(thread_sanitizer)
#define HAVE_TSAN 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define HAVE_ASAN 1
#endif
#ifdef __SANITIZE_THREAD__
#define HAVE_TSAN 1
#endif

enum { FILES = 32 };
static struct {
    char folder[96];
    size_t n;
} place;
static char file_path[FILES][160], file_name[FILES][32];
static int file_fd[FILES];

static struct {
    const struct fuzz_reader *reader;
    size_t most;
} now;

/* ---- allocations ---- */

static void look_at(size_t bytes)
{
    static bool told;
    if (!now.reader || bytes <= now.most || told)
        return;
    told = true;
    fprintf(stderr, "fuzz: %s: an allocation of %zu bytes, expected at most %zu\n",
            now.reader->name, bytes, now.most);
    abort();
}

#ifdef HAVE_ASAN
int __sanitizer_install_malloc_and_free_hooks(void (*)(const volatile void *, size_t),
                                              void (*)(const volatile void *));
static void on_malloc(const volatile void *at, size_t bytes)
{
    (void)at;
    look_at(bytes);
}

static void on_free(const volatile void *at)
{
    (void)at;
}

static __attribute__((constructor)) void hook(void)
{
    __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
}
#elif !defined(HAVE_TSAN)
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);

void *malloc(size_t bytes)
{
    look_at(bytes);
    return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    look_at(n && bytes > SIZE_MAX / n ? 0 : n * bytes);
    return __libc_calloc(n, bytes);
}

void *realloc(void *old, size_t bytes)
{
    look_at(bytes);
    return __libc_realloc(old, bytes);
}
#endif

/* ---- files ---- */

static void die(const char *what)
{
    fprintf(stderr, "fuzz: %s: %s\n", what, strerror(errno));
    abort();
}

static void make_folder(void)
{
    const char *base = getenv("TMPDIR");
    if (place.folder[0])
        return;
    snprintf(place.folder, sizeof place.folder, "%s/cadre-fuzz-XXXXXX",
             base && strlen(base) < 64       ? base
             : access("/dev/shm", W_OK) == 0 ? "/dev/shm"
                                             : "/tmp");
    if (!mkdtemp(place.folder))
        die(place.folder);
}

static size_t slot_of(const char *name)
{
    for (size_t i = 0; i < place.n; i++)
        if (strcmp(file_name[i], name) == 0)
            return i;
    if (place.n == FILES)
        die("too many files");
    snprintf(file_name[place.n], sizeof file_name[0], "%s", name);
    snprintf(file_path[place.n], sizeof file_path[0], "%s/%s", place.folder, name);
    file_fd[place.n] = -1;
    return place.n++;
}

const char *fuzz_file(const char *name, const void *data, size_t size)
{
    make_folder();
    if (!name)
        return place.folder;
    const size_t i = slot_of(name);
    if (file_fd[i] < 0)
        file_fd[i] = open(file_path[i], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file_fd[i] < 0 || ftruncate(file_fd[i], 0) != 0 ||
        (size && pwrite(file_fd[i], data, size, 0) != (ssize_t)size))
        die(file_path[i]);
    return file_path[i];
}

void fuzz_remove(const char *name)
{
    make_folder();
    const size_t i = slot_of(name);
    if (file_fd[i] >= 0)
        close(file_fd[i]);
    file_fd[i] = -1;
    unlink(file_path[i]);
}

void fuzz_end(void)
{
    if (!place.folder[0])
        return;
    for (size_t i = 0; i < place.n; i++)
        fuzz_remove(file_name[i]);
    rmdir(place.folder);
    place.folder[0] = 0;
}

size_t fuzz_split(const uint8_t *data, size_t size, const uint8_t **rest, size_t *n)
{
    const size_t mark = strlen(FUZZ_SPLIT);
    const uint8_t *at = size ? memmem(data, size, FUZZ_SPLIT, mark) : NULL;
    *rest = at ? at + mark : data + size;
    *n = size - (size_t)(*rest - data);
    return at ? (size_t)(at - data) : size;
}

/* ---- a run ---- */

const struct fuzz_reader *fuzz_find(const char *name)
{
    for (size_t i = 0; i < fuzz_n_readers; i++)
        if (strcmp(fuzz_readers[i].name, name) == 0)
            return &fuzz_readers[i];
    return NULL;
}

void fuzz_run(const struct fuzz_reader *reader, const uint8_t *data, size_t size)
{
    now.most = reader->base + reader->times * size;
    now.reader = reader;
    reader->read(data, size);
    now.reader = NULL;
}
