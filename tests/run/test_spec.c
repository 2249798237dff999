/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"
#include "tests/train/spec_fixture.h"

static struct spec_fixture f;

static void setup(void)
{
    spec_fixture_open(&f);
}

static void teardown(void)
{
    spec_fixture_close(&f);
}

START_TEST(a_run_from_options)
{
    struct cadre_spec *spec = spec_fixture_make(&f, "");
    const struct cadre_run_spec *run = &spec->run;
    ck_assert_str_eq(spec->name, "test");
    ck_assert_str_eq(spec->stack, "single");
    ck_assert_str_eq(spec->out, f.out);
    ck_assert_int_eq(run->ranks, 1);
    ck_assert_int_eq(run->model.vocab, 256);
    ck_assert_int_eq(run->model.hidden, 64);
    ck_assert_int_eq(run->model.kv_heads, 2);
    ck_assert(run->model.tied);
    ck_assert_int_eq(run->time, 16);
    ck_assert_int_eq(spec->steps, 20);
    ck_assert_double_eq(run->optim.beta2, 0.95);
    ck_assert_double_eq(run->optim.eps, 1e-8);
    cadre_spec_destroy(spec);
    cadre_spec_destroy(NULL);
}
END_TEST

START_TEST(llama_defaults)
{
    struct cadre_spec *spec = spec_fixture_make(
        &f,
        "model.arch=llama model.kv_heads=1 train.precision=fp64 model.channels=100");
    const struct cadre_model_config *m = &spec->run.model;
    ck_assert_int_eq(m->hidden, 288); /* 8/3 of 100, up to a multiple of 32 */
    ck_assert_int_eq(m->kv_heads, 1);
    ck_assert(!m->tied);
    ck_assert_uint_eq(m->dtype, CADRE_F64);
    cadre_spec_destroy(spec);
}
END_TEST

START_TEST(nodes_are_simulated)
{
    struct cadre_spec *spec = spec_fixture_make(
        &f, "strategy.stack=ddp:4 comm.link=12.5:5,1.25:30 comm.node=3");
    ck_assert_double_eq(spec->local.link.gbytes_s, 12.5);
    ck_assert_double_eq(spec->local.between.gbytes_s, 1.25);
    ck_assert_int_eq(spec->run.node, 3);
    cadre_spec_destroy(spec);
}
END_TEST

START_TEST(stacks_make_ranks)
{
    struct cadre_spec *spec = spec_fixture_make(
        &f, "strategy.stack=ddp:4 comm.ranks=processes comm.timeout=7 "
            "comm.link=10:50 ddp.bucket_mb=3");
    ck_assert_int_eq(spec->run.ranks, 4);
    ck_assert_int_eq(spec->local.size, 4);
    ck_assert(spec->local.processes);
    ck_assert_double_eq(spec->local.timeout_s, 7);
    ck_assert_double_eq(spec->local.link.gbytes_s, 10);
    ck_assert_double_eq(spec->local.between.gbytes_s, 0);
    ck_assert_int_eq(spec->run.node, 0);
    ck_assert_str_eq(spec->stack, "ddp:4");
    cadre_spec_destroy(spec);
    spec = spec_fixture_make(&f, "strategy.stack=ddp");
    ck_assert_str_eq(spec->stack, "ddp:1");
    cadre_spec_destroy(spec);
}
END_TEST

START_TEST(epochs_count_samples)
{
    struct cadre_spec *spec = spec_fixture_make(&f, "train.steps=0 train.epochs=3");
    uint64_t samples = spec->data_info.train_samples;
    ck_assert_int_eq(spec->steps, (int64_t)((3 * samples + 7) / 8));
    ck_assert_int_eq(spec->run.optim.steps, spec->steps);
    cadre_spec_destroy(spec);
}
END_TEST

