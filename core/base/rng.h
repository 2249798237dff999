/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers as pure functions of (seed, name, logical element): no state, no
 * order, so every rank and every sharding sees the same bits.
 *
 * A key names one stream ("h.0.attn.c_attn.weight", "shuffle.epoch.3"); an element is
 * the logical index in it. All functions: [local] [any thread], no errors. Source:
 * Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3" (Philox4x32, 10
 * rounds). */
#ifndef CADRE_BASE_RNG_H
#define CADRE_BASE_RNG_H

#include <stdint.h>

/* The key of the stream `name` under `seed`. Names differ -> streams differ (64-bit
 * hash). */
uint64_t cadre_rng_key(uint64_t seed, const char *name);

/* The generator itself: Philox4x32-10 of a 128-bit counter under a 64-bit key, least
 * significant word first. */
void cadre_rng_philox(const uint32_t key[2], const uint32_t counter[4],
                      uint32_t out[4]);

/* Block `counter` of the stream: four independent 32-bit words. */
void cadre_rng_block(uint64_t key, uint64_t counter, uint32_t out[4]);

/* Uniform in the open interval (0, 1), 52 random bits, never 0 or 1. */
double cadre_rng_uniform(uint64_t key, uint64_t element);

/* Standard normal (Box-Muller in double, the cosine branch; |value| < 8.6). The bits
 * depend on libm's log and cos, which the agreement hash covers through the library
 * versions. */
double cadre_rng_normal(uint64_t key, uint64_t element);

/* Uniform integer in [0, n), unbiased. n > 0. Source: Lemire 2019. */
uint64_t cadre_rng_below(uint64_t key, uint64_t element, uint64_t n);

/* The position of `index` in the key's permutation of [0, n): a bijection, computed
 * without an array, so that shuffling billions of samples needs no memory. 0 <= index <
 * n. A Feistel network over the smallest power of two >= n, applied until the result is
 * below n (fewer than two rounds expected). Source: Black and Rogaway 2002, cycle
 * walking. */
uint64_t cadre_rng_permute(uint64_t key, uint64_t index, uint64_t n);

#endif
