/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/resolved.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "tests/support/check_main.h"
#include "tests/train/spec_fixture.h"

static struct spec_fixture f;

static void setup(void)
{
    spec_fixture_open(&f);
    ck_assert_int_eq(chdir(f.dir), 0);
}

static void teardown(void)
{
    ck_assert_int_eq(chdir("/"), 0);
    spec_fixture_close(&f);
}

static void has(const struct cadre_spec *spec, const char *key, const char *value,
                const char *source)
{
    ck_assert_str_eq(cadre_options_raw(spec->options, key), value);
    ck_assert_str_eq(cadre_options_source(spec->options, key), source);
}

START_TEST(what_is_left_open_is_filled_in)
{
    struct cadre_spec *spec = spec_fixture_make(&f, "model.norm_eps=0.00001");
    has(spec, "run.name", "test", "the file's name");
    has(spec, "model.vocab", "256", "found for this run");
    has(spec, "model.hidden", "64", "found for this run");
    has(spec, "model.kv_heads", "2", "found for this run");
    has(spec, "model.tied", "yes", "found for this run");
    has(spec, "model.norm_eps", "0.00001", "command line");
    has(spec, "model.rope_theta", "10000", "default");
    ck_assert_int_eq(spec->config.model.vocab, 256);
    ck_assert_str_eq(spec->config.run.name, "test");
    cadre_spec_destroy(spec);
}
END_TEST

static const char llama[] =
    "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"],"
    " \"num_hidden_layers\": 3, \"hidden_size\": 32, \"num_attention_heads\": 4,"
    " \"num_key_value_heads\": 2, \"intermediate_size\": 96,"
    " \"max_position_embeddings\": 24, \"vocab_size\": 300, \"rms_norm_eps\": 3e-6,"
    " \"rope_theta\": 50000.5, \"hidden_act\": \"silu\"}";

/* The fixture sets sizes; these are the folder's. */
#define AS_INIT                                                                        \
    "model.init=init model.layers=3 model.channels=32 model.heads=4 model.context=24 "

START_TEST(the_folder_of_model_init_fills_the_model)
{
    char *folder = cadre_path_join(f.dir, "init");
    ck_assert_int_eq(cadre_path_make_dirs(folder, NULL), CADRE_OK);
    spec_fixture_write(&f, "init/config.json", llama);
    struct cadre_spec *spec = NULL;
    /* its ids are not bytes, unless that is what is wanted */
    ck_assert_int_eq(spec_fixture_try(&f, AS_INIT, &spec), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(f.err.text, "a vocabulary of 300 tokens"));
    spec = spec_fixture_make(&f, AS_INIT " data.tokenizer=byte");
    has(spec, "model.arch", "llama", "found in model.init");
    has(spec, "model.kv_heads", "2", "found in model.init");
    has(spec, "model.hidden", "96", "found in model.init");
    has(spec, "model.vocab", "300", "found in model.init");
    has(spec, "model.tied", "no", "found in model.init");
    has(spec, "model.norm_eps", "3e-06", "found in model.init");
    has(spec, "model.rope_theta", "50000.5", "found in model.init");
    has(spec, "model.init", folder, "command line");
    ck_assert_int_eq(spec->run.time, 24);
    cadre_spec_destroy(spec);
    free(folder);
}
END_TEST

/* f.dir may be reached by links; what a run writes is what getcwd says. */
static char *here(const char *before, const char *after)
{
    char cwd[1200];
    ck_assert_ptr_nonnull(getcwd(cwd, sizeof cwd));
    return cadre_format("%s%s/%s", before, cwd, after);
}

START_TEST(paths_hold_in_every_folder)
{
    struct cadre_spec *spec =
        spec_fixture_make(&f, "data.path=./text run.out=runs strategy.plugin_path=/a:b "
                              "checkpoint.resume=auto data.cache=cache");
    const char *const keys[][3] = {
        {"data.path", "", "text"},
        {"run.out", "", "runs"},
        {"strategy.plugin_path", "/a:", "b"},
        {"data.cache", "", "cache"},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char *wanted = here(keys[i][1], keys[i][2]);
        has(spec, keys[i][0], wanted, "command line");
        free(wanted);
    }
    has(spec, "checkpoint.resume", "auto", "command line");
    has(spec, "data.tokenizer", "byte", "default");
    has(spec, "model.init", "", "default");
    cadre_spec_destroy(spec);
}
END_TEST

static void stack_becomes(const char *stack, const char *before, const char *after)
{
    struct cadre_options *options;
    ck_assert_int_eq(cadre_options_create(&options, &f.err), CADRE_OK);
    char *text = cadre_format("strategy.stack=%s", stack);
    ck_assert_int_eq(cadre_options_set(options, text, "x", &f.err), CADRE_OK);
    ck_assert_int_eq(cadre_resolved_paths(options, &f.err), CADRE_OK);
    char *wanted = *after ? here(before, after) : cadre_strdup(before);
    ck_assert_str_eq(cadre_options_raw(options, "strategy.stack"), wanted);
    free(wanted);
    free(text);
    cadre_options_destroy(options);
}

START_TEST(plugins_that_are_files)
{
    stack_becomes("./x.so:2", "", "x.so:2");
    stack_becomes("ddp:2, sub/y.so:*", "ddp:2, ", "sub/y.so:*");
    stack_becomes("pipeline:2,zero:2", "pipeline:2,zero:2", "");
    stack_becomes("single", "single", "");
}
END_TEST

/* Neither a file name nor a folder may make a run impossible. */
START_TEST(what_an_ini_file_cannot_hold_stays)
{
    struct cadre_options *options;
    struct cadre_model_config model = {.layers = 2};
    char *odd = cadre_path_join(f.dir, "o;'d\"d");
    ck_assert_int_eq(cadre_path_make_dirs(odd, NULL), CADRE_OK);
    ck_assert_int_eq(chdir(odd), 0);
    ck_assert_int_eq(cadre_options_create(&options, &f.err), CADRE_OK);
    ck_assert_int_eq(cadre_options_set(options, "data.path=text", "x", &f.err),
                     CADRE_OK);
    ck_assert_int_eq(cadre_resolved_paths(options, &f.err), CADRE_OK);
    ck_assert_str_eq(cadre_options_raw(options, "data.path"), "text");
    ck_assert_int_eq(cadre_resolved_values(options, "a;'\"", "", &model, &f.err),
                     CADRE_OK);
    ck_assert_str_eq(cadre_options_raw(options, "run.name"), "");
    ck_assert_str_eq(cadre_options_raw(options, "model.layers"), "2");
    cadre_options_destroy(options);
    free(odd);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("resolved");
    TCase *tc = tcase_create("resolved");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, what_is_left_open_is_filled_in);
    tcase_add_test(tc, the_folder_of_model_init_fills_the_model);
    tcase_add_test(tc, paths_hold_in_every_folder);
    tcase_add_test(tc, plugins_that_are_files);
    tcase_add_test(tc, what_an_ini_file_cannot_hold_stays);
    suite_add_tcase(s, tc);
    return s;
}
