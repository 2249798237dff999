/* SPDX-License-Identifier: Apache-2.0 */
/* Before there is a communicator: rank 0 sends every rank of a job some bytes, over TCP
 * or through a shared file. Every rank also learns when another failed before it could
 * take part. */
#ifndef CADRE_LAUNCH_RENDEZVOUS_H
#define CADRE_LAUNCH_RENDEZVOUS_H

#include <stddef.h>

#include "core/base/error.h"
#include "core/launch/secret.h"

#define CADRE_RENDEZVOUS_MOST 4096 /* bytes given */
#define CADRE_RENDEZVOUS_RANKS 1024

struct cadre_rendezvous {
    /* "tcp://host:port", where rank 0 listens ("tcp://[::1]:port" for IPv6), or
     * "file:///path", next to which the ranks write "path.RANK". All but `path` are
     * removed when the last rank has read; see cadre_rendezvous_forget */
    const char *where;
    const char *job; /* the same text on all ranks, different for each job */
    int rank, size;
    double timeout_s; /* seconds for the last rank to come */
    struct cadre_secret *secret; /* borrowed; rank 0 makes it at its first meeting */
    bool near; /* all ranks are on this machine: loopback is enough */
    /* (size) over TCP, after a success: the connection to each rank on rank 0, and to
     * rank 0 on the others, which are the caller's to close; other entries stay. NULL:
     * all are closed. */
    int *kept;
};

/* [collective: all ranks of the job] bytes[n] of rank 0 are written to bytes[n] of the
 * others, only on success. Rank 0 waits for all others until the deadline, also after a
 * failure, and answers all at once. Messages of other jobs and programs, by another
 * secret, recorded ones and those that are not whole within some seconds are refused,
 * and counted in a warning. n <= CADRE_RENDEZVOUS_MOST and the same on all.
 *
 * A rank that cannot take part passes the reason in `failed`, one line, instead of
 * NULL: then the call fails on all ranks, with the line of the lowest of them. Errors:
 * CADRE_E_INVALID for a malformed `where`; CADRE_E_COMM: a rank failed, or ranks are
 * missing at the deadline (named), or rank 0 was not found, or has no secret in common;
 * CADRE_E_RESOURCE, CADRE_E_IO where rank 0 cannot listen or files cannot be written.
 * [any thread] */
cadre_status cadre_rendezvous_meet(const struct cadre_rendezvous *job, void *bytes,
                                   size_t n, const char *failed,
                                   struct cadre_error *err);

/* Remove the file that rank 0 wrote for the others, once all are known to have read it.
 * No-op for TCP. [any thread] */
void cadre_rendezvous_forget(const struct cadre_rendezvous *job);

#endif
