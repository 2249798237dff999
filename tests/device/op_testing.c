/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/device/op_testing.h"

#include <math.h>

#include "core/tensor/half.h"
#include "tests/support/check_main.h"

struct cadre_device *open_cpu(int threads)
{
    struct cadre_device *device = NULL;
    struct cadre_error err = {0};
    const struct cadre_device_config config = {.kind = "cpu", .threads = threads};
    cadre_status rc = cadre_device_open(&config, &device, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    return device;
}

double random_real(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 40) / (double)(1 << 23) - 1.0;
}

struct tensor tensor_make(struct cadre_device *device, uint32_t dtype, int64_t count,
                          uint64_t seed)
{
    struct tensor t = {.device = device, .dtype = dtype, .count = count};
    size_t bytes = (size_t)count * cadre_dtype_bytes(dtype);
    t.data = device->ops->alloc(device, bytes ? bytes : 1);
    ck_assert_ptr_nonnull(t.data);
    if (cadre_dtype_bytes(dtype) == 2) {
        struct tensor wide = tensor_make(device, CADRE_F32, count, seed);
        device->ops->cast(device, dtype, t.data, CADRE_F32, wide.data, count);
        tensor_free(&wide);
        return t;
    }
    uint64_t state = seed * 7919;
    for (int64_t i = 0; i < count; i++)
        tensor_set(&t, i, seed ? random_real(&state) : (double)NAN);
    return t;
}

void tensor_free(struct tensor *tensor)
{
    tensor->device->ops->free(tensor->device, tensor->data);
    tensor->data = NULL;
}

double tensor_get(const struct tensor *tensor, int64_t i)
{
    if (tensor->dtype == CADRE_F64)
        return ((const double *)tensor->data)[i];
    if (tensor->dtype == CADRE_F32)
        return ((const float *)tensor->data)[i];
    const uint16_t x = ((const uint16_t *)tensor->data)[i];
    return tensor->dtype == CADRE_BF16 ? cadre_bf16_to_f32(x) : cadre_f16_to_f32(x);
}

void tensor_set(struct tensor *tensor, int64_t i, double value)
{
    if (tensor->dtype == CADRE_F64)
        ((double *)tensor->data)[i] = value;
    else if (tensor->dtype == CADRE_F32)
        ((float *)tensor->data)[i] = (float)value;
    else
        tensor->device->ops->cast(tensor->device, tensor->dtype,
                                  (uint16_t *)tensor->data + i, CADRE_F64, &value, 1);
}

void tensor_round(struct tensor *tensor, uint32_t dtype)
{
    struct cadre_device *device = tensor->device;
    struct tensor rounded = tensor_make(device, dtype, tensor->count, 0);
    device->ops->cast(device, dtype, rounded.data, tensor->dtype, tensor->data,
                      tensor->count);
    device->ops->cast(device, tensor->dtype, tensor->data, dtype, rounded.data,
                      tensor->count);
    tensor_free(&rounded);
}

void check_close(double a, double b, double limit, const char *what, int64_t i)
{
    ck_assert_msg(fabs(a - b) <= limit * (1 + fabs(b)),
                  "%s[%ld]: %.17g, expected %.17g, limit %g", what, (long)i, a, b,
                  limit);
}

void check_norm_close(const struct tensor *a, const struct tensor *b, double limit,
                      const char *what)
{
    double difference = 0, size = 0;
    ck_assert_int_eq(a->count, b->count);
    for (int64_t i = 0; i < a->count; i++) {
        double x = tensor_get(a, i), y = tensor_get(b, i);
        difference += (x - y) * (x - y);
        size += y * y;
    }
    ck_assert_msg(sqrt(difference) <= limit * sqrt(size) + 1e-30,
                  "%s: relative L2 difference %g, limit %g", what,
                  sqrt(difference / size), limit);
}

double slack(uint32_t dtype, int64_t n)
{
    return (dtype == CADRE_F64 ? 4e-16 : 2e-7) * (4 + sqrt((double)n) + (double)n / 16);
}

void check_gradient(struct tensor *x, const struct tensor *grad,
                    double (*loss)(void *ctx), void *ctx, const char *what)
{
    const double h = 1e-5;
    const int64_t step = x->count / 40 + 1;
    double size = 0;
    for (int64_t i = 0; i < grad->count; i++)
        size += fabs(tensor_get(grad, i));
    size /= (double)grad->count;
    for (int64_t i = 0; i < x->count; i += step) {
        const double old = tensor_get(x, i);
        tensor_set(x, i, old + h);
        const double up = loss(ctx);
        tensor_set(x, i, old - h);
        const double down = loss(ctx);
        tensor_set(x, i, old);
        const double numeric = (up - down) / (2 * h), exact = tensor_get(grad, i);
        ck_assert_msg(fabs(numeric - exact) <= 1e-6 * (fabs(exact) + size) + 1e-9,
                      "%s: d/dx[%ld] is %.12g, finite differences say %.12g", what,
                      (long)i, exact, numeric);
    }
}
