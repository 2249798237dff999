/* SPDX-License-Identifier: Apache-2.0 */
#undef _FORTIFY_SOURCE /* its inlines would stand in the way of our own calls */
#include "tests/checkpoint/format/disk_record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/check_main.h"

enum { NODES = 512, CALLS = 1024, NAMES = 512, SECTOR = 512 };

/* A file or folder that once was. */
struct node {
    ino_t number;
    bool gone, folder;
};

struct call {
    enum disk_kind kind;
    int parent, parent2, node, node2; /* -1: none */
    char name[64], name2[64];
    uint64_t at, bytes;
    void *data;
};

/* A name on the disk that is built. */
struct entry {
    int parent, node;
    char name[64];
};

static struct {
    char root[PATH_MAX];
    bool on, no_exchange;
    struct node node[NODES];
    int n_nodes;
    struct call call[CALLS];
    size_t n_calls, safe; /* the first calls are what was there at the beginning */
} disk;

/* ---- recording ---- */

static bool below(const char *path)
{
    size_t n = strlen(disk.root);
    return disk.on && strncmp(path, disk.root, n) == 0 &&
           (path[n] == '/' || path[n] == '\0');
}

static int node_numbered(ino_t number)
{
    for (int i = disk.n_nodes - 1; i >= 0; i--)
        if (!disk.node[i].gone && disk.node[i].number == number)
            return i;
    return -1;
}

static int node_at(const char *path)
{
    struct stat st;
    return syscall(SYS_newfstatat, AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) == 0
               ? node_numbered(st.st_ino)
               : -1;
}

static int node_of(int fd)
{
    struct stat st;
    return disk.on && fstat(fd, &st) == 0 ? node_numbered(st.st_ino) : -1;
}

static int new_node(const char *path)
{
    struct stat st;
    ck_assert(syscall(SYS_newfstatat, AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) == 0);
    ck_assert_int_lt(disk.n_nodes, NODES);
    disk.node[disk.n_nodes] =
        (struct node){.number = st.st_ino, .folder = S_ISDIR(st.st_mode)};
    return disk.n_nodes++;
}

static struct call *new_call(enum disk_kind kind, int node)
{
    ck_assert_uint_lt(disk.n_calls, CALLS);
    struct call *call = &disk.call[disk.n_calls++];
    *call = (struct call){
        .kind = kind, .parent = -1, .parent2 = -1, .node = node, .node2 = -1};
    return call;
}

/* The folder of a path, and the name in it. */
static int split(const char *path, char name[64])
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    ck_assert(slash && strlen(slash + 1) < 64);
    snprintf(name, 64, "%s", slash + 1);
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    return node_at(folder);
}

static void record_new(const char *path)
{
    int node = new_node(path);
    struct call *call = new_call(DISK_MAKE, node);
    call->parent = split(path, call->name);
}

static void record_data(int node, const void *data, size_t bytes, off_t at)
{
    struct call *call = new_call(DISK_DATA, node);
    call->at = (uint64_t)at;
    call->bytes = bytes;
    call->data = malloc(bytes + 1);
    ck_assert_ptr_nonnull(call->data);
    memcpy(call->data, data, bytes);
}

static void record_size(int node, uint64_t bytes)
{
    new_call(DISK_SIZE, node)->bytes = bytes;
}

int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    const int mode = flags & O_CREAT ? va_arg(args, int) : 0;
    va_end(args);
    const bool is_new = below(path) && (flags & O_CREAT) && node_at(path) < 0;
    const int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    if (fd >= 0 && is_new)
        record_new(path);
    else if (fd >= 0 && below(path) && (flags & O_TRUNC))
        record_size(node_of(fd), 0);
    return fd;
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at)
{
    const ssize_t done = syscall(SYS_pwrite64, fd, data, bytes, at);
    const int node = node_of(fd);
    if (done > 0 && node >= 0)
        record_data(node, data, (size_t)done, at);
    return done;
}

