/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes of the tree in bf16 and f16: added in f32, which holds the sum of two of them
 * to more bits than a second rounding could spoil, and rounded once. */
#include "core/comm/reduce.h"
#include "core/tensor/half.h"

/* NOLINTBEGIN(bugprone-macro-parentheses): names are pasted together */
#define DEFINE_PAIRS(type)                                                             \
    void cadre_reduce_sum_##type(void *d, const void *a, const void *b, uint64_t n)    \
    {                                                                                  \
        uint16_t *to = d;                                                              \
        const uint16_t *x = a, *y = b;                                                 \
        for (uint64_t i = 0; i < n; i++)                                               \
            to[i] = cadre_##type##_from_f32(cadre_##type##_to_f32(x[i]) +              \
                                            cadre_##type##_to_f32(y[i]));              \
    }                                                                                  \
    void cadre_reduce_max_##type(void *d, const void *a, const void *b, uint64_t n)    \
    {                                                                                  \
        uint16_t *to = d;                                                              \
        const uint16_t *x = a, *y = b;                                                 \
        for (uint64_t i = 0; i < n; i++) {                                             \
            float p = cadre_##type##_to_f32(x[i]), q = cadre_##type##_to_f32(y[i]);    \
            to[i] = p >= q || p != p ? x[i] : y[i];                                    \
        }                                                                              \
    }

/* NOLINTEND(bugprone-macro-parentheses) */
DEFINE_PAIRS(bf16)
DEFINE_PAIRS(f16)
