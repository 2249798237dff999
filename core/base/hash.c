/* SPDX-License-Identifier: Apache-2.0 */
/* XXH64: four lanes over 32-byte stripes, merged, then the tail and an avalanche. */
#include "core/base/hash.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

static const uint64_t PRIME1 = 0x9E3779B185EBCA87u;
static const uint64_t PRIME2 = 0xC2B2AE3D27D4EB4Fu;
static const uint64_t PRIME3 = 0x165667B19E3779F9u;
static const uint64_t PRIME4 = 0x85EBCA77C2B2AE63u;
static const uint64_t PRIME5 = 0x27D4EB2F165667C5u;

enum { STRIPE = 32 };

static uint64_t rotl(uint64_t x, int n)
{
    return x << n | x >> (64 - n);
}

static uint64_t load32(const unsigned char *p)
{
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return le32toh(word);
}

static uint64_t load64(const unsigned char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return le64toh(word);
}

static uint64_t round64(uint64_t lane, uint64_t word)
{
    return rotl(lane + word * PRIME2, 31) * PRIME1;
}

/* Whole stripes from p on. The lanes are kept in registers over the loop, so each
 * depends only on its own product. */
static void stripes(uint64_t lane[4], const unsigned char *p, size_t count)
{
    uint64_t a = lane[0], b = lane[1], c = lane[2], d = lane[3];
    for (; count > 0; count--, p += STRIPE) {
        a = round64(a, load64(p));
        b = round64(b, load64(p + 8));
        c = round64(c, load64(p + 16));
        d = round64(d, load64(p + 24));
    }
    lane[0] = a;
    lane[1] = b;
    lane[2] = c;
    lane[3] = d;
}

void cadre_hash_init(struct cadre_hash *hash, uint64_t seed)
{
    memset(hash, 0, sizeof *hash);
    hash->seed = seed;
    hash->lane[0] = seed + PRIME1 + PRIME2;
    hash->lane[1] = seed + PRIME2;
    hash->lane[2] = seed;
    hash->lane[3] = seed - PRIME1;
}

void cadre_hash_update(struct cadre_hash *hash, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    size_t held = hash->total_bytes % STRIPE;
    hash->total_bytes += bytes;
    if (held + bytes < STRIPE) {
        if (bytes > 0)
            memcpy(hash->pending + held, p, bytes);
        return;
    }
    if (held > 0) {
        size_t missing = STRIPE - held;
        memcpy(hash->pending + held, p, missing);
        stripes(hash->lane, hash->pending, 1);
        p += missing;
        bytes -= missing;
    }
    stripes(hash->lane, p, bytes / STRIPE);
    if (bytes % STRIPE > 0)
        memcpy(hash->pending, p + bytes / STRIPE * STRIPE, bytes % STRIPE);
}

void cadre_hash_update_string(struct cadre_hash *hash, const char *text)
{
    cadre_hash_update(hash, text, strlen(text) + 1);
}

static uint64_t merge_lanes(const uint64_t lane[4])
{
    uint64_t h =
        rotl(lane[0], 1) + rotl(lane[1], 7) + rotl(lane[2], 12) + rotl(lane[3], 18);
    for (int i = 0; i < 4; i++)
        h = (h ^ round64(0, lane[i])) * PRIME1 + PRIME4;
    return h;
}

uint64_t cadre_hash_final(const struct cadre_hash *hash)
{
    const unsigned char *p = hash->pending;
    size_t left = hash->total_bytes % STRIPE;
    uint64_t h =
        hash->total_bytes >= STRIPE ? merge_lanes(hash->lane) : hash->seed + PRIME5;
    h += hash->total_bytes;
    for (; left >= 8; p += 8, left -= 8)
        h = rotl(h ^ round64(0, load64(p)), 27) * PRIME1 + PRIME4;
    for (; left >= 4; p += 4, left -= 4)
        h = rotl(h ^ load32(p) * PRIME1, 23) * PRIME2 + PRIME3;
    for (; left > 0; p++, left--)
        h = rotl(h ^ *p * PRIME5, 11) * PRIME1;
    h = (h ^ h >> 33) * PRIME2;
    h = (h ^ h >> 29) * PRIME3;
    return h ^ h >> 32;
}

uint64_t cadre_hash_of(const void *data, size_t bytes, uint64_t seed)
{
    struct cadre_hash hash;
    cadre_hash_init(&hash, seed);
    cadre_hash_update(&hash, data, bytes);
    return cadre_hash_final(&hash);
}

char *cadre_hash_hex(uint64_t value, char out[17])
{
    snprintf(out, 17, "%016llx", (unsigned long long)value);
    return out;
}
