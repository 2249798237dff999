/* SPDX-License-Identifier: Apache-2.0 */
#include "core/comm/reduce.h"

#include <string.h>

#include "core/tensor/dtype.h"

#define LEVELS 9 /* 2^8 ranks */

bool cadre_reduce_supports(uint32_t dtype, uint32_t red)
{
    bool adds = dtype == CADRE_F32 || dtype == CADRE_F64 || dtype == CADRE_BF16 ||
                dtype == CADRE_F16 || dtype == CADRE_I32;
    return red == CADRE_SUM ? adds : red == CADRE_MAX && (adds || dtype == CADRE_U8);
}

#define ADD(a, b) ((a) + (b))
#define MAX_NAN(a, b) ((a) >= (b) || (a) != (a) ? (a) : (b))

/* Two operands into a third buffer, and one into the accumulator. Compilers vectorize
 * blocks of 16 with a constant trip count at -O2. */
/* NOLINTBEGIN(bugprone-macro-parentheses): a type cannot stand in parentheses */
#define DEFINE_PAIR(name, type, OP)                                                    \
    static void name##_into(type *restrict d, const type *restrict a,                  \
                            const type *restrict b, uint64_t n)                        \
    {                                                                                  \
        uint64_t i = 0;                                                                \
        for (; i + 16 <= n; i += 16)                                                   \
            for (int j = 0; j < 16; j++)                                               \
                d[i + j] = OP(a[i + j], b[i + j]);                                     \
        for (; i < n; i++)                                                             \
            d[i] = OP(a[i], b[i]);                                                     \
    }                                                                                  \
    static void name##_onto(type *restrict d, const type *restrict b, uint64_t n)      \
    {                                                                                  \
        uint64_t i = 0;                                                                \
        for (; i + 16 <= n; i += 16)                                                   \
            for (int j = 0; j < 16; j++)                                               \
                d[i + j] = OP(d[i + j], b[i + j]);                                     \
        for (; i < n; i++)                                                             \
            d[i] = OP(d[i], b[i]);                                                     \
    }                                                                                  \
    static void name(void *d, const void *a, const void *b, uint64_t n)                \
    {                                                                                  \
        if (a == d)                                                                    \
            name##_onto(d, b, n);                                                      \
        else                                                                           \
            name##_into(d, a, b, n);                                                   \
    }

/* NOLINTEND(bugprone-macro-parentheses) */
DEFINE_PAIR(sum_f32, float, ADD)
DEFINE_PAIR(sum_f64, double, ADD)
DEFINE_PAIR(sum_i32, uint32_t, ADD)
DEFINE_PAIR(max_f32, float, MAX_NAN)
DEFINE_PAIR(max_f64, double, MAX_NAN)
DEFINE_PAIR(max_i32, int32_t, MAX_NAN)
DEFINE_PAIR(max_u8, uint8_t, MAX_NAN)

typedef void (*pair_fn)(void *d, const void *a, const void *b, uint64_t n);

static pair_fn pair_of(uint32_t dtype, uint32_t red)
{
    bool sum = red == CADRE_SUM;
    switch (dtype) {
    case CADRE_F32:
        return sum ? sum_f32 : max_f32;
    case CADRE_F64:
        return sum ? sum_f64 : max_f64;
    case CADRE_I32:
        return sum ? sum_i32 : max_i32;
    case CADRE_BF16:
        return sum ? cadre_reduce_sum_bf16 : cadre_reduce_max_bf16;
    case CADRE_F16:
        return sum ? cadre_reduce_sum_f16 : cadre_reduce_max_f16;
    default:
        return max_u8;
    }
}

struct tree {
    const void *const *srcs;
    int size;
    uint64_t count;
    pair_fn pair;
    _Alignas(64) char scratch[LEVELS][CADRE_REDUCE_BLOCK_BYTES];
};

/* The node over ranks [first, first + 2^level): returns the address of its value: dst
 * or, for a single leaf, the leaf itself. Left children are computed in dst, right ones
 * in the scratch of their level, which is free again after the addition. */
static const void *node(struct tree *t, int level, int first, void *dst)
{
    if (level == 0)
        return t->srcs[first];
    int half = 1 << (level - 1);
    const void *left = node(t, level - 1, first, dst);
    if (first + half >= t->size)
        return left;
    const void *right = node(t, level - 1, first + half, t->scratch[level - 1]);
    t->pair(dst, left, right, t->count);
    return dst;
}

void cadre_reduce_block(void *dst, const void *const *srcs, int size, uint64_t count,
                        uint32_t dtype, uint32_t red)
{
    struct tree t;
    t.srcs = srcs;
    t.size = size;
    t.count = count;
    t.pair = pair_of(dtype, red);
    int level = 0;
    while (1 << level < size)
        level++;
    const void *at = node(&t, level, 0, dst);
    if (at != dst)
        memcpy(dst, at, count * cadre_dtype_bytes(dtype));
}
