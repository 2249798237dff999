/* SPDX-License-Identifier: Apache-2.0 */
#include "core/report/archive.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/report/report_fixture.h"
#include "tests/support/check_main.h"

static char *dir;
static struct cadre_runs runs;
static struct cadre_error err;

static void setup(void)
{
    const struct report_run one = {.name = "one"}, two = {.name = "two"};
    dir = test_tmpdir();
    const char *path = report_run(dir, &one);
    test_file_put(path, "trace.json", "{}", 2);
    test_file_put(path, "model.safetensors", "x", 1);
    char *const folders[] = {(char *)(uintptr_t)path,
                             (char *)(uintptr_t)report_run(dir, &two)};
    ck_assert_int_eq(cadre_runs_read(folders, 2, &runs, &err), CADRE_OK);
    test_file_put(dir, "report.json", "{}", 2);
    test_file_put(dir, "report.html", "<html/>", 7);
}

static void teardown(void)
{
    cadre_runs_fini(&runs);
    test_tmpdir_destroy(dir);
}

static void output_of(const char *command, char *out, size_t size)
{
    char line[4096];
    snprintf(line, sizeof line, "cd '%s' && %s 2>&1", dir, command);
    FILE *file = popen(line, "r");
    ck_assert_ptr_nonnull(file);
    size_t n = fread(out, 1, size - 1, file);
    out[n] = 0;
    ck_assert_msg(pclose(file) == 0, "%s: %s", command, out);
}

static void write_archive(const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    cadre_status rc = cadre_archive_write(&runs, dir, path, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
}

START_TEST(it_holds_what_a_paper_needs)
{
    char text[4096];
    write_archive("paper.tar");
    output_of("tar -tf paper.tar", text, sizeof text);
    ck_assert_str_eq(text, "paper/README.txt\n"
                           "paper/report/report.html\n"
                           "paper/report/report.json\n"
                           "paper/runs/1-one/config.ini\n"
                           "paper/runs/1-one/metrics.jsonl\n"
                           "paper/runs/1-one/summary.json\n"
                           "paper/runs/2-two/config.ini\n"
                           "paper/runs/2-two/metrics.jsonl\n"
                           "paper/runs/2-two/summary.json\n");
    output_of("tar -xf paper.tar && cmp one/metrics.jsonl "
              "paper/runs/1-one/metrics.jsonl && cat paper/README.txt",
              text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "machine:  here: A CPU, 2 cores"));
    ck_assert_ptr_nonnull(strstr(text, "state:    finished"));
}
END_TEST

START_TEST(it_is_the_same_again)
{
    char text[256];
    write_archive("a.tar");
    output_of("mv a.tar b", text, sizeof text);
    write_archive("a.tar");
    output_of("cmp a.tar b", text, sizeof text);
}
END_TEST

START_TEST(names_say_what_can_be_written)
{
    ck_assert_int_eq(cadre_archive_check_name("a/b.tar", &err), CADRE_OK);
    ck_assert_int_eq(cadre_archive_check_name("b.tar.gz", &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "compress it afterwards"));
    ck_assert_int_eq(cadre_archive_check_name("b.zip", &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "ends in .tar"));
    ck_assert_int_eq(cadre_archive_check_name(".tar", &err), CADRE_E_INVALID);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("archive");
    TCase *tc = tcase_create("archive");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, it_holds_what_a_paper_needs);
    tcase_add_test(tc, it_is_the_same_again);
    tcase_add_test(tc, names_say_what_can_be_written);
    suite_add_tcase(s, tc);
    return s;
}
