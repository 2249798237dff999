/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/setup.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/path.h"
#include "tests/support/check_main.h"
#include "tests/train/spec_fixture.h"

static struct spec_fixture f;

/* What the log says of a run on a machine of so many cores; the caller frees it. */
static char *told(const char *sets, struct cadre_setup setup)
{
    char path[1200], *text = NULL;
    size_t bytes;
    struct cadre_spec *spec = spec_fixture_make(&f, sets);
    snprintf(path, sizeof path, "%s/log", f.dir);
    const int file = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    const int former = dup(STDERR_FILENO);
    ck_assert(file >= 0 && former >= 0 && dup2(file, STDERR_FILENO) >= 0);
    setup.ranks_here = spec->run.ranks;
    cadre_setup_tell(spec, &setup);
    dup2(former, STDERR_FILENO);
    close(former);
    close(file);
    ck_assert_int_eq(cadre_path_read_file(path, 1 << 16, &text, &bytes, &f.err),
                     CADRE_OK);
    cadre_spec_destroy(spec);
    return text;
}

static void says(const char *sets, struct cadre_setup setup, const char *part)
{
    char *text = told(sets, setup);
    ck_assert_msg(strstr(text, part) != NULL, "no '%s' in:\n%s", part, text);
    free(text);
}

static void is_silent(const char *sets, struct cadre_setup setup)
{
    char *text = told(sets, setup);
    ck_assert_msg(strstr(text, "warn:") == NULL, "%s", text);
    free(text);
}

static void setup(void)
{
    spec_fixture_open(&f);
}

static void teardown(void)
{
    spec_fixture_close(&f);
}

START_TEST(the_run_in_four_lines)
{
    const struct cadre_setup four = {.params = 1234567,
                                     .params_trained = 1234567,
                                     .first_step = 5,
                                     .last_step = 7,
                                     .cores = 1,
                                     .needed_bytes = 3 << 20,
                                     .free_bytes = 20LL << 30};
    says("", four, "1 234 567 parameters, fp32");
    says("", four, "steps: 6 to 7, each of ");
    says("", four, "cores: 1 of 1; memory: about 3.0 MiB needed of 20.0 GiB free");
    says("train.eval_batches=1 train.micro_batch=1", four,
         "of which an evaluation takes 1 (train.eval_batches)");
    char *text = told("", four);
    int lines = 0;
    for (const char *at = text; (at = strchr(at, '\n')); at++)
        lines++;
    ck_assert_int_eq(lines, 4);
    free(text);
}
END_TEST

START_TEST(cores_that_are_idle_or_too_few)
{
    struct cadre_setup machine = {.cores = 16};
    says("", machine,
         "15 of 16 cores are idle (device.threads = 1 by default): --set "
         "device.threads=0 uses all");
    is_silent("device.threads=1", machine); /* as it was asked for */
    is_silent("device.threads=9", machine);
    is_silent("strategy.stack=ddp:2 device.threads=8", machine);
    machine.launched = true;
    is_silent("", machine);
    machine = (struct cadre_setup){.cores = 2};
    is_silent("", machine);
    says("strategy.stack=ddp:4", machine,
         "4 ranks x 1 thread on 2 cores: they take "
         "turns");
    says("device.threads=3", machine, "1 rank x 3 threads on 2 cores");
    machine.placed = true;
    is_silent("device.threads=3", machine);
}
END_TEST

/* summary.json's, or null. */
static json_t *put(void)
{
    struct cadre_text text = {0};
    struct cadre_json json;
    cadre_json_init_text(&json, &text, false);
    cadre_json_begin_object(&json);
    cadre_setup_put(f.out, &json);
    cadre_json_end_object(&json);
    ck_assert_int_eq(cadre_json_finish(&json), CADRE_OK);
    json_t *object = json_loads(cadre_text_str(&text), 0, NULL);
    cadre_text_fini(&text);
    return object;
}

START_TEST(the_summary_has_it)
{
    const struct cadre_setup one = {.ranks_here = 1, .cores = 4, .needed_bytes = 99};
    struct cadre_spec *spec = spec_fixture_make(&f, "run.seed=77");
    json_t *object = put();
    ck_assert(json_is_null(json_object_get(object, "setup")));
    json_decref(object);
    ck_assert_int_eq(cadre_path_make_dirs(f.out, NULL), CADRE_OK);
    ck_assert_int_eq(cadre_setup_write(spec, &one, &f.err), CADRE_OK);
    object = put();
    const json_t *found = json_object_get(object, "setup");
    ck_assert_int_eq(json_integer_value(json_object_get(found, "seed")), 77);
    ck_assert_int_eq(json_integer_value(json_object_get(found, "needed_bytes")), 99);
    ck_assert(json_is_null(json_object_get(found, "free_bytes"))); /* not known */
    ck_assert_str_eq(json_string_value(json_object_get(found, "memory_of")), "host");
    json_decref(object);
    cadre_spec_destroy(spec);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("setup");
    TCase *tc = tcase_create("setup");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, the_run_in_four_lines);
    tcase_add_test(tc, cores_that_are_idle_or_too_few);
    tcase_add_test(tc, the_summary_has_it);
    suite_add_tcase(s, tc);
    return s;
}
