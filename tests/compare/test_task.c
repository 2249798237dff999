/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/task.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"

static struct cadre_compared_run runs[2];
static struct cadre_perturbation moved[2];
static struct cadre_comparison c;
static struct cadre_arrangement arrangement;
static struct cadre_task *tasks;
static size_t n;
static struct cadre_error err;

static void setup(void)
{
    runs[0] = (struct cadre_compared_run){.name = "one", .ranks = 1, .threads = 2};
    runs[1] = (struct cadre_compared_run){.name = "two", .ranks = 2, .threads = 2};
    moved[0] = (struct cadre_perturbation){.micro_batch = 3};
    moved[1] = (struct cadre_perturbation){.seed = 2};
    c = (struct cadre_comparison){.run = runs,
                                  .n = 2,
                                  .baseline = 1,
                                  .cores = 8,
                                  .perturbation = moved,
                                  .n_perturbations = 2};
    arrangement = (struct cadre_arrangement){.threads = 2};
    ck_assert_int_eq(cadre_tasks_create(&c, &tasks, &n, &err), CADRE_OK);
}

static void teardown(void)
{
    cadre_tasks_destroy(tasks, n);
    cadre_tasks_destroy(NULL, 3);
}

START_TEST(perturbations_come_last)
{
    static const char *const names[] = {"one", "two", "two:reordered", "two:moved-2"};
    ck_assert_uint_eq(n, sizeof names / sizeof names[0]);
    for (size_t i = 0; i < n; i++)
        ck_assert_str_eq(tasks[i].name, names[i]);
    ck_assert_uint_eq(tasks[1].run, 1);
    ck_assert_int_eq(tasks[1].perturbation, -1);
    ck_assert_uint_eq(tasks[3].run, 1);
    ck_assert_int_eq(tasks[3].perturbation, 1);
    char *folder = cadre_task_folder(&tasks[2], "o");
    ck_assert_str_eq(folder, "o/runs/two:reordered");
    free(folder);
}
END_TEST

START_TEST(a_task_is_found_by_its_name)
{
    const struct cadre_task *found = NULL;
    ck_assert_int_eq(cadre_tasks_find(tasks, n, "Two:Moved-2", &found, &err), CADRE_OK);
    ck_assert_ptr_eq(found, &tasks[3]);
    ck_assert_int_eq(cadre_tasks_find(tasks, n, "two:moved-3", &found, &err),
                     CADRE_E_INVALID);
    ck_assert_msg(strstr(err.text, "did you mean 'two:moved-2'"), "%s", err.text);
    ck_assert_int_eq(cadre_tasks_find(tasks, n, "", &found, &err), CADRE_E_INVALID);
}
END_TEST

/* The arguments of a task as one text. */
static char *line_of(size_t task, bool launched, const struct cadre_task_piece *piece)
{
    static char text[512];
    char a[] = "optim.lr=1", b[] = "train.steps=2", **argv = NULL;
    char *const sets[] = {a, b, NULL};
    const struct cadre_arrange_request made = {.conf = "c.ini", .sets = sets};
    const struct cadre_task_request request = {&made, &c, &arrangement, launched,
                                               piece};
    ck_assert_int_eq(cadre_task_arguments(&request, &tasks[task], "o/f", &argv, &err),
                     CADRE_OK);
    text[0] = 0;
    for (char **at = argv; *at; at++) {
        strcat(text, at == argv ? "" : " ");
        strcat(text, *at);
    }
    free(argv);
    return text;
}

static char *line(size_t task, bool launched)
{
    return line_of(task, launched, NULL);
}

START_TEST(arguments_are_those_of_train)
{
    ck_assert_str_eq(line(0, false),
                     "cadre train c.ini --run one --out o/f --set optim.lr=1 --set "
                     "train.steps=2 --set run.name=one --set device.threads=2");
    ck_assert_str_eq(line(0, true),
                     "cadre train c.ini --run one --out o/f --set optim.lr=1 --set "
                     "train.steps=2 --set run.name=one");
}
END_TEST

/* The user's own sets, these after them: the last one counts. */
START_TEST(a_piece_changes_only_what_is_timed)
{
    struct cadre_task_piece piece = {.warmup = 3, .steps = 20, .windows = 4};
    ck_assert_str_eq(line_of(1, false, &piece),
                     "cadre train c.ini --run two --out o/f --set optim.lr=1 --set "
                     "train.steps=2 --set run.name=two --set device.threads=2 --set "
                     "log.level=error --set log.trace=no --set log.progress=no --set "
                     "bench.warmup=3 --set bench.steps=20 --set bench.windows=4");
    piece = (struct cadre_task_piece){.windows = 1, .target = 2.5, .seed = 9};
    ck_assert_ptr_nonnull(strstr(line_of(1, false, &piece),
                                 "--set log.progress=no --set bench.target=2.5 --set "
                                 "run.seed=9"));
    ck_assert_ptr_null(strstr(line_of(1, false, &piece), "bench.steps"));
    arrangement.resume = true;
    ck_assert_ptr_nonnull(
        strstr(line_of(1, false, &piece), " --set checkpoint.resume=no --set log"));
}
END_TEST

START_TEST(perturbations_take_all_cores)
{
    ck_assert_ptr_nonnull(strstr(line(2, false), "--set device.threads=4 --set "
                                                 "train.micro_batch=3"));
    ck_assert_ptr_nonnull(strstr(line(3, true), "--set run.name=two:moved-2 --set "
                                                "run.perturb=2"));
    ck_assert_ptr_null(strstr(line(3, true), "device.threads"));
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("task");
    TCase *tc = tcase_create("task");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, perturbations_come_last);
    tcase_add_test(tc, a_task_is_found_by_its_name);
    tcase_add_test(tc, arguments_are_those_of_train);
    tcase_add_test(tc, a_piece_changes_only_what_is_timed);
    tcase_add_test(tc, perturbations_take_all_cores);
    suite_add_tcase(suite, tc);
    return suite;
}
