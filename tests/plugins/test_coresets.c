/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/mig/coresets.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/check_main.h"

#define MOST 64

static uint32_t cpus[MOST], set[MOST];
static uint64_t cores[MOST];

/* n CPUs from `first` on, `threads` per core, numbered like the kernel does: CPU i
 * and CPU i + n / threads are siblings. */
static void number(uint32_t first, uint32_t n, uint32_t threads)
{
    for (uint32_t i = 0; i < n; i++) {
        cpus[i] = first + i;
        cores[i] = first + i % (n / threads);
    }
}

START_TEST(sets_are_disjoint_equal_and_of_ours)
{
    for (uint32_t n = 1; n <= 9; n++)
        for (uint32_t sets = 1; sets <= n; sets++) {
            bool taken[MOST] = {false};
            number(3, n, 1);
            for (uint32_t s = 0; s < sets; s++) {
                ck_assert_uint_eq(
                    mig_coresets_partition(cpus, cores, n, sets, NULL, s, set),
                    n / sets);
                for (uint32_t i = 0; i < n / sets; i++) {
                    ck_assert_uint_eq(set[i], 3 + s * (n / sets) + i);
                    ck_assert(!taken[set[i]]);
                    taken[set[i]] = true;
                }
            }
        }
}
END_TEST

START_TEST(siblings_stay_together)
{
    char text[64];
    number(0, 8, 2);
    ck_assert_uint_eq(mig_coresets_partition(cpus, cores, 8, 2, NULL, 0, set), 4);
    mig_coresets_print(set, 4, text, sizeof text);
    ck_assert_str_eq(text, "0,4,1,5");
    ck_assert_uint_eq(mig_coresets_partition(cpus, cores, 8, 2, NULL, 1, set), 4);
    mig_coresets_print(set, 4, text, sizeof text);
    ck_assert_str_eq(text, "2,6,3,7");
    /* three sets of whole cores: the fourth core is unused */
    ck_assert_uint_eq(mig_coresets_partition(cpus, cores, 8, 3, NULL, 2, set), 2);
    mig_coresets_print(set, 2, text, sizeof text);
    ck_assert_str_eq(text, "2,6");
    /* more sets than cores: cores are divided, and still no CPU is in two sets */
    ck_assert_uint_eq(mig_coresets_partition(cpus, cores, 8, 8, NULL, 1, set), 1);
    ck_assert_uint_eq(set[0], 4);
}
END_TEST

/* A mask that has one thread of some cores and two of others. */
START_TEST(uneven_cores_give_equal_sets)
{
    number(0, 8, 2);
    cpus[5] = 6; /* without CPU 5 */
    cpus[6] = 7;
    cores[5] = 2;
    cores[6] = 3;
    for (uint32_t s = 0; s < 2; s++)
        ck_assert_uint_eq(mig_coresets_partition(cpus, cores, 7, 2, NULL, s, set), 3);
}
END_TEST

/* Of sizes 3 and 1, and 1, 2 and 1: the CPUs of a part, contiguous and disjoint. */
START_TEST(sets_have_their_sizes)
{
    static const uint32_t two[] = {3, 1}, three[] = {1, 2, 1};
    char text[64];
    number(0, 9, 1); /* two a part, and one is left over */
    ck_assert_uint_eq(mig_coresets_partition(cpus, cores, 9, 2, two, 0, set), 6);
    mig_coresets_print(set, 6, text, sizeof text);
    ck_assert_str_eq(text, "0-5");
    ck_assert_uint_eq(mig_coresets_partition(cpus, cores, 9, 2, two, 1, set), 2);
    mig_coresets_print(set, 2, text, sizeof text);
    ck_assert_str_eq(text, "6-7");
    number(0, 8, 2); /* whole cores */
    ck_assert_uint_eq(mig_coresets_partition(cpus, cores, 8, 3, three, 1, set), 4);
    mig_coresets_print(set, 4, text, sizeof text);
    ck_assert_str_eq(text, "1,5,2,6");
    ck_assert_uint_eq(mig_coresets_partition(cpus, cores, 8, 3, three, 2, set), 2);
    ck_assert_uint_eq(set[0], 3);
    number(0, 3, 1);
    ck_assert_uint_eq(mig_coresets_partition(cpus, cores, 3, 2, two, 0, set), 0);
}
END_TEST

START_TEST(more_sets_than_cpus_are_none)
{
    number(0, 4, 1);
    ck_assert_uint_eq(mig_coresets_partition(cpus, cores, 4, 5, NULL, 0, set), 0);
    ck_assert_uint_eq(mig_coresets_partition(cpus, cores, 4, 0, NULL, 0, set), 0);
    ck_assert_uint_eq(mig_coresets_partition(cpus, cores, 4, 2, NULL, 2, set), 0);
    ck_assert_uint_eq(mig_coresets_partition(cpus, cores, 0, 1, NULL, 0, set), 0);
}
END_TEST

static void write_topology(const char *sys, uint32_t cpu, const char *name,
                           const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/cpu%u", sys, cpu);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/cpu%u/topology", sys, cpu);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/cpu%u/topology/%s", sys, cpu, name);
    test_file_write(path, text, strlen(text));
}

START_TEST(topology_is_read)
{
    char sys[] = "/tmp/test_coresets.XXXXXX", command[64];
    ck_assert_ptr_nonnull(mkdtemp(sys));
    write_topology(sys, 0, "thread_siblings_list", "0,2\n");
    write_topology(sys, 0, "physical_package_id", "1\n");
    write_topology(sys, 2, "thread_siblings_list", "0,2\n");
    write_topology(sys, 2, "physical_package_id", "1\n");
    write_topology(sys, 1, "thread_siblings_list", "1\n");
    write_topology(sys, 1, "physical_package_id", "0\n");
    write_topology(sys, 3, "thread_siblings_list", "nonsense\n");
    number(0, 5, 1);
    mig_coresets_read(sys, cpus, 5, cores);
    ck_assert(cores[0] == cores[2]);
    ck_assert(cores[1] < cores[0]); /* package 0 comes first */
    ck_assert_uint_eq(cores[3], 3);
    ck_assert_uint_eq(cores[4], 4); /* nothing is known of it */
    snprintf(command, sizeof command, "rm -rf %s", sys);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

START_TEST(lists_are_short)
{
    char text[8];
    const uint32_t list[] = {0, 1, 2, 5, 7, 8, 100000, 200000};
    mig_coresets_print(list, 4, text, sizeof text);
    ck_assert_str_eq(text, "0-2,5");
    mig_coresets_print(list, 8, text, sizeof text); /* does not fit */
    ck_assert_uint_eq(strlen(text), 7);
    mig_coresets_print(list, 0, text, sizeof text);
    ck_assert_str_eq(text, "");
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("coresets");
    TCase *tc = tcase_create("coresets");
    tcase_add_test(tc, sets_are_disjoint_equal_and_of_ours);
    tcase_add_test(tc, siblings_stay_together);
    tcase_add_test(tc, uneven_cores_give_equal_sets);
    tcase_add_test(tc, sets_have_their_sizes);
    tcase_add_test(tc, more_sets_than_cpus_are_none);
    tcase_add_test(tc, topology_is_read);
    tcase_add_test(tc, lists_are_short);
    suite_add_tcase(suite, tc);
    return suite;
}
