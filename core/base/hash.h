/* SPDX-License-Identifier: Apache-2.0 */
/* A 64-bit streaming hash: cache keys, hash chains of losses and parameters, agreement
 * of ranks. Not cryptographic. The same on every machine (bytes in, little-endian
 * rules). Source: XXH64, xxHash specification 0.1.1. All functions: [local], no errors.
 */
#ifndef CADRE_BASE_HASH_H
#define CADRE_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

struct cadre_hash {
    uint64_t lane[4];
    uint64_t seed;
    uint64_t total_bytes;
    unsigned char pending[32];
};

void cadre_hash_init(struct cadre_hash *hash, uint64_t seed);

/* Append `bytes` bytes; data may be NULL where bytes is 0. How a stream is divided into
 * calls does not change the result. */
void cadre_hash_update(struct cadre_hash *hash, const void *data, size_t bytes);

/* Append a string with its terminating zero, so that adjacent strings stay distinct. */
void cadre_hash_update_string(struct cadre_hash *hash, const char *text);

/* The hash of all so far; more may be appended afterwards. */
uint64_t cadre_hash_final(const struct cadre_hash *hash);

/* The hash of one buffer. */
uint64_t cadre_hash_of(const void *data, size_t bytes, uint64_t seed);

/* Write 16 lower-case hexadecimal digits and a zero; returns out. */
char *cadre_hash_hex(uint64_t value, char out[17]);

#endif
