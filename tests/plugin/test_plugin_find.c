/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plugin/plugin_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "tests/plugin/plugin_fixture.h"
#include "tests/support/check_main.h"

static char *dir;
static struct cadre_error err;
static struct cadre_plugin_places places;

static void setup(void)
{
    dir = test_tmpdir();
    memset(&err, 0, sizeof err);
}

static void teardown(void)
{
    test_tmpdir_destroy(dir);
}

static void relative_is(const char *from, const char *to, const char *want)
{
    char out[256];
    cadre_path_relative(from, to, out, sizeof out);
    ck_assert_str_eq(out, want);
}

START_TEST(relative_paths)
{
    relative_is("/usr/bin", "/usr/lib/x", "../lib/x");
    relative_is("/usr/bin", "/usr/bin2/x", "../bin2/x");
    relative_is("/usr", "/usr/lib", "lib");
    relative_is("/opt/a/bin", "/srv/lib", "../../../srv/lib");
    relative_is("/usr/bin", "/usr/bin", "");
    relative_is("/bin", "/lib/x86/cadre", "../lib/x86/cadre");
}
END_TEST

static void make_dirs(const char *path)
{
    char command[2048];
    snprintf(command, sizeof command, "mkdir -p '%s/%s'", dir, path);
    ck_assert_int_eq(system(command), 0);
}