START_TEST(the_fingerprint_is_of_what_matters)
{
    struct cadre_spec *one = spec_fixture_make(&f, "");
    struct cadre_spec *same = spec_fixture_make(&f, "");
    struct cadre_spec *lr = spec_fixture_make(&f, "optim.lr=2e-3");
    ck_assert_uint_eq(one->run.fingerprint, same->run.fingerprint);
    ck_assert_uint_ne(one->run.fingerprint, lr->run.fingerprint);
    spec_fixture_write(&f, "text",
                       "other words, other words, other words, other words, "
                       "other words, other words, other words, other words, "
                       "other words, other words, other words, other words");
    struct cadre_spec *data = spec_fixture_make(&f, "data.valid_fraction=0");
    ck_assert_uint_ne(one->data_info.fingerprint, data->data_info.fingerprint);
    ck_assert_uint_ne(one->run.fingerprint, data->run.fingerprint);
    cadre_spec_destroy(one);
    cadre_spec_destroy(same);
    cadre_spec_destroy(lr);
    cadre_spec_destroy(data);
}
END_TEST

START_TEST(threads_are_divided)
{
    struct cadre_spec *spec = spec_fixture_make(&f, "device.threads=0");
    int all = spec->run.device.threads;
    ck_assert_int_ge(all, 1);
    cadre_spec_destroy(spec);
    spec = spec_fixture_make(&f, "device.threads=0 strategy.stack=ddp:4");
    ck_assert_int_eq(spec->run.device.threads, all / 4 > 1 ? all / 4 : 1);
    cadre_spec_destroy(spec);
    /* one of four on each machine has it for itself; many share what there is */
    f.given_ranks = 4;
    f.local_ranks = 1;
    spec = spec_fixture_make(&f, "device.threads=0 strategy.stack=ddp:4");
    ck_assert_int_eq(spec->run.device.threads, all);
    cadre_spec_destroy(spec);
    f.local_ranks = 1 << 20;
    spec = spec_fixture_make(&f, "device.threads=0 strategy.stack=ddp:4");
    ck_assert_int_eq(spec->run.device.threads, 1);
    cadre_spec_destroy(spec);
    f.given_ranks = f.local_ranks = 0;
}
END_TEST

/* Every refusal is one line that has what the user must know. */
static const struct {
    const char *sets, *says[2];
} wrong[] = {
    {"strategy.stack=dpd:2", {"dpd", "ddp"}},
    {"strategy.stack=ddp:0", {"strategy.stack", "'0'"}},
    {"strategy.stack=ddp:2,ddp:2", {"'ddp' is listed twice", ""}},
    {"strategy.stack=ddp:5000", {"strategy.stack", "5000 ranks, expected at most"}},
    {"ddp.bucket=3 strategy.stack=ddp:2", {"ddp.bucket", "bucket_mb"}},
    {"ddp.bucket_mb=-1 strategy.stack=ddp:2", {"ddp.bucket_mb", "-1"}},
    {"optim.lrate=1", {"optim.lrate", "optim.lr"}},
    {"nosection.key=1", {"nosection", ""}},
    {"train.steps=ten", {"train.steps", "ten"}},
    {"train.micro_batch=3", {"train.global_batch = 8", "train.micro_batch = 3"}},
    {"train.loss_scale=3", {"train.loss_scale = 3", "a power of two"}},
    {"train.precision=fp8", {"train.precision", "fp8"}},
    {"model.head=classify", {"model.head = classify", "data.task"}},
    {"model.vocab=200", {"model.vocab = 200", "256"}},
    {"run.elastic=yes strategy.stack=ddp:2", {"run.elastic", "comm.ranks = processes"}},
    {"comm.link=fast", {"comm.link", "fast"}},
    {"comm.link=1:2,3:4", {"comm.link = 1:2,3:4", "comm.node = 0"}},
    {"comm.node=-1", {"comm.node", "-1"}},
    {"comm.timeout=0", {"comm.timeout", "0"}},
    {"data.path=/nonexistent/file", {"/nonexistent/file", ""}},
    {"data.tokenizer=/nonexistent/tok", {"/nonexistent/tok", ""}},
    {"model.init=/nonexistent/model", {"/nonexistent/model", ""}},
    {"device.kind=tpu", {"device.kind", "tpu"}},
    {"bench.steps=5 bench.target=2.5", {"bench.steps = 5", "bench.target = 2.5"}},
    {"bench.steps=-1", {"bench.steps", "-1"}},
    {"bench.windows=65", {"bench.windows", "65"}},
    {"bench.target=nan", {"bench.target", "nan"}},
    {"data.format=wfdb", {"/text", ""}},
};

