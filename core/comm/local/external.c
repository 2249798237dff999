/* SPDX-License-Identifier: Apache-2.0 */
#include "core/comm/local_external.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/memory.h"
#include "core/comm/local/segment_private.h"

#define LOOK_MS 100 /* where the kernel does not report a process's end */
#define REST_MS 1000 /* then this rank may have ended, whose wake was lost */

/* ---- into rank 0's segment ---- */

/* The machine's boot; "" where the system does not tell it. */
static cadre_status read_boot(char *out, size_t size, struct cadre_error *err)
{
    const char *path = "/proc/sys/kernel/random/boot_id";
    size_t have = 0;
    ssize_t n = 1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    out[0] = '\0';
    if (fd < 0 && (errno == ENOENT || errno == EACCES))
        return CADRE_OK;
    while (fd >= 0 && have + 1 < size && n != 0) {
        n = read(fd, out + have, size - 1 - have);
        if (n < 0 && errno != EINTR)
            break;
        have += n > 0 ? (size_t)n : 0;
    }
    int failure = fd < 0 || n < 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    out[have] = '\0';
    out[strcspn(out, "\n")] = '\0';
    return failure ? cadre_fail_errno(err, CADRE_E_IO, failure,
                                      "cannot read '%s', by which ranks know that "
                                      "they are on one machine",
                                      path)
                   : CADRE_OK;
}

static cadre_status who_am_i(struct cadre_local_address *address,
                             struct cadre_error *err)
{
    memset(address, 0, sizeof *address);
    gethostname(address->host, sizeof address->host - 1);
    if (readlink("/proc/self/ns/pid", address->pids, sizeof address->pids - 1) < 0)
        address->pids[0] = '\0';
    address->pid = (int64_t)getpid();
    return read_boot(address->boot, sizeof address->boot, err);
}

cadre_status cadre_local_address_make(const struct cadre_local_segment *segment,
                                      struct cadre_local_address *out,
                                      struct cadre_error *err)
{
    struct stat st;
    CADRE_TRY(who_am_i(out, err));
    if (fstat(segment->fd, &st) != 0)
        return cadre_fail_errno(err, CADRE_E_RESOURCE, errno,
                                "local communicator: the segment is gone");
    out->fd = segment->fd;
    out->device = (uint64_t)st.st_dev;
    out->inode = (uint64_t)st.st_ino;
    return CADRE_OK;
}

cadre_status cadre_local_address_enter(const struct cadre_local_address *address,
                                       struct cadre_local_segment **out,
                                       struct cadre_error *err)
{
    struct cadre_local_address own;
    struct stat st;
    char path[64];
    CADRE_TRY(who_am_i(&own, err));
    if (strncmp(own.boot, address->boot, sizeof own.boot) != 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "it is on %s, rank 0 on %.63s, and comm.backend = local is "
                          "for ranks of one machine: start them by mpirun, or by srun "
                          "--mpi=pmix, with comm.backend = mpi",
                          own.host, address->host);
    if (strncmp(own.pids, address->pids, sizeof own.pids) != 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "it does not see the processes of rank 0 on %s: expected "
                          "the ranks of one machine in one container",
                          own.host);
    snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)address->pid,
             (long long)address->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) /* of a process that is there no more there is no such file */
        return cadre_fail_errno(
            err, errno == ENOENT ? CADRE_E_COMM : CADRE_E_INVALID, errno,
            "it cannot open the shared memory of rank 0 on %s (%s)", own.host, path);
    cadre_status rc = CADRE_OK;
    if (fstat(fd, &st) != 0 || (uint64_t)st.st_dev != address->device ||
        (uint64_t)st.st_ino != address->inode)
        rc = cadre_fail(err, CADRE_E_COMM,
                        "%s on %s is not the segment that rank 0 announced: "
                        "rank 0 may have ended",
                        path, own.host);
    if (rc == CADRE_OK)
        rc = cadre_local_segment_open(fd, out, err);
    if (rc != CADRE_OK)
        close(fd);
    return rc;
}

/* ---- the others' processes ---- */

struct cadre_local_guard {
    struct cadre_local_segment *segment;
    int rank, size, wake;
    pthread_t thread;
    struct pollfd *end; /* of each rank, and `wake`; fd -1: unknown, or unused */
    bool *over; /* of each rank: no longer watched */
};

void cadre_local_guard_join(struct cadre_local_segment *segment, int rank)
{
    atomic_store(&segment->shared->ranks[rank].pid, (int32_t)getpid());
}

static void read_line(const char *path, char *out, size_t size)
{
    FILE *f = fopen(path, "re");
    out[0] = '\0';
    if (f && fgets(out, (int)size, f))
        out[strcspn(out, "\n")] = '\0';
    if (f)
        fclose(f);
}

