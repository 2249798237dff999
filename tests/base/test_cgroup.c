/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/cgroup.h"

#include <stdio.h>
#include <string.h>

#include "core/base/path.h"
#include "tests/support/check_main.h"

static const struct {
    const char *lines, *visited; /* "version:folder below the root " of each */
} cases[] = {
    {"0::/a/b\n", "2:/sys/fs/cgroup/a/b 2:/sys/fs/cgroup/a 2:/sys/fs/cgroup "},
    {"0::/\n", "2:/sys/fs/cgroup "},
    {"12:memory:/m\n4:cpu,cpuacct:/x\n3:cpuset:/y\n",
     "1:/sys/fs/cgroup/cpu,cpuacct/x 1:/sys/fs/cgroup/cpu,cpuacct "},
    {"4:cpuacct,cpu:/\n0::/s\n",
     "1:/sys/fs/cgroup/cpuacct,cpu 2:/sys/fs/cgroup/s 2:/sys/fs/cgroup "},
    {"no group\n:\n\n0::/", "2:/sys/fs/cgroup "},
    {"1:name=systemd:/z\n", ""},
    {"", ""},
};

struct visited {
    const char *root;
    char text[1024];
};

static void note(const char *folder, int version, void *context)
{
    struct visited *seen = context;
    const size_t used = strlen(seen->text), root = strlen(seen->root);
    ck_assert_int_eq(strncmp(folder, seen->root, root), 0);
    snprintf(seen->text + used, sizeof seen->text - used, "%d:%s ", version,
             folder + root);
}

START_TEST(own_group_first_then_those_above)
{
    char *root = test_tmpdir(), path[512];
    struct visited seen = {.root = root};
    snprintf(path, sizeof path, "%s/proc/self", root);
    ck_assert_int_eq(cadre_path_make_dirs(path, NULL), CADRE_OK);
    test_file_put(path, "cgroup", cases[_i].lines, strlen(cases[_i].lines));
    cadre_cgroup_walk(root, "cpu", note, &seen);
    ck_assert_str_eq(seen.text, cases[_i].visited);
    test_tmpdir_destroy(root);
}
END_TEST

START_TEST(a_system_without_groups_has_none)
{
    struct visited seen = {.root = "/nowhere"};
    cadre_cgroup_walk(seen.root, "cpu", note, &seen);
    ck_assert_str_eq(seen.text, "");
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("cgroup");
    TCase *tc = tcase_create("cgroup");
    tcase_add_loop_test(tc, own_group_first_then_those_above, 0,
                        (int)(sizeof cases / sizeof *cases));
    tcase_add_test(tc, a_system_without_groups_has_none);
    suite_add_tcase(s, tc);
    return s;
}
