/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/arena.h"

#include <stdint.h>
#include <string.h>

#include "tests/support/check_main.h"

START_TEST(bumps_aligned_and_stops_when_full)
{
    struct cadre_arena a;
    ck_assert_int_eq(cadre_arena_init(&a, 200, NULL), CADRE_OK);
    unsigned char *p = cadre_arena_alloc(&a, 1);
    unsigned char *q = cadre_arena_alloc(&a, 65);
    ck_assert_uint_eq((uintptr_t)p % CADRE_ARENA_ALIGN, 0);
    ck_assert_ptr_eq(q, p + 64);
    ck_assert_uint_eq(q[64], 0);
    ck_assert_ptr_nonnull(cadre_arena_alloc(&a, 64));
    ck_assert_ptr_null(cadre_arena_alloc(&a, 1));
    ck_assert_ptr_null(cadre_arena_alloc(&a, SIZE_MAX));
    cadre_arena_fini(&a);
    cadre_arena_fini(&a);
}
END_TEST

START_TEST(release_rewinds_and_high_water_stays)
{
    struct cadre_arena a;
    ck_assert_int_eq(cadre_arena_init(&a, 4096, NULL), CADRE_OK);
    void *first = cadre_arena_alloc(&a, 100);
    size_t mark = cadre_arena_mark(&a);
    void *second = cadre_arena_alloc(&a, 1000);
    cadre_arena_release(&a, mark);
    ck_assert_ptr_eq(cadre_arena_alloc(&a, 10), second);
    cadre_arena_release(&a, 0);
    ck_assert_ptr_eq(cadre_arena_alloc(&a, 1), first);
    ck_assert_uint_eq(a.high_bytes, cadre_arena_need(100) + cadre_arena_need(1000));
    cadre_arena_fini(&a);
}
END_TEST

START_TEST(large_arena_is_whole_and_zero)
{
    struct cadre_arena a;
    size_t bytes = (size_t)5 << 20;
    ck_assert_int_eq(cadre_arena_init(&a, bytes, NULL), CADRE_OK);
    unsigned char *p = cadre_arena_alloc(&a, bytes);
    ck_assert_ptr_nonnull(p);
    ck_assert(p[0] == 0 && p[bytes - 1] == 0 && p[bytes / 2] == 0);
    memset(p, 1, bytes);
    cadre_arena_fini(&a);
}
END_TEST

START_TEST(impossible_size_is_an_error)
{
    struct cadre_arena a;
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_arena_init(&a, SIZE_MAX - 10, &err), CADRE_E_RESOURCE);
    ck_assert_ptr_nonnull(
        strstr(err.text, "cannot reserve 18446744073709551605 bytes"));
    ck_assert_ptr_null(cadre_arena_alloc(&a, 1));
    cadre_arena_fini(&a);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("arena");
    TCase *tc = tcase_create("arena");
    tcase_add_test(tc, bumps_aligned_and_stops_when_full);
    tcase_add_test(tc, release_rewinds_and_high_water_stays);
    tcase_add_test(tc, large_arena_is_whole_and_zero);
    tcase_add_test(tc, impossible_size_is_an_error);
    suite_add_tcase(s, tc);
    return s;
}
