/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/device/op_testing.h"
#include "tests/support/check_main.h"

static const int64_t shapes[][2] = {{1, 1},  {1, 7},    {7, 31},   {33, 33},
                                    {3, 65}, {2, 2500}, {40, 1024}};
#define SHAPES ((int)(sizeof shapes / sizeof *shapes))

/* ---- loss ---- */

enum { LOGITS, MAX, SUM, PICKED, OLD_MAX, TOTAL, TENSORS };

struct loss {
    struct cadre_device *device;
    struct cadre_xent a;
    struct tensor t[TENSORS];
    int32_t *targets;
    double *rows, *logits;
};

static void loss_init(struct loss *p, struct cadre_device *device, uint32_t dtype,
                      const int64_t shape[2])
{
    const int64_t N = shape[0], V = shape[1];
    p->device = device;
    for (int i = 0; i < TENSORS; i++)
        p->t[i] = tensor_make(device, dtype, i ? N : N * V, i ? 0 : 5);
    for (int64_t i = 0; i < N * V; i++)
        tensor_set(&p->t[LOGITS], i, tensor_get(&p->t[LOGITS], i) * 8);
    p->targets = calloc((size_t)N, sizeof *p->targets);
    p->rows = calloc((size_t)N, sizeof *p->rows);
    p->logits = calloc((size_t)N, sizeof *p->logits);
    for (int64_t i = 0; i < N; i++)
        p->targets[i] = i % 5 == 4 ? -1 : (int32_t)(i * 7919 % V);
    p->a = (struct cadre_xent){.dtype = dtype,
                               .rows = N,
                               .vocab = V,
                               .logits = p->t[LOGITS].data,
                               .targets = p->targets,
                               .max = p->t[MAX].data,
                               .sum = p->t[SUM].data,
                               .picked = p->t[PICKED].data,
                               .total = p->t[TOTAL].data,
                               .old_max = p->t[OLD_MAX].data,
                               .loss_rows = p->rows,
                               .logit_rows = p->logits,
                               .seed = 0.25};
}

static void loss_fini(struct loss *p)
{
    for (int i = 0; i < TENSORS; i++)
        tensor_free(&p->t[i]);
    free(p->targets);
    free(p->rows);
    free(p->logits);
}

static double reference_loss(const struct tensor *logits, int64_t row, int64_t V,
                             int32_t target)
{
    double most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < V; j++)
        most = fmax(most, tensor_get(logits, row * V + j));
    for (int64_t j = 0; j < V; j++)
        sum += exp(tensor_get(logits, row * V + j) - most);
    return target < 0 ? 0 : log(sum) + most - tensor_get(logits, row * V + target);
}

static void check_total(const struct loss *p, int64_t row, double limit)
{
    double sum = 0, size = 0;
    for (int64_t j = 0; j < p->a.vocab && p->targets[row] >= 0; j++) {
        const double logit = tensor_get(&p->t[LOGITS], row * p->a.vocab + j);
        sum += logit;
        size += fabs(logit);
    }
    ck_assert(fabs(p->logits[row] - sum) <= limit * size);
}

static double total_loss(void *ctx)
{
    struct loss *p = ctx;
    const struct cadre_device_ops *ops = p->device->ops;
    double sum = 0;
    ck_assert_int_eq(ops->xent_fwd(p->device, &p->a), CADRE_OK);
    ck_assert_int_eq(ops->xent_loss(p->device, &p->a), CADRE_OK);
    for (int64_t i = 0; i < p->a.rows; i++)
        sum += p->rows[i];
    return sum * p->a.seed;
}

START_TEST(loss_rows)
{
    struct cadre_device *device = open_cpu(2);
    const uint32_t dtype = _i % 2 ? CADRE_F64 : CADRE_F32;
    struct loss p;
    loss_init(&p, device, dtype, shapes[_i / 2]);
    total_loss(&p);
    for (int64_t i = 0; i < p.a.rows; i++)
        check_close(p.rows[i], reference_loss(&p.t[LOGITS], i, p.a.vocab, p.targets[i]),
                    dtype == CADRE_F64 ? 1e-14 : 1e-6, "loss", i);
    for (int64_t i = 0; i < p.a.rows; i++)
        check_total(&p, i, dtype == CADRE_F64 ? 1e-15 : 1e-7);
    /* not wanted: nothing of it is written */
    p.a.total = NULL;
    p.a.logit_rows = NULL;
    total_loss(&p);
    loss_fini(&p);
    cadre_device_close(device);
}
END_TEST

