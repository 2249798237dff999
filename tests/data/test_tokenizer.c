/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/data/tokenizer/tokenizer.h"
#include "tests/support/check_main.h"

static struct cadre_tokenizer *open_or_fail(const char *spec)
{
    struct cadre_tokenizer *tok = NULL;
    struct cadre_error err = {0};
    ck_assert_msg(cadre_tokenizer_open(spec, &tok, &err) == CADRE_OK, "%s", err.text);
    return tok;
}

static size_t encode(const struct cadre_tokenizer *tok, const char *text, size_t size,
                     int32_t **ids)
{
    struct cadre_error err = {0};
    size_t count = 0;
    ck_assert_msg(cadre_tokenizer_encode(tok, text, size, ids, &count, &err) ==
                      CADRE_OK,
                  "%s", err.text);
    return count;
}

/* GPT-2's vocabulary and its counts of the text's first nine tenths and rest: as
 * divided for tests/samples, and whole, as nanoGPT counts. */
static const struct {
    int vocab;
    size_t head, tail;
} gpt2[] = {{4835, 13505, 1401}, {50257, 301966, 36059}};

/* Decode and compare with text. */
static void check_round_trip(const struct cadre_tokenizer *tok, const char *text,
                             size_t size)
{
    int32_t *ids = NULL;
    size_t count = encode(tok, text, size, &ids), at = 0;
    for (size_t i = 0; i < count; i++) {
        const char *bytes = NULL;
        size_t n = 0;
        ck_assert(ids[i] >= 0 && ids[i] < cadre_tokenizer_vocab(tok));
        ck_assert_int_eq(
            cadre_tokenizer_decode(tok, i ? ids[i - 1] : -1, ids[i], &bytes, &n),
            CADRE_OK);
        ck_assert_uint_le(at + n, size);
        ck_assert_mem_eq(text + at, bytes, n);
        at += n;
    }
    ck_assert_uint_eq(at, size);
    free(ids);
}

START_TEST(bytes_are_ids)
{
    struct cadre_tokenizer *tok = open_or_fail(NULL);
    int32_t *ids = NULL;
    ck_assert_int_eq(cadre_tokenizer_vocab(tok), 256);
    ck_assert_str_eq(cadre_tokenizer_kind_name(tok), "bytes");
    ck_assert_int_eq(cadre_tokenizer_bos(tok), -1);
    const struct cadre_tokenizer_marks marks = cadre_tokenizer_marks(tok);
    ck_assert(marks.known && marks.bos == -1 && marks.eos == 0 && marks.pad == -1);
    ck_assert_uint_eq(encode(tok, "a\0\xff", 3, &ids), 3);
    ck_assert(ids[0] == 97 && ids[1] == 0 && ids[2] == 255);
    free(ids);
    check_round_trip(tok, "x\0\x80y", 4);
    const char *bytes = NULL;
    size_t n = 0;
    ck_assert_int_eq(cadre_tokenizer_decode(tok, -1, 256, &bytes, &n), CADRE_E_INVALID);
    ck_assert_uint_eq(cadre_tokenizer_cut(tok, "abc", 3), 3);
    cadre_tokenizer_close(tok);
    cadre_tokenizer_close(NULL);
}
END_TEST

