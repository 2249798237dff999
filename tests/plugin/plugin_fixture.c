/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/plugin/plugin_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"

const char *test_module(const char *name)
{
    static char path[1024];
    const char *build = getenv("CADRE_BUILD");
    snprintf(path, sizeof path, "%s/tests/plugins/.libs/%s.so", build ? build : ".",
             name);
    return path;
}

const char *test_path(const char *dir, const char *name)
{
    static char paths[4][1024];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    return path;
}

const char *test_copy_sample(const char *dir, const char *name)
{
    size_t bytes;
    const char *path = test_path(dir, name);
    char *data = test_file_read(test_module("bad_descriptor"), &bytes);
    test_file_write(path, data, bytes);
    free(data);
    return path;
}

void test_refused(cadre_status rc, const struct cadre_error *err, const char *text)
{
    ck_assert_int_eq(rc, CADRE_E_INVALID);
    ck_assert_int_eq(err->code, CADRE_E_INVALID);
    ck_assert_msg(strstr(err->text, text) != NULL, "'%s' is not in: %s", text,
                  err->text);
    ck_assert_ptr_null(strchr(err->text, '\n'));
}
