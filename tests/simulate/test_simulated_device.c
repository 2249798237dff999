/* SPDX-License-Identifier: Apache-2.0 */
#include "core/simulate/simulated_device.h"

#include <string.h>

#include "core/simulate/op_cost.h"
#include "tests/plan/plan_fixture.h"
#include "tests/support/check_main.h"

static struct cadre_turns *turns;
static struct cadre_simulated_device *simulated;
static struct cadre_device *device;
static const struct cadre_device_ops *ops;

static void setup(void)
{
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_turns_create(1, 1, &turns, &err), CADRE_OK);
    ck_assert_int_eq(cadre_simulated_device_open(&round_machine, turns, 0,
                                                 (size_t)1 << 32, &simulated, &err),
                     CADRE_OK);
    device = &simulated->device;
    ops = device->ops;
}

static void teardown(void)
{
    cadre_simulated_device_close(simulated);
    cadre_turns_destroy(turns);
}

/* Seconds since the last look. */
static double took(void)
{
    static double before = 1;
    const double now = *cadre_turns_clock(turns, 0), took = now - before;
    before = now;
    return took;
}

/* Every op of the table is there: what is NULL would end a run. */
START_TEST(the_table_is_full)
{
    const size_t first = offsetof(struct cadre_device_ops, destroy);
    const size_t n = (sizeof *ops - first) / sizeof(void (*)(void));
    for (size_t i = 0; i < n; i++) {
        void *entry;
        memcpy(&entry, (const char *)ops + first + i * sizeof entry, sizeof entry);
        ck_assert_msg(entry, "entry %zu of %zu is NULL", i, n);
    }
    ck_assert(ops->simulated && !ops->async);
}
END_TEST

/* 1000 GB/s: copies read and write. */
START_TEST(ops_take_the_time_of_their_bytes)
{
    float *x = ops->alloc(device, 4000), *y = ops->alloc(device, 4000);
    took();
    ck_assert_int_eq(ops->copy(device, y, x, 4000), CADRE_OK);
    ck_assert_double_eq_tol(took(), 8e-9, 1e-15);
    ck_assert_int_eq(ops->zero(device, y, 4000), CADRE_OK);
    ck_assert_double_eq_tol(took(), 4e-9, 1e-15);
    ck_assert_int_eq(ops->tree_add(device, CADRE_F32, y, x, y, 1000), CADRE_OK);
    ck_assert_double_eq_tol(took(), 12e-9, 1e-15);
    const struct cadre_gemm gemm = {
        .dtype = CADRE_F32, .m = 1000, .n = 1000, .k = 1000, .a = x, .b = x, .c = y};
    ck_assert_int_eq(ops->gemm(device, &gemm), CADRE_OK);
    ck_assert_double_eq_tol(took(), 2e9 / 10e12, 1e-12);
    ck_assert_double_eq(simulated->flops, 2e9);
}
END_TEST

START_TEST(host_memory_gets_zeros_or_what_was_there)
{
    char host[64], other[64] = "text";
    char *memory = ops->alloc(device, 64), *pinned = ops->alloc_pinned(device, 64);
    memset(host, 7, sizeof host);
    memset(pinned, 7, 64);
    ck_assert_int_eq(ops->to_device(device, memory, other, 64), CADRE_OK);
    ck_assert_int_eq(ops->to_host(device, host, memory, 64), CADRE_OK);
    ck_assert_int_eq(ops->download(device, pinned, memory, 64), CADRE_OK);
    for (int i = 0; i < 64; i++)
        ck_assert(host[i] == 0 && pinned[i] == 0 && memory[i] == 0);
    ck_assert_int_eq(ops->copy(device, host, other, 64), CADRE_OK);
    ck_assert_str_eq(host, "text");
    double sum = 1;
    ck_assert_int_eq(ops->dot(device, CADRE_F32, memory, memory, 16, &sum), CADRE_OK);
    ck_assert_double_eq(sum, 0);
}
END_TEST

START_TEST(a_type_without_a_peak_is_noted)
{
    const struct cadre_gemm gemm = {.dtype = CADRE_F64, .m = 2, .n = 2, .k = 2};
    ck_assert_uint_eq(simulated->unknown, 0);
    ck_assert_int_eq(ops->gemm(device, &gemm), CADRE_OK);
    ck_assert_uint_eq(simulated->unknown, CADRE_F64);
}
END_TEST

/* 30 bytes a parameter in 16 bits: states, master value and the rounded one. */
START_TEST(an_update_passes_its_states)
{
    const struct cadre_slice slices[] = {{.count = 1000, .rounded = &turns},
                                         {.count = 500}};
    const struct cadre_adamw adamw = {
        .dtype = CADRE_F32, .rounded_dtype = CADRE_BF16, .slices = slices, .n = 2};
    took();
    ck_assert_int_eq(ops->adamw(device, &adamw), CADRE_OK);
    ck_assert_double_eq_tol(took(), (1000 * 30 + 500 * 28) / 1e12, 1e-15);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("simulated_device");
    TCase *tc = tcase_create("simulated_device");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, the_table_is_full);
    tcase_add_test(tc, ops_take_the_time_of_their_bytes);
    tcase_add_test(tc, host_memory_gets_zeros_or_what_was_there);
    tcase_add_test(tc, a_type_without_a_peak_is_noted);
    tcase_add_test(tc, an_update_passes_its_states);
    suite_add_tcase(s, tc);
    return s;
}
