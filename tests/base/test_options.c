/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "tests/support/check_main.h"

static char *dir;

static void make_dir(void)
{
    dir = test_tmpdir();
}

static void remove_dir(void)
{
    test_tmpdir_remove(dir);
    free(dir);
}

static const struct cadre_option_spec zero_specs[] = {
    {"zero", "stage", CADRE_OPT_I64, "1", NULL, 1, 3, "what is sharded", 0},
    {"zero", "bucket", CADRE_OPT_BYTES, "25M", NULL, 0, 0x1p40, "bucket size", 0},
    {"zero", "offload", CADRE_OPT_BOOL, "no", NULL, 0, 0, "to the host", 0},
};

/* The caller frees. */
static char *write_file(const char *name, const char *text)
{
    char *path = cadre_path_join(dir, name);
    ck_assert_int_eq(cadre_path_write_file(path, text, strlen(text), NULL), CADRE_OK);
    return path;
}

static struct cadre_options *create(void)
{
    struct cadre_options *o = NULL;
    struct cadre_error err = {0};
    cadre_status rc = cadre_options_create(&o, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    return o;
}

static cadre_status load_text(struct cadre_options *o, const char *text,
                              struct cadre_error *err)
{
    char *path = write_file("x.ini", text);
    cadre_status rc = cadre_options_load(o, path, err);
    free(path);
    return rc;
}

static void must(cadre_status rc, const struct cadre_error *err)
{
    ck_assert_msg(rc == CADRE_OK, "%s", err->text);
}

START_TEST(defaults_resolve)
{
    struct cadre_error err = {0};
    struct cadre_options *o = create();
    must(cadre_options_resolve(o, &err), &err);
    ck_assert_int_eq(cadre_options_i64(o, "run.seed"), 1337);
    ck_assert_str_eq(cadre_options_str(o, "strategy.stack"), "single");
    ck_assert_double_eq(cadre_options_f64(o, "optim.beta2"), 0.95);
    ck_assert(!cadre_options_bool(o, "run.exact"));
    ck_assert_str_eq(cadre_options_source(o, "run.seed"), "default");
    ck_assert_ptr_null(cadre_options_source(o, "run.sed"));
    ck_assert_ptr_null(cadre_options_raw(o, "run.sed"));
    cadre_options_destroy(o);
    cadre_options_destroy(NULL);
}
END_TEST

START_TEST(every_key_of_the_contract_exists)
{
    static const char *const names[] = {
        "run.name",
        "run.seed",
        "run.out",
        "run.exact",
        "run.extends",
        "run.elastic",
        "model.arch",
        "model.layers",
        "model.channels",
        "model.heads",
        "model.kv_heads",
        "model.hidden",
        "model.context",
        "model.vocab",
        "model.head",
        "model.init",
        "data.format",
        "data.path",
        "data.tokenizer",
        "data.window",
        "data.levels",
        "data.range_mv",
        "data.lead",
        "data.task",
        "data.valid_fraction",
        "data.valid_records",
        "data.shuffle",
        "data.prefetch",
        "data.pinned",
        "train.steps",
        "train.epochs",
        "train.global_batch",
        "train.micro_batch",
        "train.precision",
        "train.recompute",
        "train.eval_every",
        "optim.name",
        "optim.lr",
        "optim.min_lr",
        "optim.schedule",
        "optim.warmup",
        "optim.momentum",
        "optim.weight_decay",
        "optim.beta1",
        "optim.beta2",
        "optim.eps",
        "optim.clip",
        "device.kind",
        "device.threads",
        "comm.backend",
        "comm.ranks",
        "comm.link",
        "comm.timeout",
        "strategy.stack",
        "strategy.plugin_path",
        "checkpoint.every",
        "checkpoint.keep",
        "checkpoint.async",
        "checkpoint.resume",
        "log.level",
        "log.every",
        "log.trace",
        "log.progress",
        "compare.baseline",
        "compare.runs",
        "compare.repeats",
        "compare.warmup",
    };
    struct cadre_options *o = create();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        ck_assert_msg(cadre_options_raw(o, names[i]) != NULL, "%s", names[i]);
    cadre_options_destroy(o);
}
END_TEST

START_TEST(later_sources_win)
{
    struct cadre_error err = {0};
    struct cadre_options *o = create();
    must(load_text(o, "[train]\nsteps = 7\n\n[optim]\nLR = 3e-4\n", &err), &err);
    must(cadre_options_set(o, "train.steps=9", "environment CADRE_X", &err), &err);
    must(cadre_options_set(o, "Train.Steps = 11 ", "command line", &err), &err);
    ck_assert_str_eq(cadre_options_raw(o, "optim.lr"), "3e-4");
    must(cadre_options_resolve(o, &err), &err);
    ck_assert_int_eq(cadre_options_i64(o, "train.steps"), 11);
    ck_assert_str_eq(cadre_options_source(o, "train.steps"), "command line");
    const char *source = cadre_options_source(o, "optim.lr");
    ck_assert_str_eq(source + strlen(source) - strlen("x.ini:5"), "x.ini:5");
    cadre_options_destroy(o);
}
END_TEST

START_TEST(plugin_sections_wait_for_their_specs)
{
    struct cadre_error err = {0};
    struct cadre_options *o = create();
    must(load_text(o, "[zero]\nstage = 3\nbucket = 64k\n[mig]\nmode = x\n", &err),
         &err);
    ck_assert_str_eq(cadre_options_raw(o, "zero.stage"), "3");
    ck_assert_int_eq(cadre_options_resolve(o, &err), CADRE_E_INVALID);
    must(cadre_options_add_specs(o, zero_specs, 3, &err), &err);
    must(cadre_options_add_specs(o, zero_specs, 3, &err), &err);
    ck_assert_int_eq(cadre_options_resolve(o, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "mig"));
    must(cadre_options_allow_section(o, "mig", &err), &err);
    must(cadre_options_resolve(o, &err), &err);
    ck_assert_int_eq(cadre_options_i64(o, "zero.stage"), 3);
    ck_assert_int_eq(cadre_options_i64(o, "zero.bucket"), 65536);
    ck_assert(!cadre_options_bool(o, "zero.offload"));

    struct cadre_option_spec other = zero_specs[0];
    other.def = "2";
    ck_assert_int_eq(cadre_options_add_specs(o, &other, 1, &err), CADRE_E_INVALID);
    other.key = "broken";
    other.def = "9";
    ck_assert_int_eq(cadre_options_add_specs(o, &other, 1, &err), CADRE_E_INVALID);
    cadre_options_destroy(o);
}
END_TEST

START_TEST(clone_is_independent)
{
    struct cadre_error err = {0};
    struct cadre_options *o = create();
    must(load_text(o, "[train]\nsteps = 7\n[run:a]\ntrain.steps = 8\n", &err), &err);
    must(cadre_options_resolve(o, &err), &err);
    struct cadre_options *copy = cadre_options_clone(o);
    ck_assert_int_eq(cadre_options_i64(copy, "train.steps"), 7);
    must(cadre_options_apply_run(copy, "a", &err), &err);
    cadre_options_destroy(o);
    must(cadre_options_resolve(copy, &err), &err);
    ck_assert_int_eq(cadre_options_i64(copy, "train.steps"), 8);
    cadre_options_destroy(copy);
}
END_TEST

START_TEST(extends_reads_the_base_first)
{
    struct cadre_error err = {0};
    struct cadre_options *o = create();
    char *sub = cadre_path_join(dir, "sub");
    must(cadre_path_make_dirs(sub, &err), &err);
    free(write_file("base.ini", "[train]\nsteps = 1\nepochs = 2\n"));
    free(write_file("sub/mid.ini",
                    "[run]\nextends = ../base.ini\n[train]\nsteps = 3\n"));
    must(load_text(o, "[train]\nmicro_batch = 2\n[run]\nextends = sub/mid.ini\n", &err),
         &err);
    must(cadre_options_resolve(o, &err), &err);
    ck_assert_int_eq(cadre_options_i64(o, "train.steps"), 3);
    ck_assert_int_eq(cadre_options_i64(o, "train.epochs"), 2);
    ck_assert_int_eq(cadre_options_i64(o, "train.micro_batch"), 2);
    ck_assert_ptr_nonnull(
        strstr(cadre_options_source(o, "train.epochs"), "base.ini:3"));
    cadre_options_destroy(o);
    free(sub);
}
END_TEST

START_TEST(extends_refuses_circles_and_gaps)
{
    struct cadre_error err = {0};
    struct cadre_options *o = create();
    free(write_file("b.ini", "[run]\nextends = ./x.ini\n"));
    ck_assert_int_eq(load_text(o, "[run]\nextends = b.ini\n", &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "goes round in a circle"));
    ck_assert_int_eq(load_text(o, "[run]\nextends = x.ini\n", &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "goes round in a circle"));
    ck_assert_int_eq(load_text(o, "[run]\nextends = gone.ini\n", &err), CADRE_E_IO);
    ck_assert_ptr_nonnull(strstr(err.text, "x.ini:2: run.extends: cannot open"));
    free(write_file("bad.ini", "[s]\noops\n"));
    ck_assert_int_eq(load_text(o, "[run]\nextends = bad.ini\n", &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "bad.ini:2: 'oops' is not understood"));
    cadre_options_destroy(o);
}
END_TEST

/* Every wrong value or key gives one line that says where, what and what else. */
START_TEST(wrong_inputs_are_one_useful_line)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"[train]\nstep = 3\n", "x.ini:2: unknown option train.step, the nearest is "
                                "train.steps"},
        {"[trian]\nsteps = 3\n",
         "unknown option trian.steps, the nearest is train.steps"},
        {"[modle]\n", "x.ini:1: unknown section [modle], the nearest is [model]"},
        {"[train]\nlr = 1\n", "unknown option train.lr, the nearest is optim.lr"},
        {"[qqqqqq]\nzzz = 3\n", "unknown section [qqqqqq]"},
        {"[train]\nqqqqqqqqqqqq = 3\n", "none is like it"},
        {"[train]\nsteps = 10x\n",
         "x.ini:2: train.steps: expected a whole number from 0"},
        {"[train]\nsteps = 010\n", "found '010'"},
        {"[train]\nsteps = 0x10\n", "found '0x10'"},
        {"[train]\nsteps = 1e3\n", "found '1e3'"},
        {"[train]\nsteps = 1.0\n", "found '1.0'"},
        {"[train]\nsteps =\n", "found ''"},
        {"[train]\nsteps = -1\n", "out of range"},
        {"[train]\nsteps = 99999999999999999999\n", "does not fit in 64 bits"},
        {"[train]\nsteps = 1 2\n", "found '1 2'"},
        {"[run]\nseed = -1\n", "run.seed: expected a whole number"},
        {"[optim]\nlr = fast\n", "optim.lr: expected a number from 0 to 1000"},
        {"[optim]\nlr = nan\n", "found 'nan'"},
        {"[optim]\nlr = inf\n", "found 'inf'"},
        {"[optim]\nlr = 0x1p3\n", "found '0x1p3'"},
        {"[optim]\nlr = 1e999\n", "does not fit in a double"},
        {"[optim]\nlr = 1e\n", "found '1e'"},
        {"[optim]\nlr = .\n", "found '.'"},
        {"[optim]\nlr = 1,5\n", "found '1,5'"},
        {"[optim]\nbeta1 = 1.5\n", "out of range"},
        {"[run]\nexact = maybe\n", "run.exact: expected yes or no, found 'maybe'"},
        {"[model]\narch = gtp2\n",
         "expected one of gpt2, llama, found 'gtp2' (nearest: "
         "gpt2)"},
        {"[model]\narch = GPT2\n", "nearest: gpt2"},
        {"[model]\narch =\n", "expected one of gpt2, llama, found ''"},
        {"[zero]\nbucket = 25MB\n", "expected a size such as 4096, 64k, 25M or 1G"},
        {"[zero]\nbucket = -1k\n", "found '-1k'"},
        {"[zero]\nbucket = 9999999999G\n", "does not fit in 64 bits"},
        {"[zero]\nbucket = 2T\n", "out of range"},
        {"[zero]\nstage = 4\n",
         "zero.stage: expected a whole number from 1 to 3, found "
         "'4' (out of range)"},
        {"[run:a]\nsteps = 3\n", "x.ini:2: 'steps' in [run:a]: expected section.key = "
                                 "value"},
        {"[run:]\ntrain.steps = 3\n", "is not a run's name"},
        {"[run:a]\ntrain.stepz = 3\n", "x.ini:2: unknown option train.stepz"},
        {"[run:a]\ntrain.steps = x\n", "x.ini:2: train.steps: expected"},
        {"[run:a]\ncompare.warmup = 3\n", "cannot differ between runs"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cadre_error err = {0};
        struct cadre_options *o = create();
        must(cadre_options_add_specs(o, zero_specs, 3, &err), &err);
        cadre_status rc = load_text(o, cases[i].text, &err);
        if (rc == CADRE_OK)
            rc = cadre_options_resolve(o, &err);
        ck_assert_msg(rc == CADRE_E_INVALID, "accepted: %s", cases[i].text);
        ck_assert_msg(strstr(err.text, cases[i].expected) != NULL,
                      "expected '%s' in '%s'", cases[i].expected, err.text);
        ck_assert_msg(strstr(err.text, "x.ini:") != NULL, "no place in '%s'", err.text);
        cadre_options_destroy(o);
    }
}
END_TEST