/* A zombie, which its parent has not reaped, counts as ended. */
static bool is_gone(int32_t pid)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    read_line(path, line, sizeof line);
    const char *name_end = strrchr(line, ')');
    return kill(pid, 0) != 0 && errno == ESRCH
               ? true
               : name_end && (name_end[2] == 'Z' || name_end[2] == 'X');
}

/* Rank r's process has ended: was that expected? */
static bool note_end(struct cadre_local_guard *guard, int r)
{
    struct shared_rank *its = &guard->segment->shared->ranks[r];
    char why[96];
    guard->over[r] = true;
    if (guard->end[r].fd >= 0)
        close(guard->end[r].fd);
    guard->end[r].fd = -1;
    if (atomic_load(&its->ended))
        return true;
    snprintf(why, sizeof why, "ended without a report (process %d): killed or crashed",
             atomic_load(&its->pid));
    cadre_local_segment_fail(guard->segment, r, why);
    return false;
}

static void *guard_main(void *arg)
{
    struct cadre_local_guard *guard = arg;
    const struct shared_rank *own = &guard->segment->shared->ranks[guard->rank];
    bool well = true;
    while (well && !atomic_load(&own->ended)) {
        bool looks = false; /* is there a rank that is still watched? */
        for (int r = 0; r < guard->size; r++)
            looks |= !guard->over[r] && guard->end[r].fd < 0;
        int n = poll(guard->end, (nfds_t)guard->size + 1, looks ? LOOK_MS : REST_MS);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            break;
        if (n > 0 && guard->end[guard->size].revents)
            break;
        for (int r = 0; well && r < guard->size; r++) {
            struct pollfd *end = &guard->end[r];
            if (!guard->over[r] &&
                (end->fd < 0
                     ? is_gone(atomic_load(&guard->segment->shared->ranks[r].pid))
                     : n > 0 && end->revents))
                well = note_end(guard, r);
        }
    }
    return NULL;
}

static void free_guard(struct cadre_local_guard *guard)
{
    for (int r = 0; guard->end && r < guard->size; r++)
        if (guard->end[r].fd >= 0)
            close(guard->end[r].fd);
    if (guard->wake >= 0)
        close(guard->wake);
    free(guard->end);
    free(guard->over);
    free(guard);
}

/* What the thread waits for. A rank that is already gone has no descriptor; the first
 * check finds it. */
static bool prepare(struct cadre_local_guard *guard)
{
    guard->end = cadre_calloc((size_t)guard->size + 1, sizeof *guard->end);
    guard->over = cadre_calloc((size_t)guard->size, sizeof *guard->over);
    guard->wake = eventfd(0, EFD_CLOEXEC);
    for (int r = 0; guard->end && r < guard->size; r++)
        guard->end[r] = (struct pollfd){.fd = -1, .events = POLLIN};
    if (!guard->end || !guard->over || guard->wake < 0)
        return false;
    guard->end[guard->size] = (struct pollfd){.fd = guard->wake, .events = POLLIN};
    for (int r = 0; r < guard->size; r++) {
        int32_t pid = atomic_load(&guard->segment->shared->ranks[r].pid);
        guard->over[r] = r == guard->rank || pid <= 0;
        if (!guard->over[r])
            guard->end[r].fd = (int)syscall(SYS_pidfd_open, pid, 0);
    }
    return true;
}

cadre_status cadre_local_guard_open(struct cadre_local_segment *segment, int rank,
                                    struct cadre_local_guard **out,
                                    struct cadre_error *err)
{
    struct cadre_local_guard *guard = cadre_calloc(1, sizeof *guard);
    if (!guard)
        return cadre_fail(err, CADRE_E_RESOURCE, "no memory to watch the ranks");
    *guard = (struct cadre_local_guard){.segment = segment,
                                        .rank = rank,
                                        .size = segment->shared->config.size,
                                        .wake = -1};
    int failed = prepare(guard) ? 0 : ENOMEM;
    if (!failed)
        failed = pthread_create(&guard->thread, NULL, guard_main, guard);
    if (failed) {
        free_guard(guard);
        return cadre_fail_errno(err, CADRE_E_RESOURCE, failed,
                                "cannot watch the other ranks");
    }
    *out = guard;
    return CADRE_OK;
}

void cadre_local_guard_close(struct cadre_local_guard *guard)
{
    const uint64_t one = 1;
    if (!guard)
        return;
    cadre_local_segment_ended(guard->segment, guard->rank);
    while (write(guard->wake, &one, sizeof one) < 0 && errno == EINTR)
        ; /* after another error the thread sees the end when it has rested */
    pthread_join(guard->thread, NULL);
    free_guard(guard);
}
