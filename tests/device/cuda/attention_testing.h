/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA device's attention against the CPU's, for the tests of its kernels: a case
 * is one shape and one placement in memory. */
#ifndef CADRE_TESTS_DEVICE_CUDA_ATTENTION_TESTING_H
#define CADRE_TESTS_DEVICE_CUDA_ATTENTION_TESTING_H

#include <stddef.h>
#include <stdint.h>

/* q, k and v (and their gradients) lie in separate buffers whose rows are `pad`
 * elements longer than needed, or `packed` in the rows of one buffer, `pad` longer. The
 * first row begins `shift` elements after an address aligned to 64 bytes. */
struct attention_case {
    int64_t batch, time, heads, kv_heads, head_size, pad;
    int packed, shift;
};

/* Run forward and backward twice on the host's fibers. The test fails where a result
 * differs from the CPU's in f64, on the same rounded inputs, by more than the dtype
 * explains, where the two runs differ in a bit, or where memory between the rows was
 * written. */
void attention_check(uint32_t dtype, struct attention_case c);

#endif
