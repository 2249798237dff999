/* SPDX-License-Identifier: Apache-2.0 */
/* Files for the loader's tests. Failures end the test. */
#ifndef CADRE_TESTS_PLUGIN_FIXTURE_H
#define CADRE_TESTS_PLUGIN_FIXTURE_H

#include <stddef.h>

#include "core/base/error.h"

/* The built test module tests/plugins/NAME; static storage. */
const char *test_module(const char *name);

/* Copy the good sample plugin to dir/name; returns the path, static storage, valid
 * until the fourth following call. */
const char *test_copy_sample(const char *dir, const char *name);

/* "dir/name", storage as above. */
const char *test_path(const char *dir, const char *name);

/* rc is a refusal of the user's input whose one line holds `text`. */
void test_refused(cadre_status rc, const struct cadre_error *err, const char *text);

#endif
