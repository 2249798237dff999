/* SPDX-License-Identifier: Apache-2.0 */
/* Routing and rows in another order against plain loops, its gradient against finite
 * differences, and equal bits whatever the number of threads. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/device/op_testing.h"
#include "tests/support/check_main.h"

static const uint32_t dtypes[] = {CADRE_F32, CADRE_F64, CADRE_BF16, CADRE_F16};
enum { DTYPES = 4, ROWS = 301, EXPERTS = 7, CHANNELS = 1037 };

static void ok(cadre_status rc)
{
    ck_assert_int_eq(rc, CADRE_OK);
}

static double unit(uint32_t dtype)
{
    return dtype == CADRE_BF16  ? 0x1p-7
           : dtype == CADRE_F16 ? 0x1p-10
           : dtype == CADRE_F32 ? 0x1p-22
                                : 0x1p-51;
}

/* What routing reads and writes. */
struct routing {
    struct cadre_device *device;
    uint32_t dtype;
    int64_t experts;
    struct tensor logits, probs, gate, dgate, dlogits;
    int32_t choice[ROWS];
    double *balance;
};

static struct routing routing_make(int threads, uint32_t dtype, int64_t experts)
{
    const uint32_t wide = cadre_dtype_wide(dtype);
    struct routing r = {
        .device = open_cpu(threads), .dtype = dtype, .experts = experts};
    r.logits = tensor_make(r.device, dtype, ROWS * experts, 1);
    r.probs = tensor_make(r.device, wide, ROWS * experts, 0);
    r.gate = tensor_make(r.device, wide, ROWS, 0);
    r.dgate = tensor_make(r.device, wide, ROWS, 2);
    r.dlogits = tensor_make(r.device, dtype, ROWS * experts, 0);
    r.balance = calloc((size_t)experts, sizeof *r.balance);
    for (int64_t e = 0; e < experts; e++)
        r.balance[e] = 0.1 * (double)(e % 5);
    return r;
}

static void routing_free(struct routing *r)
{
    tensor_free(&r->logits);
    tensor_free(&r->probs);
    tensor_free(&r->gate);
    tensor_free(&r->dgate);
    tensor_free(&r->dlogits);
    free(r->balance);
    cadre_device_close(r->device);
}

static struct cadre_route route_of(struct routing *r)
{
    return (struct cadre_route){
        .dtype = r->dtype,
        .rows = ROWS,
        .experts = r->experts,
        .logits = r->logits.data,
        .probs = r->probs.data,
        .gate = r->gate.data,
        .choice = r->choice,
        .dgate = r->dgate.data,
        .balance = r->balance,
        .dlogits = r->dlogits.data,
    };
}

static void route(struct routing *r)
{
    const struct cadre_route a = route_of(r);
    ok(r->device->ops->route_fwd(r->device, &a));
    ok(r->device->ops->route_bwd(r->device, &a));
}

START_TEST(softmax_and_choice)
{
    const uint32_t dtype = dtypes[_i % DTYPES];
    const int64_t E = _i < DTYPES ? EXPERTS : CADRE_MAX_EXPERTS;
    const double limit = 8 * unit(cadre_dtype_wide(dtype));
    struct routing r = routing_make(2, dtype, E);
    tensor_set(&r.logits, 0, 1e4); /* no overflow */
    for (int64_t e = 0; e < E; e++) /* equals: the first */
        tensor_set(&r.logits, E + e, 0.5);
    route(&r);
    ck_assert_int_eq(r.choice[0], 0);
    ck_assert_int_eq(r.choice[1], 0);
    for (int64_t row = 0; row < ROWS; row++) {
        int32_t best = 0;
        double sum = 0, most;
        for (int32_t e = 1; e < E; e++)
            if (tensor_get(&r.logits, row * E + e) >
                tensor_get(&r.logits, row * E + best))
                best = e;
        most = tensor_get(&r.logits, row * E + best);
        for (int64_t e = 0; e < E; e++)
            sum += exp(tensor_get(&r.logits, row * E + e) - most);
        ck_assert_int_eq(r.choice[row], best);
        for (int64_t e = 0; e < E; e++)
            check_close(tensor_get(&r.probs, row * E + e),
                        exp(tensor_get(&r.logits, row * E + e) - most) / sum, limit,
                        "probs", row * E + e);
        ck_assert(tensor_get(&r.gate, row) == tensor_get(&r.probs, row * E + best));
    }
    routing_free(&r);
}
END_TEST

/* The loss whose gradient route_bwd computes: dgate of the choices made at first, and
 * balance of every probability. */
