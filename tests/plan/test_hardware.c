/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/hardware.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/check_main.h"

static char *dir;
static struct cadre_hardware hw;
static struct cadre_error err;

static const char good[] =
    "[hardware]\nname = x\naccounting = cadre\n"
    "[device]\npeak_bf16_tflops = 100\nmemory_gib = 80\nreserve_gib = 4\n"
    "memory_gb_s = 2000\nmemory_efficiency = 0.8\nproduct_efficiency = 0.7\n"
    "product_half_gflop = 1\nattention_efficiency = 0.4\nattention = fused\n"
    "[node]\ndevices = 8\n"
    "[link:node]\nbandwidth_gb_s = 300\nlatency_us = 4\nefficiency = 0.7\n"
    "[link:cluster]\nbandwidth_gb_s = 25\nlatency_us = 5\nefficiency = 0.8\n";

static void setup(void)
{
    dir = test_tmpdir();
}

static void teardown(void)
{
    test_tmpdir_destroy(dir);
}

/* The good file with `from` replaced by `to`. */
static cadre_status load(const char *from, const char *to)
{
    char text[2048];
    const char *at = strstr(good, from);
    ck_assert_ptr_nonnull(at);
    const int before = (int)(at - good);
    snprintf(text, sizeof text, "%.*s%s%s", before, good, to, at + strlen(from));
    return cadre_hardware_load(&hw, test_file_put(dir, "x.ini", text, strlen(text)),
                               &err);
}

START_TEST(a_file_as_it_stands)
{
    ck_assert_int_eq(load("name", "name"), CADRE_OK);
    ck_assert_str_eq(hw.name, "x");
    ck_assert_double_eq(hw.device.peak_tflops[CADRE_PLAN_BF16], 100);
    ck_assert_double_eq(hw.device.peak_tflops[CADRE_PLAN_FP8], 0);
    ck_assert_double_eq(hw.device.product_efficiency_fp8, 0.7);
    ck_assert_double_eq(hw.cluster.bandwidth_gb_s, 25);
    ck_assert_int_eq(hw.node_devices, 8);
    ck_assert(hw.device.attention_fused);
    ck_assert_double_eq(hw.software.gradient_bytes, 4);
}
END_TEST

START_TEST(a_file_extends_another)
{
    static const char more[] =
        "[hardware]\nextends = x.ini\nname = y\naccounting = megatron\n"
        "[device]\nmemory_gib = 141\n";
    ck_assert_int_eq(load("name", "name"), CADRE_OK);
    const char *path = test_file_put(dir, "y.ini", more, strlen(more));
    ck_assert_int_eq(cadre_hardware_load(&hw, path, &err), CADRE_OK);
    ck_assert_str_eq(hw.name, "y");
    ck_assert_int_eq(hw.accounting, CADRE_ACCOUNTING_MEGATRON);
    ck_assert_double_eq(hw.device.memory_gib, 141);
    ck_assert_double_eq(hw.device.memory_gb_s, 2000);
}
END_TEST

static const struct {
    const char *from, *to, *why;
} wrong[] = {
    {"memory_gib", "memory_gb",
     "x.ini:6: unknown key 'memory_gb' of [device], did you "
     "mean 'memory_gib'"},
    {"[node]\n", "[nodes]\n", "unknown key 'devices' of [nodes]"},
    {"bandwidth_gb_s = 25\n", "", "no bandwidth_gb_s in [link:cluster]"},
    {"bandwidth_gb_s = 300\n", "", "no bandwidth_gb_s in [link:node]"},
    {"peak_bf16_tflops = 100\n", "", "no peak_bf16_tflops in [device]"},
    {"gb_s = 25", "gb_s = 0",
     "link:cluster.bandwidth_gb_s is '0', expected a number "
     "above 0"},
    {"gb_s = 25", "gb_s = 25 GB", "is '25 GB', expected a number"},
    {"gb_s = 25", "gb_s = nan", "is 'nan', expected a number"},
    {"devices = 8", "devices = 2.5", "expected a whole number"},
    {"efficiency = 0.8", "efficiency = 80", "expected a number above 0 and at most 1"},
    {"accounting = cadre", "accounting = mine", "expected cadre, megatron or zero2019"},
    {"attention = fused", "attention = flash", "expected unfused, fused"},
    {"reserve_gib = 4", "reserve_gib = 80", "nothing is left"},
    {"name = x", "name = x\nextends = none.ini", "none.ini"},
    {"name = x", "name = x\nextends = x.ini", "more than 4 files"},
};

START_TEST(refuses)
{
    ck_assert_int_eq(load(wrong[_i].from, wrong[_i].to), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, wrong[_i].why) != NULL, "%s", err.text);
}
END_TEST

START_TEST(a_file_that_is_not_there)
{
    ck_assert_int_eq(cadre_hardware_load(&hw, "none/x.ini", &err), CADRE_E_INVALID);
}
END_TEST

START_TEST(names_of_dtypes)
{
    for (int i = 0; i < CADRE_PLAN_DTYPES; i++)
        ck_assert_int_eq(
            cadre_plan_dtype_find(cadre_plan_dtype_name((enum cadre_plan_dtype)i)), i);
    ck_assert_int_eq(cadre_plan_dtype_find("int8"), -1);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("hardware");
    TCase *tc = tcase_create("hardware");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_file_as_it_stands);
    tcase_add_test(tc, a_file_extends_another);
    tcase_add_loop_test(tc, refuses, 0, (int)(sizeof wrong / sizeof *wrong));
    tcase_add_test(tc, a_file_that_is_not_there);
    tcase_add_test(tc, names_of_dtypes);
    suite_add_tcase(s, tc);
    return s;
}
