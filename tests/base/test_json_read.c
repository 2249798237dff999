/* SPDX-License-Identifier: Apache-2.0 */
/* Each allocation of the parser fails once; each fault of a text is one of the text. */
#include "core/base/json_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/path.h"
#include "tests/support/check_main.h"

static int left; /* allocations until one fails; negative: none does */

static void *allocate(size_t bytes)
{
    if (left-- != 0)
        return malloc(bytes);
    errno = ENOMEM;
    return NULL;
}

/* Before the reader takes jansson's functions to watch them, which it does once. */
static void allocate_all(void)
{
    static bool done;
    if (!done)
        json_set_alloc_funcs(allocate, free); /* of jansson alone */
    done = true;
}

START_TEST(no_memory_is_told_from_bad_text)
{
    /* longer keys than 16 bytes too: there jansson itself would crash */
    static const char good[] =
        "{\"a\": [1, 2.5, \"text\\u00e9\", {\"b\": null}], \"a_key_of_some_length\": "
        "\"and a text that is longer than its first room\"}";
    struct cadre_error err = {0};
    json_t *root = NULL;
    int failed = 0;
    allocate_all();
    for (int k = 0; !root; k++) {
        left = k;
        cadre_status rc = cadre_json_read(good, strlen(good), "file", &root, &err);
        ck_assert_msg(root ? rc == CADRE_OK : rc == CADRE_E_RESOURCE,
                      "allocation %d: '%s'", k, err.text);
        failed += root == NULL;
    }
    json_decref(root);
    ck_assert_int_gt(failed, 5);
}
END_TEST

static const char *const bad[] = {
    "",        "{",     "{\"a\": }", "[1, 2", "nul", "{\"a\": 1, \"a\": 2}",
    "\"\\x\"", "[1] 2", "1e999",
};

START_TEST(a_bad_text_is_no_lack_of_memory)
{
    struct cadre_error err = {0};
    json_t *root;
    left = -1;
    ck_assert_int_eq(cadre_json_read(bad[_i], strlen(bad[_i]), "file", &root, &err),
                     CADRE_E_INVALID);
    ck_assert_ptr_null(root);
    ck_assert_msg(strncmp(err.text, "'file' line ", 12) == 0, "%s", err.text);
}
END_TEST

START_TEST(files_that_may_be_missing)
{
    struct cadre_error err = {0};
    allocate_all();
    left = -1;
    char *dir = test_tmpdir();
    char *good = cadre_path_join(dir, "good.json"),
         *bad_file = cadre_path_join(dir, "bad");
    json_t *root = NULL;
    int failed = 0;
    ck_assert_int_eq(cadre_path_write_file(good, "{\"a\": 1}", 8, &err), CADRE_OK);
    ck_assert_int_eq(cadre_path_write_file(bad_file, "{\"a\":", 5, &err), CADRE_OK);
    ck_assert_int_eq(cadre_json_try_file(dir, "good.json", &root, &err), CADRE_OK);
    ck_assert_int_eq(json_integer_value(json_object_get(root, "a")), 1);
    json_decref(root);
    ck_assert_int_eq(cadre_json_try_file(dir, "bad", &root, &err), CADRE_OK);
    ck_assert_ptr_null(root);
    ck_assert_int_eq(cadre_json_try_file(dir, "none", &root, &err), CADRE_OK);
    ck_assert_ptr_null(root);
    for (int k = 0; !root; k++) {
        left = k;
        const cadre_status rc = cadre_json_try_file(dir, "good.json", &root, &err);
        ck_assert_int_eq(rc, root ? CADRE_OK : CADRE_E_RESOURCE);
        failed += !root;
    }
    json_decref(root);
    ck_assert_int_gt(failed, 1);
    left = -1;
    free(bad_file);
    free(good);
    test_tmpdir_destroy(dir);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("json_read");
    TCase *tc = tcase_create("json_read");
    tcase_add_test(tc, no_memory_is_told_from_bad_text);
    tcase_add_test(tc, files_that_may_be_missing);
    tcase_add_loop_test(tc, a_bad_text_is_no_lack_of_memory, 0,
                        (int)(sizeof bad / sizeof bad[0]));
    suite_add_tcase(s, tc);
    return s;
}