static void finds(const char *name, const char *want)
{
    char out[4096];
    cadre_status rc = cadre_plugin_find(&places, name, out, sizeof out, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    char *real = realpath(out, NULL), *want_real = realpath(want, NULL);
    ck_assert_str_eq(real, want_real);
    free(real);
    free(want_real);
}

/* The whole prefix may be moved: the folder lies where configure put it, seen from the
 * program. */
START_TEST(an_install_prefix_is_found_from_the_program)
{
    char relative[512], under[600];
    cadre_path_relative(CADRE_BINDIR, CADRE_PLUGINDIR, relative, sizeof relative);
    snprintf(under, sizeof under, "a/b/c/d/bin/%s", relative);
    make_dirs("a/b/c/d/bin");
    make_dirs(under);
    snprintf(under, sizeof under, "a/b/c/d/bin/%s/sample.so", relative);
    const char *file = test_copy_sample(dir, under);
    cadre_plugin_places_init(&places, NULL, NULL, test_path(dir, "a/b/c/d/bin"));
    finds("sample", file);
    ck_assert_str_eq(places.place[places.n - 1].dir, CADRE_PLUGINDIR);
}
END_TEST

START_TEST(a_build_tree_is_found_from_the_program)
{
    make_dirs("plugins/sample/.libs");
    make_dirs("plugins/empty/.libs");
    make_dirs(".libs");
    const char *file = test_copy_sample(dir, "plugins/sample/.libs/sample.so");
    const char *other = test_copy_sample(dir, ".libs/other.so");
    cadre_plugin_places_init(&places, "", NULL, dir);
    finds("sample", file);
    finds("other", other);
    char **names = cadre_plugin_list_places(&places);
    ck_assert_str_eq(names[0], "other");
    ck_assert_str_eq(names[1], "sample");
    free(names[0]);
    free(names[1]);
    ck_assert_ptr_null(names[2]);
    free(names);
}
END_TEST

START_TEST(the_first_folder_wins)
{
    char list[3000];
    make_dirs("one");
    make_dirs("two");
    const char *two = test_copy_sample(dir, "two/sample.so");
    snprintf(list, sizeof list, "%s/one:%s/two:%s/two", dir, dir, dir);
    cadre_plugin_places_init(&places, list, NULL, NULL);
    ck_assert_uint_eq(places.n, 3); /* and the configured one */
    finds("sample", two);
    const char *one = test_copy_sample(dir, "one/sample.so");
    finds("sample", one);
}
END_TEST

static void user_path_is(const char *env_path, const char *data_home, const char *home,
                         const char *want)
{
    char *path = cadre_plugin_user_path(env_path, data_home, home);
    ck_assert_str_eq(path, want);
    free(path);
}

START_TEST(the_users_own_folder)
{
    char data[2048];
    user_path_is("/a:/b", "/data", "/srv/x", "/a:/b:/data/cadre/plugins");
    user_path_is(NULL, "relative", "/srv/x", ":/srv/x/.local/share/cadre/plugins");
    user_path_is(NULL, "", "/srv/x", ":/srv/x/.local/share/cadre/plugins");
    user_path_is("/a", NULL, NULL, "/a");
    user_path_is(NULL, NULL, "", "");
    make_dirs("data/cadre/plugins");
    const char *file = test_copy_sample(dir, "data/cadre/plugins/sample.so");
    snprintf(data, sizeof data, "%s/data", dir);
    char *path = cadre_plugin_user_path(NULL, data, NULL);
    cadre_plugin_places_init(&places, NULL, path, NULL);
    free(path);
    finds("sample", file);
}
END_TEST

START_TEST(a_shipped_plugin_is_hidden)
{
    char other[4096];
    make_dirs("mine");
    make_dirs("plugins/sample/.libs");
    const char *shipped = test_copy_sample(dir, "plugins/sample/.libs/sample.so");
    cadre_plugin_places_init(&places, test_path(dir, "mine"), NULL, dir);
    ck_assert(!cadre_plugin_shadows(&places, "sample", other, sizeof other));
    test_copy_sample(dir, "mine/sample.so");
    ck_assert(cadre_plugin_shadows(&places, "sample", other, sizeof other));
    ck_assert_str_eq(other, shipped);
    test_copy_sample(dir, "mine/other.so");
    ck_assert(!cadre_plugin_shadows(&places, "other", other, sizeof other));
}
END_TEST

START_TEST(the_list_names_plugins_only)
{
    test_copy_sample(dir, "sample.so");
    test_copy_sample(dir, "Bad-Name.so");
    test_copy_sample(dir, "noend");
    test_file_write(test_path(dir, "text.so"), "text", 4);
    size_t bytes;
    unsigned char *data = test_file_read(test_module("bad_entry"), &bytes);
    test_file_write(test_path(dir, "module.so"), data, bytes);
    free(data);
    cadre_plugin_places_init(&places, dir, "/nowhere", NULL);
    char **names = cadre_plugin_list_places(&places);
    ck_assert_str_eq(names[0], "sample");
    ck_assert_ptr_null(names[1]);
    free(names[0]);
    free(names);
}
END_TEST

START_TEST(hostile_paths_do_no_harm)
{
    struct cadre_text list = {0};
    char out[64];
    cadre_text_printf(&list, "%05000d:::", 7);
    for (int i = 0; i < 500; i++)
        cadre_text_printf(&list, ":/p%d", i);
    cadre_plugin_places_init(&places, list.data, list.data, NULL);
    ck_assert_uint_eq(places.n, CADRE_PLUGIN_PLACES);
    ck_assert_str_eq(places.place[0].dir, "/p0");
    test_refused(cadre_plugin_find(&places, "sample", out, sizeof out, &err), &err,
                 "there is no plugin 'sample'");
    test_refused(cadre_plugin_find(&places, "../../x", out, sizeof out, &err), &err,
                 "is not a plugin name");
    cadre_text_fini(&list);
}
END_TEST

START_TEST(the_programs_own_folder)
{
    char own[1024], tiny[8];
    cadre_path_program_dir(own, sizeof own);
    ck_assert_int_eq(own[0], '/');
    ck_assert_int_eq(access(own, X_OK), 0);
    cadre_path_program_dir(tiny, sizeof tiny);
    ck_assert_uint_lt(strlen(tiny), sizeof tiny);
    char **names = cadre_plugin_list(NULL);
    ck_assert_ptr_nonnull(names);
    for (size_t i = 0; names[i]; i++)
        free(names[i]);
    free(names);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("plugin_find");
    TCase *tc = tcase_create("plugin_find");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, relative_paths);
    tcase_add_test(tc, an_install_prefix_is_found_from_the_program);
    tcase_add_test(tc, a_build_tree_is_found_from_the_program);
    tcase_add_test(tc, the_first_folder_wins);
    tcase_add_test(tc, the_users_own_folder);
    tcase_add_test(tc, a_shipped_plugin_is_hidden);
    tcase_add_test(tc, the_list_names_plugins_only);
    tcase_add_test(tc, hostile_paths_do_no_harm);
    tcase_add_test(tc, the_programs_own_folder);
    suite_add_tcase(s, tc);
    return s;
}
