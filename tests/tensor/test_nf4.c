/* SPDX-License-Identifier: Apache-2.0 */
/* NF4 against tests/samples/nf4/golden.txt, which bitsandbytes made. */
#include "core/tensor/nf4.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"

enum { WRITTEN = 640 };

/* Uniform in [-1, 1), as in make.py. */
static float hashed(uint64_t i)
{
    uint64_t x = i * UINT64_C(0x9E3779B97F4A7C15) + UINT64_C(0x123456789ABCDEF);
    x ^= x >> 31;
    x *= UINT64_C(0xBF58476D1CE4E5B9);
    x ^= x >> 29;
    return (float)((double)((int64_t)(x >> 40) - (1 << 23)) / (1 << 23));
}

static uint64_t fnv(const void *data, size_t bytes)
{
    const uint8_t *at = data;
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001B3);
    return hash;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* ---- a tensor and its NF4 ---- */

struct tensor {
    uint64_t count, blocks, n_scales;
    float *x, *absmax, *scales, *back;
    uint8_t *coded, *codes, *nested; /* the last two as bitsandbytes keeps them */
};

static void tensor_init(struct tensor *t, uint64_t count)
{
    *t = (struct tensor){.count = count,
                         .blocks = cadre_nf4_blocks(count),
                         .n_scales = cadre_nf4_scales(count)};
    t->x = calloc(count, sizeof *t->x);
    t->back = calloc(count, sizeof *t->back);
    t->absmax = calloc(t->blocks, sizeof *t->absmax);
    t->scales = calloc(t->n_scales, sizeof *t->scales);
    t->coded = calloc(t->blocks, CADRE_NF4_BYTES);
    t->codes = calloc(t->blocks, CADRE_NF4_BLOCK / 2);
    t->nested = calloc(t->blocks, 1);
    ck_assert(t->x && t->back && t->absmax && t->scales && t->coded && t->codes &&
              t->nested);
}

static void tensor_fini(struct tensor *t)
{
    free(t->x);
    free(t->back);
    free(t->absmax);
    free(t->scales);
    free(t->coded);
    free(t->codes);
    free(t->nested);
}

static void tensor_scale(struct tensor *t)
{
    cadre_nf4_absmax(t->x, t->count, t->absmax);
    const float offset = cadre_nf4_offset(t->absmax, t->blocks);
    ck_assert(cadre_nf4_scale(t->absmax, t->blocks, offset, t->scales));
}

static void tensor_encode(struct tensor *t)
{
    cadre_nf4_encode(t->scales, 0, t->x, t->count, t->coded);
    for (uint64_t b = 0; b < t->blocks; b++) {
        const uint8_t *from = t->coded + b * CADRE_NF4_BYTES;
        memcpy(t->codes + b * (CADRE_NF4_BYTES - 1), from, CADRE_NF4_BYTES - 1);
        t->nested[b] = from[CADRE_NF4_BYTES - 1];
    }
    cadre_nf4_decode(t->scales, 0, t->coded, t->count, t->back);
}

static void tensor_fill(struct tensor *t, const char *name)
{
    const bool spread = strcmp(name, "spread") == 0;
    for (uint64_t i = 0; i < t->count; i++)
        t->x[i] = spread ? ldexpf(hashed(i), (int)(i / 64 % 41) - 20) : hashed(i);
}

/* ---- bitsandbytes ---- */

struct golden {
    char name[32];
    uint64_t count, codes, absmax, nested, decoded;
    uint32_t offset;
};

/* The next word of the file after `key`. */
static const char *word_after(const char **text, const char *key)
{
    const size_t n = strlen(key);
    ck_assert_msg(strncmp(*text, key, n) == 0, "expected '%s' at '%.20s'", key, *text);
    const char *word = *text + n;
    *text = strchr(word, '\n') + 1;
    return word;
}

static void read_elements(struct tensor *t, const char *word)
{
    for (uint64_t i = 0; i < t->count; i++) {
        unsigned bits;
        ck_assert_int_eq(sscanf(word + 8 * i, "%8x", &bits), 1);
        t->x[i] = float_of(bits);
    }
}

static void same_bytes(const struct golden *g, const char *what, const uint8_t *found,
                       uint64_t count, const char *word)
{
    for (uint64_t i = 0; i < count; i++) {
        unsigned byte;
        ck_assert_int_eq(sscanf(word + 2 * i, "%2x", &byte), 1);
        ck_assert_msg(found[i] == byte, "%s: byte %d of %s is %02x, expected %02x",
                      g->name, (int)i, what, found[i], byte);
    }
}

/* Offsets that bitsandbytes, which sums in fp32, rounded to another number than the
 * mean. */
static int other_offsets;

static void hold(const struct golden *g, struct tensor *t)
{
    const uint64_t codes = (g->count + 1) / 2;
    tensor_scale(t);
    const float offset = float_of(g->offset), own = t->scales[0];
    if (memcmp(&own, &offset, sizeof own) != 0) {
        other_offsets++;
        ck_assert_float_le(fabsf(own - offset), 2e-7f * offset);
        tensor_encode(t); /* bytes do not show it */
        ck_assert_msg(fnv(t->nested, t->blocks) == g->absmax,
                      "%s: other codes of absmax under the mean", g->name);
        ck_assert(cadre_nf4_scale(t->absmax, t->blocks, offset, t->scales));
    }
    tensor_encode(t);
    ck_assert_msg(fnv(t->codes, codes) == g->codes, "%s: other codes", g->name);
    ck_assert_msg(fnv(t->nested, t->blocks) == g->absmax, "%s: other codes of absmax",
                  g->name);
    ck_assert_msg(fnv(t->scales + 1, (t->n_scales - 1) * sizeof *t->scales) ==
                      g->nested,
                  "%s: other nested absmax", g->name);
    ck_assert_msg(fnv(t->back, t->count * sizeof *t->back) == g->decoded,
                  "%s: decodes to other bits", g->name);
}

