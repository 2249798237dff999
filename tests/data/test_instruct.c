/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/log.h"
#include "core/data/chat/instruct.h"
#include "tests/support/check_main.h"

enum { T = 24 };

static char *dir;
static struct cadre_tokenizer *byte;

static void setup(void)
{
    dir = test_tmpdir();
    cadre_log_set_level(CADRE_LOG_ERROR);
    ck_assert_int_eq(cadre_tokenizer_open("byte", &byte, NULL), CADRE_OK);
}

static void teardown(void)
{
    cadre_tokenizer_close(byte);
    test_tmpdir_destroy(dir);
}

static struct cadre_instruct_config config_of(const char *path)
{
    return (struct cadre_instruct_config){.path = path,
                                          .template_name = "plain",
                                          .tokenizer = byte,
                                          .context = T,
                                          .seed = 3};
}

static const char *put(const char *text)
{
    return test_file_put(dir, "f.json", text, strlen(text));
}

static struct cadre_instruct *open_or_fail(const struct cadre_instruct_config *config,
                                           struct cadre_instruct_info *info)
{
    struct cadre_instruct *set = NULL;
    struct cadre_error err = {0};
    ck_assert_msg(cadre_instruct_open(config, &set, &err) == CADRE_OK, "%s", err.text);
    cadre_instruct_info(set, info);
    return set;
}

static void refuses(const struct cadre_instruct_config *config, cadre_status want,
                    const char *says)
{
    struct cadre_instruct *set = NULL;
    struct cadre_error err = {0};
    ck_assert_int_eq(cadre_instruct_open(config, &set, &err), want);
    ck_assert_msg(strstr(err.text, says) != NULL, "'%s' has no '%s'", err.text, says);
    ck_assert_ptr_null(set);
}

/* Inputs as text, the end of a sequence as "$"; below it the targets, "." masked. */
static void sample_is(const struct cadre_instruct *set, int split, uint64_t index,
                      const char *inputs, const char *targets)
{
    int32_t x[T], y[T];
    char got[2][T + 1] = {{0}};
    uint64_t n = 0;
    cadre_instruct_sample(set, split, index, x, y);
    for (int t = 0; t < T; t++) {
        got[0][t] = x[t] ? (char)x[t] : '$';
        got[1][t] = y[t] < 0 ? '.' : y[t] ? (char)y[t] : '$';
        n += y[t] >= 0;
    }
    ck_assert_str_eq(got[0], inputs);
    ck_assert_str_eq(got[1], targets);
    ck_assert_uint_eq(cadre_instruct_targets(set, split, index), n);
}

static void positions_are(const struct cadre_instruct *set, uint64_t index,
                          const int lengths[])
{
    int32_t positions[T];
    int at = 0;
    cadre_instruct_positions(set, 0, index, positions);
    for (int r = 0; at < T; r++)
        for (int t = 0; t < lengths[r]; t++)
            ck_assert_int_eq(positions[at++], t);
}

static const char three[] = "[{\"instruction\": \"ab\", \"output\": \"cd\"},\n"
                            "{\"instruction\": \"efg\", \"output\": \"\"},\n"
                            "{\"instruction\": \"h\", \"output\": \"ijklmnopqrst\"}]";

START_TEST(a_record_is_a_sample)
{
    struct cadre_instruct_config config = config_of(put(three));
    struct cadre_instruct_info info;
    struct cadre_instruct *set = open_or_fail(&config, &info);
    ck_assert_uint_eq(info.samples[0], 3);
    ck_assert_uint_eq(info.samples[1], 0);
    ck_assert_uint_eq(info.tokens[0], 6 + 5 + 15);
    ck_assert(!info.pairs);
    sample_is(set, 0, 0, "ab\ncd$$$$$$$$$$$$$$$$$$$", "..cd$...................");
    sample_is(set, 0, 1, "efg\n$$$$$$$$$$$$$$$$$$$$", "...$....................");
    sample_is(set, 0, 2, "h\nijklmnopqrst$$$$$$$$$$", ".ijklmnopqrst$..........");
    positions_are(set, 0, (const int[]){5, 19});
    cadre_instruct_close(set);
    config.train_on_prompt = true;
    set = open_or_fail(&config, &info);
    sample_is(set, 0, 0, "ab\ncd$$$$$$$$$$$$$$$$$$$", "b\ncd$...................");
    cadre_instruct_close(set);
}
END_TEST

START_TEST(records_share_a_window)
{
    struct cadre_instruct_config config = config_of(put(three));
    struct cadre_instruct_info info;
    config.pack = true;
    struct cadre_instruct *set = open_or_fail(&config, &info);
    ck_assert_uint_eq(info.samples[0], 1);
    sample_is(set, 0, 0, "ab\ncdefg\nh\nijklmnopqrst$", "..cd$...$.ijklmnopqrst$.");
    positions_are(set, 0, (const int[]){5, 4, 14, 1});
    cadre_instruct_close(set);
}
END_TEST

