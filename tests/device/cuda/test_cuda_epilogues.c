/* SPDX-License-Identifier: Apache-2.0 */
/* Epilogues of the CUDA device's GEMM on the stand-in of cublasLt: near the CPU's, with
 * the bits of the separate op where they are not fused, and fused where expected. On a
 * GPU the test prints what cublasLt fuses, without requiring it. */
#include "core/device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/device/cuda/standin.h"
#include "tests/device/op_testing.h"
#include "tests/support/check_main.h"

enum { A, B, C, AUX, SUMS, BIAS, OPERANDS };

struct shape {
    int64_t m, n, k;
    int64_t pad; /* of c's rows */
    int64_t off; /* elements by which every operand but c is off its alignment */
};

static const struct shape shapes[] = {{1, 1, 1, 0, 0},    {3, 5, 7, 0, 0},
                                      {16, 8, 200, 0, 0}, {5, 24, 33, 8, 0},
                                      {16, 8, 100, 0, 1}, {9, 16, 40, 0, 8}};
#define SHAPES (sizeof shapes / sizeof *shapes)

/* A problem on the CPU, and a device's result. */
struct problem {
    struct shape s;
    struct cadre_gemm g; /* without pointers */
    struct tensor t[OPERANDS];
};

static int64_t count_of(const struct shape *s, int operand)
{
    switch (operand) {
    case A:
        return s->off + s->m * s->k;
    case B:
        return s->off + s->n * s->k;
    case C:
    case AUX:
        return s->off + s->m * (s->n + s->pad);
    default:
        return s->off + (s->m > s->n ? s->m : s->n);
    }
}

/* Products with sums are those of layer.c: c = a^T b. */
static struct problem problem_of(struct cadre_device *cpu, uint32_t dtype,
                                 const struct shape *s, enum cadre_epilogue epilogue,
                                 int beta)
{
    const bool sums = epilogue >= CADRE_EPILOGUE_SUM_A;
    const uint32_t wide = cadre_dtype_wide(dtype);
    struct problem p = {.s = *s,
                        .g = {.dtype = dtype,
                              .wide = sums,
                              .m = s->m,
                              .n = s->n,
                              .k = s->k,
                              .lda = sums ? s->m : s->k,
                              .ldb = sums ? s->n : s->k,
                              .ldc = s->n + s->pad,
                              .ta = sums,
                              .tb = !sums,
                              .beta = beta,
                              .epilogue = epilogue}};
    for (int i = 0; i < OPERANDS; i++)
        p.t[i] = tensor_make(cpu, i == SUMS || (i == C && sums) ? wide : dtype,
                             count_of(s, i), (uint64_t)i + 1);
    return p;
}

static void problem_free(struct problem *p)
{
    for (int i = 0; i < OPERANDS; i++)
        tensor_free(&p->t[i]);
}

static size_t bytes_of(const struct tensor *t)
{
    return (size_t)t->count * cadre_dtype_bytes(t->dtype);
}

static void epilogue_separate(struct cadre_device *device, const struct cadre_gemm *g)
{
    const struct cadre_device_ops *ops = device->ops;
    const size_t row = (size_t)g->ldc * cadre_dtype_bytes(g->dtype);
    cadre_status rc = CADRE_OK;
    if (g->epilogue == CADRE_EPILOGUE_SUM_A)
        rc = ops->bias_bwd(device, g->dtype, g->a, g->k, g->m, g->sums, g->beta);
    if (g->epilogue == CADRE_EPILOGUE_SUM_B)
        rc = ops->bias_bwd(device, g->dtype, g->b, g->k, g->n, g->sums, g->beta);
    for (int64_t i = 0; g->epilogue == CADRE_EPILOGUE_GELU_BWD && i < g->m; i++) {
        char *c = (char *)g->c + (size_t)i * row;
        rc = ops->gelu_bwd(device, g->dtype, (char *)g->aux + (size_t)i * row, c, c,
                           g->n);
        ck_assert_int_eq(rc, CADRE_OK);
    }
    ck_assert_int_eq(rc, CADRE_OK);
}

/* Run it on a device, on copies; the results belong to the caller. `separate`: the
 * epilogue by the op of its name. */
