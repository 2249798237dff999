/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/text_table.h"

#include <string.h>

#include "tests/support/check_main.h"

static const bool is_text[] = {true, false, true};
static const size_t spare[] = {1, 2};
static const char *const cells[] = {"run",       "loss",  "state", /* the heads */
                                    "o\xc3\xa4", "2.5",   "finished",
                                    "three",     "10.25", ""};

/* The nine cells in lines of `screen` characters. */
static void prints(int screen, bool rule, const char *expected, const char *left)
{
    struct cadre_text_table table = {
        .columns = 3, .is_text = is_text, .spare = spare, .n_spare = 2, .rule = rule};
    struct cadre_text out = {0}, left_out = {0};
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i += table.columns)
        cadre_text_table_add_row(&table, &cells[i]);
    cadre_text_table_print(&table, screen, &out, &left_out);
    ck_assert_str_eq(cadre_text_str(&out), expected);
    ck_assert_str_eq(cadre_text_str(&left_out), left);
    ck_assert(!out.failed);
    cadre_text_table_fini(&table);
    cadre_text_fini(&out);
    cadre_text_fini(&left_out);
}

START_TEST(numbers_are_aligned_to_the_right)
{
    prints(80, false,
           "run     loss  state\n"
           "o\xc3\xa4       2.5  finished\n"
           "three  10.25\n",
           "");
}
END_TEST

START_TEST(a_rule_is_as_long_as_the_table)
{
    prints(22, true,
           "run     loss  state\n"
           "----------------------\n"
           "o\xc3\xa4       2.5  finished\n"
           "three  10.25\n",
           "");
}
END_TEST

START_TEST(spare_columns_go_in_their_order)
{
    prints(21, false, "run    state\no\xc3\xa4     finished\nthree\n", "loss");
    prints(14, false, "run\no\xc3\xa4\nthree\n", "loss, state");
    prints(1, false, "run\no\xc3\xa4\nthree\n", "loss, state"); /* the first stays */
}
END_TEST

START_TEST(columns_that_do_not_fit_stand_below)
{
    static const char *const wrapped[] = {
        "run     loss  state\no\xc3\xa4       2.5  finished\nthree  10.25\n",
        "run     loss\no\xc3\xa4       2.5\nthree  10.25\n\n"
        "run    state\no\xc3\xa4     finished\nthree\n"};
    static const int screens[][2] = {{22, 0}, {21, 1}, {15, 1}, {1, 1}};
    for (size_t i = 0; i < sizeof screens / sizeof *screens; i++) {
        struct cadre_text_table table = {.columns = 3,
                                         .is_text = is_text,
                                         .spare = spare,
                                         .n_spare = 2,
                                         .wraps = true};
        struct cadre_text out = {0}, left_out = {0};
        for (size_t k = 0; k < sizeof cells / sizeof *cells; k++)
            cadre_text_table_add(&table, cells[k]);
        cadre_text_table_print(&table, screens[i][0], &out, &left_out);
        ck_assert_str_eq(cadre_text_str(&out), wrapped[screens[i][1]]);
        ck_assert(left_out.len == 0);
        cadre_text_table_fini(&table);
        cadre_text_fini(&out);
    }
}
END_TEST

START_TEST(a_table_without_cells_is_empty)
{
    struct cadre_text_table table = {.columns = 3, .is_text = is_text};
    struct cadre_text out = {0}, left_out = {0};
    cadre_text_table_print(&table, 80, &out, &left_out);
    ck_assert(out.len == 0 && left_out.len == 0 && !out.failed);
    cadre_text_table_fini(&table);
}
END_TEST

START_TEST(a_file_gets_all_columns)
{
    char long_cell[301], read[512];
    FILE *to = tmpfile();
    struct cadre_text_table table = {.columns = 3, .is_text = is_text, .wraps = true};
    memset(long_cell, 'x', 300);
    long_cell[300] = 0;
    ck_assert_ptr_nonnull(to);
    cadre_text_table_add(&table, "run");
    cadre_text_table_addf(&table, "%.2f", 2.5);
    cadre_text_table_add(&table, long_cell);
    ck_assert(cadre_text_table_write(&table, to));
    rewind(to);
    ck_assert_ptr_nonnull(fgets(read, sizeof read, to));
    ck_assert_uint_eq(strlen(read), strlen("run  2.50  ") + 300 + 1);
    ck_assert_int_eq(strncmp(read, "run  2.50  x", 12), 0);
    ck_assert_ptr_null(fgets(read, sizeof read, to));
    fclose(to);
    cadre_text_table_fini(&table);
}
END_TEST

START_TEST(a_lost_cell_fails_the_text)
{
    const struct cadre_text_table table = {
        .columns = 3, .is_text = is_text, .failed = true};
    struct cadre_text out = {0}, left_out = {0};
    cadre_text_table_print(&table, 80, &out, &left_out);
    ck_assert(out.failed && out.len == 0);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("text_table");
    TCase *tc = tcase_create("text_table");
    tcase_add_test(tc, numbers_are_aligned_to_the_right);
    tcase_add_test(tc, a_rule_is_as_long_as_the_table);
    tcase_add_test(tc, spare_columns_go_in_their_order);
    tcase_add_test(tc, columns_that_do_not_fit_stand_below);
    tcase_add_test(tc, a_table_without_cells_is_empty);
    tcase_add_test(tc, a_file_gets_all_columns);
    tcase_add_test(tc, a_lost_cell_fails_the_text);
    suite_add_tcase(s, tc);
    return s;
}
