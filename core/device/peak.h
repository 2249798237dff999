/* SPDX-License-Identifier: Apache-2.0 */
/* The most FLOP/s that a device can do, for utilisation figures. [any thread] */
#ifndef CADRE_DEVICE_PEAK_H
#define CADRE_DEVICE_PEAK_H

#include <stdint.h>

enum { CADRE_PEAK_TEXT = 192 };

struct cadre_peak {
    double flops; /* FLOP/s of dense products; NaN: not known */
    char source[CADRE_PEAK_TEXT]; /* where it comes from, or why it is not known */
};

/* A GPU by its name, from the manufacturer's data sheets: dense figures in boost
 * clocks. 16-bit formats with sums in fp32; fp32 itself, not TF32, which Cadre does not
 * use; fp64 with tensor cores where they do it. A MIG instance has no figure. */
void cadre_peak_gpu(const char *name, uint32_t dtype, struct cadre_peak *out);

/* One core of this machine's processor, computed: its highest clock x the FLOPs of its
 * vector units in a cycle, as the kernel names both. Two FMA units of the widest
 * vectors are taken for given (on AMD family 25, two of 256 bits); processors with one,
 * and lower clocks under wide vectors, have less. 16-bit formats are widened to fp32,
 * and count as it, unless the processor multiplies bf16, of which nothing is known.
 * root: a folder in the place of "/", "" for it. */
void cadre_peak_core(uint32_t dtype, const char *root, struct cadre_peak *out);

/* Of the cores that this process may use, the share left where hardware threads of one
 * core are counted once; 1 where the kernel does not say. */
double cadre_peak_core_share(const char *root);

#endif
