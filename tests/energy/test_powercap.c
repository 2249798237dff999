/* SPDX-License-Identifier: Apache-2.0 */
#include "core/energy/powercap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/path.h"
#include "tests/energy/fake_powercap.h"
#include "tests/support/check_main.h"

static const uint64_t RANGE = UINT64_C(262143328850); /* uJ, of most Intel servers */
static char *root;
static struct cadre_powercap powercap;

static void setup(void)
{
    root = test_tmpdir();
}

static void teardown(void)
{
    test_tmpdir_destroy(root);
}

/* Two packages of 150 W with their subdomains, the whole platform, and the other way to
 * the first package's counter. */
static void two_packages(uint64_t first_uj, uint64_t second_uj)
{
    fake_powercap_zone(root, "intel-rapl:0", "package-0", first_uj, RANGE, 150000000);
    fake_powercap_zone(root, "intel-rapl:0:0", "core", 7, RANGE, 0);
    fake_powercap_zone(root, "intel-rapl:0:1", "dram", 7, RANGE, 0);
    fake_powercap_zone(root, "intel-rapl:1", "package-1", second_uj, RANGE, 150000000);
    fake_powercap_zone(root, "intel-rapl:1:0", "core", 7, RANGE, 0);
    fake_powercap_zone(root, "intel-rapl:2", "psys", 7, RANGE, 0);
    fake_powercap_zone(root, "intel-rapl-mmio:0", "package-0", first_uj, RANGE, 0);
    fake_powercap_file(root, "intel-rapl", "enabled", "1\n");
}

START_TEST(packages_alone_are_counted)
{
    two_packages(1000000, 2000000);
    cadre_powercap_open(&powercap, root, 10);
    ck_assert_int_eq(powercap.n, 2);
    ck_assert_str_eq(powercap.why, "");
    /* everything moves, and only the packages' 30 J and 12.5 J count */
    two_packages(31000000, 14500000);
    fake_powercap_count(root, "intel-rapl:0:0", 20000000);
    fake_powercap_count(root, "intel-rapl:0:1", 5000000);
    fake_powercap_count(root, "intel-rapl:2", 90000000);
    ck_assert_double_eq_tol(cadre_powercap_read(&powercap, 11), 42.5, 1e-9);
    ck_assert_double_eq(cadre_powercap_read(&powercap, 12), 0);
    ck_assert_str_eq(powercap.why, "");
}
END_TEST

START_TEST(counters_begin_again)
{
    two_packages(RANGE - 4000000, 2000000);
    cadre_powercap_open(&powercap, root, 0);
    two_packages(6000000, 3000000);
    ck_assert_double_eq_tol(cadre_powercap_read(&powercap, 1), 11, 1e-9);
}
END_TEST

/* At twice the limit, 300 W, a package goes round once in 874 s. */
START_TEST(going_round_twice_is_noticed)
{
    two_packages(1000000, 2000000);
    cadre_powercap_open(&powercap, root, 0);
    two_packages(900000000, 902000000);
    ck_assert_double_eq_tol(cadre_powercap_read(&powercap, 870), 1799, 1e-6);
    two_packages(1000000000, 1002000000);
    ck_assert(isnan(cadre_powercap_read(&powercap, 870 + 880)));
    ck_assert_msg(strstr(powercap.why, "more than once in the 880 s") != NULL, "%s",
                  powercap.why);
    two_packages(1001000000, 1003000000); /* known again */
    ck_assert_double_eq_tol(cadre_powercap_read(&powercap, 1751), 2, 1e-9);
}
END_TEST

/* Without limits, as on AMD: 65,532 J at 1000 W. */
START_TEST(without_a_limit_much_is_possible)
{
    fake_powercap_zone(root, "intel-rapl:0", "package-0", 5, 65532610987, 0);
    cadre_powercap_open(&powercap, root, 0);
    ck_assert_double_eq_tol(cadre_powercap_read(&powercap, 65), 0, 1e-9);
    ck_assert(isnan(cadre_powercap_read(&powercap, 131)));
}
END_TEST