START_TEST(has_the_bytes_of_bitsandbytes)
{
    char *all = test_file_read(test_sample("nf4/golden.txt"), NULL);
    int cases = 0;
    for (const char *text = all; *text;) {
        struct golden g;
        struct tensor t;
        const char *line = text;
        text = strchr(text, '\n') + 1;
        if (*line == '#')
            continue;
        ck_assert_int_eq(sscanf(line,
                                "%31s %" SCNu64 " %" SCNx32 " %" SCNx64 " %" SCNx64
                                " %" SCNx64 " %" SCNx64,
                                g.name, &g.count, &g.offset, &g.codes, &g.absmax,
                                &g.nested, &g.decoded),
                         7);
        tensor_init(&t, g.count);
        if (g.count <= WRITTEN)
            read_elements(&t, word_after(&text, "x "));
        else
            tensor_fill(&t, g.name);
        hold(&g, &t);
        if (g.count <= 131) {
            same_bytes(&g, "codes", t.codes, (g.count + 1) / 2,
                       word_after(&text, "codes "));
            same_bytes(&g, "absmax", t.nested, t.blocks, word_after(&text, "absmax "));
        }
        tensor_fini(&t);
        cases++;
    }
    free(all);
    ck_assert_int_eq(cases, 17);
    ck_assert_int_le(other_offsets, 3);
}
END_TEST

/* ---- alone ---- */

START_TEST(a_block_is_the_same_wherever_it_begins)
{
    struct tensor t;
    uint8_t bytes[3 * CADRE_NF4_BYTES];
    float x[3 * CADRE_NF4_BLOCK];
    tensor_init(&t, 40007);
    tensor_fill(&t, "spread");
    tensor_scale(&t);
    tensor_encode(&t);
    for (uint64_t b = 0; b + 3 < t.blocks; b += 7) {
        cadre_nf4_encode(t.scales, b, t.x + b * CADRE_NF4_BLOCK, 3 * CADRE_NF4_BLOCK,
                         bytes);
        ck_assert_mem_eq(bytes, t.coded + b * CADRE_NF4_BYTES, sizeof bytes);
        cadre_nf4_decode(t.scales, b, bytes, 3 * CADRE_NF4_BLOCK, x);
        ck_assert_mem_eq(x, t.back + b * CADRE_NF4_BLOCK, sizeof x);
    }
    tensor_fini(&t);
}
END_TEST

/* Among them blocks of zeros, and blocks that decode under a negative absmax. */
START_TEST(what_was_decoded_keeps_its_bits)
{
    struct tensor t;
    uint64_t negative = 0;
    tensor_init(&t, _i ? 40007 : 700000);
    tensor_fill(&t, _i ? "spread" : "uniform");
    memset(t.x + 640, 0, 192 * sizeof *t.x);
    tensor_scale(&t);
    tensor_encode(&t);
    for (uint64_t i = 0; i < t.count; i++)
        negative += t.x[i] * t.back[i] < 0;
    ck_assert((negative > 0) == (_i == 1));
    ck_assert(cadre_nf4_round(t.x, t.count));
    ck_assert_mem_eq(t.x, t.back, t.count * sizeof *t.x);
    memset(t.coded, 0x55, t.blocks * CADRE_NF4_BYTES);
    cadre_nf4_encode_again(t.scales, 0, t.x, t.count, t.coded);
    cadre_nf4_decode(t.scales, 0, t.coded, t.count, t.back);
    ck_assert_mem_eq(t.x, t.back, t.count * sizeof *t.x);
    tensor_fini(&t);
}
END_TEST

START_TEST(what_was_not_is_encoded)
{
    struct tensor t;
    uint8_t again[3 * CADRE_NF4_BYTES];
    tensor_init(&t, 3 * CADRE_NF4_BLOCK);
    tensor_fill(&t, "uniform");
    tensor_scale(&t);
    tensor_encode(&t);
    cadre_nf4_encode_again(t.scales, 0, t.x, t.count, again);
    ck_assert_mem_eq(again, t.coded, sizeof again);
    tensor_fini(&t);
}
END_TEST

START_TEST(no_value_is_infinite)
{
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    struct tensor t;
    tensor_init(&t, 200);
    tensor_fill(&t, "uniform");
    t.x[_i * 66] = bad[_i];
    cadre_nf4_absmax(t.x, t.count, t.absmax);
    ck_assert(!cadre_nf4_scale(t.absmax, t.blocks, cadre_nf4_offset(t.absmax, t.blocks),
                               t.scales));
    tensor_fini(&t);
}
END_TEST

START_TEST(takes_at_most_4_13_bits)
{
    for (uint64_t n = 19200; n < 200000; n += 64) {
        const uint64_t bytes =
            cadre_nf4_blocks(n) * CADRE_NF4_BYTES + cadre_nf4_scales(n) * sizeof(float);
        ck_assert_double_le(8.0 * (double)bytes / (double)n, 4.13);
    }
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("nf4");
    TCase *tc = tcase_create("nf4");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, has_the_bytes_of_bitsandbytes);
    tcase_add_test(tc, a_block_is_the_same_wherever_it_begins);
    tcase_add_loop_test(tc, what_was_decoded_keeps_its_bits, 0, 2);
    tcase_add_test(tc, what_was_not_is_encoded);
    tcase_add_loop_test(tc, no_value_is_infinite, 0, 3);
    tcase_add_test(tc, takes_at_most_4_13_bits);
    suite_add_tcase(suite, tc);
    return suite;
}