struct loss {
    struct routing *r;
    int32_t choice[ROWS];
};

static double loss_of(void *ctx)
{
    struct loss *l = ctx;
    struct routing *r = l->r;
    const struct cadre_route a = route_of(r);
    double loss = 0;
    ok(r->device->ops->route_fwd(r->device, &a));
    for (int64_t row = 0; row < ROWS; row++) {
        for (int64_t e = 0; e < r->experts; e++)
            loss += r->balance[e] * tensor_get(&r->probs, row * r->experts + e);
        loss += tensor_get(&r->dgate, row) *
                tensor_get(&r->probs, row * r->experts + l->choice[row]);
    }
    return loss;
}

START_TEST(gradient_of_logits)
{
    struct routing r = routing_make(2, CADRE_F64, EXPERTS);
    struct loss loss = {.r = &r};
    route(&r);
    memcpy(loss.choice, r.choice, sizeof loss.choice);
    check_gradient(&r.logits, &r.dlogits, loss_of, &loss, "dlogits");
    routing_free(&r);
}
END_TEST

/* In lower precision the gradient is that of fp64 on the same logits. */
START_TEST(gradient_in_every_dtype)
{
    const uint32_t dtype = dtypes[_i];
    struct routing r = routing_make(1, dtype, EXPERTS);
    struct routing want = routing_make(1, CADRE_F64, EXPERTS);
    for (int64_t i = 0; i < ROWS * EXPERTS; i++)
        tensor_set(&want.logits, i, tensor_get(&r.logits, i));
    for (int64_t i = 0; i < ROWS; i++)
        tensor_set(&want.dgate, i, tensor_get(&r.dgate, i));
    route(&r);
    route(&want);
    for (int64_t i = 0; i < ROWS * EXPERTS; i++)
        check_close(tensor_get(&r.dlogits, i), tensor_get(&want.dlogits, i),
                    2 * unit(dtype), "dlogits", i);
    routing_free(&r);
    routing_free(&want);
}
END_TEST

START_TEST(routing_on_threads)
{
    const uint32_t dtype = dtypes[_i];
    const size_t element = cadre_dtype_bytes(dtype);
    struct routing one = routing_make(1, dtype, CADRE_MAX_EXPERTS);
    route(&one);
    for (int threads = 2; threads <= 3; threads++) {
        struct routing r = routing_make(threads, dtype, CADRE_MAX_EXPERTS);
        route(&r);
        ck_assert_mem_eq(r.dlogits.data, one.dlogits.data,
                         (size_t)r.dlogits.count * element);
        ck_assert_mem_eq(r.choice, one.choice, sizeof r.choice);
        routing_free(&r);
    }
    routing_free(&one);
}
END_TEST

/* ---- rows ---- */

static void make_order(int32_t order[ROWS])
{
    for (int32_t i = 0; i < ROWS; i++)
        order[i] = (i * 173 + 5) % ROWS; /* 173 and 301 have no common divisor */
}

struct rows {
    struct cadre_device *device;
    uint32_t dtype;
    struct tensor x, y, weight, out, dots;
    int32_t order[ROWS];
};

static struct rows rows_make(int threads, uint32_t dtype)
{
    const uint32_t wide = cadre_dtype_wide(dtype);
    struct rows r = {.device = open_cpu(threads), .dtype = dtype};
    r.x = tensor_make(r.device, dtype, ROWS * CHANNELS, 1);
    r.y = tensor_make(r.device, dtype, ROWS * CHANNELS, 2);
    r.weight = tensor_make(r.device, wide, ROWS, 3);
    r.out = tensor_make(r.device, dtype, ROWS * CHANNELS, 0);
    r.dots = tensor_make(r.device, wide, ROWS, 0);
    make_order(r.order);
    return r;
}

static void rows_free(struct rows *r)
{
    tensor_free(&r->x);
    tensor_free(&r->y);
    tensor_free(&r->weight);
    tensor_free(&r->out);
    tensor_free(&r->dots);
    cadre_device_close(r->device);
}

static struct cadre_rows args_of(struct rows *r, bool weighted)
{
    return (struct cadre_rows){
        .dtype = r->dtype,
        .rows = ROWS,
        .channels = CHANNELS,
        .order = r->order,
        .weight = weighted ? r->weight.data : NULL,
        .x = r->x.data,
        .y = r->y.data,
        .out = r->out.data,
        .dots = r->dots.data,
    };
}

