/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks do in the tests, the same as threads and as processes. Each case checks
 * its own results, prints the first difference on stderr and returns CADRE_E_DIFFERS.
 */
#ifndef CADRE_TESTS_COMM_CASES_H
#define CADRE_TESTS_COMM_CASES_H

#include "core/launch/launch.h"

#define MAX_RANKS 8 /* of a case */

/* A case by name, NULL for none. `arg` is a text: a seed or a parameter. */
cadre_rank_main comm_case(const char *name);

/* One rank's world while a case runs. */
struct world {
    struct cadre_comm *comm; /* NULL once the case has destroyed it */
    int rank, size;
    struct cadre_device *device; /* of this rank; NULL: buffers are the host's */
    bool native; /* the communicator's events are the device's */
};

/* A device for one rank, or NULL where the program's cases run in host memory. Cases
 * that fill buffers in place require memory that the host can access. Each program
 * links one of these. */
struct cadre_device *comm_device(void);

/* Zeroed memory of the world's device, or of the host. */
void *comm_calloc(const struct world *w, size_t n, size_t size);
void comm_free(const struct world *w, void *ptr);

/* Open the world, run, close it; the first status. Each program links one of these. */
typedef cadre_status (*comm_body)(struct world *w, const char *arg);
cadre_status comm_with_world(comm_body run, void *arg, int rank,
                             struct cadre_local_segment *segment);

uint64_t comm_now_ns(void);

/* Element i of `at` becomes v, rounded to the dtype. */
void comm_store(void *at, uint64_t i, uint32_t dtype, double v);

#define CHECK(w, cond)                                                                 \
    do {                                                                               \
        if (!(cond)) {                                                                 \
            fprintf(stderr, "rank %d/%d: %s:%d: %s\n", (w)->rank, (w)->size, __FILE__, \
                    __LINE__, #cond);                                                  \
            return CADRE_E_DIFFERS;                                                    \
        }                                                                              \
    } while (0)

cadre_status case_collectives(void *arg, int rank, struct cadre_local_segment *segment);
cadre_status case_checksums(void *arg, int rank, struct cadre_local_segment *segment);
cadre_status case_device(void *arg, int rank, struct cadre_local_segment *segment);
cadre_status case_storm(void *arg, int rank, struct cadre_local_segment *segment);
cadre_status case_independence(void *arg, int rank,
                               struct cadre_local_segment *segment);
cadre_status case_messages(void *arg, int rank, struct cadre_local_segment *segment);
cadre_status case_groups(void *arg, int rank, struct cadre_local_segment *segment);
cadre_status case_exhaust(void *arg, int rank, struct cadre_local_segment *segment);
cadre_status case_refusals(void *arg, int rank, struct cadre_local_segment *segment);
cadre_status case_counts(void *arg, int rank, struct cadre_local_segment *segment);
cadre_status case_slow_link(void *arg, int rank, struct cadre_local_segment *segment);
cadre_status case_levels(void *arg, int rank, struct cadre_local_segment *segment);
cadre_status case_aborted(void *arg, int rank, struct cadre_local_segment *segment);
cadre_status case_leaver(void *arg, int rank, struct cadre_local_segment *segment);
cadre_status case_unequal(void *arg, int rank, struct cadre_local_segment *segment);
cadre_status case_mismatch(void *arg, int rank, struct cadre_local_segment *segment);
cadre_status case_hang(void *arg, int rank, struct cadre_local_segment *segment);
cadre_status case_killed(void *arg, int rank, struct cadre_local_segment *segment);
cadre_status case_absent(void *arg, int rank, struct cadre_local_segment *segment);
cadre_status case_orphaned(void *arg, int rank, struct cadre_local_segment *segment);
cadre_status case_stopped(void *arg, int rank, struct cadre_local_segment *segment);
cadre_status case_exits(void *arg, int rank, struct cadre_local_segment *segment);
cadre_status case_misbehaves(void *arg, int rank, struct cadre_local_segment *segment);

#endif