int fallocate(int fd, int mode, off_t at, off_t bytes)
{
    const int failed = (int)syscall(SYS_fallocate, fd, mode, at, bytes);
    if (!failed && node_of(fd) >= 0)
        record_size(node_of(fd), (uint64_t)(at + bytes));
    return failed;
}

int ftruncate(int fd, off_t bytes)
{
    const int failed = (int)syscall(SYS_ftruncate, fd, bytes);
    if (!failed && node_of(fd) >= 0)
        record_size(node_of(fd), (uint64_t)bytes);
    return failed;
}

int fsync(int fd)
{
    const int failed = (int)syscall(SYS_fsync, fd);
    if (!failed && node_of(fd) >= 0)
        new_call(DISK_SYNC, node_of(fd));
    return failed;
}

static int move(const char *from, const char *to, bool swap)
{
    struct call one = {.kind = swap ? DISK_SWAP : DISK_MOVE};
    if (below(from)) {
        one.node = node_at(from);
        one.node2 = node_at(to);
        one.parent = split(from, one.name);
        one.parent2 = split(to, one.name2);
    }
    const int failed = (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to,
                                    swap ? RENAME_EXCHANGE : 0);
    if (!failed && below(from))
        *new_call(one.kind, one.node) = one;
    return failed;
}

int rename(const char *from, const char *to)
{
    return move(from, to, false);
}

int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags)
{
    ck_assert(from_at == AT_FDCWD && to_at == AT_FDCWD && flags == RENAME_EXCHANGE);
    if (disk.no_exchange) {
        errno = EINVAL;
        return -1;
    }
    return move(from, to, true);
}