START_TEST(loss_gradient)
{
    struct cadre_device *device = open_cpu(2);
    struct loss p;
    loss_init(&p, device, CADRE_F64, shapes[_i]);
    const int64_t count = p.t[LOGITS].count;
    total_loss(&p);
    struct tensor grad = tensor_make(device, CADRE_F64, count, 0);
    memcpy(grad.data, p.t[LOGITS].data, (size_t)count * sizeof(double));
    struct cadre_xent backward = p.a;
    backward.logits = grad.data;
    ck_assert_int_eq(device->ops->xent_bwd(device, &backward), CADRE_OK);
    check_gradient(&p.t[LOGITS], &grad, total_loss, &p, "logits");
    for (int64_t i = 0; i < count; i++)
        ck_assert(p.targets[i / p.a.vocab] >= 0 || tensor_get(&grad, i) == 0);
    tensor_free(&grad);
    loss_fini(&p);
    cadre_device_close(device);
}
END_TEST

/* Two halves of the vocabulary, with a common maximum, yield the loss of all of it. */
START_TEST(loss_of_slices)
{
    enum { N = 9, V = 33, CUT = 14 };
    struct cadre_device *device = open_cpu(1);
    const struct cadre_device_ops *ops = device->ops;
    const int64_t whole_shape[2] = {N, V}, width[2] = {CUT, V - CUT};
    struct loss whole, half[2];
    loss_init(&whole, device, CADRE_F64, whole_shape);
    total_loss(&whole);
    for (int s = 0; s < 2; s++) {
        const int64_t shape[2] = {N, width[s]};
        loss_init(&half[s], device, CADRE_F64, shape);
        half[s].a.begin = s * CUT;
        half[s].a.targets = whole.targets;
        for (int64_t i = 0; i < N * width[s]; i++) {
            const int64_t row = i / width[s], column = i % width[s] + s * CUT;
            tensor_set(&half[s].t[LOGITS], i,
                       tensor_get(&whole.t[LOGITS], row * V + column));
        }
        ck_assert_int_eq(ops->xent_fwd(device, &half[s].a), CADRE_OK);
    }
    for (int64_t i = 0; i < N; i++) {
        const double common =
            fmax(tensor_get(&half[0].t[MAX], i), tensor_get(&half[1].t[MAX], i));
        for (int s = 0; s < 2; s++) {
            tensor_set(&half[s].t[OLD_MAX], i, tensor_get(&half[s].t[MAX], i));
            tensor_set(&half[s].t[MAX], i, common);
        }
    }
    for (int s = 0; s < 2; s++)
        ck_assert_int_eq(ops->xent_rescale(device, &half[s].a), CADRE_OK);
    for (int64_t i = 0; i < N; i++) {
        const double sum =
            tensor_get(&half[0].t[SUM], i) + tensor_get(&half[1].t[SUM], i);
        const double picked =
            tensor_get(&half[0].t[PICKED], i) + tensor_get(&half[1].t[PICKED], i);
        check_close(sum, tensor_get(&whole.t[SUM], i), 1e-14, "sum", i);
        ck_assert(picked == tensor_get(&whole.t[PICKED], i));
        check_close(tensor_get(&half[0].t[TOTAL], i) + tensor_get(&half[1].t[TOTAL], i),
                    tensor_get(&whole.t[TOTAL], i), 1e-13, "total", i);
        tensor_set(&half[0].t[SUM], i, sum);
        tensor_set(&half[1].t[SUM], i, sum);
    }
    ck_assert_int_eq(ops->xent_bwd(device, &whole.a), CADRE_OK);
    for (int s = 0; s < 2; s++) {
        ck_assert_int_eq(ops->xent_bwd(device, &half[s].a), CADRE_OK);
        for (int64_t i = 0; i < N * width[s]; i++) {
            const int64_t row = i / width[s], column = i % width[s] + s * CUT;
            check_close(tensor_get(&half[s].t[LOGITS], i),
                        tensor_get(&whole.t[LOGITS], row * V + column), 1e-14,
                        "dlogits", i);
        }
        loss_fini(&half[s]);
    }
    loss_fini(&whole);
    cadre_device_close(device);
}
END_TEST

/* Large logits neither overflow nor vanish; a NaN reaches the loss. */
START_TEST(loss_of_extremes)
{
    struct cadre_device *device = open_cpu(1);
    const uint32_t dtype = _i ? CADRE_F64 : CADRE_F32;
    const int64_t shape[2] = {1, 2};
    struct loss p;
    loss_init(&p, device, dtype, shape);
    tensor_set(&p.t[LOGITS], 0, 1234);
    tensor_set(&p.t[LOGITS], 1, 0);
    p.targets[0] = 1;
    check_close(total_loss(&p) / p.a.seed, 1234, 1e-7, "loss", 0);
    tensor_set(&p.t[LOGITS], 1, NAN);
    ck_assert(isnan(total_loss(&p)));
    tensor_set(&p.t[LOGITS], 0, NAN);
    ck_assert(isnan(total_loss(&p)));
    loss_fini(&p);
    cadre_device_close(device);
}
END_TEST

