/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/device/fixed_testing.h"

#include <string.h>

#include "tests/support/check_main.h"

static void use(struct cadre_cpu *cpu, const struct cadre_cpu_kernels *f32,
                const struct cadre_cpu_kernels *f64, int threads)
{
    cpu->f32 = f32;
    cpu->f64 = f64;
    for (int i = 0; i < threads; i++) {
        cpu->workers[i].own_f32 = f32;
        cpu->workers[i].own_f64 = f64;
    }
}

struct cadre_device *open_fixed(int copy, int threads)
{
    const struct cadre_device_config config = {
        .kind = "cpu", .threads = threads, .exact = true, .fixed = true};
    struct cadre_device *device = NULL;
    struct cadre_error err = {0};
    ck_assert_msg(cadre_device_open(&config, &device, &err) == CADRE_OK, "%s",
                  err.text);
    struct cadre_cpu *cpu = (struct cadre_cpu *)device;
    if (copy == 0) {
        use(cpu, &cadre_kernels_f32_base, &cadre_kernels_f64_base, threads);
        return device;
    }
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (copy == 1 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        use(cpu, &cadre_kernels_f32_avx2, &cadre_kernels_f64_avx2, threads);
        return device;
    }
    if (copy == 2 && cpu->f32 == &cadre_kernels_f32_avx512)
        return device;
#endif
    cadre_device_close(device);
    return NULL;
}

struct tensor tensor_room(struct cadre_device *device, uint32_t dtype, int64_t count)
{
    struct tensor t = {.device = device, .dtype = dtype, .count = count};
    t.data = device->ops->alloc(device, (size_t)count * cadre_dtype_bytes(dtype));
    ck_assert_ptr_nonnull(t.data);
    return t;
}

/* One cast for all: one for each element takes longer than the products. */
struct tensor rough_make(struct cadre_device *device, uint32_t dtype, int64_t count,
                         uint64_t seed)
{
    struct tensor t = tensor_room(device, dtype, count);
    struct tensor wide = tensor_room(device, CADRE_F64, count);
    uint64_t state = seed;
    for (int64_t i = 0; i < count; i++)
        ((double *)wide.data)[i] = random_real(&state) * random_real(&state) *
                                   (1 + 1e-9 * random_real(&state));
    const size_t bytes = (size_t)count * sizeof(double);
    if (dtype == CADRE_F64)
        memcpy(t.data, wide.data, bytes);
    else
        ck_assert_int_eq(
            device->ops->cast(device, dtype, t.data, CADRE_F64, wide.data, count),
            CADRE_OK);
    tensor_free(&wide);
    return t;
}

double rough_slack(uint32_t dtype, int64_t n)
{
    return dtype == CADRE_BF16 ? 0x1p-6 : dtype == CADRE_F16 ? 0x1p-9 : slack(dtype, n);
}

void *tensor_at(const struct tensor *tensor, int64_t i)
{
    return (char *)tensor->data + (size_t)i * cadre_dtype_bytes(tensor->dtype);
}
