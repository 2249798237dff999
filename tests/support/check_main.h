/* SPDX-License-Identifier: Apache-2.0 */
/* One Check program per source file: a test file defines test_suite, main is here. */
#ifndef CADRE_TESTS_CHECK_MAIN_H
#define CADRE_TESTS_CHECK_MAIN_H

#include <check.h>
#include <stdbool.h>

/* Check writes to a file at every assertion that holds, so that it can name the last
 * one before a crash: most of the time of a loop over many values. Here each place in
 * the source is written once a test. */
#undef ck_assert_msg
#define ck_assert_msg(expr, ...)                                                       \
    (expr) ? test_mark(__FILE__, __LINE__)                                             \
           : _ck_assert_failed(__FILE__, __LINE__, "Assertion '" #expr "' failed",     \
                               ##__VA_ARGS__)
void test_mark(const char *file, int line);

/* Defined by each test file. */
Suite *test_suite(void);

/* Path of `name` in tests/samples, below CADRE_SRC or else next to the build folder;
 * the test fails where it is absent. Static storage, valid until the eighth following
 * call. */
const char *test_sample(const char *name);

/* Data truncated for tests/samples is also tested in full where CADRE_TEST_DATA has it:
 * 2 data sets, else 1. */
int test_data_sets(const char *folder);

/* As test_sample, of data set 0, the samples, or 1, the full data. */
const char *test_data(int set, const char *name);

/* A fresh empty folder for this test; test_tmpdir_destroy removes it and frees its
 * path. */
char *test_tmpdir(void);
void test_tmpdir_destroy(char *path);

/* A whole file, with a 0 after it; bytes may be NULL. Caller frees. A file that cannot
 * be read or written ends the test. */
void *test_file_read(const char *path, size_t *bytes);
void test_file_write(const char *path, const void *data, size_t bytes);
/* The same of folder/name; returns that path, valid until the eighth following call. */
const char *test_file_put(const char *folder, const char *name, const void *data,
                          size_t bytes);

/* CADRE_TEST_LEAN=1, for an instrumented build: a sample of the cases is enough, as all
 * of them run in the optimised build. */
bool test_lean(void);
/* CADRE_TEST_LEAN=2, which is lean too: the least that reaches all code. */
bool test_leanest(void);

/* CADRE_TEST_PATIENCE, 1 or more: factor of time limits where a machine is slow or
 * busy, also of the limits of Check, which guard against hangs. */
double test_patience(void);

/* Say why on stdout and end the running test as skipped; the program exits 77 when
 * every test was skipped. */
#define test_skip(why)                                                                 \
    do {                                                                               \
        test_note_skip(why);                                                           \
        return;                                                                        \
    } while (0)
void test_note_skip(const char *why);

#endif
