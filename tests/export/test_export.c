/* SPDX-License-Identifier: Apache-2.0 */
#include "core/export/export.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/check_main.h"
#include "tests/train/spec_fixture.h"

static struct spec_fixture f;
static struct cadre_spec *spec;
static struct cadre_rank rank;
static struct cadre_export *export;

static void open_run(const char *sets)
{
    spec_fixture_open(&f);
    spec = spec_fixture_make(&f, sets);
    ck_assert_int_eq(mkdir(spec->out, 0777), 0);
    spec_fixture_rank(&f, spec, &rank);
}

static void close_run(void)
{
    cadre_rank_fini(&rank);
    cadre_spec_destroy(spec);
    spec_fixture_close(&f);
}

static cadre_status put(int64_t step)
{
    const struct cadre_step_report report = {.step = (uint64_t)step,
                                             .loss = 2.5,
                                             .grad_norm = 0.5,
                                             .lr = 1e-3,
                                             .times = {.step_s = 0.25}};
    const struct cadre_valid_result valid = {.has = step == 9, .loss = 3.5};
    return cadre_export_step(export, step, &report, &valid, &f.err);
}

/* The file that matches, read; NULL for none. */
static char *found(const char *pattern, size_t *bytes)
{
    char path[1200], *text = NULL;
    glob_t list;
    snprintf(path, sizeof path, "%s/%s", f.out, pattern);
    if (glob(path, 0, NULL, &list) == 0) {
        ck_assert_uint_eq(list.gl_pathc, 1);
        text = test_file_read(list.gl_pathv[0], bytes);
        globfree(&list);
    }
    return text;
}

START_TEST(both_files_have_the_last_step)
{
    size_t bytes;
    open_run("log.tensorboard=yes log.openmetrics=cadre.prom");
    ck_assert_int_eq(cadre_export_open(spec, &rank, 7, &export, &f.err), CADRE_OK);
    char *text = found("cadre.prom", &bytes); /* there before the first step */
    ck_assert_ptr_nonnull(strstr(text, "\ncadre_steps_total{run=\"test\"} 7\n"));
    ck_assert_ptr_null(strstr(text, "cadre_loss"));
    free(text);
    ck_assert_int_eq(put(8), CADRE_OK);
    ck_assert_int_eq(put(9), CADRE_OK);
    cadre_export_close(export);
    text = found("cadre.prom", &bytes);
    ck_assert_ptr_nonnull(strstr(text, "\ncadre_steps_total{run=\"test\"} 9\n"));
    ck_assert_ptr_nonnull(strstr(text, "\ncadre_tokens_total{run=\"test\"} 1152\n"));
    ck_assert_ptr_nonnull(
        strstr(text, "\ncadre_training_seconds_total{run=\"test\"} 0.5\n"));
    ck_assert_ptr_nonnull(
        strstr(text, "\ncadre_tokens_per_second{run=\"test\"} 512\n"));
    ck_assert_ptr_nonnull(strstr(text, "\ncadre_validation_loss{run=\"test\"} 3.5\n"));
    free(text);
    text = found("events.out.tfevents.*", &bytes);
    ck_assert_ptr_nonnull(memmem(text, bytes, "valid_loss", 10));
    ck_assert_ptr_nonnull(memmem(text, bytes, "resident_bytes", 14));
    free(text);
    close_run();
}
END_TEST

START_TEST(nothing_without_options)
{
    size_t bytes;
    open_run("");
    ck_assert_int_eq(cadre_export_open(spec, &rank, 0, &export, &f.err), CADRE_OK);
    ck_assert_int_eq(put(1), CADRE_OK);
    cadre_export_close(export);
    cadre_export_close(NULL);
    ck_assert_ptr_null(found("*", &bytes));
    close_run();
}
END_TEST

START_TEST(a_text_that_cannot_be_written_is_wrong_input)
{
    open_run("log.openmetrics=gone/cadre.prom log.tensorboard=yes");
    ck_assert_int_eq(cadre_export_open(spec, &rank, 0, &export, &f.err),
                     CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(f.err.text, "log.openmetrics"));
    ck_assert_ptr_nonnull(strstr(f.err.text, "gone/cadre.prom"));
    close_run();
}
END_TEST

/* Who reads figures may be away: that ends no training. */
START_TEST(a_text_that_is_lost_later_ends_nothing)
{
    char folder[1200], path[1300];
    open_run("log.openmetrics=there/cadre.prom");
    snprintf(folder, sizeof folder, "%s/there", f.out);
    snprintf(path, sizeof path, "%s/cadre.prom", folder);
    ck_assert_int_eq(mkdir(folder, 0777), 0);
    ck_assert_int_eq(cadre_export_open(spec, &rank, 0, &export, &f.err), CADRE_OK);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(rmdir(folder), 0);
    ck_assert_int_eq(put(1), CADRE_OK);
    ck_assert_int_eq(put(2), CADRE_OK);
    cadre_export_close(export);
    close_run();
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("export");
    TCase *tc = tcase_create("export");
    tcase_add_test(tc, both_files_have_the_last_step);
    tcase_add_test(tc, nothing_without_options);
    tcase_add_test(tc, a_text_that_cannot_be_written_is_wrong_input);
    tcase_add_test(tc, a_text_that_is_lost_later_ends_nothing);
    suite_add_tcase(s, tc);
    return s;
}