static void run(struct cadre_device *device, const struct problem *p, bool separate,
                struct tensor result[OPERANDS])
{
    const struct cadre_device_ops *ops = device->ops;
    struct cadre_gemm g = p->g;
    size_t begin[OPERANDS + 1] = {0};
    char *at[OPERANDS];
    for (int i = 0; i < OPERANDS; i++)
        begin[i + 1] = (begin[i] + bytes_of(&p->t[i]) + 255) / 256 * 256;
    char *host = calloc(1, begin[OPERANDS]),
         *copy = ops->alloc(device, begin[OPERANDS]);
    ck_assert(host && copy);
    for (int i = 0; i < OPERANDS; i++) {
        const size_t one = cadre_dtype_bytes(p->t[i].dtype);
        memcpy(host + begin[i], p->t[i].data, bytes_of(&p->t[i]));
        at[i] = copy + begin[i] + (i == C ? 0 : (size_t)p->s.off * one);
    }
    ck_assert_int_eq(ops->to_device(device, copy, host, begin[OPERANDS]), CADRE_OK);
    g.a = at[A];
    g.b = at[B];
    g.c = at[C];
    g.aux = at[AUX];
    g.sums = at[SUMS];
    g.bias = at[BIAS];
    g.epilogue = separate ? CADRE_EPILOGUE_NONE : p->g.epilogue;
    ck_assert_int_eq(ops->gemm(device, &g), CADRE_OK);
    g.epilogue = p->g.epilogue;
    if (separate)
        epilogue_separate(device, &g);
    ck_assert_int_eq(ops->to_host(device, host, copy, begin[OPERANDS]), CADRE_OK);
    for (int i = 0; i < OPERANDS; i++) {
        result[i] = tensor_make(p->t[i].device, p->t[i].dtype, p->t[i].count, 0);
        memcpy(result[i].data, host + begin[i], bytes_of(&result[i]));
    }
    ops->free(device, copy);
    free(host);
}

static void results_free(struct tensor result[OPERANDS])
{
    for (int i = 0; i < OPERANDS; i++)
        tensor_free(&result[i]);
}

/* All operands near the CPU's, including read-only ones and gaps. Are the bits those of
 * the separate op? */
static bool check_problem(struct cadre_device *cpu, struct cadre_device *gpu,
                          const struct problem *p)
{
    const uint32_t dtype = p->g.dtype;
    const bool half = dtype == CADRE_BF16 || dtype == CADRE_F16;
    const double limit = half ? 0.02 : dtype == CADRE_F64 ? 1e-12 : 1e-4;
    struct tensor want[OPERANDS], got[OPERANDS], separate[OPERANDS];
    bool same = true;
    run(cpu, p, false, want);
    run(gpu, p, false, got);
    run(gpu, p, true, separate);
    for (int o = 0; o < OPERANDS; o++) {
        for (int64_t i = 0; i < want[o].count; i++)
            check_close(tensor_get(&got[o], i), tensor_get(&want[o], i), limit,
                        "operand", o * 1000000 + i);
        same = same && memcmp(got[o].data, separate[o].data, bytes_of(&got[o])) == 0;
    }
    results_free(want);
    results_free(got);
    results_free(separate);
    return same;
}

/* ---- how a device is opened ---- */

/* How the device and the stand-in are opened, and what is then fused. */
struct way {
    const char *name;
    const char *standin; /* CADRE_STANDIN_EPILOGUES */
    bool exact, no_fused_epilogue, timed;
    bool sums; /* fused */
};

static const struct way ways[] = {
    {.name = "exact", .exact = true},
    {.name = "by rule", .sums = true},
    {.name = "separate", .no_fused_epilogue = true},
    {.name = "timed and separate", .no_fused_epilogue = true, .timed = true},
    {.name = "none there", .standin = "none"},
    {.name = "none there, timed", .standin = "none", .timed = true},
    {.name = "refused late", .standin = "late"},
    {.name = "refused late, timed", .standin = "late", .timed = true},
    {.name = "slow", .standin = "slow", .timed = true},
    {.name = "fast", .standin = "fast", .timed = true, .sums = true},
};
#define WAYS (sizeof ways / sizeof *ways)

static struct cadre_device *open_way(const struct way *way)
{
    const struct cadre_device_config config = {.kind = "cuda",
                                               .threads = 1,
                                               .exact = way->exact,
                                               .no_fused_epilogue =
                                                   way->no_fused_epilogue};
    struct cadre_device *device = NULL;
    struct cadre_error err = {0};
    if (way->standin)
        setenv("CADRE_STANDIN_EPILOGUES", way->standin, 1);
    else
        unsetenv("CADRE_STANDIN_EPILOGUES");
    ck_assert_msg(cadre_device_open(&config, &device, &err) == CADRE_OK, "%s",
                  err.text);
    if (!way->timed)
        ck_assert_int_eq(device->ops->tuning_import(device, NULL), CADRE_OK);
    return device;
}

