/* SPDX-License-Identifier: Apache-2.0 */
/* Packs 16-bit matrices into the order in which the library's products read them,
 * faster than the library does. Nothing is computed: 32-bit pairs of elements are
 * copied in vectors, the rest one at a time. */
#include <string.h>

#include "core/device/cpu/kernels.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

enum { PAIRS = 16, DEPTH = 2 * PAIRS }; /* of a block: 16 by 16 pairs */
enum { LINE = 32, AHEAD = 16 }; /* elements of a line of the cache; rows */

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define VECTORS 1
#endif
#endif

#ifdef VECTORS
typedef uint32_t pairs __attribute__((vector_size(64), aligned(2), may_alias));
typedef uint16_t row16 __attribute__((vector_size(32), aligned(2), may_alias));
typedef uint16_t row32 __attribute__((vector_size(64), aligned(2), may_alias));

#define SWAP(step, low, high)                                                          \
    UNROLL for (int i = 0; i < PAIRS; i++)                                             \
    {                                                                                  \
        if (i & (step))                                                                \
            continue;                                                                  \
        const pairs a = v[i], b = v[i + (step)];                                       \
        v[i] = __builtin_shufflevector(a, b, low);                                     \
        v[i + (step)] = __builtin_shufflevector(a, b, high);                           \
    }
#define LOW8 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#define HIGH8 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31
#define LOW4 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27
#define HIGH4 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31
#define LOW2 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define HIGH2 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define LOW1 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30
#define HIGH1 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31

/* Element j of v[i] becomes element i of v[j]. */
INLINE void turn(pairs *v){SWAP(8, LOW8, HIGH8) SWAP(4, LOW4, HIGH4)
                               SWAP(2, LOW2, HIGH2) SWAP(1, LOW1, HIGH1)}

/* 16 pairs: columns of the row at `src` and of the next, `ld` on. */
INLINE void join_rows(pairs *out, const uint16_t *src, int64_t ld)
{
    const row16 a = *(const row16 *)src, b = *(const row16 *)(src + ld);
    const row32 both = __builtin_shufflevector(
        a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24, 9, 25, 10,
        26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    *out = (pairs)both;
}

INLINE void turn_columns(uint16_t *dst, int64_t to, const uint16_t *src, int64_t ld)
{
    pairs v[PAIRS];
    UNROLL for (int p = 0; p < PAIRS; p++) join_rows(&v[p], src + 2 * p * ld, ld);
    turn(v);
    UNROLL for (int p = 0; p < PAIRS; p++) * (pairs *)(dst + p * to) = v[p];
}

INLINE void turn_rows(uint16_t *dst, int64_t to, const uint16_t *src, int64_t ld)
{
    pairs v[PAIRS];
    UNROLL for (int p = 0; p < PAIRS; p++) v[p] = *(const pairs *)(src + p * ld);
    turn(v);
    UNROLL for (int p = 0; p < PAIRS; p++) * (pairs *)(dst + p * to) = v[p];
}

INLINE void join(uint16_t *dst, const uint16_t *src, int64_t ld)
{
    join_rows((pairs *)dst, src, ld);
}
#define WHOLE(n, unit) ((n) / (unit) * (unit))
#else
#define turn_columns(dst, to, src, ld) ((void)0)
#define turn_rows(dst, to, src, ld) ((void)0)
#define join(dst, src, ld) ((void)0)
#define WHOLE(n, unit) ((int64_t)0)
#endif

/* Prefetch the next rows: their stride is too large for the hardware prefetcher.
 * Addresses after the matrix are harmless. */
INLINE void fetch_rows(const uint16_t *src, int64_t ld, int rows)
{
    for (int i = 0; i < rows; i++)
        __builtin_prefetch(src + i * ld);
}

/* dst (m, k) = src (k, m) with leading dimension ld */
static void columns(uint16_t *dst, const uint16_t *src, int64_t ld, int64_t m,
                    int64_t k)
{
    const int64_t whole_m = WHOLE(m, PAIRS), whole_k = WHOLE(k, DEPTH);
    for (int64_t l = 0; l < whole_k; l += DEPTH)
        for (int64_t i = 0; i < whole_m; i += PAIRS) {
            if (i % LINE == 0)
                fetch_rows(src + (l + DEPTH) * ld + i, ld, DEPTH);
            turn_columns(dst + i * k + l, k, src + l * ld + i, ld);
        }
    for (int64_t l = 0; l < k; l++)
        for (int64_t i = l < whole_k ? whole_m : 0; i < m; i++)
            dst[i * k + l] = src[l * ld + i];
}

/* Where element (l, j) of a (k, n) matrix lies in panels. */
INLINE int64_t place(const struct cadre_panels *p, int64_t l, int64_t j)
{
    const int64_t depth = (p->k + DEPTH - 1) / DEPTH * DEPTH;
    return (j / p->width * depth + l / 2 * 2) * p->width + j % p->width * 2 + l % 2;
}

/* Elements [first, k) of columns [from, n), padded with zeros to the panels' ends. */
static void fill_rest(const struct cadre_panels *p, uint16_t *dst, const uint16_t *src,
                      int64_t whole_k, int64_t whole_n)
{
    const int64_t depth = (p->k + DEPTH - 1) / DEPTH * DEPTH;
    const int64_t full = (p->n + p->width - 1) / p->width * p->width;
    for (int64_t l = 0; l < depth; l++)
        for (int64_t j = l < whole_k ? whole_n : 0; j < full; j++) {
            const int64_t at = p->rows ? j * p->ld + l : l * p->ld + j;
            dst[place(p, l, j)] = l < p->k && j < p->n ? src[at] : 0;
        }
}

/* Columns [j, j + n) of one panel, from rows of k or, in pairs of rows, of n. */
static void fill_panel(const struct cadre_panels *p, uint16_t *dst, const uint16_t *src,
                       int64_t whole_k, int64_t n)
{
    const int64_t to = 2 * p->width;
    if (p->rows) {
        for (int64_t j = 0; j < n; j += PAIRS)
            for (int64_t l = 0; l < whole_k; l += DEPTH)
                turn_rows(dst + l * p->width + 2 * j, to, src + j * p->ld + l, p->ld);
        return;
    }
    for (int64_t l = 0; l < whole_k; l += 2)
        for (int64_t j = 0; j < n; j += PAIRS) {
            if (j % LINE == 0)
                fetch_rows(src + (l + AHEAD) * p->ld + j, p->ld, 2);
            join(dst + l * p->width + 2 * j, src + l * p->ld + j, p->ld);
        }
    (void)to;
}

static void panels(const struct cadre_panels *p, uint16_t *dst, const uint16_t *src)
{
    const int64_t depth = (p->k + DEPTH - 1) / DEPTH * DEPTH;
    const int64_t whole_k = WHOLE(p->k, p->rows ? DEPTH : 2);
    const int64_t whole_n = WHOLE(p->n, PAIRS);
    for (int64_t j = 0; j < whole_n; j += p->width) {
        const int64_t n = whole_n - j < p->width ? whole_n - j : p->width;
        fill_panel(p, dst + j * depth, src + (p->rows ? j * p->ld : j), whole_k, n);
    }
    if (whole_k < p->k || p->k % DEPTH || p->n % p->width)
        fill_rest(p, dst, src, whole_k, whole_n);
}

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

const struct cadre_cpu_packs JOIN(cadre_packs_, CADRE_ISA) = {.columns = columns,
                                                              .panels = panels};
