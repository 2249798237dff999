/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256, and a keyed code of a message by it (HMAC), for what must not be forged:
 * where ranks meet. hash.h is faster and for all else. Sources: FIPS 180-4; RFC 2104.
 * [local], no errors. */
#ifndef CADRE_BASE_SHA256_H
#define CADRE_BASE_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CADRE_SHA256_BYTES 32

struct cadre_sha256 {
    uint32_t state[8];
    uint64_t bytes; /* so far */
    unsigned char pending[64];
};

void cadre_sha256_init(struct cadre_sha256 *hash);
/* data may be NULL where bytes is 0. */
void cadre_sha256_update(struct cadre_sha256 *hash, const void *data, size_t bytes);
/* The hash is used up. */
void cadre_sha256_final(struct cadre_sha256 *hash,
                        unsigned char out[CADRE_SHA256_BYTES]);

/* One part of a message, in its order. */
struct cadre_sha256_part {
    const void *data;
    size_t bytes;
};

/* HMAC-SHA-256 of the n parts, one after the other, by a key of key_bytes. */
void cadre_sha256_hmac(const void *key, size_t key_bytes,
                       const struct cadre_sha256_part *part, size_t n,
                       unsigned char out[CADRE_SHA256_BYTES]);

/* Are both codes equal? Takes as long for every answer. */
bool cadre_sha256_equal(const unsigned char *a, const unsigned char *b);

#endif