/* Fusion is visible in the bits: the sums of f32 have another order in the stand-in. At
 * least one case must differ. GELU_BWD is never fused. */
START_TEST(near_the_cpu)
{
    static const uint32_t dtypes[] = {CADRE_BF16, CADRE_F32, CADRE_F16, CADRE_F64};
    const size_t n_dtypes = _i < 2 && !test_lean() ? 4 : 2;
    const struct way *way = &ways[_i];
    int gelu_differs = 0, sums_differ = 0;
    if (!standin_or_cuda() || (standin_is_real() && way->standin))
        return;
    struct cadre_device *gpu = open_way(way), *cpu = open_cpu(1);
    for (size_t d = 0; d < n_dtypes; d++)
        for (size_t s = 0; s < SHAPES; s++)
            for (int form = 0; form < 6; form++) {
                const enum cadre_epilogue epilogue =
                    (enum cadre_epilogue)(CADRE_EPILOGUE_GELU_BWD + form / 2);
                struct problem p =
                    problem_of(cpu, dtypes[d], &shapes[s], epilogue, form % 2);
                const bool same = check_problem(cpu, gpu, &p);
                if (epilogue == CADRE_EPILOGUE_GELU_BWD)
                    gelu_differs += !same;
                else
                    sums_differ += !same;
                problem_free(&p);
            }
    if (standin_is_real())
        printf("%s: sums are fused in %d\n", way->name, sums_differ);
    ck_assert_msg(gelu_differs == 0, "%s: GELU_BWD differs %d times", way->name,
                  gelu_differs);
    ck_assert_msg(standin_is_real() || (sums_differ > 0) == way->sums,
                  "%s: sums differ %d times", way->name, sums_differ);
    cadre_device_close(cpu);
    cadre_device_close(gpu);
}
END_TEST

/* The forward ones, which have no separate op, fused and not. */
START_TEST(forward_too)
{
    const struct way *way = &ways[_i];
    if (!standin_or_cuda() || (standin_is_real() && way->standin))
        return;
    struct cadre_device *gpu = open_way(way), *cpu = open_cpu(1);
    for (size_t s = 0; s < SHAPES; s++)
        for (int form = 0; form < 4; form++) {
            const enum cadre_epilogue epilogue =
                (enum cadre_epilogue)(CADRE_EPILOGUE_BIAS + form / 2);
            struct problem p =
                problem_of(cpu, CADRE_BF16, &shapes[s], epilogue, form % 2);
            check_problem(cpu, gpu, &p);
            problem_free(&p);
        }
    cadre_device_close(cpu);
    cadre_device_close(gpu);
}
END_TEST

/* ---- choices ---- */

/* "Separate is faster" is a choice like others: it is exported, and a rank that imports
 * it does not fuse even where epilogues are fast. */
START_TEST(separate_is_a_choice)
{
    static const struct way slow = {.standin = "slow", .timed = true};
    static const struct way fast = {.standin = "fast", .timed = true};
    struct cadre_text text = {0}, again = {0};
    struct tensor out[OPERANDS];
    bool same = true;
    if (!standin_prepare(NULL))
        return;
    struct cadre_device *cpu = open_cpu(1), *gpu = open_way(&slow);
    struct problem p = problem_of(cpu, CADRE_F32, &shapes[2], CADRE_EPILOGUE_SUM_A, 0);
    run(gpu, &p, false, out);
    results_free(out);
    ck_assert_int_eq(gpu->ops->tuning_export(gpu, &text), CADRE_OK);
    ck_assert_ptr_nonnull(strstr(cadre_text_str(&text), " ffffffffffffffff\n"));
    cadre_device_close(gpu);
    gpu = open_way(&fast);
    ck_assert_int_eq(gpu->ops->tuning_import(gpu, cadre_text_str(&text)), CADRE_OK);
    same = check_problem(cpu, gpu, &p);
    ck_assert(same);
    ck_assert_int_eq(gpu->ops->tuning_export(gpu, &again), CADRE_OK);
    ck_assert_str_eq(cadre_text_str(&again), cadre_text_str(&text));
    cadre_device_close(gpu);
    gpu = open_way(&fast);
    same = check_problem(cpu, gpu, &p);
    ck_assert(!same);
    problem_free(&p);
    cadre_device_close(cpu);
    cadre_device_close(gpu);
    cadre_text_fini(&text);
    cadre_text_fini(&again);
}
END_TEST

/* ---- what 16 bits would lose ---- */

/* Halves of K whose sums cancel but for what 16 bits cannot hold beside them, and c
 * that cancels a product: parts of K may not be rounded before they are added. */
