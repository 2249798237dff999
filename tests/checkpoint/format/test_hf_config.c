/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/check_main.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/checkpoint/format/file.h"
#include "core/checkpoint/format/hf.h"

static struct cadre_error err;
static char *dir;

static void setup(void)
{
    dir = test_tmpdir();
}

static void teardown(void)
{
    test_tmpdir_destroy(dir);
}

static cadre_status read_text(const char *text, struct cadre_hf_config *config)
{
    char *path = cadre_format("%s/config.json", dir);
    ck_assert_int_eq(cadre_file_write_whole(path, text, strlen(text), NULL), CADRE_OK);
    free(path);
    return cadre_hf_config_read(dir, config, &err);
}

START_TEST(tiny_gpt2_is_read)
{
    struct cadre_hf_config config;
    const char *path = test_sample("weights/tiny_gpt2");
    ck_assert_int_eq(cadre_hf_config_read(path, &config, &err), CADRE_OK);
    ck_assert_int_eq(config.arch, CADRE_HF_GPT2);
    ck_assert_int_eq(config.layers, 4);
    ck_assert_int_eq(config.channels, 64);
    ck_assert_int_eq(config.heads, 4);
    ck_assert_int_eq(config.kv_heads, 4);
    ck_assert_int_eq(config.hidden, 256);
    ck_assert_int_eq(config.context, 128);
    ck_assert_int_eq(config.vocab, 1000);
    ck_assert_int_eq(config.classes, 0);
    ck_assert(config.tied && config.norm_eps == 1e-5);
}
END_TEST

START_TEST(stories_llama_is_read)
{
    struct cadre_hf_config config;
    const char *path = test_sample("weights/stories260K-hf");
    ck_assert_int_eq(cadre_hf_config_read(path, &config, &err), CADRE_OK);
    ck_assert_int_eq(config.arch, CADRE_HF_LLAMA);
    ck_assert_int_eq(config.layers, 5);
    ck_assert_int_eq(config.heads, 8);
    ck_assert_int_eq(config.kv_heads, 4);
    ck_assert_int_eq(config.hidden, 172);
    ck_assert_int_eq(config.context, 512);
    ck_assert(config.tied && config.rotary.theta == 10000.0);
}
END_TEST

#define GPT2_SIZES                                                                     \
    .arch = CADRE_HF_GPT2, .layers = 2, .channels = 12, .heads = 3, .kv_heads = 3,     \
    .hidden = 40, .context = 8, .vocab = 50, .head_size = 4
#define LLAMA_SIZES                                                                    \
    .arch = CADRE_HF_LLAMA, .layers = 3, .channels = 16, .heads = 4, .kv_heads = 2,    \
    .hidden = 44, .context = 8, .vocab = 50

static const struct cadre_hf_config round_trips[] = {
    {GPT2_SIZES, .tied = true, .norm_eps = 1e-5},
    {GPT2_SIZES, .classes = 2, .norm_eps = 1e-6},
    {LLAMA_SIZES, .norm_eps = 1e-5, .rotary.theta = 500000, .head_size = 4},
    {LLAMA_SIZES, .classes = 5, .tied = true, .norm_eps = 1e-5, .rotary.theta = 1e4 / 3,
     .head_size = 4},
    {LLAMA_SIZES, .tied = true, .norm_eps = 1e-5, .head_size = 6,
     .rotary = {5e5, CADRE_ROTARY_LLAMA3, 8, 1, 4, 8192}},
    {LLAMA_SIZES, .tied = true, .norm_eps = 1e-5, .head_size = 4, .qkv_bias = true,
     .rotary = {5e5, CADRE_ROTARY_LINEAR, 2.5, 0, 0, 0}},
    {LLAMA_SIZES, .classes = 3, .norm_eps = 1e-6, .head_size = 10, .qk_norm = true,
     .rotary.theta = 1e6},
};

