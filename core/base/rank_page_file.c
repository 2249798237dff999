/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a status page: made, mapped or copied into, removed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/hash.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/base/rank_page.h"

#define FOLDER "status"
#define PREFIX "rank-"
#define COPY_S 1
#define COPY_WORDS 512

/* Copies a page into its file once a second. The rank may sleep in a collective all the
 * while, so it is a thread. */
struct cadre_rank_page_copier {
    const struct cadre_rank_page_shared *from;
    uint64_t words[CADRE_RANK_PAGE_WORDS(struct cadre_rank_page_shared)];
    bool begun; /* words are what the file has */
    int fd;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stop;
};

/* ---- names ---- */

static char *folder_of(const char *dir)
{
    return cadre_path_join(dir, FOLDER);
}

char *cadre_rank_page_path(const char *dir, int rank)
{
    char name[32];
    char *folder = folder_of(dir);
    snprintf(name, sizeof name, PREFIX "%05d", rank);
    char *path = folder ? cadre_path_join(folder, name) : NULL;
    free(folder);
    return path;
}

cadre_status cadre_rank_page_clear(const char *dir, struct cadre_error *err)
{
    char *folder = folder_of(dir);
    DIR *open = folder ? opendir(folder) : NULL;
    cadre_status rc = folder ? CADRE_OK : cadre_no_memory(err, "a path");
    for (struct dirent *entry; open && rc == CADRE_OK && (entry = readdir(open));) {
        if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0)
            continue;
        if (unlinkat(dirfd(open), entry->d_name, 0) != 0 && errno != ENOENT)
            rc = cadre_fail_errno(err, CADRE_E_IO, errno, "cannot remove '%s/%s'",
                                  folder, entry->d_name);
    }
    if (open)
        closedir(open);
    free(folder);
    return rc;
}

/* ---- what a page begins with ---- */

void cadre_rank_page_here(uint64_t *boot, uint64_t *pid_namespace)
{
    struct stat info;
    char *text = NULL;
    size_t bytes = 0;
    *boot = *pid_namespace = 0;
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    ssize_t n = file ? getline(&text, &bytes, file) : 0;
    if (n > 0)
        *boot = cadre_hash_of(text, (size_t)n, 0);
    if (file)
        fclose(file);
    free(text);
    if (stat("/proc/self/ns/pid", &info) == 0)
        *pid_namespace = (uint64_t)info.st_ino;
}

static void fill_head(struct cadre_rank_page_head *head,
                      const struct cadre_rank_page_request *request)
{
    const double begin = cadre_clock_process_boot_s(getpid());
    *head = (struct cadre_rank_page_head){
        .magic = CADRE_RANK_PAGE_MAGIC,
        .version = CADRE_RANK_PAGE_VERSION,
        .bytes = sizeof(struct cadre_rank_page_shared),
        .rank = request->rank,
        .ranks = request->ranks,
        .pid = getpid(),
        .tid = gettid(),
        .process_begin = isnan(begin) ? 0 : begin,
        .clock_offset_s = cadre_wall_clock_s() - cadre_now_s(),
        .first_step = request->first_step,
        .last_step = request->last_step,
        .step_tokens = request->step_tokens,
        .planned_bytes = request->planned_bytes,
    };
    cadre_rank_page_here(&head->boot, &head->pid_namespace);
    gethostname(head->host, sizeof head->host - 1);
    snprintf(head->name, sizeof head->name, "%s", request->name);
    snprintf(head->stack, sizeof head->stack, "%s", request->stack);
}

/* Nothing is known yet. */
static void fill(struct cadre_rank_page *page,
                 const struct cadre_rank_page_request *request)
{
    const struct cadre_rank_page_result none = {
        .loss = NAN, .grad_norm = NAN, .lr = NAN, .valid_loss = NAN};
    fill_head(&page->shared->head, request);
    page->owner = pthread_self();
    page->since_s = cadre_now_s();
    page->valid_loss = NAN;
    cadre_rank_page_result(page, &none);
    cadre_rank_page_state(page, CADRE_RANK_STARTING);
}

/* ---- where a mapping does not reach the file ---- */

/* Only blocks that have changed: most events have not. */
static void copy_once(struct cadre_rank_page_copier *copier)
{
    const _Atomic uint64_t *from = (const void *)copier->from;
    const size_t words = sizeof copier->words / sizeof copier->words[0];
    bool well = true;
    for (size_t at = 0; at < words; at += COPY_WORDS) {
        const size_t n = words - at < COPY_WORDS ? words - at : COPY_WORDS;
        const ssize_t bytes = (ssize_t)(n * sizeof copier->words[0]);
        bool changed = !copier->begun;
        for (size_t i = at; i < at + n; i++) {
            uint64_t now = atomic_load_explicit(&from[i], memory_order_relaxed);
            changed = changed || now != copier->words[i];
            copier->words[i] = now;
        }
        if (changed && pwrite(copier->fd, &copier->words[at], (size_t)bytes,
                              (off_t)(at * sizeof copier->words[0])) != bytes)
            well = false;
    }
    copier->begun = well; /* a copy that failed is made again a second later, whole */
}

static void *copier_main(void *arg)
{
    struct cadre_rank_page_copier *copier = arg;
    struct timespec until;
    pthread_mutex_lock(&copier->lock);
    while (!copier->stop) {
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += COPY_S;
        pthread_cond_timedwait(&copier->changed, &copier->lock, &until);
        copy_once(copier);
    }
    pthread_mutex_unlock(&copier->lock);
    return NULL;
}

