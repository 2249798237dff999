/* SPDX-License-Identifier: Apache-2.0 */
/* Before there is a communicator: rank 0 gives every rank of a job some bytes, over TCP
 * or through a file that all can see. Every rank also learns that another has failed
 * before it could take part. */
#ifndef CADRE_LAUNCH_RENDEZVOUS_H
#define CADRE_LAUNCH_RENDEZVOUS_H

#include <stddef.h>

#include "core/base/error.h"

#define CADRE_RENDEZVOUS_MOST 4096 /* bytes given */
#define CADRE_RENDEZVOUS_RANKS 1024

struct cadre_rendezvous {
    /* "tcp://host:port", where rank 0 listens ("tcp://[::1]:port" for IPv6), or
     * "file:///path", beside which the ranks write "path.RANK"; all are gone again when
     * the last rank has read, but `path`, see cadre_rendezvous_forget */
    const char *where;
    const char *job; /* the same text on all ranks, another for each job */
    int rank, size;
    double timeout_s; /* for the last rank to come */
};

/* [collective: all ranks of the job] bytes[n] of rank 0 are written to bytes[n] of the
 * others, on success alone. Rank 0 waits for all others until the deadline, whatever
 * happens meanwhile, and answers all at once. What comes from another job, or is no
 * rank at all, is not heard. n <= CADRE_RENDEZVOUS_MOST and the same on all.
 *
 * A rank that cannot take part says so in `failed`, one line, instead of NULL: then the
 * call fails on all ranks, with the line of the lowest of them. Errors: CADRE_E_INVALID
 * for nonsense in `where`; CADRE_E_COMM: a rank failed, or ranks are missing at the
 * deadline (named), or rank 0 was not to be found; CADRE_E_RESOURCE, CADRE_E_IO where
 * rank 0 cannot listen or files cannot be written. [any thread] */
cadre_status cadre_rendezvous_meet(const struct cadre_rendezvous *job, void *bytes,
                                   size_t n, const char *failed,
                                   struct cadre_error *err);

/* Remove what rank 0 left for the others to read, once all are known to have read it.
 * Nothing is done without a file. [any thread] */
void cadre_rendezvous_forget(const struct cadre_rendezvous *job);

#endif