/* A counter that was set back would look as if it had gone almost round. */
START_TEST(going_back_is_not_going_round)
{
    two_packages(500000000, 2000000);
    cadre_powercap_open(&powercap, root, 0);
    two_packages(1000, 3000000);
    ck_assert(isnan(cadre_powercap_read(&powercap, 1)));
    ck_assert_str_eq(powercap.why, "the counter of package 0 went back");
}
END_TEST

static void check_unreadable(const char *wanted)
{
    cadre_powercap_open(&powercap, root, 0);
    ck_assert_int_eq(powercap.n, 0);
    ck_assert_msg(strstr(powercap.why, wanted) != NULL, "%s", powercap.why);
    ck_assert(isnan(cadre_powercap_read(&powercap, 1)));
}

START_TEST(no_counter_is_said)
{
    check_unreadable("has no energy counter of a processor (RAPL)");
    fake_powercap_zone(root, "intel-rapl:0", "psys", 7, RANGE, 0); /* no package */
    check_unreadable("has no energy counter of a processor (RAPL)");
    char *none = cadre_path_join(root, "none");
    cadre_powercap_open(&powercap, none, 0);
    ck_assert_int_eq(powercap.n, 0);
    free(none);
}
END_TEST

/* One package of two would be taken for the machine. */
START_TEST(a_package_that_cannot_be_read_is_said)
{
    two_packages(1000000, 2000000);
    fake_powercap_file(root, "intel-rapl:1", "energy_uj", "");
    check_unreadable("intel-rapl:1/energy_uj': it is empty");
    fake_powercap_file(root, "intel-rapl:1", "energy_uj", "none\n");
    check_unreadable("intel-rapl:1/energy_uj': Invalid argument");
}
END_TEST

START_TEST(what_only_root_may_read_is_said)
{
    two_packages(1000000, 2000000);
    char *dir = cadre_path_join(root, "intel-rapl:0"),
         *path = cadre_path_join(dir, "energy_uj");
    const bool is_root = geteuid() == 0; /* who may read all */
    ck_assert_int_eq(chmod(path, 0), 0);
    ck_assert_int_eq(chmod(root, 0755), 0);
    if (is_root)
        ck_assert_int_eq(seteuid(65534), 0);
    check_unreadable("intel-rapl:0/energy_uj': only root may read it");
    if (is_root)
        ck_assert_int_eq(seteuid(0), 0);
    free(path);
    free(dir);
}
END_TEST

START_TEST(a_counter_that_goes_away_is_said)
{
    two_packages(1000000, 2000000);
    cadre_powercap_open(&powercap, root, 0);
    fake_powercap_file(root, "intel-rapl:0", "energy_uj", "");
    ck_assert(isnan(cadre_powercap_read(&powercap, 1)));
    ck_assert_msg(strstr(powercap.why, "it is empty") != NULL, "%s", powercap.why);
}
END_TEST

START_TEST(the_environment_names_another_tree)
{
    two_packages(1000000, 2000000);
    setenv("CADRE_POWERCAP", root, 1);
    cadre_powercap_open(&powercap, NULL, 0);
    unsetenv("CADRE_POWERCAP");
    ck_assert_int_eq(powercap.n, 2);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("powercap");
    TCase *tc = tcase_create("powercap");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, packages_alone_are_counted);
    tcase_add_test(tc, counters_begin_again);
    tcase_add_test(tc, going_round_twice_is_noticed);
    tcase_add_test(tc, without_a_limit_much_is_possible);
    tcase_add_test(tc, going_back_is_not_going_round);
    tcase_add_test(tc, no_counter_is_said);
    tcase_add_test(tc, a_package_that_cannot_be_read_is_said);
    tcase_add_test(tc, what_only_root_may_read_is_said);
    tcase_add_test(tc, a_counter_that_goes_away_is_said);
    tcase_add_test(tc, the_environment_names_another_tree);
    suite_add_tcase(s, tc);
    return s;
}
