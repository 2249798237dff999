/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/train/progress.h"
#include "tests/support/check_main.h"
#include "tests/train/spec_fixture.h"

static struct spec_fixture f;
static int stderr_before;

/* What goes to stderr lands in the file `said`, so it is no terminal. */
static void setup(void)
{
    char path[1200];
    spec_fixture_open(&f);
    snprintf(path, sizeof path, "%s/said", f.dir);
    int fd = open(path, O_CREAT | O_WRONLY | O_APPEND, 0600);
    stderr_before = dup(2);
    ck_assert_int_eq(dup2(fd, 2), 2);
    close(fd);
}

static void teardown(void)
{
    dup2(stderr_before, 2);
    close(stderr_before);
    spec_fixture_close(&f);
}

static char *said(const char *sets, int64_t first, int64_t last, int64_t valid_at)
{
    struct cadre_progress progress;
    struct cadre_spec *spec = spec_fixture_make(&f, sets);
    const struct cadre_step_report report = {.loss = 1.25};
    cadre_progress_init(&progress, spec, first, spec->steps);
    for (int64_t step = first + 1; step <= last; step++) {
        struct cadre_valid_result valid = {step == valid_at, 1.5, 0, 4, 2, {0}};
        cadre_progress_step(&progress, step, &report, &valid);
    }
    cadre_progress_fini(&progress);
    cadre_spec_destroy(spec);
    return spec_fixture_read(&f, "said");
}

static int count(const char *text, const char *what)
{
    int n = 0;
    for (; (text = strstr(text, what)); text++)
        n++;
    return n;
}

START_TEST(plain_lines_now_and_then)
{
    char *text = said("log.every=5", 0, 20, 7);
    ck_assert_int_eq(count(text, "\n"), 6); /* 1, 5, 7 (valid), 10, 15, 20 */
    ck_assert_ptr_nonnull(strstr(text, "test: step 1/20  loss 1.2500  "));
    ck_assert_ptr_nonnull(strstr(text, "step 7/20  loss 1.2500  valid 1.5000  "));
    ck_assert_ptr_nonnull(strstr(text, "step 20/20"));
    ck_assert_ptr_null(strstr(text, "\033"));
    free(text);
}
END_TEST

START_TEST(a_resumed_run_shows_its_first_step)
{
    char *text = said("log.every=100", 12, 15, 0);
    ck_assert_int_eq(count(text, "\n"), 1);
    ck_assert_ptr_nonnull(strstr(text, "step 13/20"));
    free(text);
}
END_TEST

/* Columns of the widest line drawn. */
static size_t widest(const char *text)
{
    size_t most = 0;
    for (const char *p = text; *p; p += strcspn(p, "\r\n"), p += *p != 0) {
        const char *shown = strncmp(p, "\033[K", 3) == 0 ? p + 3 : p;
        size_t n = strcspn(shown, "\r\n");
        most = n > most ? n : most;
    }
    return most;
}

START_TEST(a_bar_where_it_is_asked_for)
{
    char *text = said("log.progress=yes", 0, 20, 7);
    const char *half = strstr(text, ".] 10/20  loss 1.2500  ");
    ck_assert_ptr_nonnull(half);
    int empty = 0, full = 0;
    for (half++; *--half == '.';)
        empty++;
    for (; *half == '#'; half--)
        full++;
    ck_assert_msg(*half == '[' && full > 0 && abs(full - empty) <= 1, "%d, %d", full,
                  empty);
    ck_assert_ptr_nonnull(strstr(text, "#] 20/20"));
    ck_assert_ptr_nonnull(strstr(text, "train: step 7  loss 1.2500  valid 1.5000\n"));
    ck_assert_uint_lt(widest(text), 80);
    ck_assert_int_eq(text[strlen(text) - 1], '\n');
    free(text);
}
END_TEST

START_TEST(nothing_is_drawn_without_a_step)
{
    char *text = said("log.progress=yes", 0, 0, 0);
    ck_assert_str_eq(text, "");
    free(text);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("progress");
    TCase *tc = tcase_create("progress");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, plain_lines_now_and_then);
    tcase_add_test(tc, a_resumed_run_shows_its_first_step);
    tcase_add_test(tc, a_bar_where_it_is_asked_for);
    tcase_add_test(tc, nothing_is_drawn_without_a_step);
    suite_add_tcase(s, tc);
    return s;
}
