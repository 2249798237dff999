/* SPDX-License-Identifier: Apache-2.0 */
/* The text itself; tests/cli/test_clients.sh has Prometheus' own client read it. */
#include "core/export/openmetrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/check_main.h"

static char *dir, path[1100];
static struct cadre_error err;

static void setup(void)
{
    dir = test_tmpdir();
    snprintf(path, sizeof path, "%s/cadre.prom", dir);
}

static void teardown(void)
{
    test_tmpdir_destroy(dir);
}

static struct cadre_openmetrics run = {
    .run = "a \"b\" \\ c\nd",
    .stack = "zero:2",
    .device = "cpu",
    .ranks = 2,
    .step = 7,
    .tokens = 896,
    .training_s = 1.5,
    .loss = 2.5,
    .valid_loss = NAN,
    .grad_norm = INFINITY,
    .lr = 1e-3,
    .tokens_per_s = 128,
    .step_s = 0.25,
    .ledger_peak_bytes = 4096,
    .resident_bytes = NAN,
    .step_unix_s = 1.8e9,
};

static char *written(void)
{
    ck_assert_int_eq(cadre_openmetrics_write(path, &run, &err), CADRE_OK);
    return test_file_read(path, NULL);
}

START_TEST(every_known_figure_with_its_type)
{
    static const char info[] =
        "cadre_run_info{run=\"a \\\"b\\\" \\\\ c\\nd\",stack=\"zero:2\",device=\"cpu\","
        "ranks=\"2\"} 1\n";
    static const char *const lines[] = {
        "# TYPE cadre_run info\n",
        info,
        "# TYPE cadre_steps counter\n",
        "\ncadre_steps_total{run=\"a \\\"b\\\" \\\\ c\\nd\"} 7\n",
        "\ncadre_tokens_total{",
        "# UNIT cadre_training_seconds seconds\n",
        "\ncadre_training_seconds_total{",
        "} 1.5\n",
        "\ncadre_loss{",
        "\ncadre_learning_rate{",
        "# UNIT cadre_rank_peak_memory_bytes bytes\n",
    };
    char *text = written();
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        ck_assert_msg(strstr(text, lines[i]) != NULL, "no '%s' in:\n%s", lines[i],
                      text);
    ck_assert_str_eq(text + strlen(text) - 6, "# EOF\n");
    free(text);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(rmdir(dir), 0); /* nothing else was left */
    ck_assert_int_eq(mkdir(dir, 0700), 0);
}
END_TEST

/* Unknown is no sample, and no zero. */
START_TEST(what_is_unknown_is_absent)
{
    char *text = written();
    ck_assert_ptr_null(strstr(text, "cadre_validation_loss"));
    ck_assert_ptr_null(strstr(text, "cadre_gradient_norm"));
    ck_assert_ptr_null(strstr(text, "cadre_resident_memory_bytes"));
    free(text);
}
END_TEST

START_TEST(what_cannot_be_written_is_told)
{
    char gone[1200];
    snprintf(gone, sizeof gone, "%s/gone/cadre.prom", dir);
    ck_assert_int_eq(cadre_openmetrics_write(gone, &run, &err), CADRE_E_IO);
    ck_assert_ptr_nonnull(strstr(err.text, "gone/cadre.prom"));
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("openmetrics");
    TCase *tc = tcase_create("openmetrics");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, every_known_figure_with_its_type);
    tcase_add_test(tc, what_is_unknown_is_absent);
    tcase_add_test(tc, what_cannot_be_written_is_told);
    suite_add_tcase(s, tc);
    return s;
}
