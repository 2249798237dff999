/* SPDX-License-Identifier: Apache-2.0 */
/* The bits of an element of Cadre's own products, which a device opened `fixed` always
 * uses, depend on its own row and column alone: not on how many rows and columns a call
 * has, where they lie, or on leading dimensions; for every form that the model calls,
 * every dtype, and every copy of the kernels. */
#include <math.h>
#include <string.h>

#include "tests/device/fixed_testing.h"
#include "tests/support/check_main.h"

enum { ROWS = 53, COLUMNS = 117, PAD = 5 };

static const uint32_t dtypes[] = {CADRE_F32, CADRE_F64, CADRE_BF16, CADRE_F16};
static const int64_t inner[] = {1, 19, 64, 300, 2100};

/* A form of the model's products: y = x W (both layouts of a weight), and a weight's
 * gradient, whose sums are wide. */
struct form {
    bool ta, tb, wide;
    int beta;
};
static const struct form forms[] = {{0, 0, 0, 0}, {0, 1, 0, 0}, {1, 0, 1, 0},
                                    {1, 0, 1, 1}, {0, 0, 0, 1}, {0, 1, 0, 1}};

struct product {
    struct form form;
    int64_t k, lda, ldb;
    struct tensor a, b, c, piece; /* c and piece (ROWS, COLUMNS) */
};

static struct product whole_product(struct cadre_device *device, uint32_t dtype,
                                    struct form form, int64_t k)
{
    struct product p = {.form = form,
                        .k = k,
                        .lda = (form.ta ? ROWS : k) + PAD,
                        .ldb = (form.tb ? k : COLUMNS) + PAD};
    const uint32_t dtype_c = form.wide ? cadre_dtype_wide(dtype) : dtype;
    p.a = rough_make(device, dtype, (form.ta ? k : ROWS) * p.lda, 1);
    p.b = rough_make(device, dtype, (form.tb ? COLUMNS : k) * p.ldb, 2);
    p.c = rough_make(device, dtype_c, ROWS * COLUMNS, 3);
    p.piece = tensor_room(device, dtype_c, ROWS * COLUMNS);
    return p;
}

static struct cadre_gemm gemm_of(const struct product *p, const struct tensor *c)
{
    return (struct cadre_gemm){.dtype = p->a.dtype,
                               .wide = p->form.wide,
                               .m = ROWS,
                               .n = COLUMNS,
                               .k = p->k,
                               .a = p->a.data,
                               .b = p->b.data,
                               .lda = p->lda,
                               .ldb = p->ldb,
                               .ta = p->form.ta,
                               .tb = p->form.tb,
                               .c = c->data,
                               .ldc = COLUMNS,
                               .beta = p->form.beta};
}

/* Rows [row, row + m) and columns [column, column + n) alone have the bits that they
 * have in `whole`. */
static void check_piece(const struct product *p, const struct tensor *whole,
                        int64_t row, int64_t m, int64_t column, int64_t n)
{
    struct tensor c = p->piece;
    struct cadre_gemm g = gemm_of(p, &c);
    const size_t element = cadre_dtype_bytes(c.dtype);
    memcpy(c.data, p->c.data, (size_t)c.count * element);
    g.m = m;
    g.n = n;
    g.a = tensor_at(&p->a, p->form.ta ? row : row * p->lda);
    g.b = tensor_at(&p->b, p->form.tb ? column * p->ldb : column);
    g.c = tensor_at(&c, row * COLUMNS + column);
    ck_assert_int_eq(c.device->ops->gemm(c.device, &g), CADRE_OK);
    int64_t bad = -1;
    for (int64_t i = row; i < row + m; i++)
        if (memcmp(tensor_at(&c, i * COLUMNS + column),
                   tensor_at(whole, i * COLUMNS + column), (size_t)n * element) != 0)
            bad = i;
    if (bad >= 0)
        ck_abort_msg("%s, ta %d, tb %d, beta %d, k %lld: row %lld of %lld x %lld from "
                     "(%lld, %lld) has other bits",
                     cadre_dtype_name(p->a.dtype), p->form.ta, p->form.tb, p->form.beta,
                     (long long)p->k, (long long)bad, (long long)m, (long long)n,
                     (long long)row, (long long)column);
}

