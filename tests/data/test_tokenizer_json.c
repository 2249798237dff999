/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.json against the module `tokenizers`, see tests/samples/tokenizers. */
#include "tests/data/odd_strings.h"

#include "core/data/dataset.h"
#include "core/data/tokenizer/unicode.h"

static const char *const kinds[] = {
    "gpt2", "llama3", "qwen2", "llama2", "mistral", "metaspace",
};

START_TEST(equals_tokenizers)
{
    odd_strings_check(kinds[_i], false);
}
END_TEST

/* ---- what is around the ids ---- */

static const struct {
    const char *name;
    int32_t bos, eos; /* -2: the id of this text */
    const char *bos_text, *eos_text;
    size_t before; /* tokens of the frame */
} around[] = {
    {"gpt2", -2, -2, "<|endoftext|>", "<|endoftext|>", 0},
    {"llama3", -2, -2, "<|begin_of_text|>", "<|eot_id|>", 1},
    {"qwen2", -1, -2, "", "<|im_end|>", 0},
    {"llama2", 1, 2, "", "", 1},
    {"mistral", 1, -1, "", "", 1},
    {"metaspace", -1, -1, "", "", 0},
};

static int32_t id_of(const struct cadre_tokenizer *tok, int32_t wanted,
                     const char *text)
{
    int32_t *ids = NULL;
    size_t count = 0;
    if (wanted != -2)
        return wanted;
    ck_assert_int_eq(
        cadre_tokenizer_encode(tok, text, strlen(text), &ids, &count, NULL), CADRE_OK);
    ck_assert_uint_eq(count, 1);
    wanted = ids[0];
    free(ids);
    return wanted;
}

START_TEST(frames_prompts)
{
    char path[128];
    int32_t *ids = NULL;
    size_t count = 0;
    snprintf(path, sizeof path, "tokenizers/%s", around[_i].name);
    struct cadre_tokenizer *tok = odd_open(test_sample(path));
    const int32_t bos = id_of(tok, around[_i].bos, around[_i].bos_text);
    ck_assert_int_eq(cadre_tokenizer_bos(tok), bos);
    ck_assert_int_eq(cadre_tokenizer_eos(tok),
                     id_of(tok, around[_i].eos, around[_i].eos_text));
    ck_assert_int_eq(cadre_tokenizer_frame(tok, &ids, &count, NULL), CADRE_OK);
    ck_assert_uint_eq(count, around[_i].before);
    ck_assert(count == 0 || ids[0] == bos);
    free(ids);
    ck_assert_int_eq(cadre_tokenizer_encode(tok, "ab", 2, &ids, &count, NULL),
                     CADRE_OK);
    const int32_t first = ids[0];
    const size_t plain = count;
    ck_assert_int_eq(cadre_tokenizer_frame(tok, &ids, &count, NULL), CADRE_OK);
    ck_assert_uint_eq(count, plain + around[_i].before);
    ck_assert_int_eq(ids[around[_i].before], first);
    free(ids);
    cadre_tokenizer_close(tok);
}
END_TEST

/* A text divided where the tokenizer says gives the ids of the whole. */
START_TEST(cut_does_not_change_ids)
{
    char path[128];
    size_t size = 0, total = 0, whole_count = 0;
    int32_t *whole = NULL;
    snprintf(path, sizeof path, "tokenizers/%s", kinds[_i]);
    struct cadre_tokenizer *tok = odd_open(test_sample(path));
    char *text = test_file_read(test_sample("text/alice29.txt"), &size);
    ck_assert_int_eq(
        cadre_tokenizer_encode(tok, text, size, &whole, &whole_count, NULL), CADRE_OK);
    for (size_t at = 0, chunk = 1000; at < size; chunk += 37) {
        const size_t cut =
            at + chunk < size ? cadre_tokenizer_cut(tok, text + at, chunk) : 0;
        const size_t end = cut > 0 ? cut : size - at;
        int32_t *ids = NULL;
        size_t n = 0;
        ck_assert_int_eq(cadre_tokenizer_encode(tok, text + at, end, &ids, &n, NULL),
                         CADRE_OK);
        ck_assert_uint_le(total + n, whole_count);
        ck_assert_mem_eq(ids, whole + total, n * sizeof *ids);
        free(ids);
        total += n;
        at += end;
    }
    ck_assert_uint_eq(total, whole_count);
    const bool divides = !strcmp(kinds[_i], "gpt2") || !strcmp(kinds[_i], "llama3");
    ck_assert_int_eq(cadre_tokenizer_cut(tok, "some words", 10), divides ? 4 : 0);
    free(whole);
    free(text);
    cadre_tokenizer_close(tok);
}
END_TEST

