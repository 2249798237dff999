/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/run_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/base/path.h"

enum { OWNER_BYTES = 320, HOST_BYTES = 256 };

/* "process 17 on host": for whoever is refused. */
static void write_owner(int fd)
{
    char host[HOST_BYTES] = "", owner[OWNER_BYTES];
    gethostname(host, sizeof host - 1);
    const int n =
        snprintf(owner, sizeof owner, "process %ld on %s\n", (long)getpid(), host);
    if (ftruncate(fd, 0) != 0 || pwrite(fd, owner, (size_t)n, 0) != n)
        cadre_log(CADRE_LOG_DEBUG, "run", "the lock's owner is not written: %s",
                  strerror(errno));
}

static cadre_status refuse(int fd, const char *dir, struct cadre_error *err)
{
    char owner[OWNER_BYTES] = "";
    const ssize_t n = pread(fd, owner, sizeof owner - 1, 0);
    owner[n > 0 ? n : 0] = '\0';
    owner[strcspn(owner, "\n")] = '\0';
    return cadre_fail(err, CADRE_E_INVALID,
                      "'%s' is in use by %s: wait for its end, or choose another --out",
                      dir, *owner ? owner : "another process");
}

static cadre_status lock_file(struct cadre_run_lock *lock, const char *dir,
                              struct cadre_error *err)
{
    int rc;
    while ((rc = flock(lock->fd, LOCK_EX | LOCK_NB)) != 0 && errno == EINTR)
        ;
    if (rc != 0 && errno == EWOULDBLOCK)
        return refuse(lock->fd, dir, err);
    if (rc != 0)
        cadre_log(CADRE_LOG_WARN, "run",
                  "'%s' cannot be locked (%s): start no second run in it", dir,
                  strerror(errno));
    else
        write_owner(lock->fd);
    return CADRE_OK;
}

cadre_status cadre_run_lock_take(struct cadre_run_lock *lock, const char *dir,
                                 struct cadre_error *err)
{
    if (lock->held || !cadre_path_is_dir(dir))
        return CADRE_OK;
    char *path = cadre_path_join(dir, ".lock");
    if (!path)
        return cadre_no_memory(err, "a path");
    cadre_status rc = CADRE_OK;
    lock->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (lock->fd < 0)
        rc = cadre_fail_errno(err,
                              errno == ENOSPC || errno == EIO || errno == EDQUOT
                                  ? CADRE_E_IO
                                  : CADRE_E_INVALID,
                              errno, "cannot lock the run's folder: '%s'", path);
    else if ((rc = lock_file(lock, dir, err)) != CADRE_OK)
        close(lock->fd);
    lock->held = rc == CADRE_OK;
    free(path);
    return rc;
}

void cadre_run_lock_release(struct cadre_run_lock *lock)
{
    if (lock->held) {
        /* A refused run leaves the folder's bytes as they were. */
        if (ftruncate(lock->fd, 0) != 0)
            cadre_log(CADRE_LOG_DEBUG, "run", "the lock keeps its owner: %s",
                      strerror(errno));
        close(lock->fd);
    }
    lock->held = false;
}
