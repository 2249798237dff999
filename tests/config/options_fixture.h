/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the options share: a folder for each test, files in it, a set. */
#ifndef CADRE_TESTS_OPTIONS_FIXTURE_H
#define CADRE_TESTS_OPTIONS_FIXTURE_H

#include "core/config/options.h"
#include "tests/support/check_main.h"

/* Three keys of a plugin: zero.stage, zero.bucket, zero.offload. */
extern const struct cadre_option zero_options[3];

/* A case that makes and removes the folder around each test. */
TCase *options_case(const char *name);

/* Write a file into the folder; the caller frees its path. */
char *options_file(const char *name, const char *text);

/* A fresh set; the caller destroys it. */
struct cadre_options *options_create(void);

/* Load `text` as the file x.ini. */
cadre_status options_load_text(struct cadre_options *o, const char *text,
                               struct cadre_error *err);

/* Text of x.ini, and a part of the one line that refuses it. */
struct options_wrong {
    const char *text, *expected;
};

/* Each is refused so, and the line says where in x.ini. */
void options_refused(const struct options_wrong *wrong, size_t n);

/* Fail the test with the error's text unless rc is CADRE_OK. */
void must(cadre_status rc, const struct cadre_error *err);

#endif