static void check_value(const struct product *p, const struct tensor *c,
                        const struct tensor *old, int64_t i, int64_t j)
{
    double sum = p->form.beta ? tensor_get(old, i * COLUMNS + j) : 0;
    for (int64_t l = 0; l < p->k; l++)
        sum += tensor_get(&p->a, p->form.ta ? l * p->lda + i : i * p->lda + l) *
               tensor_get(&p->b, p->form.tb ? j * p->ldb + l : l * p->ldb + j);
    check_close(tensor_get(c, i * COLUMNS + j), sum, rough_slack(c->dtype, p->k), "c",
                i);
}

static void check_form(struct cadre_device *device, uint32_t dtype, struct form form,
                       int64_t k)
{
    struct product p = whole_product(device, dtype, form, k);
    struct tensor c = rough_make(device, p.c.dtype, ROWS * COLUMNS, 3);
    const struct cadre_gemm g = gemm_of(&p, &c);
    ck_assert_int_eq(device->ops->gemm(device, &g), CADRE_OK);
    for (int64_t i = 0; i < ROWS; i += 13)
        for (int64_t j = 0; j < COLUMNS; j += 29)
            check_value(&p, &c, &p.c, i, j);
    for (int64_t m = 1; m <= 33; m += m < 9 ? 1 : 4)
        check_piece(&p, &c, (7 * m) % (ROWS - m), m, (11 * m) % 64, 53);
    for (int64_t n = 1; n <= 100; n += n < 9 ? 1 : 13)
        check_piece(&p, &c, n % 7, 11, (5 * n) % (COLUMNS - n), n);
    check_piece(&p, &c, ROWS - 1, 1, COLUMNS - 1, 1);
    tensor_free(&p.a);
    tensor_free(&p.b);
    tensor_free(&p.c);
    tensor_free(&p.piece);
    tensor_free(&c);
}

START_TEST(bits_are_those_of_row_and_column)
{
    struct cadre_device *device = open_fixed(_i, 1);
    if (!device)
        test_skip("this processor does not run that copy of the kernels");
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
            for (size_t k = 0; k < sizeof inner / sizeof *inner; k++)
                check_form(device, dtypes[d], forms[f], inner[k]);
    cadre_device_close(device);
}
END_TEST

/* Vectors of AVX2 and AVX-512 are chains of the same fused steps. */
START_TEST(vectors_change_nothing)
{
    struct cadre_device *device[] = {open_fixed(1, 1), open_fixed(2, 1)};
    if (!device[0] || !device[1]) {
        cadre_device_close(device[0]);
        cadre_device_close(device[1]);
        test_skip("this processor has AVX2 alone, or neither");
    }
    for (size_t i = 0; i < 2 * sizeof forms / sizeof *forms; i++) {
        const uint32_t dtype = i % 2 ? CADRE_F64 : CADRE_F32;
        struct tensor c[2];
        for (int d = 0; d < 2; d++) {
            struct product p = whole_product(device[d], dtype, forms[i / 2], 2100);
            c[d] = rough_make(device[d], p.c.dtype, ROWS * COLUMNS, 3);
            const struct cadre_gemm g = gemm_of(&p, &c[d]);
            ck_assert_int_eq(device[d]->ops->gemm(device[d], &g), CADRE_OK);
            tensor_free(&p.a);
            tensor_free(&p.b);
            tensor_free(&p.c);
            tensor_free(&p.piece);
        }
        ck_assert(memcmp(c[0].data, c[1].data,
                         ROWS * COLUMNS * cadre_dtype_bytes(dtype)) == 0);
        tensor_free(&c[0]);
        tensor_free(&c[1]);
    }
    cadre_device_close(device[0]);
    cadre_device_close(device[1]);
}
END_TEST