START_TEST(gpt2_equals_cases)
{
    const char *folder = test_data(_i, "gpt2_bpe");
    const char *cases = test_data(_i, "gpt2_bpe/cases.json");
    size_t i = 0;
    json_t *one = NULL;
    struct cadre_tokenizer *tok = open_or_fail(folder);
    ck_assert_int_eq(cadre_tokenizer_vocab(tok), gpt2[_i].vocab);
    ck_assert_int_eq(cadre_tokenizer_bos(tok), gpt2[_i].vocab - 1);
    json_t *root = json_load_file(cases, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_uint_ge(json_array_size(json_object_get(root, "cases")), 7);
    json_array_foreach(json_object_get(root, "cases"), i, one)
    {
        const char *text = json_string_value(json_object_get(one, "text"));
        json_t *want = json_object_get(one, "ids");
        int32_t *ids = NULL;
        size_t count = encode(tok, text, strlen(text), &ids);
        ck_assert_uint_eq(count, json_array_size(want));
        for (size_t k = 0; k < count; k++)
            ck_assert_int_eq(ids[k], json_integer_value(json_array_get(want, k)));
        free(ids);
        check_round_trip(tok, text, strlen(text));
    }
    json_decref(root);
    cadre_tokenizer_close(tok);
}
END_TEST

START_TEST(gpt2_counts_tinyshakespeare)
{
    const char *folder = test_data(_i, "gpt2_bpe");
    const char *path = test_data(_i, "text/tinyshakespeare.txt");
    size_t size = 0;
    int32_t *ids = NULL;
    struct cadre_tokenizer *tok = open_or_fail(folder);
    char *text = test_file_read(path, &size);
    size_t head = size * 9 / 10;
    ck_assert_uint_eq(encode(tok, text, head, &ids), gpt2[_i].head);
    free(ids);
    ck_assert_uint_eq(encode(tok, text + head, size - head, &ids), gpt2[_i].tail);
    free(ids);
    check_round_trip(tok, text, size);
    free(text);
    cadre_tokenizer_close(tok);
}
END_TEST

START_TEST(gpt2_cut_does_not_change_ids)
{
    const char *folder = test_data(_i, "gpt2_bpe");
    const char *path = test_data(_i, "text/alice29.txt");
    size_t size = 0, at = 0, total = 0;
    int32_t *whole = NULL;
    struct cadre_tokenizer *tok = open_or_fail(folder);
    char *text = test_file_read(path, &size);
    check_round_trip(tok, text, size);
    size_t count = encode(tok, text, size, &whole);
    for (size_t chunk = 1000; at < size; chunk += 37) {
        size_t end =
            at + chunk < size ? cadre_tokenizer_cut(tok, text + at, chunk) : size - at;
        int32_t *ids = NULL;
        ck_assert_uint_gt(end, 0);
        size_t n = encode(tok, text + at, end, &ids);
        ck_assert_uint_le(total + n, count);
        ck_assert_mem_eq(ids, whole + total, n * sizeof *ids);
        free(ids);
        total += n;
        at += end;
    }
    ck_assert_uint_eq(total, count);
    ck_assert_uint_eq(cadre_tokenizer_cut(tok, "abcdef", 6), 0);
    free(whole);
    free(text);
    cadre_tokenizer_close(tok);
}
END_TEST

START_TEST(gpt2_refuses_bytes_that_are_no_text)
{
    const char *folder = test_data(_i, "gpt2_bpe");
    struct cadre_error err = {0};
    int32_t *ids = NULL;
    size_t count = 0;
    struct cadre_tokenizer *tok = open_or_fail(folder);
    ck_assert_int_eq(cadre_tokenizer_encode(tok, "ok \xff", 4, &ids, &count, &err),
                     CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, "byte 3") && strstr(err.text, "0xff"), "%s",
                  err.text);
    ck_assert_ptr_null(ids);
    char *spaces = malloc(1 << 18);
    memset(spaces, ' ',
           1 << 18); /* long runs: no backtracking explosion, no recursion */
    check_round_trip(tok, spaces, 1 << 18);
    memset(spaces, 'a', 1 << 18);
    check_round_trip(tok, spaces, 1 << 18);
    memset(spaces, '.', 1 << 18);
    spaces[(1 << 18) - 1] = ' ';
    check_round_trip(tok, spaces, 1 << 18);
    free(spaces);
    cadre_tokenizer_close(tok);
}
END_TEST

