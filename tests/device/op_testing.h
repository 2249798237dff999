/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the tests of ops: tensors on a CPU device, filled with numbers that are
 * exact in f32 and f64 (rounded in bf16 and f16), and comparisons. */
#ifndef CADRE_TESTS_DEVICE_OP_TESTING_H
#define CADRE_TESTS_DEVICE_OP_TESTING_H

#include "core/device/device.h"

struct tensor {
    struct cadre_device *device;
    uint32_t dtype;
    int64_t count;
    void *data;
};

/* A CPU device; the test fails where it cannot be opened. */
struct cadre_device *open_cpu(int threads);

/* Uniform in [-1, 1) from `seed`; seed 0 fills with NaN, for outputs. */
struct tensor tensor_make(struct cadre_device *device, uint32_t dtype, int64_t count,
                          uint64_t seed);
void tensor_free(struct tensor *tensor);

double tensor_get(const struct tensor *tensor, int64_t i);
void tensor_set(struct tensor *tensor, int64_t i, double value);

/* Every element is rounded to bf16 or f16. */
void tensor_round(struct tensor *tensor, uint32_t dtype);

/* The next number in [-1, 1). */
double random_real(uint64_t *state);

/* |a - b| <= limit * (1 + |b|); reported with `what` and i where not. */
void check_close(double a, double b, double limit, const char *what, int64_t i);

/* sqrt(sum (a - b)^2 / sum b^2) <= limit */
void check_norm_close(const struct tensor *a, const struct tensor *b, double limit,
                      const char *what);

/* The relative slack of a product or sum of about n terms of size 1. */
double slack(uint32_t dtype, int64_t n);

/* Central differences: for some elements i of x, d(loss)/dx[i] against grad[i]. `loss`
 * runs the forward pass with the current x. fp64. */
void check_gradient(struct tensor *x, const struct tensor *grad,
                    double (*loss)(void *ctx), void *ctx, const char *what);

#endif
