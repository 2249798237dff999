/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/device/cuda/kernel_testing.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"

const uint32_t kernel_dtypes[4] = {CADRE_F32, CADRE_F64, CADRE_BF16, CADRE_F16};

/* Error limit of one rounding, and of a few of the wide dtype before it. */
static double limit_of(uint32_t dtype)
{
    switch (dtype) {
    case CADRE_F64:
        return 1e-14;
    case CADRE_F32:
        return 1e-6;
    case CADRE_BF16:
        return 9e-3;
    default:
        return 1.2e-3;
    }
}

static size_t bytes_of(const struct kernel_arg *arg)
{
    return (size_t)arg->count * cadre_dtype_bytes(arg->dtype);
}

void *scratch_of(size_t bytes)
{
    void *scratch = malloc(bytes ? bytes : 1);
    ck_assert_ptr_nonnull(scratch);
    memset(scratch, 0xff, bytes);
    return scratch;
}

cadre_status finish(cadre_status rc, void *scratch)
{
    ck_assert_int_eq(cudaDeviceSynchronize(), cudaSuccess);
    free(scratch);
    return rc;
}

static void compare(const struct kernel_case *c, const struct tensor *want,
                    const void *got, int arg)
{
    struct tensor g = *want;
    const double loose = c->args[arg].loose > 0 ? c->args[arg].loose : c->loose;
    char what[64];
    g.data = (void *)got;
    snprintf(what, sizeof what, "%s, %s, argument %d", c->name,
             cadre_dtype_name(want->dtype), arg);
    for (int64_t i = 0; i < want->count; i++) {
        const double a = tensor_get(&g, i), b = tensor_get(want, i);
        if (isnan(a) && isnan(b))
            continue;
        if (loose > 0 && isfinite(b))
            check_close(a, b, loose * limit_of(want->dtype), what, i);
        else
            ck_assert_msg(a == b, "%s[%ld]: %.17g, expected %.17g", what, (long)i, a,
                          b);
    }
}

/* One run on fibers; `bits` of the previous run are compared, or stored. */
static void run_kernel(const struct kernel_case *c, const struct tensor *start,
                       const struct tensor *want, int shift, void **bits)
{
    char *memory[KERNEL_ARGS] = {0};
    void *p[KERNEL_ARGS] = {0};
    for (int i = 0; i < KERNEL_ARGS; i++) {
        const size_t bytes = bytes_of(&c->args[i]);
        const size_t skip = (size_t)shift * cadre_dtype_bytes(c->args[i].dtype);
        if (bytes == 0)
            continue;
        memory[i] = malloc(bytes + skip);
        p[i] = memory[i] + skip;
        memcpy(p[i], start[i].data, bytes);
    }
    ck_assert_int_eq(c->run(NULL, p, c->ctx), CADRE_OK);
    for (int i = 0; i < KERNEL_ARGS; i++) {
        const size_t bytes = bytes_of(&c->args[i]);
        if (bytes == 0)
            continue;
        compare(c, &want[i], p[i], i);
        if (bits[i])
            ck_assert_msg(memcmp(bits[i], p[i], bytes) == 0,
                          "%s: argument %d differs from run to run", c->name, i);
        else
            memcpy(bits[i] = malloc(bytes), p[i], bytes);
        free(memory[i]);
    }
}

void hold_to_cpu(const struct kernel_case *c)
{
    struct cadre_device *cpu = open_cpu(1);
    struct tensor start[KERNEL_ARGS] = {0}, want[KERNEL_ARGS] = {0};
    void *p[KERNEL_ARGS] = {0}, *bits[KERNEL_ARGS] = {0};
    for (int i = 0; i < KERNEL_ARGS; i++) {
        const struct kernel_arg *arg = &c->args[i];
        if (arg->count == 0)
            continue;
        start[i] = tensor_make(cpu, arg->dtype, arg->count, arg->seed);
        want[i] = tensor_make(cpu, arg->dtype, arg->count, arg->seed);
        p[i] = want[i].data;
    }
    ck_assert_int_eq(c->run(cpu, p, c->ctx), CADRE_OK);
    for (int run = 0; run < 4; run++)
        run_kernel(c, start, want, run / 2, bits);
    for (int i = 0; i < KERNEL_ARGS; i++) {
        if (c->args[i].count == 0)
            continue;
        tensor_free(&start[i]);
        tensor_free(&want[i]);
        free(bits[i]);
    }
    cadre_device_close(cpu);
}