START_TEST(rows_are_ordered)
{
    for (int weighted = 0; weighted < 2; weighted++) {
        struct rows r = rows_make(2, dtypes[_i]);
        const struct cadre_rows a = args_of(&r, weighted);
        const double limit = weighted ? unit(r.dtype) : 0;
        ok(r.device->ops->rows_take(r.device, &a));
        for (int64_t i = 0; i < ROWS * CHANNELS; i++) {
            const int64_t row = r.order[i / CHANNELS];
            const double by = weighted ? tensor_get(&r.weight, row) : 1;
            check_close(tensor_get(&r.out, i),
                        by * tensor_get(&r.x, row * CHANNELS + i % CHANNELS), limit,
                        "take", i);
        }
        ok(r.device->ops->rows_put(r.device, &a));
        for (int64_t i = 0; i < ROWS * CHANNELS; i++) {
            const int64_t row = r.order[i / CHANNELS];
            const double by = weighted ? tensor_get(&r.weight, row) : 1;
            check_close(tensor_get(&r.out, row * CHANNELS + i % CHANNELS),
                        by * tensor_get(&r.x, i), limit, "put", i);
        }
        rows_free(&r);
    }
}
END_TEST

START_TEST(products_of_rows)
{
    struct rows r = rows_make(2, dtypes[_i]);
    const struct cadre_rows a = args_of(&r, true);
    ok(r.device->ops->rows_dot(r.device, &a));
    for (int64_t i = 0; i < ROWS; i++) {
        const int64_t row = r.order[i];
        double sum = 0;
        for (int64_t c = 0; c < CHANNELS; c++)
            sum += tensor_get(&r.x, row * CHANNELS + c) *
                   tensor_get(&r.y, i * CHANNELS + c);
        check_close(tensor_get(&r.dots, row), sum, unit(cadre_dtype_wide(r.dtype)),
                    "dot", row);
    }
    rows_free(&r);
}
END_TEST

START_TEST(rows_on_threads)
{
    struct rows one = rows_make(1, dtypes[_i]), three = rows_make(3, dtypes[_i]);
    const struct cadre_rows a = args_of(&one, true), b = args_of(&three, true);
    const size_t bytes = (size_t)one.out.count * cadre_dtype_bytes(one.dtype);
    ok(one.device->ops->rows_take(one.device, &a));
    ok(three.device->ops->rows_take(three.device, &b));
    ck_assert_mem_eq(one.out.data, three.out.data, bytes);
    ok(one.device->ops->rows_put(one.device, &a));
    ok(three.device->ops->rows_put(three.device, &b));
    ck_assert_mem_eq(one.out.data, three.out.data, bytes);
    ok(one.device->ops->rows_dot(one.device, &a));
    ok(three.device->ops->rows_dot(three.device, &b));
    ck_assert_mem_eq(one.dots.data, three.dots.data,
                     ROWS * cadre_dtype_bytes(cadre_dtype_wide(one.dtype)));
    rows_free(&one);
    rows_free(&three);
}
END_TEST

START_TEST(what_is_refused)
{
    struct routing r = routing_make(1, CADRE_F32, 1);
    struct cadre_route a = route_of(&r);
    struct cadre_rows rows = {.dtype = CADRE_I32};
    a.experts = CADRE_MAX_EXPERTS + 1;
    ck_assert_int_eq(r.device->ops->route_fwd(r.device, &a), CADRE_E_DEVICE);
    ck_assert_int_eq(r.device->ops->route_bwd(r.device, &a), CADRE_E_DEVICE);
    a.experts = 0;
    ck_assert_int_eq(r.device->ops->route_fwd(r.device, &a), CADRE_E_DEVICE);
    ck_assert_int_eq(r.device->ops->rows_take(r.device, &rows), CADRE_E_DEVICE);
    ck_assert_int_eq(r.device->ops->rows_put(r.device, &rows), CADRE_E_DEVICE);
    ck_assert_int_eq(r.device->ops->rows_dot(r.device, &rows), CADRE_E_DEVICE);
    routing_free(&r);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("route");
    TCase *tc = tcase_create("route");
    tcase_add_loop_test(tc, softmax_and_choice, 0, 2 * DTYPES);
    tcase_add_test(tc, gradient_of_logits);
    tcase_add_loop_test(tc, gradient_in_every_dtype, 0, DTYPES);
    tcase_add_loop_test(tc, routing_on_threads, 0, DTYPES);
    tcase_add_loop_test(tc, rows_are_ordered, 0, DTYPES);
    tcase_add_loop_test(tc, products_of_rows, 0, DTYPES);
    tcase_add_loop_test(tc, rows_on_threads, 0, DTYPES);
    tcase_add_test(tc, what_is_refused);
    suite_add_tcase(s, tc);
    return s;
}