START_TEST(wrong_input_is_one_useful_line)
{
    struct cadre_spec *spec = NULL;
    cadre_status rc = spec_fixture_try(&f, wrong[_i].sets, &spec);
    ck_assert_msg(rc == CADRE_E_INVALID || rc == CADRE_E_IO, "%s: %d, %s",
                  wrong[_i].sets, rc, f.err.text);
    ck_assert_ptr_null(spec);
    ck_assert_ptr_null(strchr(f.err.text, '\n'));
    for (int i = 0; i < 2; i++)
        ck_assert_msg(strstr(f.err.text, wrong[_i].says[i]) != NULL, "'%s' lacks '%s'",
                      f.err.text, wrong[_i].says[i]);
}
END_TEST

START_TEST(a_name_too_long_for_a_folder)
{
    struct cadre_spec *spec = NULL;
    memset(f.out, 'x', sizeof f.out - 1);
    ck_assert_int_eq(spec_fixture_try(&f, "", &spec), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(f.err.text, "characters"));
}
END_TEST

START_TEST(a_launcher_gives_the_ranks)
{
    const struct cadre_spec_request request = {.name = "x", .given_ranks = 3};
    struct cadre_options *options;
    struct cadre_spec *spec = NULL;
    ck_assert_int_eq(cadre_options_create(&options, &f.err), CADRE_OK);
    cadre_options_set(options, "strategy.stack=ddp:*", "command line", NULL);
    cadre_options_set(options, "model.vocab=10", "command line", NULL);
    cadre_status rc = cadre_spec_create(options, &request, &spec, &f.err);
    ck_assert_msg(rc == CADRE_OK, "%s", f.err.text);
    ck_assert_str_eq(spec->stack, "ddp:3");
    ck_assert_str_eq(spec->out, "runs/x");
    ck_assert_ptr_null(spec->data);
    cadre_spec_destroy(spec);
}
END_TEST

START_TEST(a_benchmark_has_a_folder_of_its_own)
{
    const struct cadre_spec_request request = {.name = "x"};
    struct cadre_options *options;
    struct cadre_spec *spec = NULL;
    ck_assert_int_eq(cadre_options_create(&options, &f.err), CADRE_OK);
    cadre_options_set(options, "bench.target=2", "command line", NULL);
    cadre_options_set(options, "model.vocab=10", "command line", NULL);
    cadre_status rc = cadre_spec_create(options, &request, &spec, &f.err);
    ck_assert_msg(rc == CADRE_OK, "%s", f.err.text);
    ck_assert_str_eq(spec->out, "runs/x-bench");
    ck_assert_str_eq(spec->name, "x");
    cadre_spec_destroy(spec);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("spec");
    TCase *tc = tcase_create("spec");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_run_from_options);
    tcase_add_test(tc, llama_defaults);
    tcase_add_test(tc, nodes_are_simulated);
    tcase_add_test(tc, stacks_make_ranks);
    tcase_add_test(tc, epochs_count_samples);
    tcase_add_test(tc, the_fingerprint_is_of_what_matters);
    tcase_add_test(tc, threads_are_divided);
    tcase_add_loop_test(tc, wrong_input_is_one_useful_line, 0,
                        (int)(sizeof wrong / sizeof *wrong));
    tcase_add_test(tc, a_name_too_long_for_a_folder);
    tcase_add_test(tc, a_launcher_gives_the_ranks);
    tcase_add_test(tc, a_benchmark_has_a_folder_of_its_own);
    suite_add_tcase(s, tc);
    return s;
}
