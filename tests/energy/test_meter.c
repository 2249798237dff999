/* SPDX-License-Identifier: Apache-2.0 */
#include "core/energy/meter.h"

#include <math.h>
#include <string.h>

#include "tests/energy/fake_powercap.h"
#include "tests/support/check_main.h"

static char *root;
static struct cadre_meter meter;

static void count(uint64_t joules)
{
    fake_powercap_zone(root, "intel-rapl:0", "package-0", joules * 1000000,
                       262143328850, 150000000);
}

static void setup(void)
{
    root = test_tmpdir();
    count(100);
    cadre_meter_open(&meter, root, NULL, 50);
}

static void teardown(void)
{
    cadre_meter_close(&meter);
    test_tmpdir_destroy(root);
}

/* The clock is the test's own. */
START_TEST(steps_are_told_apart_from_the_rest)
{
    count(110);
    cadre_meter_enter(&meter, CADRE_METER_STEPS, 52); /* 10 J in 2 s of set-up */
    count(130);
    cadre_meter_step(&meter, 53.5);
    cadre_meter_step(&meter, 54);
    count(160);
    cadre_meter_enter(&meter, CADRE_METER_OTHER, 55); /* 50 J in 3 s of steps */
    count(167);
    cadre_meter_step(&meter, 56); /* none of them */
    cadre_meter_enter(&meter, CADRE_METER_STEPS, 57); /* 7 J in 2 s */
    count(175);
    cadre_meter_enter(&meter, CADRE_METER_STEPS, 57.5); /* it is already */
    cadre_meter_step(&meter, 57.6);
    cadre_meter_read(&meter, 58); /* 8 J in 1 s */
    ck_assert_int_eq(meter.steps, 3);
    ck_assert_double_eq_tol(meter.package_j[CADRE_METER_STEPS], 58, 1e-9);
    ck_assert_double_eq_tol(meter.package_j[CADRE_METER_OTHER], 17, 1e-9);
    ck_assert_double_eq_tol(meter.seconds[CADRE_METER_STEPS], 4, 1e-9);
    ck_assert_double_eq_tol(meter.seconds[CADRE_METER_OTHER], 4, 1e-9);
    ck_assert(!meter.has_gpu && meter.gpu_j[CADRE_METER_STEPS] == 0);
}
END_TEST

/* Short steps do not read the counter each time: what stands there in between is lost.
 */
START_TEST(a_second_passes_between_two_readings)
{
    cadre_meter_enter(&meter, CADRE_METER_STEPS, 51);
    for (int i = 0; i < 9; i++) {
        fake_powercap_file(root, "intel-rapl:0", "energy_uj", "not to be read\n");
        cadre_meter_step(&meter, 51.1 + 0.1 * i);
    }
    ck_assert_double_eq(meter.last_s, 51);
    count(142);
    cadre_meter_step(&meter, 52);
    ck_assert_double_eq(meter.last_s, 52);
    ck_assert_double_eq_tol(meter.package_j[CADRE_METER_STEPS], 42, 1e-9);
    ck_assert_int_eq(meter.steps, 10);
}
END_TEST

/* What is not known of one part does not hide the other. */
START_TEST(a_long_evaluation_hides_no_step)
{
    cadre_meter_enter(&meter, CADRE_METER_STEPS, 51);
    count(120);
    cadre_meter_enter(&meter, CADRE_METER_OTHER, 52);
    cadre_meter_enter(&meter, CADRE_METER_STEPS, 52 + 900); /* it may have gone round */
    count(150);
    cadre_meter_read(&meter, 960);
    ck_assert_double_eq_tol(meter.package_j[CADRE_METER_STEPS], 50, 1e-9);
    ck_assert(isnan(meter.package_j[CADRE_METER_OTHER]));
    ck_assert(*meter.packages.why);
}
END_TEST

START_TEST(without_a_counter_nothing_is_known)
{
    cadre_meter_open(&meter, "/nowhere", "", 0);
    cadre_meter_enter(&meter, CADRE_METER_STEPS, 1);
    cadre_meter_enter(&meter, CADRE_METER_OTHER, 2);
    ck_assert(isnan(meter.package_j[CADRE_METER_STEPS]));
    ck_assert(isnan(meter.gpu_j[CADRE_METER_STEPS]));
    ck_assert(*meter.packages.why && *meter.gpu.why);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("meter");
    TCase *tc = tcase_create("meter");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, steps_are_told_apart_from_the_rest);
    tcase_add_test(tc, a_second_passes_between_two_readings);
    tcase_add_test(tc, a_long_evaluation_hides_no_step);
    tcase_add_test(tc, without_a_counter_nothing_is_known);
    suite_add_tcase(s, tc);
    return s;
}
