/* SPDX-License-Identifier: Apache-2.0 */
/* What the optimizers and reductions do besides their arithmetic, which
 * test_kernels_pointwise.c tests. */
#include <math.h>
#include <string.h>

#include "core/base/tree.h"
#include "tests/device/op_testing.h"
#include "tests/support/check_main.h"

enum { SLICES = 3 };

/* Slices of 70, 0 and 9 elements; the second and third have a rounded copy. */
struct update {
    struct tensor param[SLICES], grad[SLICES], first[SLICES], second[SLICES];
    uint16_t rounded[SLICES][70];
    struct cadre_slice slice[SLICES];
};

static void update_init(struct update *u, struct cadre_device *device)
{
    static const int64_t counts[SLICES] = {70, 0, 9};
    memset(u->rounded, 0xab, sizeof u->rounded);
    for (int i = 0; i < SLICES; i++) {
        const uint64_t seed = (uint64_t)i + 1;
        u->param[i] = tensor_make(device, CADRE_F32, counts[i], seed);
        u->grad[i] = tensor_make(device, CADRE_F32, counts[i], seed + 10);
        u->first[i] = tensor_make(device, CADRE_F32, counts[i], seed + 20);
        u->second[i] = tensor_make(device, CADRE_F32, counts[i], seed + 30);
        for (int64_t j = 0; j < counts[i]; j++)
            tensor_set(&u->second[i], j, fabs(tensor_get(&u->second[i], j)));
        u->slice[i] = (struct cadre_slice){.count = counts[i],
                                           .param = u->param[i].data,
                                           .rounded = i ? u->rounded[i] : NULL,
                                           .grad = u->grad[i].data,
                                           .exp_avg = u->first[i].data,
                                           .exp_avg_sq = u->second[i].data,
                                           .weight_decay = 0.1 * i};
    }
}

static void update_fini(struct update *u)
{
    for (int i = 0; i < SLICES; i++) {
        tensor_free(&u->param[i]);
        tensor_free(&u->grad[i]);
        tensor_free(&u->first[i]);
        tensor_free(&u->second[i]);
    }
}

static void update_run(struct cadre_device *device, const struct update *u, bool adam,
                       uint32_t rounded, double grad_scale)
{
    const struct cadre_adamw w = {.dtype = CADRE_F32,
                                  .rounded_dtype = rounded,
                                  .lr = 0.1,
                                  .beta1 = 0.9,
                                  .beta2 = 0.95,
                                  .eps = 1e-8,
                                  .step = 1,
                                  .grad_scale = &grad_scale,
                                  .slices = u->slice,
                                  .n = SLICES};
    const struct cadre_sgd s = {.dtype = CADRE_F32,
                                .rounded_dtype = rounded,
                                .lr = 0.1,
                                .momentum = 0.9,
                                .step = 1,
                                .grad_scale = &grad_scale,
                                .slices = u->slice,
                                .n = SLICES};
    ck_assert_int_eq(
        adam ? device->ops->adamw(device, &w) : device->ops->sgd(device, &s), CADRE_OK);
}

static bool same(const struct tensor *a, const struct tensor *b)
{
    return memcmp(a->data, b->data, (size_t)a->count * 4) == 0;
}

START_TEST(slices_are_rounded)
{
    struct cadre_device *device = open_cpu(2);
    const uint32_t rounded = _i & 1 ? CADRE_BF16 : CADRE_F16;
    struct update u, old;
    uint16_t want[70], untouched[70];
    memset(untouched, 0xab, sizeof untouched);
    update_init(&u, device);
    update_init(&old, device);
    update_run(device, &u, _i & 2, rounded, 0.5);
    ck_assert(!same(&u.param[0], &old.param[0]) && !same(&u.param[2], &old.param[2]));
    ck_assert_int_eq(
        device->ops->cast(device, rounded, want, CADRE_F32, u.param[2].data, 9),
        CADRE_OK);
    ck_assert_mem_eq(u.rounded[2], want, 9 * sizeof *want);
    ck_assert_mem_eq(u.rounded[2] + 9, untouched, 61 * sizeof *want);
    ck_assert_mem_eq(u.rounded[0], untouched, sizeof untouched);
    ck_assert_mem_eq(u.rounded[1], untouched, sizeof untouched);
    update_fini(&u);
    update_fini(&old);
    cadre_device_close(device);
}
END_TEST

START_TEST(not_finite_changes_nothing)
{
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    struct cadre_device *device = open_cpu(1);
    struct update u, old;
    update_init(&u, device);
    update_init(&old, device);
    update_run(device, &u, _i & 1, CADRE_BF16, bad[_i / 2]);
    for (int i = 0; i < SLICES; i++)
        ck_assert(same(&u.param[i], &old.param[i]) &&
                  same(&u.first[i], &old.first[i]) &&
                  same(&u.second[i], &old.second[i]));
    ck_assert_mem_eq(u.rounded, old.rounded, sizeof u.rounded);
    update_fini(&u);
    update_fini(&old);
    cadre_device_close(device);
}
END_TEST