START_TEST(what_is_written_is_read)
{
    const struct cadre_hf_config *want = &round_trips[_i];
    struct cadre_hf_config got = {0};
    ck_assert_int_eq(cadre_hf_config_write(dir, want, &err), CADRE_OK);
    ck_assert_msg(cadre_hf_config_read(dir, &got, &err) == CADRE_OK, "%s", err.text);
    ck_assert(got.arch == want->arch && got.tied == want->tied);
    ck_assert_int_eq(got.layers, want->layers);
    ck_assert_int_eq(got.channels, want->channels);
    ck_assert_int_eq(got.heads, want->heads);
    ck_assert_int_eq(got.kv_heads, want->kv_heads);
    ck_assert_int_eq(got.hidden, want->hidden);
    ck_assert_int_eq(got.context, want->context);
    ck_assert_int_eq(got.vocab, want->vocab);
    ck_assert_int_eq(got.classes, want->classes);
    ck_assert(got.norm_eps == want->norm_eps &&
              cadre_rotary_equal(&got.rotary, &want->rotary));
    ck_assert(got.qkv_bias == want->qkv_bias && got.qk_norm == want->qk_norm);
    ck_assert_int_eq(got.head_size, want->head_size);
}
END_TEST

#define GPT2                                                                           \
    "\"model_type\":\"gpt2\",\"n_layer\":1,\"n_embd\":8,\"n_head\":2,"                 \
    "\"n_positions\":4,\"vocab_size\":16"
#define LLAMA                                                                          \
    "\"model_type\":\"llama\",\"num_hidden_layers\":1,\"hidden_size\":8,"              \
    "\"num_attention_heads\":2,\"intermediate_size\":16,"                              \
    "\"max_position_embeddings\":4,\"vocab_size\":16"

#define LLAMA3 LLAMA ",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8"
#define MISTRAL                                                                        \
    "\"model_type\":\"mistral\",\"num_hidden_layers\":1,\"hidden_size\":8,"            \
    "\"num_attention_heads\":2,\"intermediate_size\":16,"                              \
    "\"max_position_embeddings\":4,\"vocab_size\":16"
#define QWEN(n)                                                                        \
    "\"model_type\":\"qwen" #n                                                         \
    "\",\"num_hidden_layers\":2,\"hidden_size\":8,\"num_attention_heads\":2,"          \
    "\"num_key_value_heads\":null,\"intermediate_size\":16,"                           \
    "\"max_position_embeddings\":4,\"vocab_size\":16"

START_TEST(defaults_are_hugging_faces)
{
    struct cadre_hf_config config;
    ck_assert_int_eq(read_text("{" GPT2 ",\"n_inner\":null}", &config), CADRE_OK);
    ck_assert_int_eq(config.hidden, 32);
    ck_assert(config.tied && config.norm_eps == 1e-5);
    ck_assert_int_eq(read_text("{" LLAMA ",\"rope_scaling\":null}", &config), CADRE_OK);
    ck_assert_int_eq(config.kv_heads, 2);
    ck_assert(!config.tied && config.norm_eps == 1e-6 &&
              config.rotary.theta == 10000.0);
    ck_assert_int_eq(read_text("{" LLAMA ",\"rope_parameters\":{\"rope_type\":"
                               "\"default\",\"rope_theta\":500000}}",
                               &config),
                     CADRE_OK);
    ck_assert(config.rotary.theta == 500000.0);
    ck_assert_int_eq(read_text("{" GPT2
                               ",\"architectures\":[\"GPT2ForSequenceClassification\"],"
                               "\"id2label\":{\"0\":\"a\",\"1\":\"b\",\"2\":\"c\"}}",
                               &config),
                     CADRE_OK);
    ck_assert_int_eq(config.classes, 3);
}
END_TEST

