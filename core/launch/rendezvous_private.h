/* SPDX-License-Identifier: Apache-2.0 */
/* What both rendezvous transports share: the messages, and rank 0's list. */
#ifndef CADRE_LAUNCH_RENDEZVOUS_PRIVATE_H
#define CADRE_LAUNCH_RENDEZVOUS_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/launch/rendezvous.h"

#define RENDEZVOUS_MAGIC 0x3154454d45524443ull /* "CDREMET1" */
#define RENDEZVOUS_TICK_MS 20

/* From each rank to rank 0, and back. In native byte order; a machine with another byte
 * order fails the check of the magic. */
struct rendezvous_hello {
    uint64_t magic, job; /* a hash */
    uint32_t rank, size, bytes, failed;
    char why[512];
};

struct rendezvous_answer {
    uint64_t magic, job;
    uint32_t bytes, failed;
    char why[768];
    char data[CADRE_RENDEZVOUS_MOST];
};

/* Rank 0's. */
struct rendezvous_list {
    int here; /* ranks that have come, 0 among them */
    bool came[CADRE_RENDEZVOUS_RANKS];
    int failed; /* lowest rank that failed, -1 for none */
    char why[512];
};

uint64_t cadre_rendezvous_job(const struct cadre_rendezvous *job);
void cadre_rendezvous_tick(void);

struct rendezvous_hello cadre_rendezvous_hello(const struct cadre_rendezvous *job,
                                               size_t n, const char *failed);
/* Was it sent by a rank of this job? */
bool cadre_rendezvous_ours(const struct cadre_rendezvous *job,
                           const struct rendezvous_hello *hello);
/* Called for rank 0 itself first, then for each rank as it comes. */
void cadre_rendezvous_note(struct rendezvous_list *list,
                           const struct cadre_rendezvous *job,
                           const struct rendezvous_hello *hello, size_t n);
/* Rank 0's answer when all have come or the deadline has passed. */
void cadre_rendezvous_close(const struct rendezvous_list *list,
                            const struct cadre_rendezvous *job, const void *bytes,
                            size_t n, struct rendezvous_answer *answer);
/* Reads the answer, on any rank. */
cadre_status cadre_rendezvous_take(const struct rendezvous_answer *answer, void *bytes,
                                   size_t n, struct cadre_error *err);

/* `place` is the text after the scheme. */
cadre_status cadre_rendezvous_tcp(const struct cadre_rendezvous *job, const char *place,
                                  void *bytes, size_t n, const char *failed,
                                  struct cadre_error *err);
cadre_status cadre_rendezvous_file(const struct cadre_rendezvous *job,
                                   const char *place, void *bytes, size_t n,
                                   const char *failed, struct cadre_error *err);

#endif
