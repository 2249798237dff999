/* SPDX-License-Identifier: Apache-2.0 */
/* One Check program per source file: a test file defines test_suite, main is here. */
#ifndef CADRE_TESTS_CHECK_MAIN_H
#define CADRE_TESTS_CHECK_MAIN_H

#include <check.h>

/* Defined by each test file. */
Suite *test_suite(void);

/* Path of `name` under the shared test data, or NULL where it is absent: the test then
 * calls test_skip, and the program exits 77 when every test was skipped. Static
 * storage, valid until the eighth following call. */
const char *test_data(const char *name);

/* A fresh empty folder for this test, removed by test_tmpdir_remove. Caller frees. */
char *test_tmpdir(void);
void test_tmpdir_remove(const char *path);

/* Say why on stdout and end the running test as skipped. */
#define test_skip(why)                                                                 \
    do {                                                                               \
        test_note_skip(why);                                                           \
        return;                                                                        \
    } while (0)
void test_note_skip(const char *why);

#endif
