/* SPDX-License-Identifier: Apache-2.0 */
/* Which entries of the table compute, for which dtypes, and the results of the
 * cases. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/device/cuda/parity.h"

#define BIT(dtype) (1u << (dtype))
#define REALS (BIT(CADRE_F32) | BIT(CADRE_F64))
#define FLOATS (REALS | BIT(CADRE_BF16) | BIT(CADRE_F16))

/* The optimizers' dtype is that of master values; norm_total and sum_rows have doubles.
 */
static const struct entry {
    const char *name;
    int entry;
    unsigned dtypes;
} entries[] = {
    {"gemm", PARITY_ENTRY(gemm), FLOATS},
    {"bias_bwd", PARITY_ENTRY(bias_bwd), FLOATS},
    {"attention_fwd", PARITY_ENTRY(attention_fwd), FLOATS},
    {"attention_bwd", PARITY_ENTRY(attention_bwd), FLOATS},
    {"norm_fwd", PARITY_ENTRY(norm_fwd), FLOATS},
    {"norm_bwd", PARITY_ENTRY(norm_bwd), FLOATS},
    {"rope", PARITY_ENTRY(rope), FLOATS},
    {"gelu_bwd", PARITY_ENTRY(gelu_bwd), FLOATS},
    {"swiglu_fwd", PARITY_ENTRY(swiglu_fwd), FLOATS},
    {"swiglu_bwd", PARITY_ENTRY(swiglu_bwd), FLOATS},
    {"add", PARITY_ENTRY(add), FLOATS},
    {"patches", PARITY_ENTRY(patches), FLOATS},
    {"embed_fwd", PARITY_ENTRY(embed_fwd), FLOATS},
    {"embed_bwd_tokens", PARITY_ENTRY(embed_bwd_tokens), FLOATS},
    {"embed_bwd_positions", PARITY_ENTRY(embed_bwd_positions), FLOATS},
    {"xent_fwd", PARITY_ENTRY(xent_fwd), FLOATS},
    {"xent_rescale", PARITY_ENTRY(xent_rescale), FLOATS},
    {"xent_loss", PARITY_ENTRY(xent_loss), FLOATS},
    {"xent_bwd", PARITY_ENTRY(xent_bwd), FLOATS},
    {"adamw", PARITY_ENTRY(adamw), REALS},
    {"sgd", PARITY_ENTRY(sgd), REALS},
    {"lion", PARITY_ENTRY(lion), REALS},
    {"adamw8", PARITY_ENTRY(adamw8), REALS},
    {"sum_squares", PARITY_ENTRY(sum_squares), FLOATS},
    {"norm_total", PARITY_ENTRY(norm_total), BIT(CADRE_F64)},
    {"sum_rows", PARITY_ENTRY(sum_rows), BIT(CADRE_F64)},
    {"scale", PARITY_ENTRY(scale), FLOATS},
    {"tree_add", PARITY_ENTRY(tree_add), FLOATS | BIT(CADRE_I32)},
    {"maximum", PARITY_ENTRY(maximum), FLOATS | BIT(CADRE_I32) | BIT(CADRE_U8)},
    {"cast", PARITY_ENTRY(cast), FLOATS},
    {"topk", PARITY_ENTRY(topk), FLOATS},
    {"quantize", PARITY_ENTRY(quantize), FLOATS},
    {"dequantize", PARITY_ENTRY(dequantize), FLOATS},
    {"scatter_add", PARITY_ENTRY(scatter_add), FLOATS},
    {"orthonormalize", PARITY_ENTRY(orthonormalize), FLOATS},
    {"axpby", PARITY_ENTRY(axpby), FLOATS},
    {"mul", PARITY_ENTRY(mul), FLOATS},
    {"rsqrt", PARITY_ENTRY(rsqrt), FLOATS},
    {"dot", PARITY_ENTRY(dot), FLOATS},
    {"transpose", PARITY_ENTRY(transpose), FLOATS | BIT(CADRE_I32)},
    {"copy_rows", PARITY_ENTRY(copy_rows), FLOATS | BIT(CADRE_I32)},
    {"route_fwd", PARITY_ENTRY(route_fwd), FLOATS},
    {"route_bwd", PARITY_ENTRY(route_bwd), FLOATS},
    {"rows_take", PARITY_ENTRY(rows_take), FLOATS},
    {"rows_put", PARITY_ENTRY(rows_put), FLOATS},
    {"rows_dot", PARITY_ENTRY(rows_dot), FLOATS},
    {"int8_encode", PARITY_ENTRY(int8_encode), FLOATS},
    {"int8_decode", PARITY_ENTRY(int8_decode), FLOATS},
    {"nf4_decode", PARITY_ENTRY(nf4_decode), FLOATS},
    {"fake_quantize", PARITY_ENTRY(fake_quantize), FLOATS},
    {"dropout", PARITY_ENTRY(dropout), FLOATS},
};
enum { KNOWN = sizeof entries / sizeof *entries };

/* All entries after this one compute. */
enum { LAST_PLAIN = PARITY_ENTRY(range_end) };

static void print_cell(const struct parity *p, int entry, uint32_t dtype)
{
    if (p->cases[entry][dtype] == 0)
        printf("  %14s", "-");
    else
        printf("  %8.3g x%-4d", p->worst[entry][dtype], p->cases[entry][dtype]);
}

void parity_show(const struct parity *p)
{
    const char *show = getenv("CADRE_TEST_SHOW");
    if (!show || strcmp(show, "1") != 0)
        return;
    printf("%-20s", "error / limit, cases");
    for (uint32_t dtype = CADRE_F32; dtype <= CADRE_U8; dtype++)
        printf("  %-14s", cadre_dtype_name(dtype));
    for (int i = 0; i < KNOWN; i++) {
        printf("\n%-20s", entries[i].name);
        for (uint32_t dtype = CADRE_F32; dtype <= CADRE_U8; dtype++)
            print_cell(p, entries[i].entry, dtype);
    }
    printf("\n");
    fflush(stdout);
}

void parity_covered(struct parity *p)
{
    bool known[PARITY_ENTRIES] = {0};
    for (int i = 0; i < KNOWN; i++) {
        known[entries[i].entry] = true;
        for (uint32_t dtype = CADRE_F32; dtype <= CADRE_I8; dtype++)
            if (entries[i].dtypes & BIT(dtype) &&
                p->cases[entries[i].entry][dtype] == 0) {
                printf("parity: %s has no case of %s\n", entries[i].name,
                       cadre_dtype_name(dtype));
                p->failures++;
            }
    }
    for (int i = LAST_PLAIN + 1; i < PARITY_ENTRIES; i++)
        if (!known[i]) {
            printf("parity: entry %d of the table, %d after the last known, has no "
                   "case: add it to parity_table.c and to a family\n",
                   i, i - entries[KNOWN - 1].entry);
            p->failures++;
        }
    fflush(stdout);
}