START_TEST(wrong_assignments_are_refused)
{
    static const char *const cases[] = {
        "",
        "train.steps",
        "steps=3",
        "=3",
        ".steps=3",
        "train.=3",
        "a=b.c",
        "a b.c=1",
        "run:a.b=1",
        " =",
        "run.name=a\nb",
        "run.name=\xff",
        "run.name=';\"",
    };
    struct cadre_options *o = create();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cadre_error err = {0};
        cadre_status rc = cadre_options_set(o, cases[i], "command line", &err);
        ck_assert_msg(rc == CADRE_E_INVALID, "accepted: %s", cases[i]);
        ck_assert_ptr_eq(strstr(err.text, "command line: "), err.text);
    }
    struct cadre_error err = {0};
    must(cadre_options_set(o, "train.stps=3", "command line", &err), &err);
    ck_assert_int_eq(cadre_options_resolve(o, &err), CADRE_E_INVALID);
    ck_assert_str_eq(err.text,
                     "command line: unknown option train.stps, the nearest is "
                     "train.steps: correct it ('cadre options' lists all)");
    cadre_options_destroy(o);
}
END_TEST

START_TEST(good_values_of_every_type)
{
    static const struct {
        const char *text;
        double value;
    } numbers[] = {{"1", 1},       {"-0", 0},    {"+2.5", 2.5}, {".5", 0.5},
                   {"1e-3", 1e-3}, {"1E2", 100}, {"0.1", 0.1},  {"007.5", 7.5}};
    static const char *const yes[] = {"yes", "true", "on", "1", "YES", "True"};
    struct cadre_error err = {0};
    struct cadre_options *o = create();
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char *text = cadre_format("optim.lr=%s", numbers[i].text);
        must(cadre_options_set(o, text, "test", &err), &err);
        must(cadre_options_resolve(o, &err), &err);
        ck_assert_double_eq(cadre_options_f64(o, "optim.lr"), numbers[i].value);
        free(text);
    }
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) {
        char *text = cadre_format("run.exact=%s", yes[i]);
        must(cadre_options_set(o, text, "test", &err), &err);
        must(cadre_options_resolve(o, &err), &err);
        ck_assert(cadre_options_bool(o, "run.exact"));
        free(text);
    }
    must(cadre_options_set(o, "run.seed=9223372036854775807", "test", &err), &err);
    must(cadre_options_resolve(o, &err), &err);
    ck_assert_int_eq(cadre_options_i64(o, "run.seed"), INT64_MAX);
    cadre_options_destroy(o);
}
END_TEST