static struct cadre_rank_page_copier *
start_copier(const struct cadre_rank_page_shared *from, int fd)
{
    struct cadre_rank_page_copier *copier = cadre_calloc(1, sizeof *copier);
    pthread_condattr_t attr;
    if (!copier)
        return NULL;
    copier->from = from;
    copier->fd = fd;
    pthread_mutex_init(&copier->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&copier->changed, &attr);
    pthread_condattr_destroy(&attr);
    copy_once(copier);
    if (pthread_create(&copier->thread, NULL, copier_main, copier) == 0)
        return copier;
    pthread_cond_destroy(&copier->changed);
    pthread_mutex_destroy(&copier->lock);
    free(copier);
    return NULL;
}

static void end_copier(struct cadre_rank_page_copier *copier)
{
    pthread_mutex_lock(&copier->lock);
    copier->stop = true;
    pthread_cond_signal(&copier->changed);
    pthread_mutex_unlock(&copier->lock);
    pthread_join(copier->thread, NULL);
    copy_once(copier);
    pthread_cond_destroy(&copier->changed);
    pthread_mutex_destroy(&copier->lock);
    close(copier->fd);
    free(copier);
}

/* File systems of this machine, of which all processes see the same memory. */
static bool is_local(int fd)
{
    static const unsigned long local[] = {
        TMPFS_MAGIC,           RAMFS_MAGIC,
        EXT4_SUPER_MAGIC,      XFS_SUPER_MAGIC,
        BTRFS_SUPER_MAGIC,     F2FS_SUPER_MAGIC,
        OVERLAYFS_SUPER_MAGIC, 0x2fc12fc1ul /* ZFS */,
    };
    struct statfs info;
    bool found = false;
    if (fstatfs(fd, &info) != 0)
        return false;
    for (size_t i = 0; i < sizeof local / sizeof local[0]; i++)
        found = found || (unsigned long)info.f_type == local[i];
    return found;
}

/* ---- create and close ---- */

/* Space is taken now: storing into a mapped file without any ends the process. */
static cadre_status make_file(const char *path, int *fd, struct cadre_error *err)
{
    *fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    int why = *fd < 0 ? errno
                      : posix_fallocate(*fd, 0, sizeof(struct cadre_rank_page_shared));
    if (why == 0)
        return CADRE_OK;
    if (*fd >= 0)
        close(*fd);
    return cadre_fail_errno(err, CADRE_E_IO, why, "cannot make '%s'", path);
}

static cadre_status map_page(struct cadre_rank_page *page, int fd, bool copied,
                             struct cadre_error *err)
{
    const int flags = copied ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void *memory = mmap(NULL, sizeof *page->shared, PROT_READ | PROT_WRITE, flags,
                        copied ? -1 : fd, 0);
    if (memory == MAP_FAILED)
        return cadre_fail_errno(err, CADRE_E_RESOURCE, errno,
                                "cannot map a status page");
    page->shared = memory;
    return CADRE_OK;
}

/* The file appears under its name once it is complete. */
static cadre_status publish(const char *temporary, const char *path,
                            struct cadre_error *err)
{
    if (rename(temporary, path) != 0)
        return cadre_fail_errno(err, CADRE_E_IO, errno, "cannot make '%s'", path);
    return CADRE_OK;
}

static cadre_status open_page(struct cadre_rank_page *page,
                              const struct cadre_rank_page_request *request,
                              const char *temporary, const char *path,
                              struct cadre_error *err)
{
    int fd = -1;
    CADRE_TRY(make_file(temporary, &fd, err));
    const bool copied = request->copied || !is_local(fd);
    cadre_status rc = map_page(page, fd, copied, err);
    if (rc == CADRE_OK) {
        fill(page, request);
        if (copied && !(page->copier = start_copier(page->shared, fd)))
            rc = cadre_fail(err, CADRE_E_RESOURCE,
                            "cannot start a thread that copies a status page");
    }
    if (!page->copier)
        close(fd); /* the mapping stays */
    if (rc == CADRE_OK)
        rc = publish(temporary, path, err);
    if (rc != CADRE_OK)
        unlink(temporary);
    return rc;
}

cadre_status cadre_rank_page_create(const struct cadre_rank_page_request *request,
                                    struct cadre_rank_page **out,
                                    struct cadre_error *err)
{
    struct cadre_rank_page *page = cadre_calloc(1, sizeof *page);
    char *folder = folder_of(request->dir);
    char *path = cadre_rank_page_path(request->dir, request->rank);
    char *temporary = path ? cadre_format("%s.new", path) : NULL;
    cadre_status rc = CADRE_OK;
    if (page)
        page->dir = cadre_strdup(request->dir);
    if (!page || !folder || !temporary || !page->dir)
        rc = cadre_no_memory(err, "a status page");
    if (rc == CADRE_OK)
        rc = cadre_path_make_dirs(folder, err);
    if (rc == CADRE_OK)
        rc = open_page(page, request, temporary, path, err);
    free(folder);
    free(path);
    free(temporary);
    if (rc == CADRE_OK)
        *out = page;
    else
        cadre_rank_page_close(page);
    return rc;
}

void cadre_rank_page_close(struct cadre_rank_page *page)
{
    if (!page)
        return;
    if (page->copier)
        end_copier(page->copier);
    if (page->shared)
        munmap(page->shared, sizeof *page->shared);
    free(page->dir);
    free(page);
}
