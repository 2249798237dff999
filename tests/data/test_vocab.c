/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "core/data/tokenizer/vocab.h"
#include "tests/support/check_main.h"

START_TEST(finds_what_was_set)
{
    struct cadre_vocab vocab;
    char text[16];
    size_t size = 0;
    ck_assert_int_eq(cadre_vocab_init(&vocab, 1000), CADRE_OK);
    for (int id = 999; id >= 0; id--) {
        int n = snprintf(text, sizeof text, "w%d", id * 7);
        ck_assert_int_eq(cadre_vocab_set(&vocab, id, text, (size_t)n), CADRE_OK);
    }
    for (int id = 0; id < 1000; id++) {
        int n = snprintf(text, sizeof text, "w%d", id * 7);
        ck_assert_int_eq(cadre_vocab_find(&vocab, text, (size_t)n), id);
        ck_assert_mem_eq(cadre_vocab_get(&vocab, id, &size), text, (size_t)n);
        ck_assert_uint_eq(size, (size_t)n);
    }
    ck_assert_int_eq(cadre_vocab_find(&vocab, "w1", 2), -1);
    ck_assert_int_eq(cadre_vocab_find(&vocab, "", 0), -1);
    cadre_vocab_fini(&vocab);
}
END_TEST

START_TEST(refuses_ids_out_of_range_or_twice)
{
    struct cadre_vocab vocab;
    size_t size = 0;
    ck_assert_int_eq(cadre_vocab_init(&vocab, 2), CADRE_OK);
    ck_assert_int_eq(cadre_vocab_set(&vocab, -1, "a", 1), CADRE_E_INVALID);
    ck_assert_int_eq(cadre_vocab_set(&vocab, 2, "a", 1), CADRE_E_INVALID);
    ck_assert_int_eq(cadre_vocab_set(&vocab, 1, "a\0b", 3), CADRE_OK);
    ck_assert_int_eq(cadre_vocab_set(&vocab, 1, "b", 1), CADRE_E_INVALID);
    ck_assert_ptr_null(cadre_vocab_get(&vocab, 0, &size));
    ck_assert_ptr_null(cadre_vocab_get(&vocab, 2, &size));
    ck_assert_int_eq(cadre_vocab_find(&vocab, "a\0b", 3), 1);
    ck_assert_int_eq(cadre_vocab_find(&vocab, "a", 1), -1);
    ck_assert_int_eq(cadre_vocab_set(&vocab, 0, "a\0b", 3), CADRE_OK);
    ck_assert_int_eq(cadre_vocab_find(&vocab, "a\0b", 3), 1);
    cadre_vocab_fini(&vocab);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("vocab");
    TCase *tc = tcase_create("vocab");
    tcase_add_test(tc, finds_what_was_set);
    tcase_add_test(tc, refuses_ids_out_of_range_or_twice);
    suite_add_tcase(suite, tc);
    return suite;
}
