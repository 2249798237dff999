/* SPDX-License-Identifier: Apache-2.0 */
/* A product in parts is the tree of the products of its parts, each rounded; what ranks
 * make of their parts, added in the tree over ranks, is the whole. */
#include <math.h>
#include <string.h>

#include "tests/device/fixed_testing.h"
#include "tests/support/check_main.h"

enum { M = 37, N = 70, EACH = 11, MOST = 24 }; /* EACH: steps of a part and term */

static const uint32_t dtypes[] = {CADRE_F32, CADRE_F64, CADRE_BF16, CADRE_F16};

/* n terms of `parts` parts each. a (M, K), one term after the other; each term has a b
 * of its own: (N, k), every other one (k, N), and of the last of several all parts have
 * the same, that of the first. */
struct sum {
    int64_t parts, n;
    struct tensor a, b;
    struct cadre_gemm_term term[CADRE_GEMM_TERMS];
};

static struct sum sum_make(struct cadre_device *device, uint32_t dtype, int64_t parts,
                           int64_t n)
{
    const int64_t k = parts * EACH;
    struct sum s = {.parts = parts, .n = n};
    s.a = rough_make(device, dtype, M * n * k, 1);
    s.b = rough_make(device, dtype, N * n * k, 2);
    for (int64_t i = 0; i < n; i++)
        s.term[i] = (struct cadre_gemm_term){.a = tensor_at(&s.a, i * k),
                                             .b = tensor_at(&s.b, i * N * k),
                                             .lda = n * k,
                                             .ldb = i % 2 == 0 ? k : N,
                                             .k = k,
                                             .tb = i % 2 == 0,
                                             .same_b = n > 1 && i == n - 1};
    return s;
}

/* Element (k, column) of the b of term i. */
static double factor(const struct sum *s, int64_t i, int64_t k, int64_t column)
{
    const struct cadre_gemm_term *term = &s->term[i];
    const int64_t row = term->same_b ? k % EACH : k;
    return tensor_get(&s->b, i * N * term->k + (term->tb ? column * term->ldb + row
                                                         : row * term->ldb + column));
}

/* Element (row, column) of one part. */
static double part_sum(const struct sum *s, int64_t part, int64_t row, int64_t column)
{
    const int64_t all = s->parts * EACH;
    double sum = 0;
    for (int64_t i = 0; i < s->n; i++)
        for (int64_t k = part * EACH; k < (part + 1) * EACH; k++)
            sum +=
                tensor_get(&s->a, (row * s->n + i) * all + k) * factor(s, i, k, column);
    return sum;
}

static void sum_free(struct sum *s)
{
    tensor_free(&s->a);
    tensor_free(&s->b);
}

/* c = parts [first, first + parts) of the sum, in one call. */
static struct tensor run(const struct sum *s, int64_t first, int64_t parts)
{
    struct cadre_device *device = s->a.device;
    struct cadre_gemm_term own[CADRE_GEMM_TERMS] = {0};
    struct tensor c = tensor_room(device, s->a.dtype, INT64_C(1) * M * N);
    const size_t skip = (size_t)(first * EACH) * cadre_dtype_bytes(s->a.dtype);
    for (int64_t i = 0; i < s->n; i++) {
        own[i] = s->term[i];
        own[i].a = (const char *)own[i].a + skip;
        if (!own[i].same_b)
            own[i].b =
                (const char *)own[i].b + skip * (size_t)(own[i].tb ? 1 : own[i].ldb);
        own[i].k = parts * EACH;
    }
    struct cadre_gemm g = {.dtype = s->a.dtype,
                           .m = M,
                           .n = N,
                           .k = s->n * parts * EACH,
                           .tb = true,
                           .c = c.data,
                           .ldc = N,
                           .parts = parts};
    if (s->n > 1) {
        g.terms = own;
        g.n_terms = s->n;
    } else {
        g.a = own[0].a;
        g.b = own[0].b;
        g.lda = own[0].lda;
        g.ldb = own[0].ldb;
    }
    ck_assert_int_eq(device->ops->gemm(device, &g), CADRE_OK);
    return c;
}

/* The tree over `n` ranks, of which each has parts / n of the parts, as all-reduce adds
 * them. */
