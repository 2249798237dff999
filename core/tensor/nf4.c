/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tensor/nf4.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor/nf4_codes.h"

enum { CODES = 16, NESTED_CODES = 256, STEPS = 65536, ZERO = 7 };

static const float value[CODES] = {CADRE_NF4_VALUES};
static const float nested_value[NESTED_CODES] = {CADRE_NF4_NESTED_VALUES};

/* Of a last block that is short. */
static const float least = 1e-38f;

uint64_t cadre_nf4_blocks(uint64_t count)
{
    return count / CADRE_NF4_BLOCK + (count % CADRE_NF4_BLOCK != 0);
}

uint64_t cadre_nf4_scales(uint64_t count)
{
    return 1 + (cadre_nf4_blocks(count) + CADRE_NF4_NESTED - 1) / CADRE_NF4_NESTED;
}

static float largest(const float *x, uint64_t n)
{
    float most = 0, bad = 0;
    for (uint64_t i = 0; i < n; i++) {
        const float size = fabsf(x[i]);
        most = size > most ? size : most;
        bad += size - size; /* 0, or NaN of an infinity or a NaN */
    }
    return most + bad;
}

/* Elements of the block that begins `left` before the end. */
static uint64_t in_block(uint64_t left)
{
    return left < CADRE_NF4_BLOCK ? left : CADRE_NF4_BLOCK;
}

static float absmax_of(const float *x, uint64_t n)
{
    const float most = largest(x, n);
    return n < CADRE_NF4_BLOCK && most < least ? least : most;
}

void cadre_nf4_absmax(const float *x, uint64_t count, float *absmax)
{
    for (uint64_t at = 0; at < count; at += CADRE_NF4_BLOCK)
        absmax[at / CADRE_NF4_BLOCK] = absmax_of(x + at, in_block(count - at));
}

float cadre_nf4_offset(const float *absmax, uint64_t blocks)
{
    double sum = 0;
    for (uint64_t b = 0; b < blocks; b++)
        sum += (double)absmax[b];
    return blocks > 0 ? (float)(sum / (double)blocks) : 0;
}

bool cadre_nf4_scale(const float *absmax, uint64_t blocks, float offset, float *scales)
{
    bool finite = isfinite(offset);
    scales[0] = offset;
    for (uint64_t begin = 0, end; begin < blocks; begin = end) {
        float most = 0;
        end = begin + CADRE_NF4_NESTED < blocks ? begin + CADRE_NF4_NESTED : blocks;
        for (uint64_t b = begin; b < end; b++) {
            const float size = fabsf(absmax[b] - offset);
            finite = finite && isfinite(absmax[b]);
            most = size > most ? size : most;
        }
        scales[1 + begin / CADRE_NF4_NESTED] = most;
    }
    return finite;
}

/* ---- codes ---- */

static float clamp(float x)
{
    return x < -1 ? -1 : x > 1 ? 1 : x;
}

/* How many middles of neighbouring values (n, a power of two) are below x. */
static unsigned count_below(const float *values, unsigned n, float x)
{
    unsigned code = 0;
    for (unsigned half = n / 2; half > 0; half /= 2) {
        const unsigned at = code + half;
        if ((values[at - 1] + values[at]) / 2 < x)
            code = at;
    }
    return code;
}

static uint8_t nested_code(float absmax, const float *scales, uint64_t block)
{
    const float most = scales[1 + block / CADRE_NF4_NESTED];
    if (most == 0)
        return 0;
    const float x = clamp((absmax - scales[0]) * (1.0f / most));
    const unsigned step = (unsigned)((x + 1.0f) * 0.5f * (float)(STEPS - 1) + 0.5f);
    return (uint8_t)count_below(nested_value, NESTED_CODES,
                                -1.0f + (2.0f * (float)step) / (float)(STEPS - 1));
}

static float nested_decode(uint8_t code, const float *scales, uint64_t block)
{
    return nested_value[code] * scales[1 + block / CADRE_NF4_NESTED] + scales[0];
}

static void pack(const uint8_t *codes, uint8_t *out)
{
    for (int i = 0; i < CADRE_NF4_BLOCK / 2; i++)
        out[i] = (uint8_t)(codes[2 * i] << 4 | codes[2 * i + 1]);
}