START_TEST(runs_are_listed_and_applied)
{
    struct cadre_error err = {0};
    struct cadre_options *o = create();
    must(load_text(o,
                   "[run:one]\nstrategy.stack = single\n"
                   "[run:Two]\nstrategy.stack = \"ddp:2\"\nddp.overlap = no\n"
                   "[run:three]\n",
                   &err),
         &err);
    char **names = NULL;
    size_t n = 0;
    must(cadre_options_list_runs(o, &names, &n, &err), &err);
    ck_assert_uint_eq(n, 3);
    ck_assert_str_eq(names[1], "two");
    free(names);
    must(cadre_options_set(o, "compare.runs=Two, one", "command line", &err), &err);
    must(cadre_options_list_runs(o, &names, &n, &err), &err);
    ck_assert_uint_eq(n, 2);
    ck_assert_str_eq(names[0], "two");
    ck_assert_str_eq(names[1], "one");
    free(names);

    const struct cadre_option_override *overrides =
        cadre_options_run_overrides(o, "two", &n);
    ck_assert_uint_eq(n, 2);
    ck_assert_str_eq(overrides[0].name, "strategy.stack");
    ck_assert_str_eq(overrides[1].value, "no");
    ck_assert_ptr_null(cadre_options_run_overrides(o, "four", &n));

    must(cadre_options_resolve(o, &err), &err);
    must(cadre_options_apply_run(o, "two", &err), &err);
    ck_assert_str_eq(cadre_options_raw(o, "strategy.stack"), "ddp:2");
    ck_assert_int_eq(cadre_options_resolve(o, &err), CADRE_E_INVALID);
    ck_assert_int_eq(cadre_options_apply_run(o, "thre", &err), CADRE_E_INVALID);
    ck_assert_str_eq(err.text, "compare: no section [run:thre], expected one of: one, "
                               "two, three; the nearest is three");
    must(cadre_options_set(o, "compare.runs=one, one", "test", &err), &err);
    ck_assert_int_eq(cadre_options_list_runs(o, &names, &n, &err), CADRE_E_INVALID);
    must(cadre_options_set(o, "compare.runs=one, x", "test", &err), &err);
    ck_assert_int_eq(cadre_options_list_runs(o, &names, &n, &err), CADRE_E_INVALID);
    cadre_options_destroy(o);
    o = create();
    ck_assert_int_eq(cadre_options_list_runs(o, &names, &n, &err), CADRE_E_INVALID);
    cadre_options_destroy(o);
}
END_TEST