/* Tiles, panels that are kept, and threads: a product of several tiles has the bits of
 * its rows and columns. */
START_TEST(tiles_and_threads_change_nothing)
{
    enum { M = 700, N = 500, K = 300 };
    struct tensor first = {0};
    for (int threads = 1; threads <= 3; threads++) {
        struct cadre_device *device = open_fixed(2, threads);
        if (!device)
            device = open_fixed(0, threads);
        struct tensor a = rough_make(device, CADRE_F32, (int64_t)M * K, 1);
        struct tensor b = rough_make(device, CADRE_F32, (int64_t)N * K, 2);
        struct tensor c = tensor_room(device, CADRE_F32, (int64_t)M * N);
        struct tensor part = tensor_room(device, CADRE_F32, (int64_t)M * N);
        struct cadre_gemm g = {.dtype = CADRE_F32, .m = M, .n = N, .k = K};
        g.a = a.data;
        g.b = b.data;
        g.lda = g.ldb = K;
        g.tb = true;
        g.c = c.data;
        g.ldc = N;
        ck_assert_int_eq(device->ops->gemm(device, &g), CADRE_OK);
        g.m = 37;
        g.n = 130;
        g.a = tensor_at(&a, 600 * K);
        g.b = tensor_at(&b, 333 * K);
        g.c = part.data;
        ck_assert_int_eq(device->ops->gemm(device, &g), CADRE_OK);
        for (int64_t i = 0; i < g.m; i++)
            ck_assert(memcmp(tensor_at(&part, i * N),
                             tensor_at(&c, (600 + i) * N + 333),
                             130 * sizeof(float)) == 0);
        if (threads == 1)
            first = c;
        else
            ck_assert(memcmp(first.data, c.data, sizeof(float) * M * N) == 0);
        tensor_free(&a);
        tensor_free(&b);
        tensor_free(&part);
        if (threads > 1) {
            tensor_free(&c);
            cadre_device_close(device);
        }
    }
    struct cadre_device *device = first.device;
    tensor_free(&first);
    cadre_device_close(device);
}
END_TEST

enum { TIME = 70, HEADS = 6, SIZE = 24 };

static struct cadre_attention attention_of(uint32_t dtype, int64_t heads, int64_t group,
                                           int64_t ld)
{
    return (struct cadre_attention){.dtype = dtype,
                                    .batch = 2,
                                    .time = TIME,
                                    .heads = heads,
                                    .kv_heads = heads / group,
                                    .head_size = SIZE,
                                    .ldq = ld,
                                    .ldk = ld,
                                    .ldv = ld,
                                    .ldo = heads * SIZE};
}

/* Columns [from, from + n) of rows with leading dimension ld_from, into ld. */
static void move(struct tensor *to, int64_t ld, int64_t at, const struct tensor *from,
                 int64_t ld_from, int64_t first, int64_t n)
{
    for (int64_t i = 0; i < INT64_C(2) * TIME; i++)
        memcpy(tensor_at(to, i * ld + at), tensor_at(from, i * ld_from + first),
               (size_t)n * cadre_dtype_bytes(to->dtype));
}

static void run_attention(struct cadre_device *device, struct cadre_attention *a,
                          const struct tensor *qkv, const struct tensor *dout,
                          struct tensor out[3])
{
    const int64_t q = a->heads * SIZE, kv = a->kv_heads * SIZE;
    a->q = qkv->data;
    a->k = tensor_at(qkv, q);
    a->v = tensor_at(qkv, q + kv);
    out[0] = tensor_room(device, a->dtype, 2 * TIME * q);
    out[1] = tensor_room(device, cadre_dtype_wide(a->dtype), 2 * a->heads * TIME);
    out[2] = tensor_room(device, a->dtype, 2 * TIME * a->ldq);
    a->out = out[0].data;
    a->lse = out[1].data;
    a->dout = dout->data;
    a->dq = out[2].data;
    a->dk = tensor_at(&out[2], q);
    a->dv = tensor_at(&out[2], q + kv);
    ck_assert_int_eq(device->ops->attention_fwd(device, a), CADRE_OK);
    ck_assert_int_eq(device->ops->attention_bwd(device, a), CADRE_OK);
}

