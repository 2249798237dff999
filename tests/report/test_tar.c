/* SPDX-License-Identifier: Apache-2.0 */
/* Archives, as the system's tar lists and unpacks them. */
#include "core/report/tar.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "tests/support/check_main.h"

static char *dir, *path, *source;
static struct cadre_error err;
static struct cadre_tar tar;

static void setup(void)
{
    dir = test_tmpdir();
    path = cadre_path_join(dir, "a.tar");
    source = cadre_path_join(dir, "source");
}

static void teardown(void)
{
    cadre_tar_discard(&tar);
    free(path);
    free(source);
    test_tmpdir_destroy(dir);
}

/* What a command prints, run in the folder. */
static void output_of(const char *command, char *out, size_t size)
{
    char line[4096];
    snprintf(line, sizeof line, "cd '%s' && %s 2>&1", dir, command);
    FILE *file = popen(line, "r");
    ck_assert_ptr_nonnull(file);
    size_t n = fread(out, 1, size - 1, file);
    out[n] = 0;
    ck_assert_msg(pclose(file) == 0, "%s: %s", command, out);
}

static void name_of(char *out, size_t size, size_t folders, size_t last)
{
    size_t n = 0;
    while (n < folders && n + 2 < size) {
        out[n] = n % 10 == 9 ? '/' : 'f';
        n++;
    }
    if (folders)
        out[n - 1] = '/';
    memset(out + n, 'n', last);
    out[n + last] = 0;
}

START_TEST(tar_lists_and_unpacks)
{
    char big[3000], text[8192], name[300];
    memset(big, 'x', sizeof big);
    ck_assert_int_eq(cadre_path_write_file(source, big, sizeof big, &err), CADRE_OK);
    name_of(name, sizeof name, 150, 100);
    ck_assert_int_eq(cadre_tar_open(path, &tar, &err), CADRE_OK);
    ck_assert_int_eq(cadre_tar_add_text(&tar, "top/README", "two\n", 4, 86400, &err),
                     CADRE_OK);
    ck_assert_int_eq(cadre_tar_add_text(&tar, "top/empty", "", 0, 0, &err), CADRE_OK);
    ck_assert_int_eq(cadre_tar_add_file(&tar, name, source, &err), CADRE_OK);
    ck_assert(!cadre_path_exists(path));
    ck_assert_int_eq(cadre_tar_close(&tar, &err), CADRE_OK);
    output_of("tar -tf a.tar", text, sizeof text);
    char want[400];
    snprintf(want, sizeof want, "top/README\ntop/empty\n%s\n", name);
    ck_assert_str_eq(text, want);
    output_of("TZ=UTC tar -tvf a.tar top/README", text, sizeof text);
    ck_assert_msg(strstr(text, "-rw-r--r-- 0/0") && strstr(text, " 4 1970-01-02"), "%s",
                  text);
    output_of(
        "tar -xf a.tar && cat top/README && "
        "find . -name 'nnn*' -exec cmp source {} ';' -print | wc -l && ls *.partial "
        "2>/dev/null || true",
        text, sizeof text);
    ck_assert_str_eq(text, "two\n1\n");
}
END_TEST

START_TEST(equal_contents_make_equal_archives)
{
    char text[256];
    for (int i = 0; i < 2; i++) {
        char *other = cadre_format("%s/%d.tar", dir, i);
        ck_assert_int_eq(cadre_tar_open(other, &tar, &err), CADRE_OK);
        ck_assert_int_eq(cadre_tar_add_text(&tar, "a/b", "text", 4, 7, &err), CADRE_OK);
        ck_assert_int_eq(cadre_tar_close(&tar, &err), CADRE_OK);
        free(other);
    }
    output_of("cmp 0.tar 1.tar && wc -c <0.tar", text, sizeof text);
    ck_assert_int_eq(atoi(text), 2048); /* header, a block, two at the end */
}
END_TEST

START_TEST(what_does_not_fit_is_refused)
{
    char name[400];
    ck_assert_int_eq(cadre_tar_open(path, &tar, &err), CADRE_OK);
    name_of(name, sizeof name, 0, 101);
    ck_assert_int_eq(cadre_tar_add_text(&tar, name, "", 0, 0, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "does not fit into an archive"));
    name_of(name, sizeof name, 180, 90);
    ck_assert_int_eq(cadre_tar_add_text(&tar, name, "", 0, 0, &err), CADRE_E_INVALID);
    ck_assert_int_eq(cadre_tar_add_text(&tar, "/etc/x", "", 0, 0, &err),
                     CADRE_E_INVALID);
    ck_assert_int_eq(cadre_tar_add_file(&tar, "x", dir, &err), CADRE_E_INVALID);
    ck_assert_int_eq(cadre_tar_add_file(&tar, "x", source, &err), CADRE_E_IO);
    cadre_tar_discard(&tar);
    ck_assert(!cadre_path_exists(path));
    snprintf(name, sizeof name, "%s/none/x.tar", dir);
    ck_assert_int_eq(cadre_tar_open(name, &tar, &err), CADRE_E_IO);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("tar");
    TCase *tc = tcase_create("tar");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, tar_lists_and_unpacks);
    tcase_add_test(tc, equal_contents_make_equal_archives);
    tcase_add_test(tc, what_does_not_fit_is_refused);
    suite_add_tcase(s, tc);
    return s;
}