/* ---- small files ---- */

#define MODEL_OF(vocab, merges)                                                        \
    "\"model\":{\"type\":\"BPE\",\"vocab\":{" vocab "},\"merges\":[" merges "]}"
#define MODEL MODEL_OF("\"a\":0,\"b\":1,\"ab\":2", "\"a b\"")
#define BYTE_LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}"
#define BYTES "\"pre_tokenizer\":" BYTE_LEVEL ",\"decoder\":{\"type\":\"ByteLevel\"},"
#define PIECES                                                                         \
    "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\","          \
    "\"pattern\":{\"String\":\"\\u2581\"},\"content\":\" \"},"                         \
    "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}]},"

static cadre_status open_text(const char *json, size_t size,
                              struct cadre_tokenizer **tok, struct cadre_error *err)
{
    char *dir = test_tmpdir(), path[1200];
    snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    test_file_put(dir, "tokenizer.json", json, size);
    cadre_status rc = cadre_tokenizer_open(path, tok, err);
    test_tmpdir_destroy(dir);
    return rc;
}

static const struct {
    const char *json;
    const char *says;
} wrong[] = {
    {"", "line 1"},
    {"{}", "there is no \"model\""},
    {"[]", "there is no \"model\""},
    {"{\"model\":{}}", "model.merges = nothing"},
    {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}", "model.type = \"Unigram\""},
    {"{" BYTES "\"model\":{\"vocab\":{},\"merges\":[]}}", "found 0 entries"},
    {"{" BYTES MODEL_OF("\"a\":0,\"a\":1", "") "}", "duplicate"},
    {"{" BYTES MODEL_OF("\"a\":0,\"b\":0", "") "}", "given twice"},
    {"{" BYTES MODEL_OF("\"a\":-1", "") "}", "expected an id"},
    {"{" BYTES MODEL_OF("\"a\":0.5", "") "}", "expected an id"},
    {"{" BYTES MODEL_OF("\"a\":99999999", "") "}", "largest id of 99999999"},
    {"{" BYTES MODEL_OF("\"a\":65544", "") "}", "expected an id below 65544"},
    {"{" BYTES MODEL_OF("\"\\ud800\":0", "") "}", "no string"},
    {"{" BYTES MODEL_OF("\"a\":0", "\"a b\"") "}", "merge 1"},
    {"{" BYTES MODEL_OF("\"a\":0", "[\"a\"]") "}", "merge 1"},
    {"{" BYTES MODEL_OF("\"a\":0", "7") "}", "merge 1"},
    {"{" MODEL "}", "decoder is"},
    {"{\"pre_tokenizer\":{\"type\":\"ByteLevel\"}," MODEL "}", "pre_tokenizer is"},
    {"{\"pre_tokenizer\":{\"type\":\"Whitespace\"}," MODEL "}",
     "pre_tokenizer is {\"type\":\"Whitespace\"}"},
    {"{\"normalizer\":{\"type\":\"NFKC\"}," BYTES MODEL "}", "normalizer is"},
    {"{\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"\\u2581\"}," PIECES MODEL "}",
     "normalizer is"},
    {"{\"truncation\":{}," BYTES MODEL "}", "truncation is"},
    {"{\"post_processor\":{\"type\":\"BertProcessing\"}," BYTES MODEL "}",
     "post_processor is"},
    {"{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":["
     "{\"SpecialToken\":{\"id\":\"x\"}},{\"Sequence\":{\"id\":\"A\"}}],"
     "\"special_tokens\":{\"x\":{\"ids\":[7]}}}," BYTES MODEL "}",
     "post_processor is"},
    {"{\"added_tokens\":[{\"id\":0,\"content\":\"x\"}]," BYTES MODEL "}",
     "which the vocabulary has otherwise"},
    {"{\"added_tokens\":[{\"id\":3,\"content\":\"x\",\"single_word\":true}]," BYTES
         MODEL "}",
     "single_word"},
    {"{\"added_tokens\":[{\"content\":\"x\"}]," BYTES MODEL "}", "entry 1"},
    {"{" PIECES
     "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"vocab\":{\"a\":0},"
     "\"merges\":[]}}",
     "no piece <0x00>"},
    {"{" BYTES "\"model\":{\"type\":\"BPE\",\"dropout\":0.1,\"vocab\":{\"a\":0},"
     "\"merges\":[]}}",
     "dropout"},
    {"{" BYTES MODEL "} x", "line 1"},
};

