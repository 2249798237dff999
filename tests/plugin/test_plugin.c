/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plugin/plugin.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/plugin/plugin_fixture.h"
#include "tests/support/check_main.h"

static char *dir;
static struct cadre_error err;
static const struct cadre_plugin_handle *plugin;

static void setup(void)
{
    dir = test_tmpdir();
    unsetenv("CADRE_PLUGIN_PATH");
    unsetenv("CADRE_TEST_BAD");
    memset(&err, 0, sizeof err);
    plugin = NULL;
}

static void teardown(void)
{
    test_tmpdir_destroy(dir);
}

static void loads(const char *name, const char *plugin_path)
{
    cadre_status rc = cadre_plugin_load(name, plugin_path, &plugin, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
}

START_TEST(loads_by_path)
{
    loads(test_copy_sample(dir, "any-name.so"), NULL);
    ck_assert_str_eq(plugin->name, "sample");
    ck_assert_ptr_nonnull(strstr(plugin->path, "/any-name.so"));
    ck_assert_str_eq(plugin->desc.summary, "does nothing");
    ck_assert(plugin->ops.create);
    ck_assert(!plugin->ops.on_grad);
    ck_assert_uint_ne(plugin->digest, 0);
}
END_TEST

START_TEST(loads_by_name)
{
    test_copy_sample(dir, "sample.so");
    loads("sample", dir);
    ck_assert_str_eq(plugin->name, "sample");
}
END_TEST

START_TEST(finds_the_environment_after_the_option)
{
    char list[2048];
    test_copy_sample(dir, "sample.so");
    snprintf(list, sizeof list, "/nowhere::%s", dir);
    setenv("CADRE_PLUGIN_PATH", list, 1);
    loads("sample", "/nothing-here:");
}
END_TEST

START_TEST(finds_the_build_tree)
{
    if (access("plugins/ddp/.libs/ddp.so", F_OK))
        test_skip("ddp is not built");
    char *build = realpath(".", NULL);
    loads("ddp", NULL);
    ck_assert_ptr_eq(strstr(plugin->path, build), plugin->path);
    ck_assert_str_eq(plugin->desc.id, "org.cadre.ddp");
    free(build);
}
END_TEST

/* A file before Cadre's own folders is found first: only another build of the same
 * plugin may stand there. */
START_TEST(a_name_of_ours_is_not_taken)
{
    if (access("plugins/ddp/.libs/ddp.so", F_OK))
        test_skip("ddp is not built");
    test_copy_sample(dir, "ddp.so");
    setenv("CADRE_TEST_BAD", _i ? "id_cadre" : "id_ours", 1);
    if (_i) {
        loads("ddp", dir);
        ck_assert_ptr_eq(strstr(plugin->path, dir), plugin->path);
        return;
    }
    test_refused(cadre_plugin_load("ddp", dir, &plugin, &err), &err,
                 "has the id 'org.example.ddp', but 'ddp' is the name of Cadre's own "
                 "plugin '");
    ck_assert_ptr_nonnull(strstr(err.text, "plugins/ddp/.libs/ddp.so"));
    loads(test_path(dir, "ddp.so"), NULL); /* by its path it is meant */
}
END_TEST

START_TEST(one_file_is_one_handle)
{
    const char *path = test_copy_sample(dir, "sample.so");
    const char *alias = test_path(dir, "alias.so");
    loads(path, NULL);
    const struct cadre_plugin_handle *first = plugin;
    loads("sample", dir);
    ck_assert_ptr_eq(plugin, first);
    ck_assert_int_eq(symlink(path, alias), 0);
    loads(alias, NULL);
    ck_assert_ptr_eq(plugin, first);
}
END_TEST

START_TEST(two_files_with_one_id_are_refused)
{
    const char *one = test_copy_sample(dir, "one.so");
    const char *two = test_copy_sample(dir, "two.so");
    loads(one, NULL);
    plugin = NULL;
    test_refused(cadre_plugin_load(two, NULL, &plugin, &err), &err, "/two.so' has the");
    ck_assert_ptr_nonnull(strstr(err.text, "/one.so' (id 'org.example.sample')"));
    ck_assert_ptr_null(plugin);
}
END_TEST

START_TEST(a_file_of_another_name_is_refused)
{
    test_copy_sample(dir, "other.so");
    test_refused(cadre_plugin_load("other", dir, &plugin, &err), &err,
                 "calls itself 'sample' (id 'org.example.sample'), but 'other' was "
                 "asked for: rename the file to sample.so");
}
END_TEST

START_TEST(an_unknown_name_says_where_it_was_sought)
{
    test_copy_sample(dir, "sample.so");
    test_refused(cadre_plugin_load("sampel", dir, &plugin, &err), &err,
                 "there is no plugin 'sampel', the nearest is 'sample';");
    ck_assert_ptr_nonnull(strstr(err.text, dir));
    test_refused(cadre_plugin_load("zzzzzz", dir, &plugin, &err), &err,
                 "there is no plugin 'zzzzzz'; strategy.plugin_path");
    test_refused(cadre_plugin_load("my.so", dir, &plugin, &err), &err,
                 "'my.so' is not a plugin name");
    test_refused(cadre_plugin_load("", dir, &plugin, &err), &err,
                 "is not a plugin name");
}
END_TEST

START_TEST(a_file_without_the_entry_is_refused)
{
    test_refused(cadre_plugin_load(test_module("bad_entry"), NULL, &plugin, &err), &err,
                 "has no symbol cadre_plugin_entry_1");
}
END_TEST

START_TEST(an_entry_of_a_dependency_is_refused)
{
    test_refused(cadre_plugin_load(test_module("bad_foreign"), NULL, &plugin, &err),
                 &err, "has no cadre_plugin_entry_1 of its own");
    ck_assert_ptr_nonnull(strstr(err.text, "bad_descriptor.so"));
}
END_TEST

START_TEST(an_unresolved_symbol_is_refused)
{
    test_refused(cadre_plugin_load(test_module("bad_symbol"), NULL, &plugin, &err),
                 &err, "nobody_has_this");
    ck_assert_ptr_nonnull(strstr(err.text, "links nothing of the host"));
}
END_TEST

START_TEST(an_error_may_be_left_out)
{
    ck_assert_int_eq(cadre_plugin_load("zzz", NULL, &plugin, NULL), CADRE_E_INVALID);
    ck_assert_int_eq(cadre_plugin_load(test_module("bad_entry"), NULL, &plugin, NULL),
                     CADRE_E_INVALID);
}
END_TEST

static void *load_thread(void *arg)
{
    const struct cadre_plugin_handle *found = NULL;
    cadre_plugin_load("sample", arg, &found, NULL);
    return (void *)(uintptr_t)found;
}

START_TEST(threads_get_one_handle)
{
    pthread_t threads[8];
    void *found[8];
    test_copy_sample(dir, "sample.so");
    for (int i = 0; i < 8; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, load_thread, dir), 0);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], &found[i]);
    ck_assert_ptr_nonnull(found[0]);
    for (int i = 1; i < 8; i++)
        ck_assert_ptr_eq(found[i], found[0]);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("plugin");
    TCase *tc = tcase_create("plugin");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, loads_by_path);
    tcase_add_test(tc, loads_by_name);
    tcase_add_test(tc, finds_the_environment_after_the_option);
    tcase_add_test(tc, finds_the_build_tree);
    tcase_add_loop_test(tc, a_name_of_ours_is_not_taken, 0, 2);
    tcase_add_test(tc, one_file_is_one_handle);
    tcase_add_test(tc, two_files_with_one_id_are_refused);
    tcase_add_test(tc, a_file_of_another_name_is_refused);
    tcase_add_test(tc, an_unknown_name_says_where_it_was_sought);
    tcase_add_test(tc, a_file_without_the_entry_is_refused);
    tcase_add_test(tc, an_entry_of_a_dependency_is_refused);
    tcase_add_test(tc, an_unresolved_symbol_is_refused);
    tcase_add_test(tc, an_error_may_be_left_out);
    tcase_add_test(tc, threads_get_one_handle);
    suite_add_tcase(s, tc);
    return s;
}