static char *written(const struct cadre_options *o)
{
    char *text = NULL;
    size_t n;
    FILE *file = open_memstream(&text, &n);
    ck_assert_int_eq(cadre_options_write(o, file, NULL), CADRE_OK);
    fclose(file);
    return text;
}

/* Without its comments, which tell where each value came from. */
static void drop_comments(char *text)
{
    char *to = text;
    for (char *line = text; *line;) {
        size_t n = strcspn(line, "\n");
        n += line[n] == '\n';
        if (*line != '#') {
            memmove(to, line, n);
            to += n;
        }
        line += n;
    }
    *to = 0;
}

START_TEST(written_set_loads_back)
{
    struct cadre_error err = {0};
    struct cadre_options *o = create();
    free(write_file("base.ini", "[train]\nsteps = 12\n"));
    must(load_text(o,
                   "[run]\nextends = base.ini\nname = \"a; b # c\"\nout = 'say \"x\"'\n"
                   "[optim]\nlr = 0.1234567890123456789\n[mig]\nmode = 'x; y'\n"
                   "[zero]\nstage = 2\n[run:a]\nstrategy.stack = zero:2, pipeline:2\n",
                   &err),
         &err);
    must(cadre_options_set(o, "data.path= it's", "weird\\\n\xffsource\\", &err), &err);
    must(cadre_options_add_specs(o, zero_specs, 3, &err), &err);
    must(cadre_options_allow_section(o, "mig", &err), &err);
    must(cadre_options_allow_section(o, "zero", &err), &err);
    must(cadre_options_resolve(o, &err), &err);
    char *text = written(o);
    ck_assert_ptr_nonnull(strstr(text, "x.ini:3)\nname = \"a; b # c\"\n"));
    ck_assert_ptr_null(strstr(text, "extends"));

    struct cadre_options *back = create();
    must(cadre_options_add_specs(back, zero_specs, 3, &err), &err);
    must(cadre_options_allow_section(back, "mig", &err), &err);
    char *path = write_file("config.ini", text);
    must(cadre_options_load(back, path, &err), &err);
    must(cadre_options_resolve(back, &err), &err);
    char *again = written(back);
    drop_comments(text);
    drop_comments(again);
    ck_assert_str_eq(text, again);
    ck_assert_str_eq(cadre_options_str(back, "run.name"), "a; b # c");
    ck_assert_str_eq(cadre_options_str(back, "data.path"), "it's");
    ck_assert_int_eq(cadre_options_i64(back, "train.steps"), 12);
    double a = cadre_options_f64(o, "optim.lr"),
           b = cadre_options_f64(back, "optim.lr");
    ck_assert_mem_eq(&a, &b, sizeof a);
    free(path);
    free(text);
    free(again);
    cadre_options_destroy(o);
    cadre_options_destroy(back);
}
END_TEST

