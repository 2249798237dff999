/* SPDX-License-Identifier: Apache-2.0 */
/* Who is still there: heartbeats between rank 0 and each other rank, over the TCP
 * connections by which they met. The kernel ends a connection at once where a process
 * has ended, and where nothing of what was sent is acknowledged in time: the host is
 * down or cut off. The other kernel acknowledges for a process that is stopped or has
 * no CPU time, so a busy machine is no dead one; a rank that reads nothing for some
 * seconds is sent nothing more, until it is heard again. Rank 0 passes on to the others
 * why a rank is lost, or has failed. */
#ifndef CADRE_LAUNCH_VIGIL_H
#define CADRE_LAUNCH_VIGIL_H

#include "core/base/error.h"

struct cadre_vigil;

/* Of this rank's part in a job. */
struct cadre_vigil_job {
    int rank, size;
    /* (size) the connection to each rank on rank 0, on the others to rank 0 alone; -1
     * for none. They are the vigil's from then on, on failure too. */
    const int *fd;
    double lost_s; /* after so long without an acknowledgement; at least 0.5 */
    /* A rank is gone, cut off from this one, or has failed; `text` is one line that
     * says so. Called once at most, on the vigil's thread. `arg` outlives it. */
    void (*lost)(void *arg, const char *text);
    void *arg;
};

/* *out is NULL where there is no connection. Errors: CADRE_E_RESOURCE. [any thread] */
cadre_status cadre_vigil_open(const struct cadre_vigil_job *job,
                              struct cadre_vigil **out, struct cadre_error *err);

/* This rank fails, for the reason in `text`: the others are told, unless they have
 * been told of a loss. NULL is allowed for the vigil. [any thread] */
void cadre_vigil_tell(struct cadre_vigil *vigil, const char *text);

/* This rank ends, as it should or with the others told why: they do not miss it. NULL
 * is allowed. */
void cadre_vigil_close(struct cadre_vigil *vigil);

#endif
