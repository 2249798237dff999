/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels on the host's fibers, compared with the CPU device's op: the same arguments,
 * once on the CPU and four times on fibers, aligned and off by one element, each twice
 * for equal bits. Memory is allocated to the byte and outputs are poisoned. */
#ifndef CADRE_TESTS_DEVICE_CUDA_KERNEL_TESTING_H
#define CADRE_TESTS_DEVICE_CUDA_KERNEL_TESTING_H

#include "tests/device/op_testing.h"

enum { KERNEL_ARGS = 14 };

/* A tensor of an op: count 0 is NULL, seed 0 an output. */
struct kernel_arg {
    uint32_t dtype;
    int64_t count;
    uint64_t seed;
    double loose; /* in place of the case's, where not 0 */
};

struct kernel_case {
    const char *name;
    struct kernel_arg args[KERNEL_ARGS];
    /* The op on p, by the CPU device, or by the kernel where cpu is NULL. */
    cadre_status (*run)(struct cadre_device *cpu, void **p, const void *ctx);
    const void *ctx;
    double loose; /* times the dtype's own limit; 0 requires equal bits */
};

void hold_to_cpu(const struct kernel_case *c);

/* Scratch for a kernel, poisoned; for one op at a time. Free it after finish(). */
void *scratch_of(size_t bytes);

/* Run what was launched, free the scratch, and return `rc`. */
cadre_status finish(cadre_status rc, void *scratch);

/* f32, f64, bf16, f16 */
extern const uint32_t kernel_dtypes[4];

#endif
