/* SPDX-License-Identifier: Apache-2.0 */
/* What both rendezvous transports share: the messages, and rank 0's list.
 *
 * Rank 0 sends a challenge, a random number that is used once; the rank's hello has a
 * number of its own and a code by the secret over all of it and the challenge; the
 * answer's code is over both numbers. So a message that was recorded, of another
 * meeting or of the other direction has a wrong code. */
#ifndef CADRE_LAUNCH_RENDEZVOUS_PRIVATE_H
#define CADRE_LAUNCH_RENDEZVOUS_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/sha256.h"
#include "core/launch/rendezvous.h"

#define RENDEZVOUS_MAGIC 0x3254454d45524443ull /* "CDREMET2" */
#define RENDEZVOUS_TICK_MS 20

struct rendezvous_nonce {
    unsigned char byte[16];
};

/* In native byte order; a machine with another byte order fails the check of the magic.
 * No structure has padding. */
struct rendezvous_challenge {
    uint64_t magic;
    struct rendezvous_nonce zero; /* rank 0's */
};

/* From each rank to rank 0, and back. */
struct rendezvous_hello {
    uint64_t magic, job; /* a hash */
    uint32_t rank, size, bytes, failed;
    struct rendezvous_nonce zero, own; /* the challenge, the rank's */
    char why[512];
    unsigned char code[CADRE_SHA256_BYTES];
};

struct rendezvous_answer {
    uint64_t magic, job;
    uint32_t bytes, failed;
    char why[768];
    char data[CADRE_RENDEZVOUS_MOST];
};

/* What was refused while the ranks met. */
struct rendezvous_refused {
    int wrong; /* a code by another secret */
    int replayed; /* a code to another challenge */
    int slow; /* a message not whole in its time */
    int foreign; /* other programs, other jobs */
};

/* Rank 0's. */
struct rendezvous_list {
    int here; /* ranks that have come, 0 among them */
    bool came[CADRE_RENDEZVOUS_RANKS];
    struct rendezvous_nonce nonce[CADRE_RENDEZVOUS_RANKS]; /* of those */
    int failed; /* lowest rank that failed, -1 for none */
    char why[512];
    struct rendezvous_refused refused;
};

uint64_t cadre_rendezvous_job(const struct cadre_rendezvous *job);
void cadre_rendezvous_tick(void);

/* A random number. False: the system has none. */
bool cadre_rendezvous_draw(struct rendezvous_nonce *nonce);

/* This rank's, without the challenge and its code. */
struct rendezvous_hello cadre_rendezvous_hello(const struct cadre_rendezvous *job,
                                               size_t n, const char *failed);
/* Answer a challenge. */
void cadre_rendezvous_sign(const struct cadre_rendezvous *job,
                           const struct rendezvous_nonce *zero,
                           struct rendezvous_hello *hello);
/* The code of the answer to a rank's hello. */
void cadre_rendezvous_answer_code(const struct cadre_rendezvous *job,
                                  const struct rendezvous_nonce *zero,
                                  const struct rendezvous_nonce *own,
                                  const struct rendezvous_answer *answer,
                                  unsigned char code[CADRE_SHA256_BYTES]);
/* Was it sent by a rank of this job, to this challenge? Else `refused` counts it. */
bool cadre_rendezvous_ours(const struct cadre_rendezvous *job,
                           const struct rendezvous_nonce *zero,
                           const struct rendezvous_hello *hello,
                           struct rendezvous_refused *refused);
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
/* Why a rank that waited in vain knows no secret, " (...)"; "" where it knows one. */
void cadre_rendezvous_explain(const struct cadre_rendezvous *job, char *text,
                              size_t size);

/* `place` is the text after the scheme. */
cadre_status cadre_rendezvous_tcp(const struct cadre_rendezvous *job, const char *place,
                                  void *bytes, size_t n, const char *failed,
                                  struct cadre_error *err);
cadre_status cadre_rendezvous_file(const struct cadre_rendezvous *job,
                                   const char *place, void *bytes, size_t n,
                                   const char *failed, struct cadre_error *err);

#endif