/* ---- embedding ---- */

/* The call with beta 1 is the second of two, so every value is added twice. */
static void check_token_gradient(const struct cadre_embed *a, const struct tensor *dout,
                                 const struct tensor *dwte)
{
    const int64_t C = a->channels, rows = a->batch * a->time;
    for (int64_t i = 0; i < a->count * C; i++) {
        double want = 0;
        for (int64_t row = 0; row < rows; row++) {
            if (a->tokens[row] - a->begin == i / C)
                want += tensor_get(dout, row * C + i % C);
        }
        check_close(tensor_get(dwte, i), want * (1 + a->beta), slack(a->dtype, rows),
                    "dwte", i);
    }
}

static void check_position_gradient(const struct cadre_embed *a,
                                    const struct tensor *dout,
                                    const struct tensor *dwpe)
{
    const int64_t C = a->channels;
    for (int64_t i = 0; i < a->positions * C; i++) {
        const int64_t t = i / C - a->position;
        double want = 0;
        for (int64_t b = 0; b < a->batch && t >= 0 && t < a->time; b++)
            want += tensor_get(dout, (b * a->time + t) * C + i % C);
        check_close(tensor_get(dwpe, i), want * (1 + a->beta),
                    slack(a->dtype, a->batch), "dwpe", i);
    }
}

/* lint: long because the embedding and its gradient share their data */
START_TEST(embedding)
{
    enum { B = 3, T = 11, COUNT = 6, BEGIN = 2, POSITIONS = 16, POSITION = 2 };
    struct cadre_device *device = open_cpu(2);
    const uint32_t dtype = _i % 2 ? CADRE_F64 : CADRE_F32;
    const int64_t C = _i / 2 ? 130 : 5;
    struct tensor wte = tensor_make(device, dtype, COUNT * C, 1);
    struct tensor wpe = tensor_make(device, dtype, POSITIONS * C, 2);
    struct tensor out = tensor_make(device, dtype, B * T * C, 0);
    struct tensor dout = tensor_make(device, dtype, B * T * C, 3);
    struct tensor dwte = tensor_make(device, dtype, COUNT * C, 0);
    struct tensor dwpe = tensor_make(device, dtype, POSITIONS * C, 0);
    int32_t tokens[B * T];
    for (int i = 0; i < B * T; i++)
        tokens[i] = i * 5 % 10; /* some outside of [2, 8) */
    struct cadre_embed a = {.dtype = dtype,
                            .batch = B,
                            .time = T,
                            .channels = C,
                            .tokens = tokens,
                            .begin = BEGIN,
                            .count = COUNT,
                            .position = POSITION,
                            .positions = POSITIONS,
                            .wte = wte.data,
                            .wpe = wpe.data,
                            .out = out.data,
                            .dout = dout.data,
                            .dwte = dwte.data,
                            .dwpe = dwpe.data};
    ck_assert_int_eq(device->ops->embed_fwd(device, &a), CADRE_OK);
    for (int64_t i = 0; i < B * T * C; i++) {
        const int64_t row = i / C, c = i % C, token = tokens[row] - BEGIN;
        double want = 0;
        if (token >= 0 && token < COUNT)
            want = tensor_get(&wte, token * C + c) +
                   tensor_get(&wpe, (POSITION + row % T) * C + c);
        check_close(tensor_get(&out, i), want, slack(dtype, 1), "out", i);
    }
    for (a.beta = 0; a.beta < 2; a.beta++) {
        ck_assert_int_eq(device->ops->embed_bwd_tokens(device, &a), CADRE_OK);
        ck_assert_int_eq(device->ops->embed_bwd_positions(device, &a), CADRE_OK);
        check_token_gradient(&a, &dout, &dwte);
        check_position_gradient(&a, &dout, &dwpe);
    }
    struct tensor *all[] = {&wte, &wpe, &out, &dout, &dwte, &dwpe};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
    cadre_device_close(device);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("kernels_softmax");
    TCase *tc = tcase_create("loss and embedding");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, loss_rows, 0, SHAPES * 2);
    tcase_add_loop_test(tc, loss_gradient, 0, SHAPES);
    tcase_add_test(tc, loss_of_slices);
    tcase_add_loop_test(tc, loss_of_extremes, 0, 2);
    tcase_add_loop_test(tc, embedding, 0, 4);
    suite_add_tcase(suite, tc);
    return suite;
}
