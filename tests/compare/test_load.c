/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/timing/load.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/path.h"
#include "core/compare/timing/load_private.h"
#include "tests/support/check_main.h"

static char *root;

static void setup(void)
{
    root = test_tmpdir();
}

static void teardown(void)
{
    test_tmpdir_destroy(root);
}

/* Writes root/name, folders and all. */
static void put(const char *name, const char *text)
{
    char *path = cadre_path_join(root, name), *dir = cadre_path_dirname(path);
    ck_assert_int_eq(cadre_path_make_dirs(dir, NULL), CADRE_OK);
    test_file_write(path, text, strlen(text));
    free(dir);
    free(path);
}

/* Ticks of a core since it was switched on. */
struct ticks {
    long user, nice, system, idle, iowait, irq, softirq, steal, guest;
};

static int put_core(char *text, size_t size, const char *name, struct ticks of)
{
    return snprintf(text, size, "%s %ld %ld %ld %ld %ld %ld %ld %ld %ld 0\n", name,
                    of.user, of.nice, of.system, of.idle, of.iowait, of.irq, of.softirq,
                    of.steal, of.guest);
}

/* A machine of one core, which is ours; with `others` of two, and the second is none of
 * those where this process may run. */
static void put_stat(struct ticks of, bool others)
{
    const struct ticks none = {0}, theirs = {.user = 3 * of.user};
    char text[1024], name[32];
    cpu_set_t ours;
    size_t core = 0, other = 0;
    int used = put_core(text, sizeof text, "cpu ", others ? none : of);
    ck_assert_int_eq(sched_getaffinity(0, sizeof ours, &ours), 0);
    while (!CPU_ISSET(core, &ours))
        core++;
    while (CPU_ISSET(other, &ours))
        other++;
    snprintf(name, sizeof name, "cpu%zu", core);
    used += put_core(text + used, sizeof text - (size_t)used, name, others ? of : none);
    snprintf(name, sizeof name, "cpu%zu", other);
    if (others)
        used += put_core(text + used, sizeof text - (size_t)used, name, theirs);
    snprintf(text + used, sizeof text - (size_t)used, "intr 12345\n");
    put("proc/stat", text);
}

/* As if that had been 100 s ago. */
static void age(struct cadre_load_counters *begin)
{
    begin->wall_s -= 100;
    begin->busy_s -= 100;
}

static double own_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Uses this much CPU time of the calling process. */
static void spin(double cpu_s)
{
    double begin = own_seconds();
    while (own_seconds() - begin < cpu_s)
        ;
}

START_TEST(nothing_is_known_without_files)
{
    struct cadre_load_counters begin;
    struct cadre_load load;
    cadre_load_begin_below(root, &begin);
    cadre_load_end_below(root, &begin, false, &load);
    ck_assert(load.wall_s >= 0 && load.own_s >= 0);
    ck_assert(isnan(load.foreign_s) && isnan(load.steal_s) && isnan(load.throttled_s));
    ck_assert(isnan(load.mhz) && isnan(load.thermal) && isnan(load.gpu_mhz));
    ck_assert(isnan(load.gpu_watts) && isnan(load.gpu_celsius));
    ck_assert(isnan(load.gpu_others));
}
END_TEST

/* Of 100 s of a core 60 were idle or waiting and 2 interrupts: 38 s less its own are
 * others', whatever the sampled times of the rest add up to. */
START_TEST(foreign_is_what_was_not_idle_less_own)
{
    for (int others = 0; others < 2; others++) {
        struct cadre_load_counters begin;
        struct cadre_load load;
        long hz = sysconf(_SC_CLK_TCK);
        put_stat((struct ticks){.user = 5 * hz, .idle = 7 * hz}, others);
        cadre_load_begin_below(root, &begin);
        age(&begin);
        spin(0.02);
        put_stat((struct ticks){.user = 30 * hz,
                                .idle = 57 * hz,
                                .iowait = 10 * hz,
                                .irq = hz,
                                .softirq = hz,
                                .steal = 3 * hz,
                                .guest = 25 * hz},
                 others);
        cadre_load_end_below(root, &begin, false, &load);
        ck_assert_double_eq_tol(load.steal_s, 3, 1e-9);
        ck_assert_double_ge(load.own_s, 0.015);
        ck_assert_double_ge(load.wall_s, 100);
        ck_assert_double_eq_tol(load.foreign_s, load.wall_s - 62 - load.own_s, 1e-6);
    }
}
END_TEST