static struct tensor over_ranks(const struct sum *s, int64_t n)
{
    struct cadre_device *device = s->a.device;
    struct tensor of[MOST] = {0};
    for (int64_t r = 0; r < n; r++)
        of[r] = run(s, r * (s->parts / n), s->parts / n);
    for (int64_t step = 1; step < n; step *= 2)
        for (int64_t r = 0; r + step < n; r += 2 * step)
            ck_assert_int_eq(device->ops->tree_add(device, s->a.dtype, of[r].data,
                                                   of[r].data, of[r + step].data,
                                                   INT64_C(1) * M * N),
                             CADRE_OK);
    for (int64_t r = 1; r < n; r++)
        tensor_free(&of[r]);
    return of[0];
}

static void check_ranks(const struct sum *s)
{
    struct tensor whole = run(s, 0, s->parts);
    for (int64_t n = 2; n <= s->parts; n++) {
        const int64_t own = s->parts / n;
        if (s->parts % n != 0 || (own & (own - 1)) != 0)
            continue;
        struct tensor split = over_ranks(s, n);
        ck_assert_msg(memcmp(whole.data, split.data,
                             (size_t)whole.count * cadre_dtype_bytes(whole.dtype)) == 0,
                      "%s, %lld terms in %lld parts: %lld ranks have other bits",
                      cadre_dtype_name(whole.dtype), (long long)s->n,
                      (long long)s->parts, (long long)n);
        tensor_free(&split);
    }
    for (int64_t i = 0; i < M; i += 9)
        for (int64_t j = 0; j < N; j += 17) {
            double sum = 0, size = 1; /* each part is rounded */
            for (int64_t part = 0; part < s->parts; part++) {
                const double of = part_sum(s, part, i, j);
                sum += of;
                size += fabs(of);
            }
            check_close(tensor_get(&whole, i * N + j), sum,
                        size * rough_slack(whole.dtype, s->n * s->parts * EACH), "c",
                        i);
        }
    tensor_free(&whole);
}

START_TEST(ranks_have_the_bits_of_one)
{
    static const int64_t parts[] = {2, 3, 4, 6, 8, 12, 24};
    struct cadre_device *device = open_fixed(_i, 2);
    if (!device)
        test_skip("this processor does not run that copy of the kernels");
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (size_t p = 0; p < sizeof parts / sizeof *parts; p++)
            for (int64_t n = 1; n <= CADRE_GEMM_TERMS; n++) {
                struct sum s = sum_make(device, dtypes[d], parts[p], n);
                check_ranks(&s);
                sum_free(&s);
            }
    cadre_device_close(device);
}
END_TEST

/* The parts do something: one part, whose chain is longer, has other bits. */
START_TEST(parts_are_other_sums)
{
    struct cadre_device *device = open_fixed(0, 1);
    struct sum four = sum_make(device, CADRE_F32, 4, 1), one = four;
    one.parts = 1;
    struct tensor a = run(&four, 0, 4), b = tensor_room(device, CADRE_F32, M * N);
    const struct cadre_gemm g = {.dtype = CADRE_F32,
                                 .m = M,
                                 .n = N,
                                 .k = 4 * EACH,
                                 .a = one.a.data,
                                 .b = one.b.data,
                                 .lda = 4 * EACH,
                                 .ldb = 4 * EACH,
                                 .tb = true,
                                 .c = b.data,
                                 .ldc = N};
    ck_assert_int_eq(device->ops->gemm(device, &g), CADRE_OK);
    ck_assert(memcmp(a.data, b.data, (size_t)a.count * sizeof(float)) != 0);
    tensor_free(&a);
    tensor_free(&b);
    sum_free(&four);
    cadre_device_close(device);
}
END_TEST

/* A device that was not opened `fixed` refuses them. */
START_TEST(only_fixed_products_have_parts)
{
    struct cadre_device *device = open_cpu(1);
    float x[4] = {1, 2, 3, 4}, c = 0;
    const struct cadre_gemm g = {.dtype = CADRE_F32,
                                 .m = 1,
                                 .n = 1,
                                 .k = 4,
                                 .a = x,
                                 .b = x,
                                 .lda = 4,
                                 .ldb = 1,
                                 .c = &c,
                                 .ldc = 1,
                                 .parts = 2};
    ck_assert_int_eq(device->ops->gemm(device, &g), CADRE_E_DEVICE);
    cadre_device_close(device);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("parts");
    TCase *tc = tcase_create("parts");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, ranks_have_the_bits_of_one, 0, FIXED_COPIES);
    tcase_add_test(tc, parts_are_other_sums);
    tcase_add_test(tc, only_fixed_products_have_parts);
    suite_add_tcase(suite, tc);
    return suite;
}