START_TEST(refuses_wrong_files)
{
    struct cadre_tokenizer *tok = NULL;
    struct cadre_error err = {0};
    cadre_status rc = open_text(wrong[_i].json, strlen(wrong[_i].json), &tok, &err);
    ck_assert_msg(rc == CADRE_E_INVALID || rc == CADRE_E_UNSUPPORTED, "%s",
                  wrong[_i].json);
    ck_assert_msg(strstr(err.text, wrong[_i].says) && !strchr(err.text, '\n'), "%s",
                  err.text);
    ck_assert_msg(strstr(err.text, "tokenizer.json"), "%s", err.text);
    ck_assert_ptr_null(tok);
}
END_TEST

/* Truncated anywhere, or with other characters in it, a file is refused or read. */
START_TEST(survives_damaged_files)
{
    size_t size = 0;
    char *json = test_file_read(test_sample("tokenizers/qwen2/tokenizer.json"), &size);
    struct cadre_tokenizer *tok = NULL;
    unsigned state = 5;
    const size_t step = test_lean() ? 997 : 101;
    for (size_t n = 0; n + 2 < size; n += step)
        ck_assert_int_ne(open_text(json, n, &tok, NULL), CADRE_OK);
    const int rounds = test_lean() ? 30 : 200;
    for (int round = 0; round < rounds; round++) {
        state = state * 1664525u + 1013904223u;
        const size_t at = (state >> 8) % size;
        const char kept = json[at];
        json[at] = "{}[]\":,0129ab \\u\n\xc4\xa0\xff"[(state >> 3) % 20];
        tok = NULL;
        if (open_text(json, size, &tok, NULL) == CADRE_OK) {
            int32_t *ids = NULL;
            size_t count = 0;
            if (cadre_tokenizer_encode(tok, "abba ab", 7, &ids, &count, NULL) ==
                CADRE_OK)
                free(ids);
            cadre_tokenizer_close(tok);
        }
        json[at] = kept;
    }
    free(json);
}
END_TEST

