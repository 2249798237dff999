/* SPDX-License-Identifier: Apache-2.0 */
/* The `local` communicator: ranks on one machine, as threads of one process or as
 * processes, over one shared memory segment. */
#ifndef CADRE_COMM_LOCAL_H
#define CADRE_COMM_LOCAL_H

#include <stdbool.h>

#include "core/comm/comm.h"

/* An emulated link. All zero: as fast as memory. */
struct cadre_link {
    double gbytes_s, latency_s;
};

struct cadre_local_config {
    int size;
    bool processes; /* ranks do not share an address space: payloads are staged */
    double timeout_s; /* comm.timeout */
    /* comm.link: every rank has a wire to the ranks of its node, and with `between`
     * another one to those of other nodes; without, one wire to all */
    struct cadre_link link, between;
    /* Threads of each rank's device, passed to processes: one that starts on a part of
     * the cores would divide those again. 0: not passed. */
    int threads;
};

struct cadre_local_segment; /* shared by all ranks of a world */

/* Make the segment (launcher side). With `processes` it is a memfd that survives exec:
 * cadre_local_segment_fd names it, cadre_local_segment_open maps it in the child. */
cadre_status cadre_local_segment_create(const struct cadre_local_config *config,
                                        struct cadre_local_segment **out,
                                        struct cadre_error *err);
int cadre_local_segment_fd(const struct cadre_local_segment *segment);
cadre_status cadre_local_segment_open(int fd, struct cadre_local_segment **out,
                                      struct cadre_error *err);
void cadre_local_segment_close(struct cadre_local_segment *segment);

/* The settings it was made with; they live as long as the segment. [any thread] */
const struct cadre_local_config *
cadre_local_segment_config(const struct cadre_local_segment *segment);

/* Report that a rank is dead (killed, crashed): the run ends on all others. [any
 * thread] */
void cadre_local_segment_fail(struct cadre_local_segment *segment, int rank,
                              const char *why);
/* The first failure's text, or "" while there is none. Copies at most size bytes. */
void cadre_local_segment_failure(const struct cadre_local_segment *segment, char *text,
                                 size_t size);

/* [collective: all ranks of the segment] The world communicator of `rank`. The segment
 * outlives it. */
cadre_status cadre_local_open(struct cadre_local_segment *segment, int rank,
                              struct cadre_comm **out, struct cadre_error *err);

/* Simulated figures: "GBps:latency_us", as "10:50", for all ranks; two of them, as
 * "12.5:5, 1.25:30", inside nodes and between them; "" for none. With one, *between is
 * zero. */
cadre_status cadre_link_parse(const char *text, struct cadre_link *inside,
                              struct cadre_link *between, struct cadre_error *err);

#endif
