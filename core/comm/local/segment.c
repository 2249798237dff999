/* SPDX-License-Identifier: Apache-2.0 */
/* The segment: a sparse memfd with a bump allocator, and the world's first failure. */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/comm/local/segment_private.h"

/* Groups that fit in a segment, each as large as the world. Untouched pages use no
 * memory. */
#define WORLDS_OF_ROOM 32

uint64_t cadre_local_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void cadre_local_futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t ns)
{
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u),
                         .tv_nsec = (long)(ns % 1000000000u)};
    syscall(SYS_futex, word, FUTEX_WAIT, value, &t, NULL, 0);
}

void cadre_local_futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static uint64_t align_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

/* Bytes of a group, and where its parts begin, counted from the group. */
struct group_layout {
    uint64_t channels, staging, p2p_staging, bytes;
};

static struct group_layout lay_out(uint64_t size, bool processes)
{
    struct group_layout l;
    l.channels =
        align_up(sizeof(struct shared_group) + size * sizeof(struct shared_slot), 64);
    l.staging =
        align_up(l.channels + size * size * sizeof(struct shared_channel), 4096);
    l.p2p_staging = l.staging + (processes ? size * 2 * LOCAL_CHUNK : 0);
    l.bytes =
        align_up(l.p2p_staging +
                     (processes ? size * size * LOCAL_P2P_TURNS * LOCAL_P2P_CHUNK : 0),
                 4096);
    return l;
}

struct shared_group *cadre_local_group_create(struct cadre_local_segment *segment,
                                              int size, uint64_t *offset)
{
    struct shared_segment *s = segment->shared;
    struct group_layout l = lay_out((uint64_t)size, s->config.processes);
    uint64_t at = atomic_load(&s->used);
    do {
        if (l.bytes > s->bytes - at)
            return NULL;
    } while (!atomic_compare_exchange_weak(&s->used, &at, at + l.bytes));

    struct shared_group *g = local_at(segment, at);
    g->size = size;
    g->channels = at + l.channels;
    g->staging = at + l.staging;
    g->p2p_staging = at + l.p2p_staging;
    g->next = atomic_load(&s->groups);
    while (!atomic_compare_exchange_weak(&s->groups, &g->next, at))
        ;
    *offset = at;
    return g;
}

static bool is_link(const struct cadre_link *link)
{
    return link->gbytes_s >= 0 && link->latency_s >= 0;
}

static cadre_status check_config(const struct cadre_local_config *c,
                                 struct cadre_error *err)
{
    if (c->size < 1 || c->size > LOCAL_MAX_RANKS)
        return cadre_fail(err, CADRE_E_INVALID,
                          "local communicator: %d ranks; expected 1 to %d", c->size,
                          LOCAL_MAX_RANKS);
    if (!(c->timeout_s > 0))
        return cadre_fail(err, CADRE_E_INVALID,
                          "comm.timeout is %g s; expected more than 0", c->timeout_s);
    if (!is_link(&c->link) || !is_link(&c->between))
        return cadre_fail(err, CADRE_E_INVALID,
                          "comm.link is %g GB/s, %g s, between nodes %g GB/s, %g s; "
                          "expected 0 or more",
                          c->link.gbytes_s, c->link.latency_s, c->between.gbytes_s,
                          c->between.latency_s);
    return CADRE_OK;
}

static cadre_status map_segment(int fd, uint64_t bytes,
                                struct cadre_local_segment **out,
                                struct cadre_error *err)
{
    struct cadre_local_segment *segment = calloc(1, sizeof *segment);
    if (!segment)
        return cadre_fail(err, CADRE_E_RESOURCE, "local communicator: no memory");
    segment->shared =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (segment->shared == MAP_FAILED) {
        free(segment);
        return cadre_fail_errno(
            err, CADRE_E_RESOURCE, errno,
            "local communicator: cannot map a segment of %llu bytes",
            (unsigned long long)bytes);
    }
    segment->fd = fd;
    segment->bytes = bytes;
    *out = segment;
    return CADRE_OK;
}

cadre_status cadre_local_segment_create(const struct cadre_local_config *config,
                                        struct cadre_local_segment **out,
                                        struct cadre_error *err)
{
    struct cadre_local_segment *segment = NULL;
    cadre_status rc = check_config(config, err);
    int fd = -1;
    if (rc != CADRE_OK)
        return rc;
    uint64_t size = (uint64_t)config->size;
    uint64_t head = align_up(
        sizeof(struct shared_segment) + size * sizeof(struct shared_rank), 4096);
    uint64_t bytes = head + WORLDS_OF_ROOM * lay_out(size, config->processes).bytes;

    /* its size stays: what another process cut would end this one */
    fd = memfd_create("cadre-comm", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0 || fchmod(fd, 0600) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        rc =
            cadre_fail_errno(err, CADRE_E_RESOURCE, errno,
                             "local communicator: cannot make a shared memory segment");
        goto fail;
    }
    CADRE_TRY_OR(map_segment(fd, bytes, &segment, err), fail);
    struct shared_segment *s = segment->shared;
    s->magic = LOCAL_MAGIC;
    s->bytes = bytes;
    s->config = *config;
    atomic_store(&s->used, head);
    struct shared_group *world =
        cadre_local_group_create(segment, config->size, &s->world);
    for (int r = 0; r < config->size; r++)
        world->slots[r].world_rank = r;
    *out = segment;
    return CADRE_OK;
fail:
    if (fd >= 0)
        close(fd);
    return rc;
}