static const struct {
    const char *text;
    cadre_status status;
    const char *word;
} bad[] = {
    {"{" LLAMA ",\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2}}",
     CADRE_E_UNSUPPORTED, "dynamic"},
    {"{" LLAMA ",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":2}}",
     CADRE_E_UNSUPPORTED, "yarn"},
    {"{" LLAMA ",\"rope_parameters\":{\"type\":\"longrope\"}}", CADRE_E_UNSUPPORTED,
     "longrope"},
    {"{" LLAMA ",\"rope_parameters\":{\"rope_type\":\"llama3\"}}", CADRE_E_INVALID,
     "factor"},
    {"{" LLAMA ",\"rope_scaling\":{\"type\":\"linear\"}}", CADRE_E_INVALID, "factor"},
    {"{" LLAMA ",\"rope_scaling\":{\"factor\":2}}", CADRE_E_UNSUPPORTED, "factor"},
    {"{" LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2,"
     "\"rope_type\":\"default\"}}",
     CADRE_E_INVALID, "type"},
    {"{" LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2,\"beta\":1}}",
     CADRE_E_UNSUPPORTED, "beta"},
    {"{" LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2},"
     "\"rope_parameters\":{\"rope_theta\":3}}",
     CADRE_E_INVALID, "rope_scaling"},
    {"{" LLAMA ",\"rope_scaling\":3}", CADRE_E_INVALID, "rope_scaling"},
    {"{" LLAMA3 ",\"low_freq_factor\":4,\"high_freq_factor\":1,"
     "\"original_max_position_embeddings\":4}}",
     CADRE_E_INVALID, "high_freq_factor"},
    {"{" LLAMA3 ",\"low_freq_factor\":1,\"high_freq_factor\":4}}", CADRE_E_INVALID,
     "original_max_position_embeddings"},
    {"{" LLAMA ",\"partial_rotary_factor\":0.5}", CADRE_E_UNSUPPORTED, "partial"},
    {"{" LLAMA ",\"logit_scale\":2}", CADRE_E_UNSUPPORTED, "logit_scale"},
    {"{" LLAMA ",\"use_sliding_window\":true}", CADRE_E_UNSUPPORTED, "sliding"},
    {"{" GPT2 ",\"n_ctx\":5}", CADRE_E_INVALID, "n_ctx"},
    {"{" GPT2 ",\"is_decoder\":true}", CADRE_E_UNSUPPORTED, "is_decoder"},
    {"{" MISTRAL ",\"sliding_window\":null}", CADRE_E_INVALID, "num_key_value_heads"},
    {"{" QWEN(2) ",\"use_sliding_window\":true,\"sliding_window\":null,"
                 "\"layer_types\":[\"full_attention\",\"sliding_attention\"]}",
     CADRE_E_INVALID, "sliding_window"},
    {"{" QWEN(2) ",\"layer_types\":[\"full_attention\",\"sliding_attention\"]}",
     CADRE_E_INVALID, "sliding_window"},
    {"{" QWEN(2) ",\"layer_types\":[\"full_attention\",\"linear_attention\"]}",
     CADRE_E_UNSUPPORTED, "linear_attention"},
    {"{" QWEN(2) ",\"layer_types\":[\"full_attention\"]}", CADRE_E_INVALID,
     "layer_types"},
    {"{" QWEN(2) ",\"attention_bias\":false}", CADRE_E_UNSUPPORTED, "attention_bias"},
    {"{" QWEN(3) "}", CADRE_E_INVALID, "head_dim"},
    {"{" QWEN(3) ",\"head_dim\":4,\"attention_bias\":true}", CADRE_E_UNSUPPORTED,
     "attention_bias"},
    {"{" LLAMA ",\"hidden_act\":\"gelu\"}", CADRE_E_UNSUPPORTED, "silu"},
    {"{" LLAMA ",\"attention_bias\":true}", CADRE_E_UNSUPPORTED, "attention_bias"},
    {"{" LLAMA ",\"mlp_bias\":true}", CADRE_E_UNSUPPORTED, "mlp_bias"},
    {"{" LLAMA ",\"head_dim\":7}", CADRE_E_UNSUPPORTED, "head_dim"},
    {"{" LLAMA ",\"num_key_value_heads\":3}", CADRE_E_INVALID, "num_key_value_heads"},
    {"{" LLAMA ",\"quantization_config\":{}}", CADRE_E_UNSUPPORTED, "quantization"},
    {"{" LLAMA ",\"rms_norm_eps\":\"small\"}", CADRE_E_INVALID, "rms_norm_eps"},
    {"{" LLAMA ",\"rope_theta\":-1}", CADRE_E_INVALID, "rope_theta"},
    {"{" GPT2 ",\"activation_function\":\"relu\"}", CADRE_E_UNSUPPORTED, "gelu_new"},
    {"{" GPT2 ",\"activation_function\":3}", CADRE_E_UNSUPPORTED, "gelu_new"},
    {"{" GPT2 ",\"scale_attn_weights\":false}", CADRE_E_UNSUPPORTED,
     "scale_attn_weights"},
    {"{" GPT2 ",\"scale_attn_by_inverse_layer_idx\":true}", CADRE_E_UNSUPPORTED,
     "inverse_layer"},
    {"{" GPT2 ",\"add_cross_attention\":true}", CADRE_E_UNSUPPORTED, "cross"},
    {"{" GPT2 ",\"n_embd\":8}", CADRE_E_INVALID, "duplicate"},
    {"{" GPT2 ",\"n_inner\":0}", CADRE_E_INVALID, "n_inner"},
    {"{" GPT2 ",\"n_inner\":4294967296}", CADRE_E_INVALID, "n_inner"},
    {"{" GPT2 ",\"tie_word_embeddings\":1}", CADRE_E_INVALID, "tie_word_embeddings"},
    {"{\"model_type\":\"gpt2\",\"n_layer\":1,\"n_embd\":9,\"n_head\":2,"
     "\"n_positions\":4,\"vocab_size\":16}",
     CADRE_E_INVALID, "n_embd"},
    {"{\"model_type\":\"gpt2\"}", CADRE_E_INVALID, "n_layer"},
    {"{\"model_type\":\"mamba\"}", CADRE_E_UNSUPPORTED, "mamba"},
    {"{}", CADRE_E_UNSUPPORTED, "model_type"},
    {"[]", CADRE_E_INVALID, "object"},
    {"{", CADRE_E_INVALID, "JSON"},
    {"", CADRE_E_INVALID, "JSON"},
};

