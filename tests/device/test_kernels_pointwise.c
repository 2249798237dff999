/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "tests/device/op_testing.h"
#include "tests/support/check_main.h"

static const int64_t sizes[] = {1, 7, 31, 33, 65, 1000, 16384, 40001};
#define SIZES ((int)(sizeof sizes / sizeof *sizes))

/* Inputs of element-wise functions: a wide range, not [-1, 1) alone. */
static struct tensor wide(struct cadre_device *device, uint32_t dtype, int64_t count,
                          uint64_t seed)
{
    struct tensor t = tensor_make(device, dtype, count, seed);
    for (int64_t i = 0; i < count; i++)
        tensor_set(&t, i, tensor_get(&t, i) * (i % 3 ? 4 : 30));
    return t;
}

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double gelu_slope(double x)
{
    const double u = sqrt(2 / M_PI) * (x + 0.044715 * x * x * x), t = tanh(u);
    return 0.5 * (1 + t) +
           0.5 * x * (1 - t * t) * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static double silu_slope(double x)
{
    const double s = 1 / (1 + exp(-x));
    return s + x * s * (1 - s);
}

START_TEST(activations)
{
    struct cadre_device *device = open_cpu(2);
    const uint32_t dtype = _i % 2 ? CADRE_F64 : CADRE_F32;
    const int64_t n = sizes[_i / 2];
    const double limit = dtype == CADRE_F64 ? 1e-14 : 2e-6;
    struct tensor x = wide(device, dtype, n, 1), up = tensor_make(device, dtype, n, 2);
    struct tensor dy = tensor_make(device, dtype, n, 3);
    struct tensor y = tensor_make(device, dtype, n, 0);
    struct tensor dup = tensor_make(device, dtype, n, 0);
    const struct cadre_device_ops *ops = device->ops;
    ck_assert_int_eq(ops->gelu_bwd(device, dtype, x.data, dy.data, y.data, n),
                     CADRE_OK);
    for (int64_t i = 0; i < n; i++)
        check_close(tensor_get(&y, i),
                    tensor_get(&dy, i) * gelu_slope(tensor_get(&x, i)), limit,
                    "gelu_bwd", i);
    ck_assert_int_eq(ops->swiglu_fwd(device, dtype, x.data, up.data, y.data, n),
                     CADRE_OK);
    for (int64_t i = 0; i < n; i++)
        check_close(tensor_get(&y, i), silu(tensor_get(&x, i)) * tensor_get(&up, i),
                    limit, "swiglu_fwd", i);
    ck_assert_int_eq(
        ops->swiglu_bwd(device, dtype, x.data, up.data, dy.data, y.data, dup.data, n),
        CADRE_OK);
    for (int64_t i = 0; i < n; i++) {
        const double g = tensor_get(&x, i), d = tensor_get(&dy, i);
        check_close(tensor_get(&dup, i), d * silu(g), limit, "dup", i);
        check_close(tensor_get(&y, i), d * tensor_get(&up, i) * silu_slope(g), limit,
                    "dgate", i);
    }
    ck_assert_int_eq(ops->gelu_bwd(device, dtype, x.data, dy.data, dy.data, n),
                     CADRE_OK);
    struct tensor *all[] = {&x, &up, &dy, &y, &dup};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
    cadre_device_close(device);
}
END_TEST

/* The exponential of fp32, seen through gelu: its whole range, both ends and NaN. */
START_TEST(gelu_everywhere)
{
    struct cadre_device *device = open_cpu(1);
    const int64_t n = test_lean() ? 20001 : 200001;
    struct tensor a = tensor_make(device, CADRE_F32, n, 1);
    struct tensor c = tensor_make(device, CADRE_F32, n, 0);
    struct tensor one = tensor_make(device, CADRE_F32, 1, 1);
    struct tensor zero = tensor_make(device, CADRE_F32, n, 1);
    for (int64_t i = 0; i < n; i++) {
        tensor_set(&a, i, (double)(i - n / 2) * 1e-3);
        tensor_set(&zero, i, 0);
    }
    static const double extreme[] = {NAN, -1e9, 1e9, -1e20, 1e20, -1e35, 1e35};
    for (int i = 0; i < 7; i++)
        tensor_set(&a, 16 + i, extreme[i]);
    tensor_set(&one, 0, 1);
    const struct cadre_gemm g = {.dtype = CADRE_F32,
                                 .m = 1,
                                 .n = n,
                                 .k = 1,
                                 .a = one.data,
                                 .lda = 1,
                                 .b = a.data,
                                 .ldb = n,
                                 .c = c.data,
                                 .ldc = n,
                                 .bias = zero.data,
                                 .epilogue = CADRE_EPILOGUE_BIAS_GELU};
    ck_assert_int_eq(device->ops->gemm(device, &g), CADRE_OK);
    for (int64_t i = 0; i < n; i++) {
        const double x = tensor_get(&a, i), want = gelu(x), got = tensor_get(&c, i);
        bool right = fabs(got) <= 2e-6; /* tanh cancels in the reference below -5 */
        if (i == 16)
            right = isnan(got);
        else if (x > -5)
            right = fabs(got - want) <= 1e-6 * fabs(want) + 1e-10;
        if (!right)
            ck_abort_msg("gelu(%g) is %g, expected %g", x, got, want);
    }
    struct tensor *all[] = {&a, &c, &one, &zero};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
    cadre_device_close(device);
}
END_TEST

/* Finite differences of the gate and the value. */
struct glu {
    struct cadre_device *device;
    struct tensor gate, up, y, dy;
};

static double glu_loss(void *ctx)
{
    struct glu *p = ctx;
    double sum = 0;
    ck_assert_int_eq(p->device->ops->swiglu_fwd(p->device, CADRE_F64, p->gate.data,
                                                p->up.data, p->y.data, p->y.count),
                     CADRE_OK);
    for (int64_t i = 0; i < p->y.count; i++)
        sum += tensor_get(&p->y, i) * tensor_get(&p->dy, i);
    return sum;
}

START_TEST(swiglu_gradient)
{
    struct cadre_device *device = open_cpu(1);
    struct glu p = {device, tensor_make(device, CADRE_F64, 65, 1),
                    tensor_make(device, CADRE_F64, 65, 2),
                    tensor_make(device, CADRE_F64, 65, 0),
                    tensor_make(device, CADRE_F64, 65, 3)};
    struct tensor dgate = tensor_make(device, CADRE_F64, 65, 0);
    struct tensor dup = tensor_make(device, CADRE_F64, 65, 0);
    ck_assert_int_eq(device->ops->swiglu_bwd(device, CADRE_F64, p.gate.data, p.up.data,
                                             p.dy.data, dgate.data, dup.data, 65),
                     CADRE_OK);
    check_gradient(&p.gate, &dgate, glu_loss, &p, "gate");
    check_gradient(&p.up, &dup, glu_loss, &p, "up");
    struct tensor *all[] = {&p.gate, &p.up, &p.y, &p.dy, &dgate, &dup};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
    cadre_device_close(device);
}
END_TEST

START_TEST(additions)
{
    struct cadre_device *device = open_cpu(2);
    const struct cadre_device_ops *ops = device->ops;
    const uint32_t dtype = _i % 2 ? CADRE_F64 : CADRE_F32;
    const int64_t C = sizes[_i / 2], rows = 3, n = rows * C;
    struct tensor a = tensor_make(device, dtype, n, 1),
                  b = tensor_make(device, dtype, n, 2);
    struct tensor bias = tensor_make(device, dtype, C, 3);
    struct tensor y = tensor_make(device, dtype, n, 0);
    for (int form = 0; form < 4; form++) {
        const void *with_bias = form & 1 ? bias.data : NULL;
        const void *with_b = form & 2 ? b.data : NULL;
        ck_assert_int_eq(
            ops->add(device, dtype, a.data, with_bias, with_b, y.data, rows, C),
            CADRE_OK);
        for (int64_t i = 0; i < n; i++)
            check_close(tensor_get(&y, i),
                        tensor_get(&a, i) + (form & 1 ? tensor_get(&bias, i % C) : 0) +
                            (form & 2 ? tensor_get(&b, i) : 0),
                        slack(dtype, 1), "add", i);
    }
    ck_assert_int_eq(ops->tree_add(device, dtype, y.data, a.data, b.data, n), CADRE_OK);
    ck_assert_int_eq(ops->add(device, dtype, a.data, NULL, b.data, a.data, rows, C),
                     CADRE_OK);
    ck_assert_int_eq(memcmp(y.data, a.data, (size_t)n * cadre_dtype_bytes(dtype)), 0);
    ck_assert_int_eq(ops->scale(device, dtype, y.data, n, -0.5), CADRE_OK);
    for (int64_t i = 0; i < n; i++)
        check_close(tensor_get(&y, i), -0.5 * tensor_get(&a, i), 0, "scaled", i);
    ck_assert_int_eq(ops->tree_add(device, dtype, b.data, b.data, b.data, n), CADRE_OK);
    ck_assert_int_eq(ops->tree_add(device, CADRE_U8, b.data, b.data, b.data, n),
                     CADRE_E_DEVICE);
    struct tensor *all[] = {&a, &b, &bias, &y};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
    cadre_device_close(device);
}
END_TEST

/* ---- optimizers ---- */

struct adam {
    struct tensor param, grad, first, second;
    struct cadre_slice slice;
};

static const double grad_scale = 0.7;

static struct adam adam_make(struct cadre_device *device, uint32_t dtype, int64_t n)
{
    struct adam s = {.param = tensor_make(device, dtype, n, 1),
                     .grad = tensor_make(device, dtype, n, 2),
                     .first = tensor_make(device, dtype, n, 3),
                     .second = tensor_make(device, dtype, n, 4)};
    for (int64_t i = 0; i < n; i++)
        tensor_set(&s.second, i, fabs(tensor_get(&s.second, i)));
    return s;
}

static void adam_free(struct adam *s)
{
    tensor_free(&s->param);
    tensor_free(&s->grad);
    tensor_free(&s->first);
    tensor_free(&s->second);
}

static struct cadre_slice slice_of(const struct adam *s, int64_t begin, int64_t count)
{
    const size_t skip = (size_t)begin * cadre_dtype_bytes(s->param.dtype);
    return (struct cadre_slice){.count = count,
                                .param = (char *)s->param.data + skip,
                                .grad = (char *)s->grad.data + skip,
                                .exp_avg = (char *)s->first.data + skip,
                                .exp_avg_sq = (char *)s->second.data + skip,
                                .weight_decay = 0.1};
}

static struct cadre_adamw adam_args(uint32_t dtype, const struct cadre_slice *slices,
                                    int64_t n)
{
    return (struct cadre_adamw){.dtype = dtype,
                                .lr = 1e-3,
                                .beta1 = 0.9,
                                .beta2 = 0.95,
                                .eps = 1e-8,
                                .step = 3,
                                .grad_scale = &grad_scale,
                                .slices = slices,
                                .n = n};
}

START_TEST(adamw_reference)
{
    struct cadre_device *device = open_cpu(2);
    const uint32_t dtype = _i % 2 ? CADRE_F64 : CADRE_F32;
    const int64_t n = sizes[_i / 2];
    const double limit = dtype == CADRE_F64 ? 1e-14 : 1e-6;
    struct adam s = adam_make(device, dtype, n), old = adam_make(device, dtype, n);
    const struct cadre_slice slice = slice_of(&s, 0, n);
    const struct cadre_adamw a = adam_args(dtype, &slice, 1);
    ck_assert_int_eq(device->ops->adamw(device, &a), CADRE_OK);
    for (int64_t i = 0; i < n; i++) {
        const double g = tensor_get(&old.grad, i) * 0.7;
        const double m = 0.9 * tensor_get(&old.first, i) + 0.1 * g;
        const double v = 0.95 * tensor_get(&old.second, i) + 0.05 * g * g;
        const double m_hat = m / (1 - pow(0.9, 3)), v_hat = v / (1 - pow(0.95, 3));
        const double p = tensor_get(&old.param, i) * (1 - 1e-3 * 0.1) -
                         1e-3 * m_hat / (sqrt(v_hat) + 1e-8);
        check_close(tensor_get(&s.first, i), m, limit, "exp_avg", i);
        check_close(tensor_get(&s.second, i), v, limit, "exp_avg_sq", i);
        check_close(tensor_get(&s.param, i), p, limit, "param", i);
    }
    adam_free(&s);
    adam_free(&old);
    cadre_device_close(device);
}
END_TEST

/* Gradients are the first moments, and the second stay as after so many steps. */
START_TEST(adamw_held)
{
    struct cadre_device *device = open_cpu(2);
    const uint32_t dtype = _i % 2 ? CADRE_F64 : CADRE_F32;
    const int64_t n = sizes[_i / 2];
    const double limit = dtype == CADRE_F64 ? 1e-14 : 1e-6;
    struct adam s = adam_make(device, dtype, n), old = adam_make(device, dtype, n);
    const struct cadre_slice slice = slice_of(&s, 0, n);
    struct cadre_adamw a = adam_args(dtype, &slice, 1);
    a.held = 2;
    ck_assert_int_eq(device->ops->adamw(device, &a), CADRE_OK);
    for (int64_t i = 0; i < n; i++) {
        const double m = tensor_get(&old.grad, i) * 0.7;
        const double v = tensor_get(&old.second, i);
        const double p = tensor_get(&old.param, i) * (1 - 1e-3 * 0.1) -
                         1e-3 * m / (sqrt(v / (1 - pow(0.95, 2))) + 1e-8);
        check_close(tensor_get(&s.first, i), m, limit, "exp_avg", i);
        ck_assert(tensor_get(&s.second, i) == v);
        check_close(tensor_get(&s.param, i), p, limit, "param", i);
    }
    adam_free(&s);
    adam_free(&old);
    cadre_device_close(device);
}
END_TEST

/* A shard may begin anywhere: the same bits in one slice or in two. */
START_TEST(adamw_divided_anywhere)
{
    struct cadre_device *device = open_cpu(1);
    const uint32_t dtype = _i ? CADRE_F64 : CADRE_F32;
    enum { N = 133 };
    const size_t bytes = N * cadre_dtype_bytes(dtype);
    struct adam whole = adam_make(device, dtype, N);
    struct cadre_slice slices[2] = {slice_of(&whole, 0, N)};
    struct cadre_adamw a = adam_args(dtype, slices, 1);
    ck_assert_int_eq(device->ops->adamw(device, &a), CADRE_OK);
    for (int64_t cut = 0; cut <= N; cut++) {
        struct adam s = adam_make(device, dtype, N);
        slices[0] = slice_of(&s, 0, cut);
        slices[1] = slice_of(&s, cut, N - cut);
        a = adam_args(dtype, slices, 2);
        ck_assert_int_eq(device->ops->adamw(device, &a), CADRE_OK);
        ck_assert_int_eq(memcmp(s.param.data, whole.param.data, bytes), 0);
        ck_assert_int_eq(memcmp(s.first.data, whole.first.data, bytes), 0);
        ck_assert_int_eq(memcmp(s.second.data, whole.second.data, bytes), 0);
        adam_free(&s);
    }
    adam_free(&whole);
    cadre_device_close(device);
}
END_TEST

START_TEST(sgd_reference)
{
    struct cadre_device *device = open_cpu(2);
    const uint32_t dtype = _i % 2 ? CADRE_F64 : CADRE_F32;
    const int64_t n = sizes[_i / 2];
    const double limit = dtype == CADRE_F64 ? 1e-14 : 1e-6;
    struct adam s = adam_make(device, dtype, n), old = adam_make(device, dtype, n);
    struct cadre_slice slice = slice_of(&s, 0, n);
    struct cadre_sgd a = {.dtype = dtype,
                          .lr = 0.1,
                          .momentum = 0.9,
                          .step = 2,
                          .grad_scale = &grad_scale,
                          .slices = &slice,
                          .n = 1};
    ck_assert_int_eq(device->ops->sgd(device, &a), CADRE_OK);
    for (int64_t i = 0; i < n; i++) {
        const double p = tensor_get(&old.param, i);
        const double buf =
            0.9 * tensor_get(&old.first, i) + 0.7 * tensor_get(&old.grad, i) + 0.1 * p;
        check_close(tensor_get(&s.first, i), buf, limit, "buf", i);
        check_close(tensor_get(&s.param, i), p - 0.1 * buf, limit, "param", i);
        tensor_set(&s.param, i, p);
    }
    slice.exp_avg = NULL;
    a.momentum = 0;
    ck_assert_int_eq(device->ops->sgd(device, &a), CADRE_OK);
    for (int64_t i = 0; i < n; i++) {
        const double p = tensor_get(&old.param, i);
        check_close(tensor_get(&s.param, i),
                    p - 0.1 * (0.7 * tensor_get(&old.grad, i) + 0.1 * p), limit,
                    "plain", i);
    }
    adam_free(&s);
    adam_free(&old);
    cadre_device_close(device);
}
END_TEST

START_TEST(squares)
{
    struct cadre_device *device = open_cpu(2);
    const uint32_t dtype = _i % 2 ? CADRE_F64 : CADRE_F32;
    const int64_t n = sizes[_i / 2];
    const int64_t chunks = (n + CADRE_NORM_CHUNK - 1) / CADRE_NORM_CHUNK;
    double sums[16];
    struct tensor x = tensor_make(device, dtype, n, 1);
    const struct cadre_squares list[] = {{x.data, n, sums}, {x.data, 1, sums + chunks}};
    ck_assert_int_le(chunks, 15);
    ck_assert_int_eq(device->ops->sum_squares(device, dtype, list, 2), CADRE_OK);
    check_close(sums[chunks], pow(tensor_get(&x, 0), 2), 1e-13, "second range", 0);
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
        double want = 0;
        for (int64_t i = chunk * CADRE_NORM_CHUNK;
             i < n && i < (chunk + 1) * CADRE_NORM_CHUNK; i++)
            want += tensor_get(&x, i) * tensor_get(&x, i);
        check_close(sums[chunk], want, 1e-13, "sum of squares", chunk);
    }
    for (int bad = 0; bad < 2; bad++) {
        tensor_set(&x, n - 1, bad ? INFINITY : NAN);
        ck_assert_int_eq(device->ops->sum_squares(device, dtype, list, 1), CADRE_OK);
        ck_assert(!isfinite(sums[chunks - 1]));
        ck_assert(chunks == 1 || isfinite(sums[0]));
    }
    tensor_free(&x);
    cadre_device_close(device);
}
END_TEST

Suite *test_suite(void)
{
    const int sizes_tried =
        test_lean() ? SIZES - 1 : SIZES; /* the last is most of all */
    Suite *suite = suite_create("kernels_pointwise");
    TCase *tc = tcase_create("pointwise");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, activations, 0, sizes_tried * 2);
    tcase_add_test(tc, gelu_everywhere);
    tcase_add_test(tc, swiglu_gradient);
    tcase_add_loop_test(tc, additions, 0, sizes_tried * 2);
    tcase_add_loop_test(tc, adamw_reference, 0, sizes_tried * 2);
    tcase_add_loop_test(tc, adamw_held, 0, sizes_tried * 2);
    tcase_add_loop_test(tc, adamw_divided_anywhere, 0, 2);
    tcase_add_loop_test(tc, sgd_reference, 0, sizes_tried * 2);
    tcase_add_loop_test(tc, squares, 0, sizes_tried * 2);
    suite_add_tcase(suite, tc);
    return suite;
}
