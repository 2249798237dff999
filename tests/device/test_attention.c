/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/device/op_testing.h"
#include "tests/support/check_main.h"

struct shape {
    int64_t batch, time, heads, kv_heads, head_size, pad;
    int64_t position, keys; /* 0: the queries are all there is */
    bool full;
};

static const struct shape shapes[] = {
    {1, 1, 1, 1, 1, 0, 0, 0, false},    {2, 1, 4, 2, 8, 0, 0, 0, false},
    {1, 7, 2, 1, 5, 3, 0, 0, false},    {2, 31, 4, 4, 16, 0, 0, 0, false},
    {1, 65, 6, 2, 7, 1, 0, 0, false},   {1, 128, 2, 2, 64, 0, 0, 0, false},
    {3, 33, 2, 1, 33, 0, 0, 0, false},  {1, 150, 3, 3, 12, 4, 0, 0, false},
    {2, 7, 2, 1, 5, 3, 7, 21, false},   {2, 1, 4, 2, 8, 0, 12, 13, false},
    {1, 70, 3, 3, 12, 4, 9, 90, false}, {2, 31, 4, 4, 16, 0, 0, 62, false},
    {2, 1, 2, 1, 4, 0, .full = true},   {2, 17, 4, 2, 16, 1, .full = true},
    {1, 130, 2, 2, 5, 0, .full = true}, {2, 5, 2, 1, 8, 0, 3, 70, true},
    {1, 401, 2, 1, 9, 2, 0, 0, false}, /* more keys than a block */
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
    const int64_t keys = s.batch * (s.keys ? s.keys : s.time);
    const int64_t ldq = s.heads * s.head_size + s.pad;
    const int64_t ldk = s.kv_heads * s.head_size + s.pad, ldv = ldk + s.pad;
    const int64_t counts[TENSORS] = {
        [Q] = rows * ldq,   [K] = keys * ldk,       [V] = keys * ldv,
        [OUT] = rows * ldq, [LSE] = rows * s.heads, [DOUT] = rows * ldq,
        [DQ] = rows * ldq,  [DK] = keys * ldk,      [DV] = keys * ldv,
    };
    p->device = device;
    for (int i = 0; i < TENSORS; i++) {
        bool input = i <= V || i == DOUT;
        const uint32_t type = i == LSE ? cadre_dtype_wide(dtype) : dtype;
        p->t[i] = tensor_make(device, type, counts[i], input ? (uint64_t)(i + 1) : 0);
    }
    for (int64_t i = 0; i < p->t[Q].count; i++) /* scores of notable size */
        tensor_set(&p->t[Q], i, 4 * tensor_get(&p->t[Q], i));
    p->a = (struct cadre_attention){.dtype = dtype,
                                    .batch = s.batch,
                                    .time = s.time,
                                    .heads = s.heads,
                                    .kv_heads = s.kv_heads,
                                    .head_size = s.head_size,
                                    .position = s.position,
                                    .keys = s.keys,
                                    .full = s.full,
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
    const int64_t keys = cadre_attention_keys(a);
    const int64_t last = a->full ? keys - 1 : a->position + t;
    double *score = calloc((size_t)last + 1, sizeof *score), most = -INFINITY, sum = 0;
    for (int64_t j = 0; j <= last; j++) {
        for (int64_t d = 0; d < D; d++)
            score[j] += tensor_get(&p->t[Q], (b * a->time + t) * a->ldq + h * D + d) *
                        tensor_get(&p->t[K], (b * keys + j) * a->ldk + g * D + d);
        score[j] /= sqrt((double)D);
        most = fmax(most, score[j]);
    }
    for (int64_t j = 0; j <= last; j++)
        sum += exp(score[j] - most);
    memset(want, 0, (size_t)D * sizeof *want);
    for (int64_t j = 0; j <= last; j++) {
        for (int64_t d = 0; d < D; d++)
            want[d] += exp(score[j] - most) / sum *
                       tensor_get(&p->t[V], (b * keys + j) * a->ldv + g * D + d);
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
                        slack(dtype, D + cadre_attention_keys(a)), "lse", i);
            for (int64_t d = 0; d < D; d++)
                check_close(tensor_get(&p.t[OUT], n * a->ldo + h * D + d), want[d],
                            slack(dtype, D + cadre_attention_keys(a)), "out", i);
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

/* ---- a sequence in parts ---- */

/* Rows [first, first + n) of each sequence: from a tensor of `time` rows of `ld`. */
static void take_rows(struct tensor *to, const struct tensor *from, int64_t time,
                      int64_t ld, int64_t first, int64_t n)
{
    for (int64_t i = 0; i < to->count; i++) {
        const int64_t b = i / (n * ld), rest = i % (n * ld);
        tensor_set(to, i, tensor_get(from, (b * time + first) * ld + rest));
    }
}

static void run_both(const struct problem *p)
{
    ck_assert_int_eq(p->device->ops->attention_fwd(p->device, &p->a), CADRE_OK);
    ck_assert_int_eq(p->device->ops->attention_bwd(p->device, &p->a), CADRE_OK);
}

/* One part of the time, whose queries see the keys before them too. */
static void run_part(struct problem *part, const struct problem *whole, struct shape s,
                     int64_t first, int64_t n)
{
    const int64_t T = s.time;
    s.position = first;
    s.keys = T;
    s.time = n;
    problem_init(part, whole->device, whole->a.dtype, s);
    take_rows(&part->t[Q], &whole->t[Q], T, part->a.ldq, first, n);
    take_rows(&part->t[DOUT], &whole->t[DOUT], T, part->a.ldo, first, n);
    run_both(part);
}

static void check_rows(const struct tensor *part, const struct tensor *want, bool bits,
                       double limit, const char *what)
{
    if (bits)
        for (int64_t i = 0; i < part->count; i++)
            ck_assert_msg(tensor_get(part, i) == tensor_get(want, i), "%s[%lld]", what,
                          (long long)i);
    else
        check_norm_close(part, want, limit, what);
}

/* Adds the gradient of a part; what no query of it sees is zero. */
static void add_part(struct tensor *sum, const struct tensor *part, int64_t time,
                     int64_t ld, int64_t end)
{
    for (int64_t i = 0; i < sum->count; i++) {
        if (i / ld % time >= end)
            ck_assert(tensor_get(part, i) == 0);
        tensor_set(sum, i, tensor_get(sum, i) + tensor_get(part, i));
    }
}

static const struct {
    uint32_t dtype;
    double limit;
} precision[] = {
    {CADRE_F64, 1e-12}, {CADRE_F32, 1e-5}, {CADRE_BF16, 1e-2}, {CADRE_F16, 2e-3}};

/* Parts of whole tiles have the rows of the whole call, bit for bit; the gradients of
 * keys and values are sums over the parts. */
START_TEST(parts_are_the_whole)
{
    const struct shape s = {2, 192, 4, 2, 8, 0, 0, 0, false};
    const uint32_t dtype = precision[_i / 2].dtype;
    const double limit = precision[_i / 2].limit;
    const int64_t parts = _i % 2 ? 4 : 3, n = s.time / parts;
    struct cadre_device *device = open_cpu(2);
    struct problem whole, part;
    problem_init(&whole, device, dtype, s);
    run_both(&whole);
    struct tensor dk = tensor_make(device, CADRE_F64, whole.t[DK].count, 1);
    struct tensor dv = tensor_make(device, CADRE_F64, whole.t[DV].count, 1);
    for (int64_t i = 0; i < dk.count; i++) {
        tensor_set(&dk, i, 0);
        tensor_set(&dv, i, 0);
    }
    for (int64_t r = 0; r < parts; r++) {
        run_part(&part, &whole, s, r * n, n);
        struct tensor want = tensor_make(device, dtype, part.t[OUT].count, 1);
        take_rows(&want, &whole.t[OUT], s.time, whole.a.ldo, r * n, n);
        check_rows(&part.t[OUT], &want, n % 64 == 0, limit, "out");
        take_rows(&want, &whole.t[DQ], s.time, whole.a.ldq, r * n, n);
        check_rows(&part.t[DQ], &want, n % 64 == 0, limit, "dq");
        add_part(&dk, &part.t[DK], s.time, whole.a.ldk, (r + 1) * n);
        add_part(&dv, &part.t[DV], s.time, whole.a.ldv, (r + 1) * n);
        tensor_free(&want);
        problem_fini(&part);
    }
    check_norm_close(&dk, &whole.t[DK], limit, "dk");
    check_norm_close(&dv, &whole.t[DV], limit, "dv");
    tensor_free(&dk);
    tensor_free(&dv);
    problem_fini(&whole);
    cadre_device_close(device);
}
END_TEST

/* The bits of a part do not depend on the number of threads. */
START_TEST(parts_on_threads)
{
    const struct shape s = {2, 70, 4, 2, 8, 1, 37, 150, _i / 4 == 1};
    struct problem one, more;
    struct cadre_device *device = open_cpu(1);
    problem_init(&one, device, precision[_i % 4].dtype, s);
    run_both(&one);
    for (int threads = 2; threads <= 3; threads++) {
        struct cadre_device *other = open_cpu(threads);
        problem_init(&more, other, precision[_i % 4].dtype, s);
        run_both(&more);
        for (int t = OUT; t < TENSORS; t++)
            ck_assert(memcmp(one.t[t].data, more.t[t].data,
                             (size_t)one.t[t].count *
                                 cadre_dtype_bytes(one.t[t].dtype)) == 0);
        problem_fini(&more);
        cadre_device_close(other);
    }
    problem_fini(&one);
    cadre_device_close(device);
}
END_TEST

/* Without a mask, 16 bits against f64. */
START_TEST(full_in_16_bits)
{
    const struct shape s = {2, 70, 4, 2, 8, .full = true};
    struct cadre_device *device = open_cpu(2);
    struct problem half, want;
    problem_init(&half, device, precision[2 + _i].dtype, s);
    problem_init(&want, device, CADRE_F64, s);
    for (int i = 0; i < TENSORS; i++)
        for (int64_t at = 0; (i <= V || i == DOUT) && at < want.t[i].count; at++)
            tensor_set(&want.t[i], at, tensor_get(&half.t[i], at));
    run_both(&half);
    run_both(&want);
    check_norm_close(&half.t[OUT], &want.t[OUT], precision[2 + _i].limit, "out");
    check_norm_close(&half.t[DQ], &want.t[DQ], precision[2 + _i].limit, "dq");
    check_norm_close(&half.t[DK], &want.t[DK], precision[2 + _i].limit, "dk");
    check_norm_close(&half.t[DV], &want.t[DV], precision[2 + _i].limit, "dv");
    problem_fini(&half);
    problem_fini(&want);
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
    tcase_add_loop_test(tc, parts_are_the_whole, 0, 8);
    tcase_add_loop_test(tc, parts_on_threads, 0, 8);
    tcase_add_loop_test(tc, full_in_16_bits, 0, 2);
    suite_add_tcase(suite, tc);
    return suite;
}