START_TEST(what_cannot_be_trained_is_refused_in_words)
{
    struct cadre_hf_config config;
    cadre_status rc = read_text(bad[_i].text, &config);
    ck_assert_msg(rc == bad[_i].status, "%s: %d %s", bad[_i].text, rc, err.text);
    ck_assert_msg(strstr(err.text, bad[_i].word), "'%s' lacks '%s'", err.text,
                  bad[_i].word);
    ck_assert_ptr_nonnull(strstr(err.text, "config.json"));
}
END_TEST

START_TEST(no_config_is_one_line)
{
    struct cadre_hf_config config;
    ck_assert_int_eq(cadre_hf_config_read(dir, &config, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "config.json"));
    ck_assert_int_eq(cadre_hf_config_write("/nonexistent/x", &round_trips[0], &err),
                     CADRE_E_IO);
}
END_TEST

static void check_written(const char *part, bool is_there)
{
    char *path = cadre_format("%s/config.json", dir), *text = NULL;
    size_t bytes = 0;
    ck_assert_int_eq(cadre_file_read_whole(path, 1 << 16, &text, &bytes, &err),
                     CADRE_OK);
    ck_assert_msg((strstr(text, part) != NULL) == is_there, "%s: %s", part, text);
    free(text);
    free(path);
}

/* null where a tokenizer has none; nothing where none is known. */
START_TEST(marks_are_written)
{
    struct cadre_hf_config config = round_trips[0];
    ck_assert_int_eq(cadre_hf_config_write(dir, &config, &err), CADRE_OK);
    check_written("token_id", false);
    config.marks = (struct cadre_hf_marks){true, 3, 0, -1};
    ck_assert_int_eq(cadre_hf_config_write(dir, &config, &err), CADRE_OK);
    check_written("\"bos_token_id\": 3", true);
    check_written("\"eos_token_id\": 0", true);
    check_written("\"pad_token_id\": null", true);
}
END_TEST

/* What a file says, null too, stays; so does a file that lacks nothing, to the byte. */
START_TEST(marks_are_added)
{
    const struct cadre_hf_marks marks = {true, 3, 4, -1}, unknown = {.bos = 3};
    struct cadre_hf_config config;
    read_text("{" GPT2 ",  \"x\":0.1,\"bos_token_id\":null}", &config);
    ck_assert_int_eq(cadre_hf_config_add_marks(dir, &unknown, &err), CADRE_OK);
    check_written(",  \"x\":0.1,\"bos_token_id\":null", true);
    ck_assert_int_eq(cadre_hf_config_add_marks(dir, &marks, &err), CADRE_OK);
    check_written("\"bos_token_id\": null", true);
    check_written("\"eos_token_id\": 4", true);
    check_written("pad_token_id", false);
    check_written("\"n_embd\": 8", true);
    read_text("{" GPT2 ",  \"bos_token_id\":1,\"eos_token_id\":[1,2]}", &config);
    ck_assert_int_eq(cadre_hf_config_add_marks(dir, &marks, &err), CADRE_OK);
    check_written(",  \"bos_token_id\":1,\"eos_token_id\":[1,2]}", true);
    read_text("[]", &config);
    ck_assert_int_eq(cadre_hf_config_add_marks(dir, &marks, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "config.json: expected a JSON object"));
}
END_TEST

