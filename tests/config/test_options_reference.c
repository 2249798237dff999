/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "core/config/option_set.h"
#include "tests/config/options_fixture.h"
#include "tests/support/check_main.h"

START_TEST(reference_names_every_key)
{
    char *text = NULL;
    size_t n, known;
    struct cadre_options *o = options_create();
    const struct cadre_options_view all = {0};
    FILE *file = open_memstream(&text, &n);
    size_t shown;
    ck_assert_int_eq(cadre_options_print_reference(o, &all, file, &shown, NULL),
                     CADRE_OK);
    fclose(file);
    cadre_option_table(&known);
    ck_assert_uint_eq(shown, known);
    ck_assert_ptr_nonnull(strstr(text, "[optim]\n"));
    ck_assert_ptr_nonnull(
        strstr(text, "one of constant, cosine, linear; default constant"));
    ck_assert_ptr_nonnull(strstr(text, "text; default adamw"));
    ck_assert_ptr_nonnull(strstr(text, "a whole number from 1 to 65536; default 4"));
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
        ck_assert_uint_le(strcspn(line, "\n"), 110);
    free(text);
    cadre_options_destroy(o);
}
END_TEST

/* What `pattern` shows, to be freed; *n options. */
static char *shown(const char *pattern, int columns, size_t *n)
{
    char *text = NULL;
    size_t bytes;
    struct cadre_options *o = options_create();
    const struct cadre_options_view view = {pattern, columns};
    FILE *file = open_memstream(&text, &bytes);
    ck_assert_int_eq(cadre_options_print_reference(o, &view, file, n, NULL), CADRE_OK);
    fclose(file);
    cadre_options_destroy(o);
    return text;
}

static size_t count(const char *pattern)
{
    size_t n;
    free(shown(pattern, 0, &n));
    return n;
}

START_TEST(a_pattern_chooses)
{
    size_t n;
    ck_assert_uint_eq(count("optim.lr"), 1);
    ck_assert_uint_eq(count("OPTIM.LR"), 1);
    ck_assert_uint_gt(count("optim"), 5);
    ck_assert_uint_eq(count("optim.*"), 11);
    ck_assert_uint_eq(count("optim.l?"), 1);
    ck_assert_uint_eq(count("grouped-query"), 1); /* of the help alone */
    ck_assert_uint_eq(count("--seq-length"), 1); /* Megatron-LM's */
    ck_assert_uint_eq(count("nothing of this kind"), 0);
    char *text = shown("seq_len", 0, &n);
    ck_assert_uint_eq(n, 1);
    ck_assert_ptr_nonnull(strstr(text, "[model]\n  context "));
    ck_assert_ptr_nonnull(strstr(text, "training.seq_len of TorchTitan"));
    ck_assert_ptr_null(strstr(text, "[run:NAME]"));
    free(text);
}
END_TEST

START_TEST(lines_are_as_wide_as_the_screen)
{
    size_t n;
    char *text = shown(NULL, 60, &n);
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
        ck_assert_msg(strcspn(line, "\n") <= 60 || strstr(line, "for one run"), "%.80s",
                      line);
    free(text);
}
END_TEST

START_TEST(json_has_types_and_limits)
{
    char *text = NULL;
    size_t bytes;
    struct cadre_options *o = options_create();
    const struct cadre_options_view view = {"*.schedule", 0};
    FILE *file = open_memstream(&text, &bytes);
    ck_assert_int_eq(cadre_options_print_json(o, &view, file, NULL), CADRE_OK);
    fclose(file);
    json_t *all = json_loads(text, 0, NULL), *one = json_array_get(all, 0);
    ck_assert_uint_eq(json_array_size(all), 1);
    ck_assert_str_eq(json_string_value(json_object_get(one, "key")), "optim.schedule");
    ck_assert_str_eq(json_string_value(json_object_get(one, "type")), "choice");
    ck_assert_uint_eq(json_array_size(json_object_get(one, "choices")), 3);
    ck_assert(json_is_null(json_object_get(one, "min")));
    ck_assert_uint_gt(json_array_size(json_object_get(one, "elsewhere")), 0);
    json_decref(all);
    free(text);
    cadre_options_destroy(o);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("options_reference");
    TCase *tc = options_case("options_reference");
    tcase_add_test(tc, reference_names_every_key);
    tcase_add_test(tc, a_pattern_chooses);
    tcase_add_test(tc, lines_are_as_wide_as_the_screen);
    tcase_add_test(tc, json_has_types_and_limits);
    suite_add_tcase(s, tc);
    return s;
}