START_TEST(reads_nul_in_keys)
{
    static const char json[] =
        "{" PIECES "\"model\":{\"type\":\"BPE\",\"vocab\":{\"\\u0000\":0,\"a\":1,"
        "\"\\u0000a\":2,\" \":3},\"merges\":[[\"\\u0000\",\"a\"]]}}";
    struct cadre_tokenizer *tok = NULL;
    struct cadre_error err = {0};
    int32_t *ids = NULL;
    size_t count = 0;
    ck_assert_msg(open_text(json, sizeof json - 1, &tok, &err) == CADRE_OK, "%s",
                  err.text);
    ck_assert_int_eq(cadre_tokenizer_encode(tok, "a\0 \0a", 5, &ids, &count, &err),
                     CADRE_OK);
    ck_assert_uint_eq(count, 4);
    ck_assert(ids[0] == 1 && ids[1] == 0 && ids[2] == 3 && ids[3] == 2);
    free(ids);
    ids = NULL;
    ck_assert_int_eq(cadre_tokenizer_encode(tok, "ab", 2, &ids, &count, &err),
                     CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, "\"b\" has no token"), "%s", err.text);
    ck_assert_int_eq(cadre_tokenizer_encode(tok, "a\xff", 2, &ids, &count, &err),
                     CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, "byte 1"), "%s", err.text);
    ck_assert_ptr_null(ids);
    cadre_tokenizer_close(tok);
}
END_TEST

/* ---- more than 65536 ids ---- */

enum { LARGE = 70000 };

/* Id i is the character that many behind U+10000. */
static void put_large(const char *dir)
{
    char *json = malloc(32 * LARGE), *at = json;
    at +=
        sprintf(at, "{" PIECES "\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{");
    for (uint32_t i = 0; i < LARGE; i++) {
        char c[4];
        const int n = (int)cadre_unicode_write(0x10000 + i, c);
        at += sprintf(at, "%s\"%.*s\":%u", i ? "," : "", n, c, i);
    }
    at += sprintf(at, "}}}");
    test_file_put(dir, "tokenizer.json", json, (size_t)(at - json));
    free(json);
}

START_TEST(caches_large_ids)
{
    char *dir = test_tmpdir(), path[2][1200], text[4 * 400];
    struct cadre_error err = {0};
    size_t size = 0;
    put_large(dir);
    for (uint32_t i = 0; i < 400; i++)
        size += cadre_unicode_write(0x10000 + i * 174, text + size);
    test_file_put(dir, "text", text, size);
    snprintf(path[0], sizeof path[0], "%s/text", dir);
    snprintf(path[1], sizeof path[1], "%s/cache", dir);
    const struct cadre_dataset_config config = {.format = "text",
                                                .path = path[0],
                                                .tokenizer = dir,
                                                .cache_dir = path[1],
                                                .valid_fraction = 0.25,
                                                .context = 33};
    for (int round = 0; round < 2; round++) { /* made, then mapped */
        struct cadre_dataset *set = NULL;
        struct cadre_dataset_info info;
        int32_t inputs[33], targets[33];
        ck_assert_msg(cadre_dataset_open(&config, &set, &err) == CADRE_OK, "%s",
                      err.text);
        cadre_dataset_info(set, &info);
        ck_assert_int_eq(info.vocab, LARGE);
        ck_assert_uint_eq(info.train_tokens, 300);
        ck_assert_uint_eq(info.valid_tokens, 100);
        ck_assert_int_eq(
            cadre_dataset_sample(set, CADRE_SPLIT_VALID, 2, inputs, targets, NULL),
            CADRE_OK);
        for (int32_t t = 0; t < 33; t++) {
            ck_assert_int_eq(inputs[t], (300 + 66 + t) * 174);
            ck_assert_int_eq(targets[t], (300 + 67 + t) * 174);
        }
        cadre_dataset_close(set);
    }
    test_tmpdir_destroy(dir);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("tokenizer_json");
    TCase *tc = tcase_create("tokenizer_json");
    const int n = sizeof kinds / sizeof kinds[0];
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, equals_tokenizers, 0, n);
    tcase_add_loop_test(tc, frames_prompts, 0, n);
    tcase_add_loop_test(tc, cut_does_not_change_ids, 0, n);
    tcase_add_loop_test(tc, refuses_wrong_files, 0, sizeof wrong / sizeof wrong[0]);
    tcase_add_test(tc, survives_damaged_files);
    tcase_add_test(tc, reads_nul_in_keys);
    tcase_add_test(tc, caches_large_ids);
    suite_add_tcase(suite, tc);
    return suite;
}
