/* SPDX-License-Identifier: Apache-2.0 */
/* NVML's energy counter, over the stand-in of the driver's library. */
#include "core/energy/gpu_counter.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"

static char *dir;
static struct cadre_gpu_counter counter;

static void choose(const char *file, const char *machine)
{
    char path[1024];
    const char *build = getenv("CADRE_BUILD");
    snprintf(path, sizeof path, "%s/tests/support/fake_nvml/.libs/%s.so",
             build ? build : ".", file);
    setenv("CADRE_NVML", path, 1);
    setenv("CADRE_FAKE_NVML", machine, 1);
    unsetenv("CADRE_FAKE_NVML_STATE");
}

static void setup(void)
{
    dir = test_tmpdir();
    choose("fake_nvml", "a100-40 off; h100-80 0@0");
}

static void teardown(void)
{
    cadre_gpu_counter_close(&counter);
    test_tmpdir_destroy(dir);
}

static void count(const char *millijoules)
{
    setenv("CADRE_FAKE_NVML_ENERGY",
           test_file_put(dir, "energy", millijoules, strlen(millijoules)), 1);
}

START_TEST(joules_of_the_gpu_at_that_address)
{
    count("1000 500\n");
    cadre_gpu_counter_open(&counter, "0000:01:00.0");
    ck_assert_str_eq(counter.why, "");
    ck_assert(!counter.mig);
    count("251500 700\n");
    ck_assert_double_eq_tol(cadre_gpu_counter_read(&counter), 250.5, 1e-9);
    ck_assert_double_eq(cadre_gpu_counter_read(&counter), 0);
}
END_TEST

START_TEST(with_mig_it_is_the_whole_gpu)
{
    count("1000 500\n");
    cadre_gpu_counter_open(&counter, "0000:02:00.0");
    ck_assert(counter.mig);
    count("1000 2500\n");
    ck_assert_double_eq_tol(cadre_gpu_counter_read(&counter), 2, 1e-9);
}
END_TEST

static void check_unknown(const char *pci, const char *wanted)
{
    cadre_gpu_counter_open(&counter, pci);
    ck_assert_msg(strstr(counter.why, wanted) != NULL, "%s", counter.why);
    ck_assert_ptr_null(counter.library);
    ck_assert(isnan(cadre_gpu_counter_read(&counter)));
}

START_TEST(what_is_not_there_is_said)
{
    count("1000\n");
    check_unknown("", "PCI address is not known");
    check_unknown("0000:09:00.0", "nvmlDeviceGetHandleByPciBusId_v2: NVML refused (6)");
    check_unknown("0000:02:00.0", "this GPU has no such counter (3)");
    choose("fake_nvml_old", "a100-40");
    check_unknown("0000:01:00.0", "NVML has no nvmlDeviceGetTotalEnergyConsumption");
    choose("fake_nvml", "a100-40");
    setenv("CADRE_FAKE_NVML_FAULT", "init=4", 1);
    check_unknown("0000:01:00.0", "nvmlInit_v2: no permission (4)");
    unsetenv("CADRE_FAKE_NVML_FAULT");
    setenv("CADRE_NVML", "/nowhere/libnvidia-ml.so.1", 1);
    check_unknown("0000:01:00.0", "'/nowhere/libnvidia-ml.so.1' cannot be opened");
}
END_TEST

START_TEST(a_driver_that_was_loaded_anew_is_noticed)
{
    count("1000\n");
    cadre_gpu_counter_open(&counter, "0000:01:00.0");
    count("10\n");
    ck_assert(isnan(cadre_gpu_counter_read(&counter)));
    ck_assert_str_eq(counter.why, "the GPU's energy counter went back");
    count("1010\n");
    ck_assert_double_eq_tol(cadre_gpu_counter_read(&counter), 1, 1e-9);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("gpu_counter");
    TCase *tc = tcase_create("gpu_counter");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, joules_of_the_gpu_at_that_address);
    tcase_add_test(tc, with_mig_it_is_the_whole_gpu);
    tcase_add_test(tc, what_is_not_there_is_said);
    tcase_add_test(tc, a_driver_that_was_loaded_anew_is_noticed);
    suite_add_tcase(s, tc);
    return s;
}