START_TEST(llama2c_decodes_and_encodes_stories)
{
    const char *path = test_sample("weights/stories260K/tok512.bin");
    const char *ids_path =
        test_sample("weights/stories260K/stories260K_greedy_ids.json");
    const char *text_path = test_sample("weights/stories260K/expected_greedy_200.txt");
    char got[4096];
    size_t size = 0, at = 0, i = 0;
    int32_t previous = -1, *ids = NULL;
    json_t *id = NULL;
    struct cadre_tokenizer *tok = open_or_fail(path);
    ck_assert_int_eq(cadre_tokenizer_vocab(tok), 512);
    ck_assert_str_eq(cadre_tokenizer_kind_name(tok), "llama2.c's tokenizer.bin");
    ck_assert_int_eq(cadre_tokenizer_bos(tok), 1);
    char *want = test_file_read(text_path, &size);
    json_t *root = json_load_file(ids_path, 0, NULL);
    json_t *list = json_is_array(root) ? root : json_object_get(root, "ids");
    ck_assert_uint_gt(json_array_size(list), 100);
    json_array_foreach(list, i, id)
    {
        const char *bytes = NULL;
        size_t n = 0;
        int32_t value = (int32_t)json_integer_value(id);
        ck_assert_int_eq(cadre_tokenizer_decode(tok, previous, value, &bytes, &n),
                         CADRE_OK);
        if (i > 0) { /* the first is BOS, which is not printed */
            memcpy(got + at, bytes, n);
            at += n;
        }
        previous = value;
    }
    while (size > 0 && want[size - 1] == '\n')
        size--;
    ck_assert_uint_ge(at, size);
    ck_assert_mem_eq(got, want, size);
    ck_assert_uint_eq(encode(tok, "Once upon a time, there", 23, &ids), 6);
    for (size_t k = 0; k < 6; k++)
        ck_assert_int_eq(ids[k], json_integer_value(json_array_get(list, k + 1)));
    free(ids);
    ck_assert_uint_eq(encode(tok, "\xc3\xbf", 2, &ids), 3); /* blank, two byte pieces */
    ck_assert(ids[1] == 0xc3 + 3 && ids[2] == 0xbf + 3);
    free(ids);
    ck_assert_uint_eq(encode(tok, "", 0, &ids), 0);
    free(ids);
    json_decref(root);
    free(want);
    cadre_tokenizer_close(tok);
}
END_TEST

static void expect_refused(const char *spec, cadre_status rc, const char *says)
{
    struct cadre_tokenizer *tok = NULL;
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_tokenizer_open(spec, &tok, &err), rc);
    ck_assert_msg(strstr(err.text, says), "%s", err.text);
    ck_assert_ptr_null(tok);
}

static const struct {
    const char *json;
    const char *merges;
    const char *says;
} wrong[] = {
    {"", "", "line 1"},
    {"[1, 2]", "", "expected an object"},
    {"{}", "", "found 0 entries"},
    {"{\"a\": 0, \"a\": 1}", "", "duplicate"},
    {"{\"a\": 1}", "", "expected an id of 0 to 0"},
    {"{\"a\": 0, \"b\": 0}", "", "twice"},
    {"{\"a\": \"x\"}", "", "expected an id"},
    {"{\"a b\": 0}", "", "does not spell"},
    {"{\"\\u4e00\": 0}", "", "does not spell"},
    {"{\"a\": 0, \"b\": 1}", "#version: 0.2\na b\n", "merge 1"},
    {"{\"a\": 0, \"b\": 1, \"ab\": 2}", "a b\nab\n", "merge 2"},
};

START_TEST(refuses_wrong_vocabularies)
{
    char *dir = test_tmpdir();
    test_file_put(dir, "encoder.json", wrong[_i].json, strlen(wrong[_i].json));
    test_file_put(dir, "vocab.bpe", wrong[_i].merges, strlen(wrong[_i].merges));
    expect_refused(dir, CADRE_E_INVALID, wrong[_i].says);
    test_tmpdir_destroy(dir);
}
END_TEST

START_TEST(survives_mutated_vocabularies)
{
    static const char json[] =
        "{\"a\": 0, \"b\": 1, \"ab\": 2, \"\\u0120\": 3, \"c\": 4}";
    static const char merges[] = "#version: 0.2\na b\na b\n\nab c\n";
    char *dir = test_tmpdir();
    unsigned state = 17;
    const int rounds = test_lean() ? 300 : 2000;
    for (int round = 0; round < rounds; round++) {
        char text[2][64];
        struct cadre_tokenizer *tok = NULL;
        memcpy(text[0], json, sizeof json);
        memcpy(text[1], merges, sizeof merges);
        for (int k = 0; k <= round % 3; k++) {
            size_t size = round % 2 ? sizeof json - 1 : sizeof merges - 1;
            state = state * 1664525u + 1013904223u;
            text[round % 2 ? 0 : 1][(state >> 8) % size] =
                "{}[]\":,0129ab \\u\n\xc4\xa0\xff"[(state >> 3) % 20];
        }
        test_file_put(dir, "vocab.json", text[0], sizeof json - 1);
        test_file_put(dir, "merges.txt", text[1], sizeof merges - 1);
        if (cadre_tokenizer_open(dir, &tok, NULL) == CADRE_OK) {
            int32_t *ids = NULL;
            size_t count = 0;
            if (cadre_tokenizer_encode(tok, "abba ab", 7, &ids, &count, NULL) ==
                CADRE_OK)
                free(ids);
            cadre_tokenizer_close(tok);
        }
    }
    test_tmpdir_destroy(dir);
}
END_TEST

