/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/text/text.h"
#include "tests/support/check_main.h"

START_TEST(split_falls_on_a_character)
{
    const uint8_t *text = (const uint8_t *)"ab\xe2\x82\xac"
                                           "cd"; /* 7 bytes */
    ck_assert_uint_eq(cadre_text_split(text, 7, 0), 7);
    ck_assert_uint_eq(cadre_text_split(text, 7, 0.5),
                      5); /* 3 is within the euro sign */
    ck_assert_uint_eq(cadre_text_split(text, 7, 0.7), 2);
    ck_assert_uint_eq(cadre_text_split(text, 7, 0.999), 0);
    ck_assert_uint_eq(cadre_text_split(NULL, 0, 0.5), 0);
}
END_TEST

START_TEST(what_is_compressed_is_refused)
{
    static const struct {
        const char *bytes, *name; /* NULL: a text */
    } cases[] = {
        {"\x1f\x8b\x08\x08", "gzip -d"},
        {"PK\x03\x04", "unzip"},
        {"\x28\xb5\x2f\xfd ", "zstd -d"},
        {"\xfd\x37zXZ", "xz -d"},
        {"BZh91AY&SY", "bzip2 -d"},
        {"PK, said he", NULL},
        {"\x1f\x8b", NULL},
    };
    struct cadre_error err = {0};
    const struct cadre_mapping text = {.bytes = (const uint8_t *)cases[_i].bytes,
                                       .size = strlen(cases[_i].bytes)};
    ck_assert_int_eq(cadre_text_check(&text, "t.txt", &err),
                     cases[_i].name ? CADRE_E_INVALID : CADRE_OK);
    if (cases[_i].name)
        ck_assert_ptr_nonnull(strstr(err.text, cases[_i].name));
}
END_TEST

/* A text of several chunks, of 1 MiB each, gives the ids of the parts encoded whole. */
START_TEST(pieces_give_the_ids_of_the_whole)
{
    const char *folder = test_data(_i, "gpt2_bpe");
    const char *path = test_data(_i, "text/tinyshakespeare.txt");
    struct cadre_mapping once = {0}, text = {0};
    struct cadre_tokenizer *tok = NULL;
    struct cadre_cache cache = {0};
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_tokenizer_open(folder, &tok, NULL), CADRE_OK);
    ck_assert_int_eq(cadre_mapping_init(path, &once, NULL), CADRE_OK);
    const size_t times = 1 + (2 << 20) / once.size;
    uint8_t *again = malloc(times * once.size);
    for (size_t i = 0; i < times; i++)
        memcpy(again + i * once.size, once.bytes, once.size);
    text.bytes = again;
    text.size = times * once.size;
    ck_assert_msg(cadre_text_open(&text, "again", tok, 0.1, NULL, &cache, &err) ==
                      CADRE_OK,
                  "%s", err.text);
    ck_assert_uint_eq(cache.count, 2);
    uint64_t at = cadre_text_split(text.bytes, text.size, 0.1);
    for (int part = 0; part < 2; part++) {
        int32_t *ids = NULL;
        size_t count = 0;
        const char *begin = (const char *)again + (part ? at : 0);
        ck_assert_int_eq(cadre_tokenizer_encode(tok, begin, part ? text.size - at : at,
                                                &ids, &count, NULL),
                         CADRE_OK);
        ck_assert_uint_eq(cache.records[part].token_count, count);
        for (size_t i = 0; i < count; i++)
            ck_assert_int_eq(cache.records[part].tokens[i], ids[i]);
        free(ids);
    }
    cadre_cache_fini(&cache);
    free(again);
    cadre_mapping_fini(&once);
    cadre_tokenizer_close(tok);
}
END_TEST

START_TEST(names_the_place_that_is_no_text)
{
    const char *folder = test_sample("gpt2_bpe");
    struct cadre_mapping text = {.bytes = (const uint8_t *)"fine \xff", .size = 6};
    struct cadre_tokenizer *tok = NULL;
    struct cadre_cache cache = {0};
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_tokenizer_open(folder, &tok, NULL), CADRE_OK);
    ck_assert_int_eq(cadre_text_open(&text, "bad.txt", tok, 0, NULL, &cache, &err),
                     CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, "bad.txt") && strstr(err.text, "byte 5"), "%s",
                  err.text);
    cadre_tokenizer_close(tok);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("text");
    TCase *tc = tcase_create("text");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, split_falls_on_a_character);
    tcase_add_loop_test(tc, pieces_give_the_ids_of_the_whole, 0,
                        test_data_sets("gpt2_bpe"));
    tcase_add_test(tc, names_the_place_that_is_no_text);
    tcase_add_loop_test(tc, what_is_compressed_is_refused, 0, 7);
    suite_add_tcase(suite, tc);
    return suite;
}