static const struct {
    const char *text;
    enum cadre_hf_family family;
    struct cadre_rotary rotary;
    int64_t head_size, window;
} good[] = {
    {"{" LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}}",
     CADRE_HF_FAMILY_LLAMA,
     {1e4, CADRE_ROTARY_LINEAR, 2, 0, 0, 0},
     4,
     0},
    {"{" LLAMA ",\"rope_scaling\":{\"type\":\"default\"}}",
     CADRE_HF_FAMILY_LLAMA,
     {1e4, 0, 0, 0, 0, 0},
     4,
     0},
    {"{" LLAMA ",\"rope_parameters\":{\"type\":\"linear\",\"factor\":3,"
     "\"rope_theta\":7}}",
     CADRE_HF_FAMILY_LLAMA,
     {7, CADRE_ROTARY_LINEAR, 3, 0, 0, 0},
     4,
     0},
    {"{" LLAMA3 ",\"low_freq_factor\":1,\"high_freq_factor\":4,"
     "\"original_max_position_embeddings\":4},\"rope_theta\":5e5,\"head_dim\":6}",
     CADRE_HF_FAMILY_LLAMA,
     {5e5, CADRE_ROTARY_LLAMA3, 8, 1, 4, 4},
     6,
     0},
    {"{" MISTRAL ",\"num_key_value_heads\":2,\"sliding_window\":null,\"dtype\":\"x\"}",
     CADRE_HF_FAMILY_MISTRAL,
     {1e4, 0, 0, 0, 0, 0},
     4,
     0},
    {"{" MISTRAL ",\"num_key_value_heads\":1,\"sliding_window\":4}",
     CADRE_HF_FAMILY_MISTRAL,
     {1e4, 0, 0, 0, 0, 0},
     4,
     4},
    {"{" MISTRAL ",\"num_key_value_heads\":1}",
     CADRE_HF_FAMILY_MISTRAL,
     {1e4, 0, 0, 0, 0, 0},
     4,
     4096},
    {"{" QWEN(2) ",\"sliding_window\":3,\"use_sliding_window\":false}",
     CADRE_HF_FAMILY_QWEN2,
     {1e4, 0, 0, 0, 0, 0},
     4,
     0},
    {"{" QWEN(2) ",\"sliding_window\":3,\"use_sliding_window\":true,"
                 "\"max_window_layers\":2}",
     CADRE_HF_FAMILY_QWEN2,
     {1e4, 0, 0, 0, 0, 0},
     4,
     0},
    {"{" QWEN(2) ",\"sliding_window\":3,\"use_sliding_window\":true,"
                 "\"max_window_layers\":1}",
     CADRE_HF_FAMILY_QWEN2,
     {1e4, 0, 0, 0, 0, 0},
     4,
     3},
    {"{" QWEN(2) ",\"sliding_window\":3,\"use_sliding_window\":true,"
                 "\"layer_types\":[\"full_attention\",\"sliding_attention\"]}",
     CADRE_HF_FAMILY_QWEN2,
     {1e4, 0, 0, 0, 0, 0},
     4,
     3},
    {"{" QWEN(3) ",\"head_dim\":10,\"layer_types\":[\"full_attention\","
                 "\"full_attention\"]}",
     CADRE_HF_FAMILY_QWEN3,
     {1e4, 0, 0, 0, 0, 0},
     10,
     0},
};

START_TEST(families_are_told_apart)
{
    struct cadre_hf_config config;
    ck_assert_msg(read_text(good[_i].text, &config) == CADRE_OK, "%s: %s",
                  good[_i].text, err.text);
    ck_assert_int_eq(config.family, good[_i].family);
    ck_assert(cadre_rotary_equal(&config.rotary, &good[_i].rotary));
    ck_assert_int_eq(config.head_size, good[_i].head_size);
    ck_assert_int_eq(config.window, good[_i].window);
    ck_assert(config.qkv_bias == (config.family == CADRE_HF_FAMILY_QWEN2));
    ck_assert(config.qk_norm == (config.family == CADRE_HF_FAMILY_QWEN3));
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("hf_config");
    TCase *tc = tcase_create("hf_config");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, tiny_gpt2_is_read);
    tcase_add_test(tc, stories_llama_is_read);
    tcase_add_loop_test(tc, what_is_written_is_read, 0,
                        sizeof round_trips / sizeof round_trips[0]);
    tcase_add_test(tc, defaults_are_hugging_faces);
    tcase_add_loop_test(tc, families_are_told_apart, 0, sizeof good / sizeof good[0]);
    tcase_add_loop_test(tc, what_cannot_be_trained_is_refused_in_words, 0,
                        sizeof bad / sizeof bad[0]);
    tcase_add_test(tc, no_config_is_one_line);
    tcase_add_test(tc, marks_are_written);
    tcase_add_test(tc, marks_are_added);
    suite_add_tcase(suite, tc);
    return suite;
}