/* Heads [2, 4) of 6 (key/value heads of 2) alone have the bits that they have beside
 * the others. */
static void check_heads(struct cadre_device *device, uint32_t dtype)
{
    enum { KV = HEADS / 2, LD = (HEADS + 2 * KV) * SIZE, OWN = 4 * SIZE };
    struct cadre_attention all = attention_of(dtype, HEADS, 2, LD);
    struct cadre_attention own = attention_of(dtype, 2, 2, OWN);
    struct tensor qkv = rough_make(device, dtype, INT64_C(2) * TIME * LD, 1);
    struct tensor dout = rough_make(device, dtype, INT64_C(2) * TIME * HEADS * SIZE, 2);
    struct tensor some = tensor_room(device, dtype, INT64_C(2) * TIME * OWN);
    struct tensor dsome = tensor_room(device, dtype, INT64_C(2) * TIME * 2 * SIZE);
    struct tensor want = tensor_room(device, dtype, INT64_C(2) * TIME * OWN);
    struct tensor of_all[3], of_own[3];
    const int64_t at[] = {0, 2 * SIZE, 3 * SIZE};
    const int64_t from[] = {2 * SIZE, (HEADS + 1) * SIZE, (HEADS + KV + 1) * SIZE};
    const int64_t n[] = {2 * SIZE, SIZE, SIZE};
    for (int i = 0; i < 3; i++)
        move(&some, OWN, at[i], &qkv, LD, from[i], n[i]);
    move(&dsome, 2 * SIZE, 0, &dout, HEADS * SIZE, 2 * SIZE, 2 * SIZE);
    run_attention(device, &all, &qkv, &dout, of_all);
    run_attention(device, &own, &some, &dsome, of_own);
    for (int i = 0; i < 3; i++)
        move(&want, OWN, at[i], &of_all[2], LD, from[i], n[i]);
    const size_t bytes = cadre_dtype_bytes(dtype);
    ck_assert(memcmp(want.data, of_own[2].data, (size_t)want.count * bytes) == 0);
    move(&want, 2 * SIZE, 0, &of_all[0], HEADS * SIZE, 2 * SIZE, 2 * SIZE);
    ck_assert(memcmp(want.data, of_own[0].data, (size_t)of_own[0].count * bytes) == 0);
    struct tensor *const done[] = {&qkv,       &dout,      &some,      &dsome,
                                   &want,      &of_all[0], &of_all[1], &of_all[2],
                                   &of_own[0], &of_own[1], &of_own[2]};
    for (size_t i = 0; i < sizeof done / sizeof *done; i++)
        tensor_free(done[i]);
}

START_TEST(heads_do_not_know_each_other)
{
    struct cadre_device *device = open_fixed(_i, 2);
    if (!device)
        test_skip("this processor does not run that copy of the kernels");
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        check_heads(device, dtypes[d]);
    cadre_device_close(device);
}
END_TEST

START_TEST(a_gpu_is_refused)
{
    const struct cadre_device_config config = {
        .kind = "cuda", .threads = 1, .exact = true, .fixed = true};
    struct cadre_device *device = NULL;
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_device_open(&config, &device, &err), CADRE_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, "run.exact_parts"));
    ck_assert_ptr_null(strchr(err.text, '\n'));
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("own_product");
    TCase *tc = tcase_create("own_product");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, bits_are_those_of_row_and_column, 0, FIXED_COPIES);
    tcase_add_test(tc, vectors_change_nothing);
    tcase_add_test(tc, tiles_and_threads_change_nothing);
    tcase_add_loop_test(tc, heads_do_not_know_each_other, 0, FIXED_COPIES);
    tcase_add_test(tc, a_gpu_is_refused);
    suite_add_tcase(suite, tc);
    return suite;
}