static void encode_block(const float *scales, uint64_t block, const float *x,
                         uint64_t n, uint8_t *out)
{
    const float absmax = absmax_of(x, n);
    const float inverse = 1.0f / (absmax < least ? least : absmax);
    uint8_t codes[CADRE_NF4_BLOCK];
    memset(codes, ZERO, sizeof codes);
    for (uint64_t i = 0; i < n; i++) {
        const float scaled = n < CADRE_NF4_BLOCK ? x[i] / absmax : x[i] * inverse;
        codes[i] = (uint8_t)count_below(value, CODES, clamp(scaled));
    }
    pack(codes, out);
    out[CADRE_NF4_BYTES - 1] = nested_code(absmax, scales, block);
}

void cadre_nf4_encode(const float *scales, uint64_t first, const float *x,
                      uint64_t count, uint8_t *out)
{
    for (uint64_t at = 0; at < count; at += CADRE_NF4_BLOCK) {
        const uint64_t b = at / CADRE_NF4_BLOCK;
        encode_block(scales, first + b, x + at, in_block(count - at),
                     out + b * CADRE_NF4_BYTES);
    }
}

static void decode_block(const float *scales, uint64_t block, const uint8_t *from,
                         uint64_t n, float *x)
{
    const float absmax = nested_decode(from[CADRE_NF4_BYTES - 1], scales, block);
    for (uint64_t i = 0; i < n; i++) {
        const unsigned pair = from[i / 2];
        x[i] = value[i % 2 ? pair & 15 : pair >> 4] * absmax;
    }
}

void cadre_nf4_decode(const float *scales, uint64_t first, const uint8_t *blocks,
                      uint64_t count, float *x)
{
    for (uint64_t at = 0; at < count; at += CADRE_NF4_BLOCK) {
        const uint64_t b = at / CADRE_NF4_BLOCK;
        decode_block(scales, first + b, blocks + b * CADRE_NF4_BYTES,
                     in_block(count - at), x + at);
    }
}

/* ---- what was decoded before ---- */

/* Do the codes nearest to x / absmax decode to x? */
static bool encode_as(float absmax, const float *x, uint64_t n, uint8_t *codes)
{
    memset(codes, ZERO, CADRE_NF4_BLOCK);
    for (uint64_t i = 0; i < n; i++) {
        const float scaled = absmax != 0 ? x[i] / absmax : 0;
        const uint8_t code = (uint8_t)count_below(value, CODES, clamp(scaled));
        const float back = value[code] * absmax;
        if (memcmp(&back, &x[i], sizeof back) != 0)
            return false;
        codes[i] = code;
    }
    return true;
}

/* A block that was encoded has the code of 1 or -1, or is all zeros. */
static bool find_block(const float *scales, uint64_t block, const float *x, uint64_t n,
                       uint8_t *out)
{
    const float most = largest(x, n);
    uint8_t codes[CADRE_NF4_BLOCK];
    for (unsigned code = 0; code < NESTED_CODES; code++) {
        const float absmax = nested_decode((uint8_t)code, scales, block);
        if ((most != 0 && fabsf(absmax) != most) || !encode_as(absmax, x, n, codes))
            continue;
        pack(codes, out);
        out[CADRE_NF4_BYTES - 1] = (uint8_t)code;
        return true;
    }
    return false;
}

void cadre_nf4_encode_again(const float *scales, uint64_t first, const float *x,
                            uint64_t count, uint8_t *out)
{
    for (uint64_t at = 0; at < count; at += CADRE_NF4_BLOCK) {
        const uint64_t b = at / CADRE_NF4_BLOCK, n = in_block(count - at);
        uint8_t *to = out + b * CADRE_NF4_BYTES;
        if (!find_block(scales, first + b, x + at, n, to))
            encode_block(scales, first + b, x + at, n, to);
    }
}

bool cadre_nf4_round(float *x, uint64_t count)
{
    const uint64_t blocks = cadre_nf4_blocks(count);
    float *absmax = calloc(blocks + cadre_nf4_scales(count), sizeof *absmax);
    if (!absmax)
        return false;
    float *scales = absmax + blocks;
    cadre_nf4_absmax(x, count, absmax);
    const float offset = cadre_nf4_offset(absmax, blocks);
    const bool finite = cadre_nf4_scale(absmax, blocks, offset, scales);
    for (uint64_t at = 0; finite && at < count; at += CADRE_NF4_BLOCK) {
        const uint64_t b = at / CADRE_NF4_BLOCK, n = in_block(count - at);
        uint8_t bytes[CADRE_NF4_BYTES];
        encode_block(scales, b, x + at, n, bytes);
        decode_block(scales, b, bytes, n, x + at);
    }
    free(absmax);
    return finite;
}
