/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/free_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/support/check_main.h"

static char root[] = "/tmp/cadre-free-XXXXXX";

static void run(const char *command)
{
    char line[1024];
    snprintf(line, sizeof line, "cd %s && %s", root, command);
    ck_assert_int_eq(system(line), 0);
}

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(root));
    run("mkdir -p proc/self sys/fs/cgroup/a/b sys/fs/cgroup/memory/job && "
        "printf 'MemTotal: 900 kB\\nMemFree: 1 kB\\nMemAvailable: 500 kB\\n' "
        ">proc/meminfo");
}

static void teardown(void)
{
    run("cd / && rm -rf \"$OLDPWD\"");
}

static void is(uint64_t bytes, const char *limit)
{
    struct cadre_free_memory found;
    ck_assert(cadre_free_memory_read(root, &found));
    ck_assert_uint_eq(found.bytes, bytes);
    ck_assert_ptr_nonnull(strstr(found.limit, limit));
}

START_TEST(what_is_available)
{
    is(500 * 1024, "free");
    run("echo 0::/a/b >proc/self/cgroup && echo max >sys/fs/cgroup/a/b/memory.max && "
        "echo 7 >sys/fs/cgroup/a/b/memory.current");
    is(500 * 1024, "free");
}
END_TEST

START_TEST(the_least_limit_of_the_groups_above)
{
    run("echo 0::/a/b >proc/self/cgroup && echo 4000 >sys/fs/cgroup/a/memory.max && "
        "echo 1500 >sys/fs/cgroup/a/memory.current && "
        "printf 'anon 1\\ninactive_file 500\\n' >sys/fs/cgroup/a/memory.stat");
    is(3000, "cgroup");
    run("echo 100 >sys/fs/cgroup/a/b/memory.max && "
        "echo 200 >sys/fs/cgroup/a/b/memory.current");
    is(0, "cgroup");
}
END_TEST

START_TEST(the_first_version_of_cgroups)
{
    run("printf '12:memory:/job\\n0::/x\\n' >proc/self/cgroup && "
        "echo 5000 >sys/fs/cgroup/memory/job/memory.limit_in_bytes && "
        "echo 1000 >sys/fs/cgroup/memory/job/memory.usage_in_bytes");
    is(4000, "cgroup");
}
END_TEST

START_TEST(a_container_that_sees_its_own_limits_alone)
{
    run("echo 0::/docker/of/the/host >proc/self/cgroup && "
        "echo 2048 >sys/fs/cgroup/memory.max && echo 48 >sys/fs/cgroup/memory.current");
    is(2000, "cgroup");
}
END_TEST

/* The limit is so high that the test itself is held by none. */
START_TEST(the_limit_of_a_process)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), high = UINT64_C(1) << 60;
    struct cadre_free_memory found;
    struct rlimit before, limit;
    char line[96];
    snprintf(line, sizeof line, "echo %llu 7 7 >proc/self/statm",
             (unsigned long long)(high / page - 3));
    run(line);
    ck_assert_int_eq(getrlimit(RLIMIT_AS, &before), 0);
    if (before.rlim_cur == RLIM_INFINITY) {
        ck_assert(cadre_free_memory_read(root, &found));
        ck_assert_uint_eq(found.process, UINT64_MAX);
    }
    limit = before;
    limit.rlim_cur = high;
    if (setrlimit(RLIMIT_AS, &limit) != 0)
        return; /* a lower one is set */
    is(500 * 1024, "free");
    ck_assert(cadre_free_memory_read(root, &found));
    ck_assert_uint_eq(found.process, 3 * page);
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &before), 0);
}
END_TEST

START_TEST(a_system_that_says_nothing)
{
    struct cadre_free_memory found;
    run("rm proc/meminfo");
    ck_assert(!cadre_free_memory_read(root, &found));
    ck_assert(cadre_free_memory_read("", &found));
    ck_assert_uint_gt(found.bytes, 0);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("free_memory");
    TCase *tc = tcase_create("free_memory");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, what_is_available);
    tcase_add_test(tc, the_least_limit_of_the_groups_above);
    tcase_add_test(tc, the_first_version_of_cgroups);
    tcase_add_test(tc, a_container_that_sees_its_own_limits_alone);
    tcase_add_test(tc, the_limit_of_a_process);
    tcase_add_test(tc, a_system_that_says_nothing);
    suite_add_tcase(s, tc);
    return s;
}