START_TEST(total_norm)
{
    struct cadre_device *device = open_cpu(1);
    const struct cadre_device_ops *ops = device->ops;
    double chunks[37], out[2] = {0};
    uint64_t state = 1;
    for (int i = 0; i < 37; i++)
        chunks[i] = fabs(random_real(&state));
    for (uint64_t n = 0; n <= 37; n++) {
        const double norm = 0.5 * sqrt(cadre_tree_sum(chunks, n));
        ck_assert_int_eq(ops->norm_total(device, chunks, n, 0, 0.5, out), CADRE_OK);
        ck_assert(out[0] == norm && out[1] == 0.5);
        ck_assert_int_eq(ops->norm_total(device, chunks, n, 1, 0.5, out), CADRE_OK);
        ck_assert(out[0] == norm);
        check_close(out[1], 0.5 * fmin(1, 1 / (norm + 1e-6)), 1e-15, "scale", 0);
        ck_assert(n < 37 || out[1] < 0.5);
    }
    for (int bad = 0; bad < 2; bad++) {
        chunks[5] = bad ? INFINITY : NAN;
        ck_assert_int_eq(ops->norm_total(device, chunks, 37, 1, 1, out), CADRE_OK);
        ck_assert(isnan(out[0]) && isnan(out[1]));
    }
    cadre_device_close(device);
}
END_TEST

START_TEST(rows_are_summed)
{
    struct cadre_device *device = open_cpu(1);
    double rows[1000], sum = -1;
    for (int i = 0; i < 1000; i++)
        rows[i] = i + 0.5;
    for (int64_t n = 0; n <= 1000; n += 125) {
        ck_assert_int_eq(device->ops->sum_rows(device, rows, n, &sum), CADRE_OK);
        ck_assert(sum == (double)(n * n) / 2);
    }
    rows[3] = NAN;
    ck_assert_int_eq(device->ops->sum_rows(device, rows, 4, &sum), CADRE_OK);
    ck_assert(isnan(sum));
    cadre_device_close(device);
}
END_TEST

/* _i: f32, f64; out is separate, a, or b */
START_TEST(larger_of_two)
{
    struct cadre_device *device = open_cpu(1);
    const uint32_t dtype = _i ? CADRE_F64 : CADRE_F32;
    for (int form = 0; form < 3; form++) {
        struct tensor a = tensor_make(device, dtype, 67, 1);
        struct tensor b = tensor_make(device, dtype, 67, 2);
        struct tensor want = tensor_make(device, dtype, 67, 0);
        struct tensor separate = tensor_make(device, dtype, 67, 0);
        struct tensor *out = form == 0 ? &separate : form == 1 ? &a : &b;
        tensor_set(&a, 3, NAN);
        tensor_set(&b, 64, NAN);
        tensor_set(&a, 5, -INFINITY);
        for (int64_t i = 0; i < 67; i++)
            tensor_set(&want, i, fmax(tensor_get(&a, i), tensor_get(&b, i)));
        ck_assert_int_eq(
            device->ops->maximum(device, dtype, out->data, a.data, b.data, 67),
            CADRE_OK);
        for (int64_t i = 0; i < 67; i++)
            ck_assert(i == 3 || i == 64 ? isnan(tensor_get(out, i))
                                        : tensor_get(out, i) == tensor_get(&want, i));
        tensor_free(&a);
        tensor_free(&b);
        tensor_free(&want);
        tensor_free(&separate);
    }
    cadre_device_close(device);
}
END_TEST

START_TEST(integers)
{
    static const int32_t a[] = {1, -5, INT32_MAX, INT32_MIN, 0};
    static const int32_t b[] = {2, 5, 1, -1, -7};
    static const int32_t sum[] = {3, 0, INT32_MIN, INT32_MAX, -7};
    static const int32_t most[] = {2, 5, INT32_MAX, -1, 0};
    static const uint8_t c[] = {0, 200, 7}, d[] = {255, 100, 7},
                         larger[] = {255, 200, 7};
    struct cadre_device *device = open_cpu(1);
    const struct cadre_device_ops *ops = device->ops;
    int32_t out[5];
    uint8_t bytes[3];
    ck_assert_int_eq(ops->tree_add(device, CADRE_I32, out, a, b, 5), CADRE_OK);
    ck_assert_mem_eq(out, sum, sizeof out);
    ck_assert_int_eq(ops->maximum(device, CADRE_I32, out, a, b, 5), CADRE_OK);
    ck_assert_mem_eq(out, most, sizeof out);
    ck_assert_int_eq(ops->maximum(device, CADRE_U8, bytes, c, d, 3), CADRE_OK);
    ck_assert_mem_eq(bytes, larger, sizeof bytes);
    ck_assert_int_eq(ops->maximum(device, CADRE_I8, bytes, c, d, 3), CADRE_E_DEVICE);
    cadre_device_close(device);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("row_ops");
    TCase *tc = tcase_create("row_ops");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, slices_are_rounded, 0, 4);
    tcase_add_loop_test(tc, not_finite_changes_nothing, 0, 6);
    tcase_add_test(tc, total_norm);
    tcase_add_test(tc, rows_are_summed);
    tcase_add_loop_test(tc, larger_of_two, 0, 2);
    tcase_add_test(tc, integers);
    suite_add_tcase(suite, tc);
    return suite;
}