/* The kernel's counters round: a process may have used more than was not idle. What was
 * stolen is foreign even if a process's own time has it in it. */
START_TEST(foreign_is_steal_at_least)
{
    struct cadre_load_counters begin;
    struct cadre_load load;
    long hz = sysconf(_SC_CLK_TCK);
    put_stat((struct ticks){0}, false);
    cadre_load_begin_below(root, &begin);
    age(&begin);
    put_stat((struct ticks){.idle = 110 * hz}, false);
    cadre_load_end_below(root, &begin, false, &load);
    ck_assert_double_eq(load.foreign_s, 0);
    put_stat((struct ticks){.idle = 110 * hz, .steal = 2 * hz}, false);
    cadre_load_end_below(root, &begin, false, &load);
    ck_assert_double_eq_tol(load.foreign_s, 2, 1e-9);
}
END_TEST

START_TEST(counters_that_stand_still_tell_nothing)
{
    struct cadre_load_counters begin;
    struct cadre_load load;
    put_stat((struct ticks){.user = 5, .idle = 7}, false);
    cadre_load_begin_below(root, &begin);
    age(&begin);
    cadre_load_end_below(root, &begin, false, &load);
    ck_assert(isnan(load.foreign_s));
}
END_TEST

START_TEST(children_are_our_own)
{
    struct cadre_load_counters begin;
    struct cadre_load load;
    int status;
    cadre_load_begin_below(root, &begin);
    pid_t child = fork();
    if (child == 0) {
        spin(0.1);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    cadre_load_end_below(root, &begin, false, &load);
    ck_assert_double_ge(load.own_s, 0.09);
}
END_TEST

/* Every group from the process's own up to the mount may have the limit. */
START_TEST(throttled_by_cgroup_2)
{
    struct cadre_load_counters begin;
    struct cadre_load load;
    put("proc/self/cgroup", "0::/user/job\n");
    put("sys/fs/cgroup/user/job/cpu.stat",
        "usage_usec 9\nnr_throttled 2\nthrottled_usec 1000000\n");
    put("sys/fs/cgroup/user/cpu.stat", "throttled_usec 500000\n");
    put("sys/fs/cgroup/cpu.stat", "usage_usec 77\n");
    cadre_load_begin_below(root, &begin);
    put("sys/fs/cgroup/user/job/cpu.stat", "usage_usec 9\nthrottled_usec 1250000\n");
    put("sys/fs/cgroup/user/cpu.stat", "throttled_usec 2500000\n");
    cadre_load_end_below(root, &begin, false, &load);
    ck_assert_double_eq_tol(load.throttled_s, 2.25, 1e-9);
}
END_TEST

/* In a container the group's name is the host's and its folder is not there. */
START_TEST(throttled_by_cgroup_1)
{
    struct cadre_load_counters begin;
    struct cadre_load load;
    put("proc/self/cgroup",
        "4:memory:/m\n3:cpuset:/s\n2:cpu,cpuacct:/docker/abc\n0::/\n");
    put("sys/fs/cgroup/cpu,cpuacct/cpu.stat", "nr_periods 5\nthrottled_time 100\n");
    cadre_load_begin_below(root, &begin);
    put("sys/fs/cgroup/cpu,cpuacct/cpu.stat",
        "nr_periods 9\nthrottled_time 1500000100\n");
    cadre_load_end_below(root, &begin, false, &load);
    ck_assert_double_eq_tol(load.throttled_s, 1.5, 1e-9);
}
END_TEST

START_TEST(clocks_and_heat)
{
    struct cadre_load_counters begin;
    struct cadre_load load;
    put("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2000000\n");
    put("sys/devices/system/cpu/cpu2/cpufreq/scaling_cur_freq", "3000000\n");
    put("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "7\n");
    put("sys/devices/system/cpu/cpu2/thermal_throttle/core_throttle_count", "1\n");
    cadre_load_begin_below(root, &begin);
    put("sys/devices/system/cpu/cpu2/thermal_throttle/core_throttle_count", "4\n");
    cadre_load_end_below(root, &begin, false, &load);
    ck_assert_double_eq(load.mhz, 2500);
    ck_assert_double_eq(load.thermal, 3);
}
END_TEST

/* A stand-in of nvidia-smi with two GPUs, which one other process uses. */
START_TEST(gpus_are_asked)
{
    struct cadre_load_counters begin;
    struct cadre_load load;
    char script[512], path[4096], *was = strdup(getenv("PATH"));
    snprintf(script, sizeof script,
             "#!/bin/sh\ncase $* in\n*compute-apps*) echo %d; echo 1 ;;\n"
             "*clocks.sm,power.draw,temperature.gpu*)\n"
             "echo '1410, 250.50, 61'; echo '1390, 100.25, 74' ;;\nesac\n",
             (int)getpid());
    put("nvidia-smi", script);
    snprintf(path, sizeof path, "%s/nvidia-smi", root);
    ck_assert_int_eq(chmod(path, 0755), 0);
    snprintf(path, sizeof path, "%s:%s", root, was);
    setenv("PATH", path, 1);
    cadre_load_begin_below(root, &begin);
    cadre_load_end_below(root, &begin, true, &load);
    ck_assert_double_eq(load.gpu_mhz, 1400);
    ck_assert_double_eq(load.gpu_watts, 350.75);
    ck_assert_double_eq(load.gpu_celsius, 74);
    ck_assert_double_eq(load.gpu_others, 1);

    put("nvidia-smi", "#!/bin/sh\necho '1200, [N/A], 50'\n");
    cadre_load_end_below(root, &begin, true, &load);
    ck_assert_double_eq(load.gpu_mhz, 1200);
    ck_assert(isnan(load.gpu_watts));

    put("nvidia-smi", "#!/bin/sh\necho 'No devices were found'\nexit 6\n");
    cadre_load_end_below(root, &begin, true, &load);
    ck_assert(isnan(load.gpu_mhz) && isnan(load.gpu_watts) && isnan(load.gpu_celsius));
    ck_assert(isnan(load.gpu_others));
    setenv("PATH", was, 1);
    free(was);
}
END_TEST

/* On this machine: another process's load is seen, whoever else is busy. */
START_TEST(another_process_shows)
{
    struct cadre_load_counters begin;
    struct cadre_load load;
    int to_child[2], from_child[2], status;
    char byte = 0;
    if (access("/proc/stat", R_OK) != 0)
        test_skip("this machine has no /proc/stat");
    ck_assert_int_eq(pipe(to_child), 0);
    ck_assert_int_eq(pipe(from_child), 0);
    pid_t child = fork();
    if (child == 0) {
        if (read(to_child[0], &byte, 1) != 1)
            _exit(1);
        spin(0.5);
        if (write(from_child[1], &byte, 1) != 1 || read(to_child[0], &byte, 1) != 1)
            _exit(1);
        _exit(0);
    }
    cadre_load_begin(&begin);
    ck_assert_int_eq((int)write(to_child[1], &byte, 1), 1);
    ck_assert_int_eq((int)read(from_child[0], &byte, 1), 1);
    cadre_load_end(&begin, false, &load); /* not waited for: not ours yet */
    ck_assert_int_eq((int)write(to_child[1], &byte, 1), 1);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_double_ge(load.foreign_s, 0.25);
    ck_assert_double_ge(load.wall_s, 0.4);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("load");
    TCase *tc = tcase_create("load");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, nothing_is_known_without_files);
    tcase_add_test(tc, foreign_is_what_was_not_idle_less_own);
    tcase_add_test(tc, foreign_is_steal_at_least);
    tcase_add_test(tc, counters_that_stand_still_tell_nothing);
    tcase_add_test(tc, children_are_our_own);
    tcase_add_test(tc, throttled_by_cgroup_2);
    tcase_add_test(tc, throttled_by_cgroup_1);
    tcase_add_test(tc, clocks_and_heat);
    tcase_add_test(tc, gpus_are_asked);
    tcase_add_test(tc, another_process_shows);
    suite_add_tcase(s, tc);
    return s;
}
