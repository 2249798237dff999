/* SPDX-License-Identifier: Apache-2.0 */
/* Rendezvous through files: each rank writes "path.RANK", rank 0 reads them all and
 * writes "path". A file is written under another name and renamed, so that it is
 * complete when it appears. Files of an earlier job have another job's hash; but a
 * restarted job may have the same hash, so rank 0 begins by removing "path.RANK", which
 * a waiting rank writes again, and no rank reads a "path" that is older than its
 * start. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/path.h"
#include "core/launch/rendezvous_private.h"

#define PATH_ROOM 4096

static cadre_status write_file(const char *path, const void *data, size_t bytes,
                               struct cadre_error *err)
{
    char temporary[PATH_ROOM];
    snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    /* a name that nobody can have prepared, and a file that is new */
    int fd = mkostemp(temporary, O_CLOEXEC), failure = 0;
    if (fd < 0 || write(fd, data, bytes) != (ssize_t)bytes)
        failure = errno ? errno : ENOSPC;
    if (fd >= 0 && close(fd) != 0 && !failure)
        failure = errno;
    if (!failure && rename(temporary, path) == 0)
        return CADRE_OK;
    failure = failure ? failure : errno;
    if (fd >= 0)
        unlink(temporary);
    return cadre_fail_errno(err, CADRE_E_IO, failure, "the ranks cannot meet at '%s'",
                            path);
}

/* In a folder that all can write, as /tmp, files of another user are ignored. */
static bool is_ours(const char *path, const struct stat *st)
{
    struct stat folder;
    char *dir = cadre_path_dirname(path);
    bool shared = dir && stat(dir, &folder) == 0 && (folder.st_mode & S_ISVTX);
    free(dir);
    return !shared || st->st_uid == geteuid();
}

/* False while there is no file of this job. A pipe is none, and is not waited for. */
static bool read_file(const char *path, void *data, size_t bytes)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    bool ok = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
              is_ours(path, &st) && read(fd, data, bytes) == (ssize_t)bytes;
    if (fd >= 0)
        close(fd);
    return ok;
}

static void name_of(char *path, const char *place, int rank)
{
    snprintf(path, PATH_ROOM, "%s.%d", place, rank);
}

static cadre_status lead(const struct cadre_rendezvous *job, const char *place,
                         const struct rendezvous_hello *own, void *bytes,
                         struct cadre_error *err)
{
    double deadline = cadre_now_s() + job->timeout_s;
    struct rendezvous_list list = {.failed = -1};
    struct rendezvous_hello hello;
    struct rendezvous_answer answer;
    char path[PATH_ROOM];
    cadre_rendezvous_note(&list, job, own, own->bytes);
    for (int r = 1; r < job->size; r++) {
        name_of(path, place, r);
        unlink(path);
    }
    for (;;) {
        bool last = cadre_now_s() >= deadline;
        for (int r = 1; r < job->size; r++) {
            name_of(path, place, r);
            if (!list.came[r] && read_file(path, &hello, sizeof hello) &&
                cadre_rendezvous_ours(job, &hello) && (int)hello.rank == r)
                cadre_rendezvous_note(&list, job, &hello, own->bytes);
        }
        if (list.here == job->size || last)
            break;
        cadre_rendezvous_tick();
    }
    cadre_rendezvous_close(&list, job, bytes, own->bytes, &answer);
    cadre_status rc = write_file(place, &answer, sizeof answer, err);
    return rc == CADRE_OK ? cadre_rendezvous_take(&answer, bytes, own->bytes, err) : rc;
}

/* Identifies the file at a path; zero for none. A file that replaces another has
 * another inode while the old one exists, or another time. */
struct identity {
    ino_t inode;
    struct timespec changed;
};

static struct identity identity_of(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return (struct identity){0};
    return (struct identity){st.st_ino, st.st_mtim};
}

static bool is_same(const struct identity *a, const struct identity *b)
{
    return a->inode == b->inode && a->changed.tv_sec == b->changed.tv_sec &&
           a->changed.tv_nsec == b->changed.tv_nsec;
}

/* Rank 0's deadline may begin later than this rank's, so this rank waits twice as
 * long. */
static cadre_status follow(const struct cadre_rendezvous *job, const char *place,
                           const struct rendezvous_hello *own, void *bytes,
                           struct cadre_error *err)
{
    double deadline = cadre_now_s() + 2 * job->timeout_s;
    struct rendezvous_answer answer;
    const struct identity before = identity_of(place);
    char path[PATH_ROOM];
    name_of(path, place, job->rank);
    cadre_status rc = write_file(path, own, sizeof *own, err);
    while (rc == CADRE_OK) {
        bool last = cadre_now_s() >= deadline;
        struct identity now = identity_of(place);
        if (!is_same(&before, &now) && read_file(place, &answer, sizeof answer) &&
            answer.magic == RENDEZVOUS_MAGIC && answer.job == own->job) {
            rc = cadre_rendezvous_take(&answer, bytes, own->bytes, err);
            break;
        }
        if (last) {
            rc = cadre_fail(err, CADRE_E_COMM,
                            "rank %d: rank 0 has written nothing to '%s' within %g s",
                            job->rank, place, 2 * job->timeout_s);
            break;
        }
        cadre_rendezvous_tick();
        if (access(path, F_OK) != 0)
            rc = write_file(path, own, sizeof *own, err);
    }
    unlink(path);
    return rc;
}

cadre_status cadre_rendezvous_file(const struct cadre_rendezvous *job,
                                   const char *place, void *bytes, size_t n,
                                   const char *failed, struct cadre_error *err)
{
    struct rendezvous_hello own = cadre_rendezvous_hello(job, n, failed);
    if (strlen(place) > PATH_ROOM - 64)
        return cadre_fail(err, CADRE_E_INVALID,
                          "the ranks cannot meet at a path of %zu bytes",
                          strlen(place));
    return job->rank == 0 ? lead(job, place, &own, bytes, err)
                          : follow(job, place, &own, bytes, err);
}