const struct cadre_local_config *
cadre_local_segment_config(const struct cadre_local_segment *segment)
{
    return &segment->shared->config;
}

int cadre_local_segment_fd(const struct cadre_local_segment *segment)
{
    return segment->fd;
}

/* Does the group at an offset lie in the segment, with all of its parts? */
bool cadre_local_group_fits(const struct cadre_local_segment *segment, uint64_t offset)
{
    const struct shared_segment *s = segment->shared;
    const uint64_t bytes = segment->bytes;
    if (offset % 64 != 0 || offset < sizeof *s || offset > bytes ||
        bytes - offset < sizeof(struct shared_group))
        return false;
    const struct shared_group *g = local_at(segment, offset);
    const int size = g->size;
    if (size < 1 || size > s->config.size || size > LOCAL_MAX_RANKS)
        return false;
    const struct group_layout l = lay_out((uint64_t)size, s->config.processes);
    return l.bytes <= bytes - offset && g->channels == offset + l.channels &&
           g->staging == offset + l.staging && g->p2p_staging == offset + l.p2p_staging;
}

/* What a launcher of this version made: its sizes and offsets are used as they are. */
static cadre_status check_segment(struct cadre_local_segment *segment,
                                  struct cadre_error *err)
{
    const struct shared_segment *s = segment->shared;
    const int size = s->config.size;
    if (size >= 1 && size <= LOCAL_MAX_RANKS && s->config.timeout_s > 0 &&
        sizeof *s + (uint64_t)size * sizeof s->ranks[0] < segment->bytes &&
        cadre_local_group_fits(segment, s->world) &&
        ((struct shared_group *)local_at(segment, s->world))->size == size)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "descriptor %d is a damaged segment of a cadre launcher; start "
                      "ranks through cadre, or unset CADRE_INIT",
                      segment->fd);
}

/* Magic and bytes, read before anything else is trusted; what the file lacks is 0. */
static cadre_status read_head(int fd, uint64_t head[2], struct cadre_error *err)
{
    const size_t bytes = 2 * sizeof *head;
    size_t done = 0;
    memset(head, 0, bytes);
    while (done < bytes) {
        const ssize_t n = pread(fd, (char *)head + done, bytes - done, (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return cadre_fail_errno(err, CADRE_E_IO, errno,
                                    "cannot read the launcher's segment, descriptor %d",
                                    fd);
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return CADRE_OK;
}

cadre_status cadre_local_segment_open(int fd, struct cadre_local_segment **out,
                                      struct cadre_error *err)
{
    struct stat st;
    uint64_t head[2];
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return cadre_fail(err, CADRE_E_INVALID,
                          "descriptor %d is not a segment of a cadre launcher; start "
                          "ranks through cadre, or unset CADRE_INIT",
                          fd);
    CADRE_TRY(read_head(fd, head, err));
    if (head[0] != LOCAL_MAGIC || head[1] != (uint64_t)st.st_size ||
        head[1] < sizeof(struct shared_segment))
        return cadre_fail(err, CADRE_E_INVALID,
                          "descriptor %d is not a segment of this version's launcher",
                          fd);
    struct cadre_local_segment *segment = NULL;
    CADRE_TRY(map_segment(fd, head[1], &segment, err));
    cadre_status rc = check_segment(segment, err);
    if (rc == CADRE_OK) {
        *out = segment;
        return CADRE_OK;
    }
    munmap(segment->shared, segment->bytes); /* the descriptor stays the caller's */
    free(segment);
    return rc;
}

void cadre_local_segment_close(struct cadre_local_segment *segment)
{
    if (!segment)
        return;
    munmap(segment->shared, segment->bytes);
    close(segment->fd);
    free(segment);
}

/* Sleepers also check at intervals, so that one missed here wakes soon. */
static void wake_everybody(struct cadre_local_segment *segment)
{
    struct shared_segment *s = segment->shared;
    for (uint64_t at = atomic_load(&s->groups); at;) {
        struct shared_group *g = local_at(segment, at);
        struct shared_channel *channels = local_at(segment, g->channels);
        cadre_local_futex_wake(&g->generation);
        for (int i = 0; i < g->size * g->size; i++) {
            if (!atomic_load(&channels[i].sent) && !atomic_load(&channels[i].chunks_in))
                continue;
            cadre_local_futex_wake(&channels[i].sent);
            cadre_local_futex_wake(&channels[i].taken);
            cadre_local_futex_wake(&channels[i].chunks_in);
            cadre_local_futex_wake(&channels[i].chunks_out);
        }
        at = g->next;
    }
}

bool cadre_local_segment_store_failure(struct cadre_local_segment *segment,
                                       cadre_status code, const char *text)
{
    if (!cadre_failure_set(&segment->shared->failure, code, text))
        return false;
    wake_everybody(segment);
    return true;
}

void cadre_local_segment_fail(struct cadre_local_segment *segment, int rank,
                              const char *why)
{
    char seen[256], text[1024];
    cadre_local_note_text(segment, rank, seen, sizeof seen);
    snprintf(text, sizeof text, "rank %d %s; it %s", rank, why, seen);
    cadre_local_segment_store_failure(segment, CADRE_E_COMM, text);
}

void cadre_local_segment_ended(struct cadre_local_segment *segment, int rank)
{
    atomic_store(&segment->shared->ranks[rank].ended, 1);
    wake_everybody(segment);
}

void cadre_local_segment_failure(const struct cadre_local_segment *segment, char *text,
                                 size_t size)
{
    snprintf(text, size, "%s", cadre_failure_text(&segment->shared->failure));
}