START_TEST(parts_are_not_rounded)
{
    enum { K = 128 };
    static const struct way by_rule = {.name = "by rule"};
    const uint32_t dtype = _i ? CADRE_F16 : CADRE_BF16;
    if (!standin_or_cuda())
        return;
    struct cadre_device *cpu = open_cpu(1), *gpu = open_way(&by_rule);
    for (int beta = 0; beta < (standin_is_real() ? 1 : 2); beta++) {
        const struct shape s = {8, 64, K, 0, 0};
        struct problem p = problem_of(cpu, dtype, &s, CADRE_EPILOGUE_NONE, beta);
        struct tensor got[OPERANDS];
        for (int64_t i = 0; i < p.t[A].count; i++)
            tensor_set(&p.t[A], i, beta || i % K < K / 2 ? 1 : -1);
        for (int64_t i = 0; i < p.t[B].count; i++)
            tensor_set(&p.t[B], i, i % K == 0 ? 1.0078125 : 1);
        for (int64_t i = 0; i < p.t[C].count; i++)
            tensor_set(&p.t[C], i, -K);
        run(gpu, &p, false, got);
        for (int64_t i = 0; i < got[C].count; i++)
            ck_assert_msg(tensor_get(&got[C], i) == 0.0078125,
                          "beta %d: c[%lld] is %g, expected 0.0078125", beta,
                          (long long)i, tensor_get(&got[C], i));
        results_free(got);
        problem_free(&p);
    }
    cadre_device_close(cpu);
    cadre_device_close(gpu);
}
END_TEST

/* What 16 bits would lose: sums of many small products onto a large one, in one product
 * and over micro-batches, with c and the operands off all alignment. */
START_TEST(weights_sum_in_f32)
{
    enum { M = 3, N = 5, K = 513 };
    const uint32_t dtype = _i ? CADRE_F16 : CADRE_BF16;
    static const struct way by_rule = {.name = "by rule"};
    if (!standin_or_cuda())
        return;
    struct cadre_device *cpu = open_cpu(1), *gpu = open_way(&by_rule);
    const struct cadre_device_ops *ops = gpu->ops;
    struct tensor a = tensor_make(cpu, dtype, K * M + 1, 1);
    struct tensor b = tensor_make(cpu, dtype, K * N + 1, 1);
    struct tensor c = tensor_make(cpu, CADRE_F32, M * N + 1, 1);
    for (int64_t i = 0; i < a.count; i++)
        tensor_set(&a, i, i <= M ? 16 : 0.0625);
    for (int64_t i = 0; i < b.count; i++)
        tensor_set(&b, i, i <= N ? 16 : 0.0625);
    char *at[3];
    const struct tensor *from[] = {&a, &b, &c};
    for (int i = 0; i < 3; i++) {
        at[i] = ops->alloc(gpu, bytes_of(from[i]));
        ck_assert_int_eq(ops->to_device(gpu, at[i], from[i]->data, bytes_of(from[i])),
                         CADRE_OK);
    }
    struct cadre_gemm g = {.dtype = dtype,
                           .wide = true,
                           .m = M,
                           .n = N,
                           .k = K,
                           .a = at[0] + 2,
                           .lda = M,
                           .ta = true,
                           .b = at[1] + 2,
                           .ldb = N,
                           .c = at[2] + 4,
                           .ldc = N};
    for (int micro = 0; micro < 4; micro++, g.beta = 1)
        ck_assert_int_eq(ops->gemm(gpu, &g), CADRE_OK);
    ck_assert_int_eq(ops->to_host(gpu, c.data, at[2], bytes_of(&c)), CADRE_OK);
    for (int64_t i = 1; i < c.count; i++) /* 256 and 512 times 1/256, four times */
        ck_assert_double_eq(tensor_get(&c, i), 1032);
    for (int i = 0; i < 3; i++)
        ops->free(gpu, at[i]);
    tensor_free(&a);
    tensor_free(&b);
    tensor_free(&c);
    cadre_device_close(cpu);
    cadre_device_close(gpu);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("cuda_epilogues");
    TCase *tc = tcase_create("cuda_epilogues");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, near_the_cpu, 0, WAYS);
    tcase_add_loop_test(tc, forward_too, 0, WAYS);
    tcase_add_test(tc, separate_is_a_choice);
    tcase_add_loop_test(tc, parts_are_not_rounded, 0, 2);
    tcase_add_loop_test(tc, weights_sum_in_f32, 0, 2);
    suite_add_tcase(s, tc);
    return s;
}
