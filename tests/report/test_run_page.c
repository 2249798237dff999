/* SPDX-License-Identifier: Apache-2.0 */
#include "core/report/run_page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/report/report_fixture.h"
#include "tests/support/check_main.h"

static char *dir, *page;
static struct cadre_error err;

static void setup(void)
{
    dir = test_tmpdir();
}

static void teardown(void)
{
    free(page);
    page = NULL;
    test_tmpdir_destroy(dir);
}

static void make(const struct report_run *run)
{
    char path[1024];
    const char *folder = report_run(dir, run);
    cadre_status rc = cadre_run_page_write(folder, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    snprintf(path, sizeof path, "%s/run.html", folder);
    page = test_file_read(path, NULL);
}

static void expect(const char *const *parts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(strstr(page, parts[i]) != NULL, "no '%s'", parts[i]);
}

START_TEST(the_page_shows_the_run)
{
    static const char *const parts[] = {
        "<title>one</title>",
        ">finished<",
        "one/config.ini --out NEW<",
        ">ddp:2<",
        ">here: A CPU, 2 cores<",
        ">1 234<",
        ">gpt2: 2 layers, 32 channels, 2 heads, context 16<",
        "Training loss 2.1667 at step 6. Lowest validation loss 2.6667 at step 6",
        "A step took 100 ms in the median",
        "<title>Loss</title>",
        ">validation<",
        "<title>Gradient norm before clipping</title>",
        "<title>Learning rate</title>",
        "<title>Speed, 1000 tokens/s</title>",
        "<title>Time of a step, by its parts</title>",
        "exposed: dp",
        "Peak memory by kind",
        "25 %",
        "0.5 J/token, 8 J a step, package-0; idle power 12 W",
        "price of a million tokens",
        "&lt;activations&gt;",
        "href=\"metrics.jsonl\"",
    };
    const struct report_run run = {.name = "one",
                                   .loss = 2,
                                   .config = "[model]\narch = gpt2\nlayers = 2\n"
                                             "channels = 32\nheads = 2\n"
                                             "context = 16\n"};
    make(&run);
    expect(parts, sizeof parts / sizeof *parts);
    ck_assert_ptr_null(strstr(page, "<script"));
    ck_assert_ptr_null(strstr(page, "href=\"trace.json\""));
}
END_TEST

START_TEST(an_unfinished_run_says_so)
{
    static const char *const parts[] = {"unfinished: 4 of 6 steps",
                                        "<title>Loss</title>"};
    const struct report_run run = {
        .name = "killed", .steps = 4, .no_summary = true, .old = true};
    make(&run);
    expect(parts, 2);
    ck_assert_ptr_null(strstr(page, "Time of a step, by its parts"));
    ck_assert_ptr_null(strstr(page, "Peak memory by kind"));
}
END_TEST

/* 20000 steps make a page of no more than some 100 KiB. */
START_TEST(long_runs_make_small_pages)
{
    const struct report_run run = {.name = "long", .steps = 20000};
    make(&run);
    ck_assert_uint_lt(strlen(page), 150000);
}
END_TEST

START_TEST(a_run_does_not_wait_for_gigabytes)
{
    char path[1024];
    const struct report_run run = {.name = "huge"};
    const char *folder = report_run(dir, &run);
    ck_assert_int_eq(cadre_run_page_leave(folder, &err), CADRE_OK);
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    ck_assert_int_eq(truncate(path, (1L << 30) + 1), 0); /* with a hole */
    ck_assert_int_eq(cadre_run_page_leave(folder, &err), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "`cadre report "));
}
END_TEST

START_TEST(pages_are_well_formed)
{
    char command[1200];
    const struct report_run run = {.name = "a & <b>", .loss = 2};
    if (system("command -v xmllint >/dev/null 2>&1") != 0)
        test_skip("xmllint is not installed");
    make(&run);
    snprintf(command, sizeof command, "xmllint --noout '%s'/*/run.html", dir);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("run_page");
    TCase *tc = tcase_create("run_page");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, the_page_shows_the_run);
    tcase_add_test(tc, an_unfinished_run_says_so);
    tcase_add_test(tc, long_runs_make_small_pages);
    tcase_add_test(tc, a_run_does_not_wait_for_gigabytes);
    tcase_add_test(tc, pages_are_well_formed);
    suite_add_tcase(s, tc);
    return s;
}
