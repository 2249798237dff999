/* SPDX-License-Identifier: Apache-2.0 */
/* The GEMM of the CUDA device on the stand-in of cublasLt: against the CPU device, and
 * the choice of algorithms as text and file. */
#include "core/device/device.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "tests/device/cuda/standin.h"
#include "tests/device/op_testing.h"
#include "tests/support/check_main.h"

/* ---- against the CPU ---- */

#define COUNT 700 /* elements of every operand: enough for the largest shape */

static void *on_gpu(struct cadre_device *gpu, const struct tensor *t)
{
    const size_t bytes = (size_t)t->count * cadre_dtype_bytes(t->dtype);
    void *copy = gpu->ops->alloc(gpu, bytes);
    ck_assert_ptr_nonnull(copy);
    ck_assert_int_eq(gpu->ops->to_device(gpu, copy, t->data, bytes), CADRE_OK);
    return copy;
}

static void compare(struct cadre_device *gpu, const struct tensor *t, const void *at,
                    double limit, const char *what)
{
    struct tensor back = tensor_make(t->device, t->dtype, t->count, 1);
    const size_t bytes = (size_t)t->count * cadre_dtype_bytes(t->dtype);
    ck_assert_int_eq(gpu->ops->to_host(gpu, back.data, at, bytes), CADRE_OK);
    for (int64_t i = 0; i < t->count; i++)
        check_close(tensor_get(&back, i), tensor_get(t, i), limit, what, i);
    tensor_free(&back);
}

static void check_product(struct cadre_device *cpu, struct cadre_device *gpu,
                          struct cadre_gemm g)
{
    const uint32_t out = g.wide ? cadre_dtype_wide(g.dtype) : g.dtype;
    const bool half = g.dtype == CADRE_BF16 || g.dtype == CADRE_F16;
    const double limit = half ? 0.02 : g.dtype == CADRE_F64 ? 1e-12 : 1e-4;
    struct tensor t[5] = {
        tensor_make(cpu, g.dtype, COUNT, 11), tensor_make(cpu, g.dtype, COUNT, 12),
        tensor_make(cpu, out, COUNT, 13),     tensor_make(cpu, g.dtype, COUNT, 14),
        tensor_make(cpu, g.dtype, COUNT, 15),
    };
    void *at[5];
    for (int i = 0; i < 5; i++)
        at[i] = on_gpu(gpu, &t[i]);
    g.a = t[0].data;
    g.b = t[1].data;
    g.c = t[2].data;
    g.bias = g.epilogue ? t[3].data : NULL;
    g.aux = g.epilogue == CADRE_EPILOGUE_BIAS_GELU ? t[4].data : NULL;
    ck_assert_int_eq(cpu->ops->gemm(cpu, &g), CADRE_OK);
    g.a = at[0];
    g.b = at[1];
    g.c = at[2];
    g.bias = g.epilogue ? at[3] : NULL;
    g.aux = g.epilogue == CADRE_EPILOGUE_BIAS_GELU ? at[4] : NULL;
    ck_assert_int_eq(gpu->ops->gemm(gpu, &g), CADRE_OK);
    compare(gpu, &t[2], at[2], limit, "c");
    compare(gpu, &t[4], at[4], limit, "aux");
    for (int i = 0; i < 5; i++) {
        gpu->ops->free(gpu, at[i]);
        tensor_free(&t[i]);
    }
}

/* Every dtype, transpose, beta and epilogue, with ragged shapes and rows longer than
 * their used part. */