START_TEST(small_vocabulary_names_the_missing_byte)
{
    static const char json[] = "{\"a\": 0, \"b\": 1, \"ab\": 2}";
    char *dir = test_tmpdir();
    struct cadre_error err = {0};
    int32_t *ids = NULL;
    size_t count = 0;
    expect_refused("/nowhere/at/all", CADRE_E_INVALID, "nothing has this name");
    expect_refused(dir, CADRE_E_IO, "encoder.json");
    test_file_put(dir, "vocab.json", json, strlen(json));
    test_file_put(dir, "merges.txt", "a b\r\n", 5);
    struct cadre_tokenizer *tok = open_or_fail(dir);
    ck_assert_uint_eq(encode(tok, "abba", 4, &ids), 3);
    ck_assert(ids[0] == 2 && ids[1] == 1 && ids[2] == 0);
    free(ids);
    ck_assert_int_eq(cadre_tokenizer_encode(tok, "abc", 3, &ids, &count, &err),
                     CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, "0x63"), "%s", err.text);
    cadre_tokenizer_close(tok);
    test_tmpdir_destroy(dir);
}
END_TEST

START_TEST(refuses_wrong_llama2c_files)
{
    const char *path = test_sample("weights/stories260K/tok512.bin");
    char *dir = test_tmpdir(), file[1200];
    size_t size = 0;
    char *bytes = test_file_read(path, &size);
    snprintf(file, sizeof file, "%s/tok.bin", dir);
    test_file_put(dir, "tok.bin", bytes, size - 1);
    expect_refused(file, CADRE_E_INVALID, "truncated");
    memset(bytes + 8, 0x7f, 4); /* a piece of two thousand million bytes */
    test_file_put(dir, "tok.bin", bytes, size);
    expect_refused(file, CADRE_E_INVALID, "size");
    test_file_put(dir, "tok.bin", bytes, 0);
    expect_refused(file, CADRE_E_INVALID, "pieces");
    unsigned state = 5;
    const int rounds = test_lean() ? 60 : 300;
    for (int round = 0; round < rounds; round++) {
        struct cadre_tokenizer *tok = NULL;
        for (int k = 0; k < 8; k++) {
            state = state * 1664525u + 1013904223u;
            bytes[(state >> 8) % 200] = (char)(state >> 3);
        }
        test_file_put(dir, "tok.bin", bytes, 200);
        if (cadre_tokenizer_open(file, &tok, NULL) == CADRE_OK)
            cadre_tokenizer_close(tok);
    }
    free(bytes);
    test_tmpdir_destroy(dir);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("tokenizer");
    TCase *tc = tcase_create("tokenizer");
    const int sets = test_data_sets("gpt2_bpe");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, bytes_are_ids);
    tcase_add_loop_test(tc, gpt2_equals_cases, 0, sets);
    tcase_add_loop_test(tc, gpt2_counts_tinyshakespeare, 0, sets);
    tcase_add_loop_test(tc, gpt2_cut_does_not_change_ids, 0, sets);
    tcase_add_loop_test(tc, gpt2_refuses_bytes_that_are_no_text, 0, sets);
    tcase_add_test(tc, llama2c_decodes_and_encodes_stories);
    tcase_add_loop_test(tc, refuses_wrong_vocabularies, 0,
                        sizeof wrong / sizeof wrong[0]);
    tcase_add_test(tc, survives_mutated_vocabularies);
    tcase_add_test(tc, small_vocabulary_names_the_missing_byte);
    tcase_add_test(tc, refuses_wrong_llama2c_files);
    suite_add_tcase(suite, tc);
    return suite;
}
