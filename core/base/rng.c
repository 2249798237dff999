/* SPDX-License-Identifier: Apache-2.0 */
/* Everything is a function of (key, element): there is no generator object to advance.
 */
#include "core/base/rng.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/base/hash.h"

enum { PHILOX_ROUNDS = 10, FEISTEL_ROUNDS = 8 };

uint64_t cadre_rng_key(uint64_t seed, const char *name)
{
    return cadre_hash_of(name, strlen(name), seed);
}

void cadre_rng_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4])
{
    uint32_t k0 = key[0], k1 = key[1];
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* `attempt` separates the draws of one element where a draw may be rejected. */
static void block(uint64_t key, uint64_t counter, uint32_t attempt, uint32_t out[4])
{
    const uint32_t k[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    const uint32_t c[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), attempt, 0};
    cadre_rng_philox(k, c, out);
}

void cadre_rng_block(uint64_t key, uint64_t counter, uint32_t out[4])
{
    block(key, counter, 0, out);
}

/* 52 bits and a half: the largest value, 1 - 2^-53, is still a double below 1. */
static double to_unit(uint32_t low, uint32_t high)
{
    uint64_t bits = ((uint64_t)high << 32 | low) >> 12;
    return ((double)bits + 0.5) * 0x1p-52;
}

double cadre_rng_uniform(uint64_t key, uint64_t element)
{
    uint32_t w[4];
    block(key, element, 0, w);
    return to_unit(w[0], w[1]);
}

double cadre_rng_normal(uint64_t key, uint64_t element)
{
    uint32_t w[4];
    block(key, element, 0, w);
    double radius = sqrt(-2.0 * log(to_unit(w[0], w[1])));
    return radius * cos(6.283185307179586476925 * to_unit(w[2], w[3]));
}

uint64_t cadre_rng_below(uint64_t key, uint64_t element, uint64_t n)
{
    __extension__ typedef unsigned __int128 u128;
    assert(n > 0);
    uint64_t reject_below = (0 - n) % n;
    for (uint32_t attempt = 0;; attempt++) {
        uint32_t w[4];
        block(key, element, attempt, w);
        u128 product = (u128)((uint64_t)w[1] << 32 | w[0]) * n;
        if ((uint64_t)product >= reject_below)
            return (uint64_t)(product >> 64);
    }
}

/* SplitMix64's finaliser (Steele et al. 2014): a cheap round function. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static uint64_t feistel(uint64_t key, uint64_t x, int low_bits, int high_bits)
{
    uint64_t low_mask = ((uint64_t)1 << low_bits) - 1;
    uint64_t high_mask = ((uint64_t)1 << high_bits) - 1;
    uint64_t low = x & low_mask;
    uint64_t high = x >> low_bits;
    for (int round = 0; round < FEISTEL_ROUNDS; round += 2) {
        key += 0x9E3779B97F4A7C15u;
        low ^= mix(mix(key) + high) & low_mask;
        key += 0x9E3779B97F4A7C15u;
        high ^= mix(mix(key) + low) & high_mask;
    }
    return high << low_bits | low;
}

uint64_t cadre_rng_permute(uint64_t key, uint64_t index, uint64_t n)
{
    assert(index < n);
    int bits = n > 1 ? 64 - __builtin_clzll(n - 1) : 0;
    int low_bits = (bits + 1) / 2;
    do {
        index = feistel(key, index, low_bits, bits - low_bits);
    } while (index >= n);
    return index;
}