START_TEST(equals_the_cpu)
{
    static const uint32_t dtypes[] = {CADRE_F32, CADRE_F64, CADRE_BF16, CADRE_F16};
    static const int64_t shapes[][4] = {
        {1, 1, 1, 0}, {3, 5, 7, 1}, {8, 16, 24, 0}, {17, 9, 4, 3}, {2, 24, 17, 8}};
    if (!standin_or_cuda())
        return;
    struct cadre_device *gpu = standin_open(true), *cpu = open_cpu(1);
    for (size_t d = 0; d < 4; d++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (int bits = 0; bits < 32; bits++) {
                const int64_t *m = shapes[s];
                struct cadre_gemm g = {.dtype = dtypes[d],
                                       .m = m[0],
                                       .n = m[1],
                                       .k = m[2],
                                       .ta = bits & 1,
                                       .tb = bits >> 1 & 1,
                                       .beta = bits >> 2 & 1};
                g.lda = (g.ta ? g.m : g.k) + m[3];
                g.ldb = (g.tb ? g.k : g.n) + m[3];
                g.ldc = g.n + m[3];
                g.wide = bits >> 3 == 3;
                g.epilogue = g.wide ? CADRE_EPILOGUE_NONE : (bits >> 3);
                check_product(cpu, gpu, g);
            }
    cadre_device_close(cpu);
    cadre_device_close(gpu);
}
END_TEST

/* ---- choosing ---- */

static cadre_status multiply(struct cadre_device *device, float *x)
{
    const struct cadre_gemm g = {.dtype = CADRE_F32,
                                 .m = 8,
                                 .n = 8,
                                 .k = 8,
                                 .a = x,
                                 .b = x + 64,
                                 .c = x + 128,
                                 .lda = 8,
                                 .ldb = 8,
                                 .ldc = 8};
    return device->ops->gemm(device, &g);
}

static void run_one(struct cadre_device *device, const char *import,
                    struct cadre_text *out)
{
    const struct cadre_device_ops *ops = device->ops;
    float *x = ops->alloc(device, 192 * sizeof *x);
    ck_assert_int_eq(ops->zero(device, x, 192 * sizeof *x), CADRE_OK);
    if (import)
        ck_assert_int_eq(ops->tuning_import(device, import), CADRE_OK);
    ck_assert_int_eq(multiply(device, x), CADRE_OK);
    ck_assert_int_eq(multiply(device, x), CADRE_OK);
    ck_assert_int_eq(ops->synchronize(device), CADRE_OK);
    ck_assert_int_eq(ops->tuning_export(device, out), CADRE_OK);
    ops->free(device, x);
    cadre_device_close(device);
}

/* A device is opened, used for one product and closed. */
static void use(bool exact, int64_t n, struct cadre_text *out)
{
    struct cadre_device *device = standin_open(exact);
    const struct cadre_device_ops *ops = device->ops;
    float *x = ops->alloc(device, 192 * sizeof *x);
    struct cadre_gemm g = {.dtype = CADRE_F32, .m = n, .n = n, .k = n};
    g.a = x;
    g.b = x + 64;
    g.c = x + 128;
    g.lda = g.ldb = g.ldc = n;
    ck_assert_int_eq(ops->zero(device, x, 192 * sizeof *x), CADRE_OK);
    ck_assert_int_eq(ops->gemm(device, &g), CADRE_OK);
    if (out)
        ck_assert_int_eq(ops->tuning_export(device, out), CADRE_OK);
    ops->free(device, x);
    cadre_device_close(device);
}

/* Exact: no choice by timing, so nothing to export. Timed: a line, which another device
 * imports and exports unchanged. */
START_TEST(exported_and_imported)
{
    struct cadre_text exact = {0}, timed = {0}, taken = {0};
    if (!standin_prepare(NULL))
        return;
    run_one(standin_open(true), NULL, &exact);
    ck_assert_str_eq(cadre_text_str(&exact), "");
    run_one(standin_open(false), NULL, &timed);
    ck_assert_int_eq(strncmp(cadre_text_str(&timed), "gemm 8 8 8 ", 11), 0);
    run_one(standin_open(true), cadre_text_str(&timed), &taken);
    ck_assert_str_eq(cadre_text_str(&taken), cadre_text_str(&timed));
    struct cadre_device *device = standin_open(false);
    ck_assert_int_eq(device->ops->tuning_import(device, "gemm 8 8"), CADRE_E_INVALID);
    cadre_device_close(device);
    cadre_text_fini(&exact);
    cadre_text_fini(&timed);
    cadre_text_fini(&taken);
}
END_TEST

static char *only_file(const char *cache)
{
    return cadre_format("%s/cadre/gemm2-stand-in-on-the-host-130000.txt", cache);
}

/* The file holds the choices; a damaged one is not used, and is rewritten. */
START_TEST(kept_in_a_file)
{
    char *cache = test_tmpdir(), *file = only_file(cache), *text = NULL;
    struct cadre_text first = {0}, second = {0};
    struct cadre_error err = {0};
    size_t bytes = 0;
    if (standin_prepare(cache)) {
        run_one(standin_open(false), NULL, &first);
        ck_assert_int_eq(cadre_path_read_file(file, 1 << 20, &text, &bytes, &err),
                         CADRE_OK);
        ck_assert_str_eq(text, cadre_text_str(&first));
        text[5] = '9'; /* m */
        ck_assert_int_eq(cadre_path_write_file(file, text, bytes, &err), CADRE_OK);
        run_one(standin_open(false), NULL, &second);
        ck_assert_int_eq(strncmp(cadre_text_str(&second), "gemm 8 8 8 ", 11), 0);
        free(text);
        ck_assert_int_eq(cadre_path_read_file(file, 1 << 20, &text, &bytes, &err),
                         CADRE_OK);
        ck_assert_str_eq(text, cadre_text_str(&second));
        free(text);
    }
    cadre_text_fini(&first);
    cadre_text_fini(&second);
    test_tmpdir_destroy(cache);
    free(file);
}
END_TEST

static void check_exact(const char *expected)
{
    struct cadre_text text = {0};
    use(true, 4, &text);
    ck_assert_str_eq(cadre_text_str(&text), expected);
    cadre_text_fini(&text);
}

/* An exact run uses the file's choices, adds none to it, and ignores a file that is
 * damaged or from another version. */
START_TEST(exact_reads_the_file_alone)
{
    char *cache = test_tmpdir(), *file = only_file(cache), *text = NULL;
    struct cadre_text timed = {0};
    struct cadre_error err = {0};
    size_t bytes = 0;
    if (standin_prepare(cache)) {
        check_exact("");
        ck_assert(!cadre_path_exists(file));
        use(false, 8, NULL);
        use(false, 6, &timed); /* existing choices are kept */
        ck_assert_ptr_nonnull(strstr(timed.data, "gemm 6 6 6 "));
        ck_assert_ptr_nonnull(strstr(timed.data, "gemm 8 8 8 "));
        check_exact(timed.data);
        setenv("CADRE_STANDIN_LT", "130100", 1);
        check_exact("");
        unsetenv("CADRE_STANDIN_LT");
        check_exact(timed.data);
        ck_assert_int_eq(cadre_path_read_file(file, 1 << 20, &text, &bytes, &err),
                         CADRE_OK);
        for (size_t cut = 0; cut < bytes; cut += bytes / 8 + 1) {
            ck_assert_int_eq(cadre_path_write_file(file, text, cut, &err), CADRE_OK);
            check_exact("");
        }
        text[bytes / 2] = 0;
        ck_assert_int_eq(cadre_path_write_file(file, text, bytes, &err), CADRE_OK);
        check_exact("");
        free(text);
    }
    cadre_text_fini(&timed);
    test_tmpdir_destroy(cache);
    free(file);
}
END_TEST

/* With CADRE_TUNING=keep the file is unchanged. */
START_TEST(a_kept_file_is_not_written)
{
    char *cache = test_tmpdir(), *file = only_file(cache);
    struct cadre_text kept = {0};
    if (standin_prepare(cache)) {
        setenv("CADRE_TUNING", "keep", 1);
        use(false, 8, NULL);
        ck_assert(!cadre_path_exists(file));
        unsetenv("CADRE_TUNING");
        use(false, 8, &kept);
        setenv("CADRE_TUNING", "keep", 1);
        use(false, 6, NULL);
        unsetenv("CADRE_TUNING");
        check_exact(kept.data);
    }
    cadre_text_fini(&kept);
    test_tmpdir_destroy(cache);
    free(file);
}
END_TEST

/* With concurrent writers the file is complete at any time and no other file is
 * left. */
START_TEST(processes_write_at_once)
{
    enum { WRITERS = 4 };
    char *cache = test_tmpdir(), *file = only_file(cache), *text = NULL;
    struct cadre_error err = {0};
    size_t bytes = 0;
    pid_t child[WRITERS];
    if (standin_prepare(cache)) {
        for (int i = 0; i < WRITERS; i++)
            if ((child[i] = fork()) == 0) {
                for (int64_t n = 1; n < 6; n++)
                    use(false, n + i % 2, NULL);
                _exit(0);
            }
        for (int i = 0, how; i < WRITERS; i++) {
            ck_assert_int_eq(waitpid(child[i], &how, 0), child[i]);
            ck_assert_int_eq(how, 0);
        }
        ck_assert_int_eq(cadre_path_read_file(file, 1 << 20, &text, &bytes, &err),
                         CADRE_OK);
        check_exact(text);
        ck_assert_int_eq(unlink(file), 0);
        *strrchr(file, '/') = 0;
        ck_assert_msg(rmdir(file) == 0, "something lies in %s", file);
        free(text);
    }
    test_tmpdir_destroy(cache);
    free(file);
}
END_TEST

/* Problems missing in the text of another rank: by rule on an exact device, else
 * timed. */
START_TEST(what_was_not_imported)
{
    for (int exact = 0; exact < 2 && standin_prepare(NULL); exact++) {
        struct cadre_text text = {0};
        run_one(standin_open(exact), "", &text);
        ck_assert_int_eq(text.len == 0, exact);
        cadre_text_fini(&text);
    }
}
END_TEST

START_TEST(the_library_is_named)
{
    struct cadre_text text = {0};
    if (!standin_prepare(NULL))
        return;
    struct cadre_device *device = standin_open(true);
    device->ops->tuning_library(device, &text);
    ck_assert_str_eq(cadre_text_str(&text), "cublasLt 13.0.0 on stand-in on the host");
    cadre_device_close(device);
    cadre_text_fini(&text);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("cuda_gemm");
    TCase *tc = tcase_create("cuda_gemm");
    tcase_add_test(tc, equals_the_cpu);
    tcase_add_test(tc, exported_and_imported);
    tcase_add_test(tc, kept_in_a_file);
    tcase_add_test(tc, exact_reads_the_file_alone);
    tcase_add_test(tc, a_kept_file_is_not_written);
    tcase_add_test(tc, processes_write_at_once);
    tcase_add_test(tc, what_was_not_imported);
    tcase_add_test(tc, the_library_is_named);
    suite_add_tcase(s, tc);
    return s;
}
