/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/cores.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "core/base/path.h"
#include "tests/support/check_main.h"

static const char *put_path(char path[512], const char *root, const char *name)
{
    snprintf(path, 512, "%s/%s", root, name);
    return path;
}

START_TEST(cores_are_those_allowed)
{
    cpu_set_t one;
    ck_assert_int_ge(cadre_cores(), 1);
    ck_assert_int_eq(sched_getaffinity(0, sizeof one, &one), 0);
    int first = 0;
    while (!CPU_ISSET(first, &one))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
    ck_assert_int_eq(cadre_cores(), 1);
}
END_TEST

START_TEST(lists_are_read)
{
    static const char *const wrong[] = {"",    "a",           "1-",   "-1",      "1,",
                                        "1 2", "99999999999", "1024", "0-99999", "3x"};
    cpu_set_t set;
    ck_assert(cadre_cores_parse("0-3,8,10-10\n", &set));
    ck_assert_int_eq(CPU_COUNT(&set), 6);
    ck_assert(CPU_ISSET(0, &set) && CPU_ISSET(3, &set) && CPU_ISSET(8, &set) &&
              CPU_ISSET(10, &set));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ck_assert_msg(!cadre_cores_parse(wrong[i], &set), "'%s'", wrong[i]);
}
END_TEST

/* Binding this process to some cores does not change the job's cores. */
START_TEST(a_job_has_more_than_its_process)
{
    cpu_set_t before, one, after;
    cadre_cores_job(&before);
    ck_assert_int_ge(CPU_COUNT(&before), cadre_cores());
    sched_getaffinity(0, sizeof one, &one);
    int first = 0;
    while (!CPU_ISSET(first, &one))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    sched_setaffinity(0, sizeof one, &one);
    cadre_cores_job(&after);
    ck_assert(CPU_EQUAL(&before, &after));
}
END_TEST

static const struct {
    const char *groups, *file[2], *text[2];
    double quota; /* 0: none */
} limits[] = {
    {"0::/a/b\n", {"a/b/cpu.max"}, {"150000 100000\n"}, 1.5},
    {"0::/a/b\n", {"a/b/cpu.max"}, {"max 100000\n"}, 0},
    {"0::/a/b\n", {"a/b/cpu.max", "a/cpu.max"}, {"max 100000\n", "200000 50000\n"}, 4},
    {"0::/\n", {"cpu.max"}, {"50000 100000\n"}, 0.5},
    {"0::/host/name\n", {"cpu.max"}, {"300000 100000\n"}, 3},
    {"3:cpuset:/x\n4:cpu,cpuacct:/x\n",
     {"cpu,cpuacct/x/cpu.cfs_quota_us", "cpu,cpuacct/x/cpu.cfs_period_us"},
     {"250000\n", "100000\n"},
     2.5},
    {"4:cpu:/x\n",
     {"cpu/x/cpu.cfs_quota_us", "cpu/x/cpu.cfs_period_us"},
     {"-1\n", "100000\n"},
     0},
    {"0::/a\n", {NULL}, {NULL}, 0},
};

/* As cgroups of version 1 and 2 have it. */
START_TEST(a_limit_of_cpu_time)
{
    char *root = test_tmpdir(), path[512];
    const char *groups = limits[_i].groups;
    ck_assert_int_eq(cadre_path_make_dirs(put_path(path, root, "proc/self"), NULL),
                     CADRE_OK);
    test_file_put(path, "cgroup", groups, strlen(groups));
    for (int f = 0; f < 2 && limits[_i].file[f]; f++) {
        char name[256];
        snprintf(name, sizeof name, "sys/fs/cgroup/%s", limits[_i].file[f]);
        char *slash = strrchr(name, '/');
        *slash = 0;
        ck_assert_int_eq(cadre_path_make_dirs(put_path(path, root, name), NULL),
                         CADRE_OK);
        test_file_put(path, slash + 1, limits[_i].text[f], strlen(limits[_i].text[f]));
    }
    const double quota = cadre_cores_quota(root);
    if (limits[_i].quota > 0)
        ck_assert_double_eq(quota, limits[_i].quota);
    else
        ck_assert(isinf(quota));
    test_tmpdir_destroy(root);
}
END_TEST

/* CPUs 0 and 2 are one core, 1 and 3 another; of 4 and 5 nothing is known. */
START_TEST(hardware_threads_of_a_core_count_once)
{
    static const char *const siblings[] = {"0,2\n", "1,3\n", "0,2\n", "1,3\n"};
    char *root = test_tmpdir(), path[512], name[96];
    cpu_set_t set;
    for (int cpu = 0; cpu < 4; cpu++) {
        snprintf(name, sizeof name, "sys/devices/system/cpu/cpu%d/topology", cpu);
        ck_assert_int_eq(cadre_path_make_dirs(put_path(path, root, name), NULL),
                         CADRE_OK);
        test_file_put(path, "thread_siblings_list", siblings[cpu],
                      strlen(siblings[cpu]));
    }
    ck_assert(cadre_cores_parse("0-3", &set));
    ck_assert_int_eq(cadre_cores_of(&set, root), 2);
    ck_assert(cadre_cores_parse("1-5", &set));
    ck_assert_int_eq(cadre_cores_of(&set, root), 4);
    ck_assert(cadre_cores_parse("2", &set));
    ck_assert_int_eq(cadre_cores_of(&set, root), 1);
    ck_assert_int_le(cadre_cores_physical(), cadre_cores());
    test_tmpdir_destroy(root);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("cores");
    TCase *tc = tcase_create("cores");
    tcase_add_test(tc, cores_are_those_allowed);
    tcase_add_test(tc, hardware_threads_of_a_core_count_once);
    tcase_add_test(tc, lists_are_read);
    tcase_add_test(tc, a_job_has_more_than_its_process);
    tcase_add_loop_test(tc, a_limit_of_cpu_time, 0,
                        (int)(sizeof limits / sizeof *limits));
    suite_add_tcase(s, tc);
    return s;
}
