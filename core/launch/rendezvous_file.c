/* SPDX-License-Identifier: Apache-2.0 */
/* Rendezvous through files: rank 0 writes a challenge, "path.0", each rank answers it
 * in "path.RANK", rank 0 reads them all and writes "path": its answer, and a code of it
 * for each rank. A file is written under another name and renamed, so that it is
 * complete when it appears. What an earlier job left answers another challenge, or has
 * no code for a rank's new number: it is not believed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/memory.h"
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

/* One look at the file of each rank that has not come. A message that is no longer
 * there, or is another one, is looked at again. */
static void look(const struct cadre_rendezvous *job, const char *place,
                 const struct rendezvous_nonce *zero, struct rendezvous_list *list,
                 size_t n)
{
    struct rendezvous_hello hello;
    char path[PATH_ROOM];
    for (int r = 1; r < job->size; r++) {
        name_of(path, place, r);
        if (list->came[r] || !read_file(path, &hello, sizeof hello))
            continue;
        if (cadre_rendezvous_ours(job, zero, &hello, &list->refused) &&
            hello.rank == (uint32_t)r)
            cadre_rendezvous_note(list, job, &hello, n);
        else
            unlink(path); /* refused once; a rank that waits writes it again */
    }
}

/* The answer, and a code for each rank that has come. */
static cadre_status publish(const struct cadre_rendezvous *job, const char *place,
                            const struct rendezvous_nonce *zero,
                            const struct rendezvous_list *list,
                            const struct rendezvous_answer *answer,
                            struct cadre_error *err)
{
    const size_t bytes = sizeof *answer + (size_t)job->size * CADRE_SHA256_BYTES;
    unsigned char *all = cadre_calloc(1, bytes);
    if (!all)
        return cadre_no_memory(err, "the answer to %d ranks", job->size);
    memcpy(all, answer, sizeof *answer);
    for (int r = 1; r < job->size; r++)
        if (list->came[r])
            cadre_rendezvous_answer_code(job, zero, &list->nonce[r], answer,
                                         all + sizeof *answer +
                                             (size_t)r * CADRE_SHA256_BYTES);
    cadre_status rc = write_file(place, all, bytes, err);
    free(all);
    return rc;
}

static cadre_status lead(const struct cadre_rendezvous *job, const char *place,
                         const struct rendezvous_hello *own, void *bytes,
                         struct cadre_error *err)
{
    double deadline = cadre_now_s() + job->timeout_s;
    struct rendezvous_list list = {.failed = -1};
    struct rendezvous_challenge challenge = {.magic = RENDEZVOUS_MAGIC};
    struct rendezvous_answer answer;
    char path[PATH_ROOM];
    if (!cadre_rendezvous_draw(&challenge.zero))
        return cadre_fail_errno(err, CADRE_E_RESOURCE, errno,
                                "no random numbers to meet the ranks");
    cadre_rendezvous_note(&list, job, own, own->bytes);
    for (int r = 1; r < job->size; r++) {
        name_of(path, place, r);
        unlink(path);
    }
    name_of(path, place, 0);
    cadre_status rc = write_file(path, &challenge, sizeof challenge, err);
    while (rc == CADRE_OK) {
        bool last = cadre_now_s() >= deadline;
        look(job, place, &challenge.zero, &list, own->bytes);
        if (list.here == job->size || last)
            break;
        cadre_rendezvous_tick();
    }
    if (rc == CADRE_OK) {
        cadre_rendezvous_close(&list, job, bytes, own->bytes, &answer);
        rc = publish(job, place, &challenge.zero, &list, &answer, err);
        unlink(path);
    }
    return rc == CADRE_OK ? cadre_rendezvous_take(&answer, bytes, own->bytes, err) : rc;
}

/* Has rank 0 answered this hello? */
static bool is_answered(const struct cadre_rendezvous *job, const char *place,
                        const struct rendezvous_hello *hello,
                        struct rendezvous_answer *answer)
{
    unsigned char code[CADRE_SHA256_BYTES], given[CADRE_SHA256_BYTES];
    struct stat st;
    int fd = open(place, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    bool ok = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
              is_ours(place, &st) &&
              read(fd, answer, sizeof *answer) == (ssize_t)sizeof *answer &&
              pread(fd, given, sizeof given,
                    (off_t)(sizeof *answer + (size_t)job->rank * sizeof given)) ==
                  (ssize_t)sizeof given;
    if (fd >= 0)
        close(fd);
    if (!ok || answer->magic != RENDEZVOUS_MAGIC || answer->job != hello->job)
        return false;
    cadre_rendezvous_answer_code(job, &hello->zero, &hello->own, answer, code);
    return cadre_sha256_equal(code, given);
}

/* Write the hello where it is not there, or answers an older challenge. */
static cadre_status respond(const struct cadre_rendezvous *job, const char *place,
                            struct rendezvous_hello *hello, bool *written,
                            struct cadre_error *err)
{
    struct rendezvous_challenge challenge;
    char path[PATH_ROOM], mine[PATH_ROOM];
    const char *why;
    name_of(path, place, 0);
    name_of(mine, place, job->rank);
    if (!read_file(path, &challenge, sizeof challenge) ||
        challenge.magic != RENDEZVOUS_MAGIC || !cadre_secret_look(job->secret, &why))
        return CADRE_OK;
    const struct rendezvous_hello before = *hello;
    cadre_rendezvous_sign(job, &challenge.zero, hello);
    if (*written && memcmp(&before, hello, sizeof before) == 0 &&
        access(mine, F_OK) == 0)
        return CADRE_OK;
    *written = true;
    return write_file(mine, hello, sizeof *hello, err);
}

/* Rank 0's deadline may begin later than this rank's, so this rank waits twice as
 * long. */
static cadre_status follow(const struct cadre_rendezvous *job, const char *place,
                           const struct rendezvous_hello *own, void *bytes,
                           struct cadre_error *err)
{
    double deadline = cadre_now_s() + 2 * job->timeout_s;
    struct rendezvous_hello hello = *own;
    struct rendezvous_answer answer;
    char path[PATH_ROOM], why[1200];
    bool written = false;
    cadre_status rc = CADRE_OK;
    name_of(path, place, job->rank);
    if (!cadre_rendezvous_draw(&hello.own))
        return cadre_fail_errno(err, CADRE_E_RESOURCE, errno,
                                "no random numbers to meet the ranks");
    while (rc == CADRE_OK) {
        bool last = cadre_now_s() >= deadline;
        if (written && is_answered(job, place, &hello, &answer)) {
            rc = cadre_rendezvous_take(&answer, bytes, own->bytes, err);
            break;
        }
        rc = respond(job, place, &hello, &written, err);
        if (rc == CADRE_OK && last) {
            cadre_rendezvous_explain(job, why, sizeof why);
            rc = cadre_fail(err, CADRE_E_COMM,
                            "rank %d: rank 0 has written no answer to '%s' within %g "
                            "s%s",
                            job->rank, place, 2 * job->timeout_s, why);
        }
        if (rc == CADRE_OK)
            cadre_rendezvous_tick();
    }
    if (written)
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
