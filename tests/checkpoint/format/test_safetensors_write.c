/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/check_main.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cadre/types.h>

#include "core/base/memory.h"
#include "core/checkpoint/format/safetensors.h"

static struct cadre_error err;
static char *dir;
static char *path;

static const struct cadre_safetensors_spec specs[] = {
    {"wte.weight", CADRE_F32, 2, {1000, 7}},
    {"h.0.\"odd\"\\name", CADRE_F64, 1, {33}},
    {"scalar", CADRE_F32, 0, {0}},
    {"empty", CADRE_F32, 2, {0, 4}},
};
enum { N_SPECS = sizeof specs / sizeof specs[0] };

static void setup(void)
{
    dir = test_tmpdir();
    path = cadre_format("%s/x.safetensors", dir);
}

static void teardown(void)
{
    test_tmpdir_destroy(dir);
    free(path);
}

START_TEST(the_header_is_aligned_and_repeats)
{
    struct cadre_text a = {0};
    struct cadre_text b = {0};
    uint64_t bytes = 0;
    uint64_t length;
    ck_assert_int_eq(cadre_safetensors_header(specs, N_SPECS, &a, &bytes, &err),
                     CADRE_OK);
    ck_assert_int_eq(cadre_safetensors_header(specs, N_SPECS, &b, &bytes, &err),
                     CADRE_OK);
    ck_assert_uint_eq(a.len, b.len);
    ck_assert_mem_eq(a.data, b.data, a.len);
    memcpy(&length, a.data, sizeof length);
    ck_assert_uint_eq(length % 8, 0);
    ck_assert_uint_eq(length + 8, a.len);
    ck_assert_uint_eq(bytes, a.len + 7000 * 4 + 33 * 8 + 4);
    cadre_text_fini(&a);
    cadre_text_fini(&b);
}
END_TEST

START_TEST(a_made_file_opens_with_the_same_tensors)
{
    struct cadre_safetensors *file = NULL;
    ck_assert_int_eq(cadre_safetensors_create(path, specs, N_SPECS, &err), CADRE_OK);
    ck_assert_int_eq(cadre_safetensors_open(path, false, &file, &err), CADRE_OK);
    ck_assert_uint_eq(cadre_safetensors_count(file), N_SPECS);
    for (size_t i = 0; i < N_SPECS; i++) {
        ptrdiff_t index = cadre_safetensors_find(file, specs[i].name);
        ck_assert_int_ge((int)index, 0);
        const struct cadre_safetensors_tensor *tensor =
            cadre_safetensors_at(file, (size_t)index);
        ck_assert_uint_eq(tensor->dtype, specs[i].dtype);
        ck_assert_uint_eq(tensor->ndim, specs[i].ndim);
        ck_assert_mem_eq(tensor->dim, specs[i].dim, 8 * specs[i].ndim);
    }
    ck_assert_str_eq(cadre_safetensors_metadata(file, "format"), "pt");
    cadre_safetensors_close(file);
}
END_TEST

enum { RANKS = 4, ELEMENTS = 7000 };

/* Each writes every fourth run of 5 elements of the same file. */
static void *write_share(void *arg)
{
    size_t rank = *(const size_t *)arg;
    struct cadre_safetensors *file = NULL;
    if (cadre_safetensors_open(path, true, &file, NULL) != CADRE_OK)
        return (void *)"open";
    ptrdiff_t index = cadre_safetensors_find(file, "wte.weight");
    for (uint64_t at = 5 * rank; at < ELEMENTS; at += 5 * RANKS) {
        float run[5];
        for (int i = 0; i < 5; i++)
            run[i] = (float)at + (float)i;
        if (cadre_safetensors_write_range(file, (size_t)index, at, 5, run, NULL) !=
            CADRE_OK)
            return (void *)"write";
    }
    cadre_status rc = cadre_safetensors_sync(file, NULL);
    cadre_safetensors_close(file);
    return rc == CADRE_OK ? NULL : (void *)"sync";
}

START_TEST(ranks_write_ranges_of_one_file)
{
    pthread_t threads[RANKS];
    size_t rank[RANKS];
    struct cadre_safetensors *file = NULL;
    float *out = cadre_calloc(ELEMENTS, sizeof *out);
    ck_assert_int_eq(cadre_safetensors_create(path, specs, N_SPECS, &err), CADRE_OK);
    for (size_t i = 0; i < RANKS; i++) {
        rank[i] = i;
        pthread_create(&threads[i], NULL, write_share, &rank[i]);
    }
    for (size_t i = 0; i < RANKS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        ck_assert_ptr_null(failed);
    }
    ck_assert_int_eq(cadre_safetensors_open(path, false, &file, &err), CADRE_OK);
    ptrdiff_t index = cadre_safetensors_find(file, "wte.weight");
    ck_assert_int_eq(
        cadre_safetensors_read(file, (size_t)index, 0, ELEMENTS, CADRE_F32, out, &err),
        CADRE_OK);
    for (size_t i = 0; i < ELEMENTS; i++)
        ck_assert(out[i] == (float)i);
    cadre_safetensors_close(file);
    free(out);
}
END_TEST

START_TEST(writes_outside_a_tensor_are_refused)
{
    struct cadre_safetensors *file = NULL;
    double value = 1.0;
    ck_assert_int_eq(cadre_safetensors_create(path, specs, N_SPECS, &err), CADRE_OK);
    ck_assert_int_eq(cadre_safetensors_open(path, true, &file, &err), CADRE_OK);
    size_t odd = (size_t)cadre_safetensors_find(file, specs[1].name);
    ck_assert_int_eq(cadre_safetensors_write_range(file, odd, 33, 1, &value, &err),
                     CADRE_E_INVALID);
    ck_assert_int_eq(cadre_safetensors_write_range(file, odd, 32, 1, &value, &err),
                     CADRE_OK);
    cadre_safetensors_close(file);
    ck_assert_int_eq(cadre_safetensors_open(path, false, &file, &err), CADRE_OK);
    ck_assert_int_eq(cadre_safetensors_write_range(file, odd, 32, 1, &value, &err),
                     CADRE_E_IO);
    ck_assert_ptr_nonnull(strstr(err.text, "odd"));
    cadre_safetensors_close(file);
}
END_TEST

START_TEST(specs_that_cannot_be_are_refused)
{
    static const struct cadre_safetensors_spec bad[] = {
        {"i", CADRE_I32, 1, {4}},
        {"x", CADRE_F32, 2, {1ULL << 32, 1ULL << 32}},
        {"d", CADRE_F32, 9, {1}},
        {"__metadata__", CADRE_F32, 1, {1}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_int_eq(cadre_safetensors_create(path, &bad[i], 1, &err),
                         CADRE_E_INVALID);
}
END_TEST

START_TEST(a_full_disk_shows_at_once)
{
    const struct rlimit limit = {8192, 8192};
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert_int_eq(cadre_safetensors_create(path, specs, N_SPECS, &err),
                     CADRE_E_RESOURCE);
    ck_assert_ptr_nonnull(strstr(err.text, path));
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("safetensors_write");
    TCase *tc = tcase_create("safetensors_write");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, the_header_is_aligned_and_repeats);
    tcase_add_test(tc, a_made_file_opens_with_the_same_tensors);
    tcase_add_test(tc, ranks_write_ranges_of_one_file);
    tcase_add_test(tc, writes_outside_a_tensor_are_refused);
    tcase_add_test(tc, specs_that_cannot_be_are_refused);
    tcase_add_test(tc, a_full_disk_shows_at_once);
    suite_add_tcase(suite, tc);
    return suite;
}
