/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of instances; how they train is in tests/cli/test_train_sweep.sh. */
#include "core/sweep/sweep.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "tests/compare/fixture.h"
#include "tests/support/check_main.h"

static char *dir, *conf;
static struct cadre_options *loaded;
static struct cadre_spec *spec;
static struct cadre_sweep *sweep;
static struct cadre_error err;

static void setup(void)
{
    struct cadre_text text = {0};
    dir = test_tmpdir();
    conf = cadre_path_join(dir, "c.ini");
    for (int i = 0; i < 400; i++)
        cadre_text_printf(&text, "some words to learn from %d\n", i);
    fixture_write(dir, "text", cadre_text_str(&text));
    cadre_text_fini(&text);
    char *ini = cadre_format("[model]\nlayers = 1\nchannels = 16\nheads = 2\n"
                             "context = 16\n[data]\npath = %s/text\nwindow = 16\n"
                             "[train]\nsteps = 3\nglobal_batch = 12\n"
                             "micro_batch = 6\n[device]\nkind = cpu\n",
                             dir);
    fixture_write(dir, "c.ini", ini);
    free(ini);
}

static void teardown(void)
{
    cadre_sweep_destroy(sweep);
    cadre_spec_destroy(spec);
    cadre_options_destroy(loaded);
    test_tmpdir_destroy(dir);
    free(conf);
}