START_TEST(long_records_lose_their_end)
{
    struct cadre_instruct_config config = config_of(
        put("{\"prompt\": \"p\", \"completion\": \"abcdefghijklmnopqrstuv\"}\n"
            "{\"prompt\": \"p\", \"completion\": \"abcdefghijklmnopqrstuvw\"}\n"
            "{\"prompt\": \"0123456789012345678901234\", \"completion\": \"a\"}\n"));
    struct cadre_instruct_info info;
    struct cadre_instruct *set = open_or_fail(&config, &info);
    sample_is(set, 0, 0, "p\nabcdefghijklmnopqrstuv", ".abcdefghijklmnopqrstuv$");
    sample_is(set, 0, 1, "p\nabcdefghijklmnopqrstuv", ".abcdefghijklmnopqrstuvw");
    sample_is(set, 0, 2, "012345678901234567890123", "........................");
    cadre_instruct_close(set);
    config.too_long = "refuse";
    refuses(&config, CADRE_E_INVALID,
            "f.json' line 2: the record has 26 tokens, expected at most 25");
    config.too_long = "shorten";
    refuses(&config, CADRE_E_INVALID, "data.too_long: expected truncate or refuse");
    config.too_long = NULL;
    config.path = put("{\"prompt\": \"0123456789012345678901234\", \"completion\": "
                      "\"a\"}\n");
    refuses(&config, CADRE_E_INVALID, "no record has a target among its first 25");
}
END_TEST

START_TEST(pairs_are_neighbours)
{
    struct cadre_instruct_config config =
        config_of(put("[{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"c\"},\n"
                      " {\"prompt\": \"d\", \"chosen\": \"e\", \"rejected\": \"f\"},\n"
                      " {\"prompt\": \"g\", \"chosen\": \"h\", \"rejected\": \"i\"}]"));
    struct cadre_instruct_info info;
    config.valid_fraction = 0.34;
    struct cadre_instruct *set = open_or_fail(&config, &info);
    ck_assert(info.pairs);
    ck_assert_uint_eq(info.samples[0], 4);
    ck_assert_uint_eq(info.samples[1], 2);
    for (int split = 0; split < 2; split++)
        for (uint64_t i = 0; i < info.samples[split]; i += 2) {
            int32_t chosen[T], rejected[T], x[T];
            cadre_instruct_sample(set, split, i, x, chosen);
            cadre_instruct_sample(set, split, i + 1, x, rejected);
            ck_assert_int_eq(chosen[1] % 3, 'b' % 3);
            ck_assert_int_eq(rejected[1], chosen[1] + 1);
            ck_assert_int_eq(x[0], chosen[1] - 1);
        }
    cadre_instruct_close(set);
    config.pack = true;
    refuses(&config, CADRE_E_UNSUPPORTED, "has pairs of answers, which are not packed");
    config.pack = false;
    config.path = put("{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"c\"}\n\n"
                      "{\"prompt\": \"a\", \"completion\": \"b\"}\n");
    refuses(&config, CADRE_E_INVALID,
            "f.json' line 3: expected a chosen and a rejected answer, as the records");
    config.path = put("[{\"prompt\": \"a\"},\n{}]");
    refuses(&config, CADRE_E_INVALID, "f.json' line 1: expected the keys instruction");
    config.path = "/no/such/file";
    refuses(&config, CADRE_E_IO, "data.path");
}
END_TEST

/* The samples, and the whole files where they are: as many records as they have. */
START_TEST(real_files)
{
    static const struct {
        const char *name;
        uint64_t samples[2]; /* of the cut, of the whole */
        bool pairs;
    } files[] = {{"instruct/alpaca_en_demo.json", {24, 999}, false},
                 {"instruct/v1_sft_demo.jsonl", {24, 500}, false},
                 {"instruct/dpo_en_demo.json", {8, 600}, true},
                 {"instruct/v1_dpo_demo.jsonl", {4, 20}, true}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct cadre_instruct_config config = config_of(test_data(_i, files[i].name));
        struct cadre_instruct_info info;
        config.template_name = "alpaca";
        config.context = 1 << 16;
        struct cadre_instruct *set = open_or_fail(&config, &info);
        ck_assert_uint_eq(info.samples[0], files[i].samples[_i]);
        ck_assert_int_eq(info.pairs, files[i].pairs);
        for (uint64_t s = 0; s < info.samples[0]; s++)
            ck_assert_uint_gt(cadre_instruct_targets(set, 0, s), 1);
        cadre_instruct_close(set);
    }
}
END_TEST