START_TEST(full_disk_is_an_error)
{
    struct cadre_error err = {0};
    FILE *file = fopen("/dev/full", "w");
    if (!file)
        test_skip("no /dev/full");
    struct cadre_options *o = create();
    ck_assert_int_eq(cadre_options_write(o, file, &err), CADRE_E_IO);
    fclose(file);
    cadre_options_destroy(o);
}
END_TEST

START_TEST(reference_names_every_key)
{
    char *text = NULL;
    size_t n;
    struct cadre_options *o = create();
    FILE *file = open_memstream(&text, &n);
    cadre_options_print_reference(o, file);
    fclose(file);
    ck_assert_ptr_nonnull(strstr(text, "[optim]\n"));
    ck_assert_ptr_nonnull(strstr(text, "one of adamw, sgd; default adamw"));
    ck_assert_ptr_nonnull(strstr(text, "a whole number from 1 to 65536; default 4"));
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
        ck_assert_uint_le(strcspn(line, "\n"), 110);
    free(text);
    cadre_options_destroy(o);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("options");
    TCase *tc = tcase_create("options");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, make_dir, remove_dir);
    tcase_add_test(tc, defaults_resolve);
    tcase_add_test(tc, every_key_of_the_contract_exists);
    tcase_add_test(tc, later_sources_win);
    tcase_add_test(tc, plugin_sections_wait_for_their_specs);
    tcase_add_test(tc, clone_is_independent);
    tcase_add_test(tc, extends_reads_the_base_first);
    tcase_add_test(tc, extends_refuses_circles_and_gaps);
    tcase_add_test(tc, wrong_inputs_are_one_useful_line);
    tcase_add_test(tc, wrong_assignments_are_refused);
    tcase_add_test(tc, good_values_of_every_type);
    tcase_add_test(tc, runs_are_listed_and_applied);
    tcase_add_test(tc, written_set_loads_back);
    tcase_add_test(tc, full_disk_is_an_error);
    tcase_add_test(tc, reference_names_every_key);
    suite_add_tcase(s, tc);
    return s;
}