int mkdir(const char *path, mode_t mode)
{
    const int failed = (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    if (!failed && below(path))
        record_new(path);
    return failed;
}

static int drop(const char *path, int flags)
{
    const int node = below(path) ? node_at(path) : -1;
    char name[64] = "";
    const int parent = node >= 0 ? split(path, name) : -1;
    const int failed = (int)syscall(SYS_unlinkat, AT_FDCWD, path, flags);
    if (!failed && node >= 0) {
        struct call *call = new_call(DISK_DROP, node);
        call->parent = parent;
        memcpy(call->name, name, sizeof name);
        disk.node[node].gone = true;
    }
    return failed;
}

int unlink(const char *path)
{
    return drop(path, 0);
}

int remove(const char *path)
{
    const int failed = drop(path, 0);
    return failed && errno == EISDIR ? drop(path, AT_REMOVEDIR) : failed;
}

/* What is there already becomes calls that are safe. */
static void take_tree(const char *path)
{
    struct stat st;
    int node = new_node(path);
    struct call *call = new_call(DISK_MAKE, node);
    call->parent = strcmp(path, disk.root) ? split(path, call->name) : -1;
    ck_assert_int_eq(stat(path, &st), 0);
    if (!S_ISDIR(st.st_mode)) {
        size_t bytes = 0;
        void *data = test_file_read(path, &bytes);
        record_data(node, data, bytes, 0);
        free(data);
        return;
    }
    DIR *dir = opendir(path);
    ck_assert_ptr_nonnull(dir);
    for (const struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        char inner[PATH_MAX];
        snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        if (e->d_name[0] != '.')
            take_tree(inner);
    }
    closedir(dir);
}

size_t disk_record_begin(const char *root)
{
    disk_record_free();
    snprintf(disk.root, sizeof disk.root, "%s", root);
    take_tree(root);
    disk.safe = disk.n_calls;
    disk.on = true;
    return disk.safe;
}

size_t disk_record_end(void)
{
    disk.on = false;
    return disk.n_calls;
}

void disk_record_free(void)
{
    for (size_t i = 0; i < disk.n_calls; i++)
        free(disk.call[i].data);
    disk.n_calls = 0;
    disk.n_nodes = 0;
}

void disk_refuse_exchange(bool refuse)
{
    disk.no_exchange = refuse;
}

/* ---- what is safe ---- */

static bool is_synced(int node, size_t from, size_t before)
{
    for (size_t i = from; i < before; i++)
        if (disk.call[i].kind == DISK_SYNC && disk.call[i].node == node)
            return true;
    return false;
}

bool disk_is_open(size_t call, size_t before)
{
    const struct call *c = &disk.call[call];
    if (call < disk.safe || call >= before || c->kind == DISK_SYNC)
        return false;
    if (c->kind == DISK_DATA || c->kind == DISK_SIZE)
        return !is_synced(c->node, call, before);
    return !is_synced(c->parent, call, before) ||
           (c->parent2 >= 0 && !is_synced(c->parent2, call, before));
}

bool disk_is_data(size_t call)
{
    return disk.call[call].kind == DISK_DATA;
}

/* ---- a disk after the loss ---- */

struct built {
    struct entry entry[NAMES];
    int n;
    char *data[NODES];
    uint64_t bytes[NODES];
};

static void unname(struct built *b, int parent, const char *name)
{
    for (int i = 0; i < b->n; i++)
        if (b->entry[i].parent == parent && strcmp(b->entry[i].name, name) == 0) {
            b->entry[i] = b->entry[--b->n];
            return;
        }
}

static void name_it(struct built *b, int parent, const char *name, int node)
{
    unname(b, parent, name);
    ck_assert_int_lt(b->n, NAMES);
    struct entry *e = &b->entry[b->n++];
    e->parent = parent;
    e->node = node;
    memcpy(e->name, name, sizeof e->name);
}

static void resize(struct built *b, int node, uint64_t bytes)
{
    char *data = realloc(b->data[node], bytes + 1);
    ck_assert_ptr_nonnull(data);
    if (bytes > b->bytes[node])
        memset(data + b->bytes[node], 0, bytes - b->bytes[node]);
    b->data[node] = data;
    b->bytes[node] = bytes;
}

static void apply(struct built *b, const struct call *c, int torn)
{
    uint64_t from = torn == 2 ? SECTOR : 0, end = torn == 1 ? SECTOR : c->bytes;
    switch (c->kind) {
    case DISK_MAKE:
        name_it(b, c->parent, c->name, c->node);
        return;
    case DISK_MOVE:
        unname(b, c->parent, c->name);
        name_it(b, c->parent2, c->name2, c->node);
        return;
    case DISK_SWAP:
        name_it(b, c->parent, c->name, c->node2);
        name_it(b, c->parent2, c->name2, c->node);
        return;
    case DISK_DROP:
        unname(b, c->parent, c->name);
        return;
    case DISK_SIZE:
        resize(b, c->node, c->bytes);
        return;
    case DISK_DATA:
        if (end > c->bytes)
            end = c->bytes;
        if (from >= end)
            return;
        if (c->at + end > b->bytes[c->node])
            resize(b, c->node, c->at + end);
        memcpy(b->data[c->node] + c->at + from, (char *)c->data + from, end - from);
        return;
    case DISK_SYNC:
        return;
    }
}

static void write_out(const struct built *b, int parent, const char *folder)
{
    ck_assert_int_eq(mkdir(folder, 0777), 0);
    for (int i = 0; i < b->n; i++) {
        char path[PATH_MAX];
        if (b->entry[i].parent != parent)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, b->entry[i].name);
        if (disk.node[b->entry[i].node].folder)
            write_out(b, b->entry[i].node, path);
        else
            test_file_write(path, b->data[b->entry[i].node],
                            (size_t)b->bytes[b->entry[i].node]);
    }
}

void disk_build(const struct disk_state *state, const char *folder)
{
    struct built *b = calloc(1, sizeof *b);
    ck_assert_ptr_nonnull(b);
    for (int i = 0; i < disk.n_nodes; i++)
        resize(b, i, 0);
    for (size_t i = 0; i < state->before; i++) {
        const bool is_one = i == state->one;
        if (!disk_is_open(i, state->before) || is_one != state->others ||
            (is_one && state->torn))
            apply(b, &disk.call[i], is_one ? state->torn : 0);
    }
    write_out(b, 0, folder); /* node 0 is the root */
    for (int i = 0; i < disk.n_nodes; i++)
        free(b->data[i]);
    free(b);
}
