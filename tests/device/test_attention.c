/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/device/op_testing.h"
#include "tests/support/check_main.h"

struct shape {
    int64_t batch, time, heads, kv_heads, head_size, pad;
};

static const struct shape shapes[] = {
    {1, 1, 1, 1, 1, 0},   {2, 1, 4, 2, 8, 0},    {1, 7, 2, 1, 5, 3},
    {2, 31, 4, 4, 16, 0}, {1, 65, 6, 2, 7, 1},   {1, 128, 2, 2, 64, 0},
    {3, 33, 2, 1, 33, 0}, {1, 150, 3, 3, 12, 4},
};

enum { Q, K, V, OUT, LSE, DOUT, DQ, DK, DV, TENSORS };

struct problem {
    struct cadre_device *device;
    struct cadre_attention a;
    struct tensor t[TENSORS];
};

static void problem_init(struct problem *p, struct cadre_device *device, uint32_t dtype,
                         struct shape s)
{
    const int64_t rows = s.batch * s.time;
    const int64_t ldq = s.heads * s.head_size + s.pad;
    const int64_t ldk = s.kv_heads * s.head_size + s.pad, ldv = ldk + s.pad;
    const int64_t counts[TENSORS] = {
        [Q] = rows * ldq,   [K] = rows * ldk,       [V] = rows * ldv,
        [OUT] = rows * ldq, [LSE] = rows * s.heads, [DOUT] = rows * ldq,
        [DQ] = rows * ldq,  [DK] = rows * ldk,      [DV] = rows * ldv,
    };
    p->device = device;
    for (int i = 0; i < TENSORS; i++) {
        bool input = i <= V || i == DOUT;
        p->t[i] = tensor_make(device, dtype, counts[i], input ? (uint64_t)(i + 1) : 0);
    }
    for (int64_t i = 0; i < p->t[Q].count; i++) /* scores of notable size */
        tensor_set(&p->t[Q], i, 4 * tensor_get(&p->t[Q], i));
    p->a = (struct cadre_attention){.dtype = dtype,
                                    .batch = s.batch,
                                    .time = s.time,
                                    .heads = s.heads,
                                    .kv_heads = s.kv_heads,
                                    .head_size = s.head_size,
                                    .ldq = ldq,
                                    .ldk = ldk,
                                    .ldv = ldv,
                                    .ldo = ldq,
                                    .q = p->t[Q].data,
                                    .k = p->t[K].data,
                                    .v = p->t[V].data,
                                    .out = p->t[OUT].data,
                                    .lse = p->t[LSE].data,
                                    .dout = p->t[DOUT].data,
                                    .dq = p->t[DQ].data,
                                    .dk = p->t[DK].data,
                                    .dv = p->t[DV].data};
}

static void problem_fini(struct problem *p)
{
    for (int i = 0; i < TENSORS; i++)
        tensor_free(&p->t[i]);
}

/* out of one query, written to want (D); returns log-sum-exp */
static double reference_row(const struct problem *p, int64_t b, int64_t t, int64_t h,
                            double *want)
{
    const struct cadre_attention *a = &p->a;
    const int64_t D = a->head_size, g = h / (a->heads / a->kv_heads);
    double *score = calloc((size_t)t + 1, sizeof *score), most = -INFINITY, sum = 0;
    for (int64_t j = 0; j <= t; j++) {
        for (int64_t d = 0; d < D; d++)
            score[j] += tensor_get(&p->t[Q], (b * a->time + t) * a->ldq + h * D + d) *
                        tensor_get(&p->t[K], (b * a->time + j) * a->ldk + g * D + d);
        score[j] /= sqrt((double)D);
        most = fmax(most, score[j]);
    }
    for (int64_t j = 0; j <= t; j++)
        sum += exp(score[j] - most);
    memset(want, 0, (size_t)D * sizeof *want);
    for (int64_t j = 0; j <= t; j++) {
        for (int64_t d = 0; d < D; d++)
            want[d] += exp(score[j] - most) / sum *
                       tensor_get(&p->t[V], (b * a->time + j) * a->ldv + g * D + d);
    }
    free(score);
    return most + (sum > 0 ? log(sum) : NAN);
}

START_TEST(forward)
{
    const uint32_t dtype = _i ? CADRE_F64 : CADRE_F32;
    struct cadre_device *device = open_cpu(2);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        struct problem p;
        problem_init(&p, device, dtype, shapes[s]);
        const struct cadre_attention *a = &p.a;
        const int64_t D = a->head_size;
        ck_assert_int_eq(device->ops->attention_fwd(device, a), CADRE_OK);
        for (int64_t i = 0; i < a->batch * a->time * a->heads; i++) {
            const int64_t h = i % a->heads, n = i / a->heads;
            const int64_t b = n / a->time, t = n % a->time;
            double want[64];
            double lse = reference_row(&p, b, t, h, want);
            check_close(tensor_get(&p.t[LSE], (b * a->heads + h) * a->time + t), lse,
                        slack(dtype, D + t), "lse", i);
            for (int64_t d = 0; d < D; d++)
                check_close(tensor_get(&p.t[OUT], n * a->ldo + h * D + d), want[d],
                            slack(dtype, D + t), "out", i);
        }
        problem_fini(&p);
    }
    cadre_device_close(device);
}
END_TEST

static double loss(void *ctx)
{
    struct problem *p = ctx;
    const struct cadre_attention *a = &p->a;
    double sum = 0;
    ck_assert_int_eq(p->device->ops->attention_fwd(p->device, a), CADRE_OK);
    for (int64_t n = 0; n < a->batch * a->time; n++) {
        for (int64_t c = 0; c < a->heads * a->head_size; c++)
            sum += tensor_get(&p->t[OUT], n * a->ldo + c) *
                   tensor_get(&p->t[DOUT], n * a->ldo + c);
    }
    return sum;
}

/* Gaps between rows are never written: copy their gradient. */
static void zero_gaps(struct tensor *t, int64_t ld, int64_t used)
{
    for (int64_t i = 0; i < t->count; i++) {
        if (i % ld >= used) {
            ck_assert(isnan(tensor_get(t, i)));
            tensor_set(t, i, 0);
        }
    }
}

START_TEST(backward)
{
    struct cadre_device *device = open_cpu(2);
    struct problem p;
    problem_init(&p, device, CADRE_F64, shapes[_i]);
    const struct cadre_attention *a = &p.a;
    loss(&p);
    ck_assert_int_eq(device->ops->attention_bwd(device, a), CADRE_OK);
    zero_gaps(&p.t[DQ], a->ldq, a->heads * a->head_size);
    zero_gaps(&p.t[DK], a->ldk, a->kv_heads * a->head_size);
    zero_gaps(&p.t[DV], a->ldv, a->kv_heads * a->head_size);
    check_gradient(&p.t[Q], &p.t[DQ], loss, &p, "q");
    check_gradient(&p.t[K], &p.t[DK], loss, &p, "k");
    check_gradient(&p.t[V], &p.t[DV], loss, &p, "v");
    problem_fini(&p);
    cadre_device_close(device);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("attention");
    TCase *tc = tcase_create("attention");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, forward, 0, 2);
    tcase_add_loop_test(tc, backward, 0, (int)(sizeof shapes / sizeof *shapes));
    suite_add_tcase(suite, tc);
    return suite;
}
