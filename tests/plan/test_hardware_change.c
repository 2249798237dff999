/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan/hardware.h"

#include <string.h>

#include "tests/plan/plan_fixture.h"
#include "tests/support/check_main.h"

static struct cadre_hardware hw;
static struct cadre_error err;

static void setup(void)
{
    hw = round_machine;
}

START_TEST(both_levels_of_links)
{
    ck_assert_int_eq(cadre_hardware_change(&hw, "link.bandwidth=+10%", &err), CADRE_OK);
    ck_assert_double_eq_tol(hw.node.bandwidth_gb_s, 110, 1e-9);
    ck_assert_double_eq_tol(hw.cluster.bandwidth_gb_s, 11, 1e-9);
    ck_assert_int_eq(cadre_hardware_change(&hw, "link:cluster.bandwidth_gb_s=x2", &err),
                     CADRE_OK);
    ck_assert_double_eq_tol(hw.node.bandwidth_gb_s, 110, 1e-9);
    ck_assert_double_eq_tol(hw.cluster.bandwidth_gb_s, 22, 1e-9);
    ck_assert_int_eq(cadre_hardware_change(&hw, "device.memory_gib=40", &err),
                     CADRE_OK);
    ck_assert_double_eq(hw.device.memory_gib, 40);
    ck_assert_int_eq(cadre_hardware_change(&hw, "node.devices=4", &err), CADRE_OK);
    ck_assert_int_eq(hw.node_devices, 4);
}
END_TEST

static const struct {
    const char *change, *why;
} wrong[] = {
    {"link.bandwidth", "expected SECTION.KEY"},
    {"bandwidth=+10%", "expected SECTION.KEY"},
    {"link.width=+10%", "no number 'width' in [link]"},
    {"link.bandwidth=10%", "is no change"},
    {"link.bandwidth=+", "is no change"},
    {"link.bandwidth=xnan", "is no change"},
    {"link.efficiency=+50%", "would be 1.5"},
    {"link.bandwidth=-100%", "would be 0"},
    {"node.devices=2.5", "whole number"},
    {"hardware.name=x2", "no number 'name'"},
    {"device.reserve_gib=80", "no memory would be left"},
};

START_TEST(refuses_and_changes_nothing)
{
    ck_assert_int_eq(cadre_hardware_change(&hw, wrong[_i].change, &err),
                     CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, wrong[_i].why) != NULL, "%s", err.text);
    ck_assert_int_eq(memcmp(&hw, &round_machine, sizeof hw), 0);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("hardware_change");
    TCase *tc = tcase_create("hardware_change");
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, both_levels_of_links);
    tcase_add_loop_test(tc, refuses_and_changes_nothing, 0,
                        (int)(sizeof wrong / sizeof *wrong));
    suite_add_tcase(s, tc);
    return s;
}