/* GPT-2's tokens, and llama2.c's, which begin with BOS and end with id 2. */
START_TEST(other_tokenizers)
{
    static const char *const specs[] = {"gpt2_bpe", "weights/stories260K/tok512.bin"};
    for (int i = 0; i < 2; i++) {
        struct cadre_tokenizer *tokenizer = NULL;
        struct cadre_instruct_config config =
            config_of(test_sample("instruct/v1_sft_demo.jsonl"));
        struct cadre_instruct_info info;
        int32_t x[512], y[512];
        ck_assert_int_eq(cadre_tokenizer_open(test_sample(specs[i]), &tokenizer, NULL),
                         CADRE_OK);
        config.tokenizer = tokenizer;
        config.context = 512;
        config.template_name = "chatml";
        const int32_t end = cadre_tokenizer_eos(tokenizer);
        struct cadre_instruct *set = open_or_fail(&config, &info);
        cadre_instruct_sample(set, 0, 0, x, y);
        if (i == 1)
            ck_assert_int_eq(end, 2);
        ck_assert_int_eq(x[0] == cadre_tokenizer_bos(tokenizer), i == 1);
        int ends = 0;
        for (int t = 0; t < 512; t++)
            ends += y[t] == end;
        ck_assert_int_eq(ends, 1);
        cadre_instruct_close(set);
        cadre_tokenizer_close(tokenizer);
    }
}
END_TEST

/* The cache is the same file again, and made in seconds; nothing is asserted of that.
 */
START_TEST(many_records)
{
    const int n = test_lean() ? 2000 : 60000;
    struct cadre_instruct_config config;
    struct cadre_instruct_info info[2];
    char path[1200];
    struct timespec begin, end;
    snprintf(path, sizeof path, "%s/many.jsonl", dir);
    FILE *file = fopen(path, "w");
    for (int i = 0; i < n; i++)
        fprintf(file,
                "{\"instruction\": \"Say the number %d in words, please, and say why "
                "it is liked.\", \"input\": \"\", \"output\": \"I say %d, as it is "
                "the one that comes after %d, and before the next one of them.\"}\n",
                i, i, i - 1);
    fclose(file);
    config = config_of(path);
    config.cache_dir = dir;
    config.context = 1024;
    config.pack = true;
    for (int i = 0; i < 2; i++) {
        clock_gettime(CLOCK_MONOTONIC, &begin);
        cadre_instruct_close(open_or_fail(&config, &info[i]));
        clock_gettime(CLOCK_MONOTONIC, &end);
        printf("%d records %s: %.2f s\n", n, i ? "again" : "cached",
               (double)(end.tv_sec - begin.tv_sec) +
                   (double)(end.tv_nsec - begin.tv_nsec) * 1e-9);
    }
    ck_assert_uint_eq(info[0].holdout.content, info[1].holdout.content);
    ck_assert_uint_eq(info[0].samples[0], info[1].samples[0]);
    ck_assert_uint_gt(info[0].tokens[0] / info[0].samples[0], 800);
}
END_TEST

/* The template of the tokenizer's folder: what it writes behind a prompt is trained on,
 * and another template is another cache. */
START_TEST(template_of_the_folder)
{
    struct cadre_instruct_info info;
    struct cadre_instruct_config config =
        config_of(put("{\"prompt\": \"ab\", \"completion\": \"cd\"}"));
    const char *one = "{% for m in messages %}{{ m.content }}{{ ';' }}{% endfor %}"
                      "{% if add_generation_prompt %}>{% endif %}";
    config.template_name = "model";
    config.tokenizer_spec = dir;
    config.cache_dir = dir;
    refuses(&config, CADRE_E_INVALID, "data.template = model: '");
    test_file_put(dir, "chat_template.jinja", one, strlen(one));
    refuses(&config, CADRE_E_UNSUPPORTED, "f.json' line 1: message 2: ");
    one = "{% for m in messages %}{{ m.content }};{% endfor %}";
    test_file_put(dir, "chat_template.jinja", one, strlen(one));
    struct cadre_instruct *set = open_or_fail(&config, &info);
    sample_is(set, 0, 0, "ab;cd$$$$$$$$$$$$$$$$$$$", "..cd;...................");
    cadre_instruct_close(set);
    one = "{% for m in messages %}{{ m.content }}.{% endfor %}";
    test_file_put(dir, "chat_template.jinja", one, strlen(one));
    set = open_or_fail(&config, &info);
    sample_is(set, 0, 0, "ab.cd$$$$$$$$$$$$$$$$$$$", "..cd....................");
    cadre_instruct_close(set);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("instruct");
    TCase *tc = tcase_create("instruct");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, a_record_is_a_sample);
    tcase_add_test(tc, records_share_a_window);
    tcase_add_test(tc, long_records_lose_their_end);
    tcase_add_test(tc, pairs_are_neighbours);
    tcase_add_loop_test(tc, real_files, 0, test_data_sets("instruct"));
    tcase_add_test(tc, other_tokenizers);
    tcase_add_test(tc, many_records);
    tcase_add_test(tc, template_of_the_folder);
    suite_add_tcase(s, tc);
    return s;
}
