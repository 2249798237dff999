/* SPDX-License-Identifier: Apache-2.0 */
#include "core/simulate/reserve.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/memory.h"
#include "tests/support/check_main.h"

#define GIB ((size_t)1 << 30)

static struct cadre_reserve *reserve;

static void setup(void)
{
    struct cadre_error err = {0};
    ck_assert_msg(cadre_reserve_open(64 * GIB, &reserve, &err) == CADRE_OK, "%s",
                  err.text);
}

static void teardown(void)
{
    cadre_reserve_close(reserve);
}

START_TEST(blocks_are_apart_and_read_as_zeros)
{
    char *a = cadre_reserve_alloc(reserve, 100);
    char *b = cadre_reserve_alloc(reserve, 5 * GIB);
    char *c = cadre_reserve_alloc(reserve, 0);
    ck_assert(a && b && c);
    ck_assert((uintptr_t)a % 4096 == 0 && (uintptr_t)b % 4096 == 0);
    ck_assert(a + 100 <= b && b + 5 * GIB <= c);
    ck_assert(cadre_reserve_holds(reserve, a) && cadre_reserve_holds(reserve, c));
    ck_assert(!cadre_reserve_holds(reserve, &reserve));
    ck_assert(b[0] == 0 && b[5 * GIB - 1] == 0);
}
END_TEST

/* What is released is given again, without what was written into it. */
START_TEST(space_is_used_again)
{
    char *a = cadre_reserve_alloc(reserve, 3 * 4096);
    char *b = cadre_reserve_alloc(reserve, 4096);
    memset(a, 7, 3 * 4096);
    cadre_reserve_free(reserve, a);
    char *big = cadre_reserve_alloc(reserve, 4 * 4096); /* not before b */
    char *again = cadre_reserve_alloc(reserve, 2 * 4096);
    ck_assert(big > b);
    ck_assert_ptr_eq(again, a);
    for (int i = 0; i < 2 * 4096; i++)
        ck_assert(again[i] == 0);
    cadre_reserve_free(reserve, NULL);
}
END_TEST

START_TEST(what_does_not_fit_is_null)
{
    ck_assert_ptr_null(cadre_reserve_alloc(reserve, 65 * GIB));
    ck_assert_ptr_nonnull(cadre_reserve_alloc(reserve, 63 * GIB));
    ck_assert_ptr_null(cadre_reserve_alloc(reserve, 2 * GIB));
    ck_assert_ptr_null(cadre_reserve_alloc(reserve, SIZE_MAX));
}
END_TEST

START_TEST(clearing_leaves_what_is_beside)
{
    char *a = cadre_reserve_alloc(reserve, 4 * 4096);
    memset(a, 1, 4 * 4096);
    cadre_reserve_clear(reserve, a + 100, 3 * 4096 - 200);
    ck_assert(a[99] == 1 && a[100] == 0 && a[2 * 4096] == 0);
    ck_assert(a[3 * 4096 - 101] == 0 && a[3 * 4096 - 100] == 1);
    cadre_reserve_clear(reserve, a + 3 * 4096 + 10, 20);
    ck_assert(a[3 * 4096 + 9] == 1 && a[3 * 4096 + 10] == 0 && a[3 * 4096 + 29] == 0 &&
              a[3 * 4096 + 30] == 1);
}
END_TEST

/* 60 GiB are held, and read in places, in a few MiB of memory. */
START_TEST(it_takes_no_memory)
{
    uint64_t before, after;
    volatile char sum = 0;
    cadre_memory_resident(&before, NULL);
    char *a = cadre_reserve_alloc(reserve, 60 * GIB);
    ck_assert_ptr_nonnull(a);
    for (size_t i = 0; i < 60 * GIB; i += GIB)
        sum = (char)(sum + a[i]);
    cadre_reserve_clear(reserve, a, 60 * GIB);
    cadre_memory_resident(&after, NULL);
    ck_assert_int_eq(sum, 0);
    ck_assert_uint_lt(after, before + (64u << 20));
}
END_TEST

/* Of the host's memory, too. */
START_TEST(zeros_are_not_written)
{
    uint64_t before, after;
    char *a = mmap(NULL, GIB, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert(a != MAP_FAILED);
    a[5000] = a[GIB - 1] = 1;
    cadre_memory_resident(&before, NULL);
    cadre_reserve_zero(a + 1, GIB - 1);
    cadre_memory_resident(&after, NULL);
    ck_assert(a[0] == 0 && a[5000] == 0 && a[GIB - 1] == 0);
    ck_assert_uint_lt(after, before + (64u << 20));
    munmap(a, GIB);
}
END_TEST

START_TEST(more_than_the_system_has_is_one_line)
{
    struct cadre_reserve *none = NULL;
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_reserve_open((size_t)1 << 62, &none, &err),
                     CADRE_E_RESOURCE);
    ck_assert_ptr_nonnull(strstr(err.text, "address space"));
    ck_assert_ptr_null(strchr(err.text, '\n'));
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("reserve");
    TCase *tc = tcase_create("reserve");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, blocks_are_apart_and_read_as_zeros);
    tcase_add_test(tc, space_is_used_again);
    tcase_add_test(tc, what_does_not_fit_is_null);
    tcase_add_test(tc, clearing_leaves_what_is_beside);
    tcase_add_test(tc, it_takes_no_memory);
    tcase_add_test(tc, zeros_are_not_written);
    tcase_add_test(tc, more_than_the_system_has_is_one_line);
    suite_add_tcase(s, tc);
    return s;
}
