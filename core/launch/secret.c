/* SPDX-License-Identifier: Apache-2.0 */
#include "core/launch/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "core/base/path.h"

cadre_status cadre_secret_init(struct cadre_secret *secret, const char *given,
                               const char *dir, const char *job,
                               struct cadre_error *err)
{
    char name[17];
    memset(secret, 0, sizeof *secret);
    if (given && given[0]) {
        const struct cadre_sha256_part part = {given, strlen(given)};
        if (part.bytes < CADRE_SECRET_LEAST)
            return cadre_fail(err, CADRE_E_INVALID,
                              CADRE_SECRET_VARIABLE " has %zu characters; expected %d "
                                                    "or more, the same on all ranks",
                              part.bytes, CADRE_SECRET_LEAST);
        cadre_sha256_hmac("cadre ranks meet", 16, &part, 1, secret->key);
        secret->given = true;
        return CADRE_OK;
    }
    if (strlen(dir) >= sizeof secret->dir)
        return cadre_fail(err, CADRE_E_INVALID,
                          "a run's folder has %zu bytes; expected at most %zu",
                          strlen(dir), sizeof secret->dir - 1);
    snprintf(secret->dir, sizeof secret->dir, "%s", dir);
    cadre_hash_hex(cadre_hash_of(job, strlen(job), 0), name);
    snprintf(secret->path, sizeof secret->path, "%s/.ranks-secret-%s", dir, name);
    return CADRE_OK;
}

static bool write_all(int fd, const unsigned char *from, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t n = write(fd, from + done, bytes - done);
        if (n < 0 && errno != EINTR)
            return false;
        if (n == 0) {
            errno = ENOSPC;
            return false;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

cadre_status cadre_secret_make(struct cadre_secret *secret, struct cadre_error *err)
{
    char temporary[sizeof secret->path + 8];
    if (secret->given || secret->made)
        return CADRE_OK;
    if (getrandom(secret->key, sizeof secret->key, 0) != (ssize_t)sizeof secret->key)
        return cadre_fail_errno(err, CADRE_E_RESOURCE, errno,
                                "the system has no random bytes for a secret; set "
                                "CADRE_SECRET to the same text on all ranks");
    if (!cadre_path_is_dir(secret->dir)) {
        CADRE_TRY(cadre_path_make_dirs(secret->dir, err));
        secret->made_dir = true;
    }
    snprintf(temporary, sizeof temporary, "%s.XXXXXX", secret->path);
    int fd = mkostemp(temporary, O_CLOEXEC), failure = 0; /* O_EXCL, 0600 */
    if (fd < 0 || !write_all(fd, secret->key, sizeof secret->key))
        failure = errno;
    if (fd >= 0 && close(fd) != 0 && !failure)
        failure = errno;
    if (!failure && rename(temporary, secret->path) != 0)
        failure = errno;
    secret->made = !failure;
    if (!failure)
        return CADRE_OK;
    if (fd >= 0)
        unlink(temporary);
    cadre_secret_fini(secret);
    return cadre_fail_errno(err, CADRE_E_IO, failure,
                            "cannot write '%s', by which the ranks know each other; "
                            "set CADRE_SECRET to the same text on all ranks",
                            secret->path);
}

bool cadre_secret_look(struct cadre_secret *secret, const char **why)
{
    unsigned char key[sizeof secret->key + 1];
    struct stat st;
    if (secret->given || secret->made)
        return true;
    int fd = open(secret->path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    *why = NULL;
    if (fd < 0 || fstat(fd, &st) != 0)
        *why = errno == ENOENT ? "is not there" : "cannot be read";
    else if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
        *why = "is not this user's file";
    else if (st.st_mode & 077)
        *why = "can be read by others";
    else if (read(fd, key, sizeof key) != (ssize_t)sizeof secret->key)
        *why = "is not whole";
    else
        memcpy(secret->key, key, sizeof secret->key);
    if (fd >= 0)
        close(fd);
    return *why == NULL;
}

void cadre_secret_fini(struct cadre_secret *secret)
{
    if (secret->made)
        unlink(secret->path);
    if (secret->made_dir)
        rmdir(secret->dir); /* stays where the run has begun to fill it */
    secret->made = secret->made_dir = false;
}