/* With --set of these, NULL-terminated, the plugin's folder before them. */
static cadre_status create(char *const *sets, const char *run)
{
    const char *build = getenv("CADRE_BUILD");
    char *out = cadre_path_join(dir, "out");
    char *path = cadre_format("strategy.plugin_path=%s/tests/plugins/.libs",
                              build ? build : ".");
    ck_assert_int_eq(cadre_options_create(&loaded, &err), CADRE_OK);
    ck_assert_int_eq(cadre_options_load(loaded, conf, &err), CADRE_OK);
    ck_assert_int_eq(cadre_options_set(loaded, path, "test", &err), CADRE_OK);
    for (char *const *set = sets; *set; set++)
        ck_assert_int_eq(cadre_options_set(loaded, *set, "test", &err), CADRE_OK);
    const struct cadre_spec_request request = {
        .out = out, .name = "c", .need_data = true};
    cadre_status rc =
        cadre_spec_create(cadre_options_clone(loaded), &request, &spec, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    free(path);
    free(out);
    const struct cadre_sweep_request wanted = {
        .options = loaded, .conf = conf, .run = run, .sets = sets};
    return cadre_sweep_create(&wanted, spec, &sweep, &err);
}

static bool passed(size_t k, const char *text)
{
    for (size_t i = 0; i < sweep->instance[k].argc; i++)
        if (strcmp(sweep->instance[k].argv[i], text) == 0)
            return true;
    return false;
}

static char one[] = "strategy.stack=independent:2, ddp:2", two[] = "independent.pin=no",
            values[] = "independent.sweep=optim.lr: 1e-3 2e-3, train.steps: 4 5",
            plain[] = "strategy.stack=ddp:2", clash[] = "independent.clash=yes",
            alone[] = "strategy.stack=independent:2", threads[] = "device.threads=3",
            bad[] = "independent.sweep=optim.lr: 1e-3 x";

START_TEST(other_stacks_have_none)
{
    char *const sets[] = {plain, NULL};
    ck_assert_int_eq(create(sets, NULL), CADRE_OK);
    ck_assert_ptr_null(sweep);
}
END_TEST

START_TEST(instances_have_options_of_their_own)
{
    char *const sets[] = {one, values, threads, NULL};
    cadre_status rc = create(sets, "name");
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    ck_assert_uint_eq(sweep->n, 2);
    ck_assert_str_eq(sweep->plugin, "independent");
    ck_assert_str_eq(sweep->stack, "ddp:2");
    for (size_t k = 0; k < 2; k++) {
        const struct cadre_sweep_instance *instance = &sweep->instance[k];
        ck_assert_str_eq(instance->argv[1], "train");
        ck_assert_str_eq(instance->argv[2], conf);
        ck_assert_ptr_null(instance->argv[instance->argc]);
        ck_assert(passed(k, "--run") && passed(k, "name") && passed(k, threads));
        ck_assert(passed(k, "strategy.stack=ddp:2") && passed(k, "log.progress=no"));
        ck_assert(passed(k, instance->folder));
        ck_assert_msg(!passed(k, values), "the plugin's section is not an instance's");
        ck_assert_str_eq(cadre_path_basename(instance->folder),
                         k ? "instance-1" : "instance-0");
        ck_assert_int_eq(instance->steps, k ? 5 : 4);
        ck_assert_int_eq(instance->ranks, 2);
        ck_assert_int_eq(instance->threads, 3);
        ck_assert_str_eq(instance->options, k ? "optim.lr = 2e-3, train.steps = 5"
                                              : "optim.lr = 1e-3, train.steps = 4");
    }
    ck_assert(passed(0, "optim.lr=1e-3") && !passed(0, "optim.lr=2e-3"));
    ck_assert(passed(1, "optim.lr=2e-3") && passed(1, "train.steps=5"));
    ck_assert(passed(0, "run.name=c-0") && passed(1, "run.name=c-1"));
}
END_TEST

START_TEST(instances_are_where_their_ranks_were_requested)
{
    char *const sets[] = {one, _i ? two : NULL, NULL};
    cpu_set_t own;
    sched_getaffinity(0, sizeof own, &own);
    ck_assert_int_eq(create(sets, NULL), CADRE_OK);
    for (size_t k = 0; k < 2; k++) {
        const struct cadre_sweep_instance *instance = &sweep->instance[k];
        ck_assert_uint_eq(instance->n_variables, 2);
        ck_assert_str_eq(instance->variable[0],
                         k ? "TEST_INDEPENDENT=1" : "TEST_INDEPENDENT=0");
        ck_assert_str_eq(instance->variable[1],
                         k ? "CADRE_INSTANCE=1" : "CADRE_INSTANCE=0");
        ck_assert_int_eq(instance->pinned, !_i);
        if (!_i)
            ck_assert_int_eq(CPU_COUNT(&instance->cpus), 1);
        int share = CPU_COUNT(&own) / 2;
        ck_assert_int_eq(instance->threads, _i && share > 1 ? share : 1);
    }
    if (!_i && CPU_COUNT(&own) > 1)
        ck_assert(!CPU_EQUAL(&sweep->instance[0].cpus, &sweep->instance[1].cpus));
}
END_TEST

START_TEST(without_other_plugins_an_instance_is_single)
{
    char *const sets[] = {alone, NULL};
    ck_assert_int_eq(create(sets, NULL), CADRE_OK);
    ck_assert_str_eq(sweep->stack, "single");
    ck_assert_int_eq(sweep->instance[1].ranks, 1);
    ck_assert_str_eq(sweep->instance[1].options, "");
}
END_TEST

START_TEST(refuses)
{
    char *const clashing[] = {one, clash, NULL};
    char *const wrong[] = {alone, bad, NULL};
    static const char *const why[] = {
        "plugin 'independent' requests TEST_CLASH=0 and TEST_CLASH=1 for ranks of "
        "instance 0",
        "instance 1: independent.sweep: optim.lr: expected a number",
    };
    ck_assert_int_eq(create(_i ? wrong : clashing, NULL), CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, why[_i]) != NULL, "%s", err.text);
    ck_assert_ptr_null(sweep);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("independent");
    TCase *tc = tcase_create("independent");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, other_stacks_have_none);
    tcase_add_test(tc, instances_have_options_of_their_own);
    tcase_add_loop_test(tc, instances_are_where_their_ranks_were_requested, 0, 2);
    tcase_add_test(tc, without_other_plugins_an_instance_is_single);
    tcase_add_loop_test(tc, refuses, 0, 2);
    suite_add_tcase(s, tc);
    return s;
}
