/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/config/options_fixture.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/path.h"

#define HEAD(type) sizeof(struct cadre_option), CADRE_OPTION_##type

const struct cadre_option zero_options[3] = {
    {HEAD(I64), "stage", "1", NULL, "what is sharded", 1, 3, 0, 0},
    {HEAD(BYTES), "bucket", "25M", NULL, "bucket size", 0, 0x1p40, 0, 0},
    {HEAD(BOOL), "offload", "no", NULL, "to the host", 0, 0, 0, 0},
};

static char *dir;

static void make_dir(void)
{
    dir = test_tmpdir();
}

static void remove_dir(void)
{
    test_tmpdir_destroy(dir);
}

TCase *options_case(const char *name)
{
    TCase *tc = tcase_create(name);
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, make_dir, remove_dir);
    return tc;
}

char *options_file(const char *name, const char *text)
{
    struct cadre_error err = {0};
    char *path = cadre_path_join(dir, name);
    char *folder = cadre_path_dirname(path);
    must(cadre_path_make_dirs(folder, &err), &err);
    must(cadre_path_write_file(path, text, strlen(text), &err), &err);
    free(folder);
    return path;
}

struct cadre_options *options_create(void)
{
    struct cadre_options *o = NULL;
    struct cadre_error err = {0};
    must(cadre_options_create(&o, &err), &err);
    return o;
}

cadre_status options_load_text(struct cadre_options *o, const char *text,
                               struct cadre_error *err)
{
    char *path = options_file("x.ini", text);
    cadre_status rc = cadre_options_load(o, path, err);
    free(path);
    return rc;
}

void must(cadre_status rc, const struct cadre_error *err)
{
    ck_assert_msg(rc == CADRE_OK, "%s", err->text);
}

void options_refused(const struct options_wrong *wrong, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct cadre_error err = {0};
        struct cadre_options *o = options_create();
        must(cadre_options_add(o, "zero", zero_options, 3, sizeof *zero_options, &err),
             &err);
        cadre_status rc = options_load_text(o, wrong[i].text, &err);
        if (rc == CADRE_OK)
            rc = cadre_options_resolve(o, &err);
        ck_assert_msg(rc == CADRE_E_INVALID, "accepted: %s", wrong[i].text);
        ck_assert_msg(strstr(err.text, wrong[i].expected) != NULL,
                      "expected '%s' in '%s'", wrong[i].expected, err.text);
        ck_assert_msg(strstr(err.text, "x.ini:") != NULL, "no place in '%s'", err.text);
        cadre_options_destroy(o);
    }
}
