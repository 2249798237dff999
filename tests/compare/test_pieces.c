/* SPDX-License-Identifier: Apache-2.0 */
/* The children are this program again, called as `... train ...`: run "bad" fails, run
 * "other" leaves other windows than were asked for and reaches no target, run "many"
 * is of instances, and run "lost" lost a rank. */
#include "core/compare/pieces.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/run/restarts.h"
#include "tests/compare/fixture.h"
#include "tests/support/check_main.h"

/* Runs before main, which would run the tests. */
__attribute__((constructor)) static void be_the_child(int argc, char **argv)
{
    if (argc < 7 || strcmp(argv[1], "train") != 0)
        return;
    const char *run = argv[4], *folder = argv[6];
    char *rest[] = {argv[0], argv[1], "--set", "bench.steps=3", NULL};
    if (strcmp(run, "bad") == 0)
        _exit(3);
    if (strcmp(run, "lost") == 0) {
        const struct cadre_restart restart = {0, 1, "ddp:4", "ddp:2", "lost", ""};
        struct cadre_error error;
        _exit(fixture_bench(argc, argv, folder, 0.5) ||
              cadre_restarts_add(folder, &restart, &error) != CADRE_OK);
    }
    if (strcmp(run, "other") == 0 && fixture_set(argc, argv, "bench.target"))
        _exit(fixture_bench(argc, argv, folder, -1));
    if (strcmp(run, "other") == 0)
        _exit(fixture_bench(4, rest, folder, 1));
    _exit(fixture_bench(argc, argv, folder, 0.5));
}

enum { BASE, BAD, OTHER, MANY, LOST, RUNS };
static char *dir, *out;
static struct cadre_comparison c;
static struct cadre_pieces pieces;
static struct cadre_supervise_watch watch;
static struct cadre_arrangement arrangement;
static struct cadre_arrange_request made;
static struct cadre_child_failure failure;
static struct cadre_error err;

static void open_pieces(void)
{
    const struct cadre_task_request request = {&made, &c, &arrangement, false, NULL};
    cadre_status rc = cadre_pieces_open(&pieces, &request, &c, &watch, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
}

static void open_pieces_again(void)
{
    cadre_pieces_close(&pieces);
    open_pieces();
}

static void setup(void)
{
    const struct fixture_run runs[RUNS] = {{.name = "base"},
                                           {.name = "bad"},
                                           {.name = "other"},
                                           {.name = "many", .instances = 2},
                                           {.name = "lost"}};
    dir = test_tmpdir();
    out = cadre_path_join(dir, "out");
    ck_assert_int_eq(cadre_path_make_dirs(out, &err), CADRE_OK);
    made = (struct cadre_arrange_request){.conf = "c.ini", .out = out};
    fixture_compare(dir, runs, RUNS, NULL, &c);
    cadre_supervise_open(&watch);
    open_pieces();
}

static void teardown(void)
{
    cadre_pieces_close(&pieces);
    cadre_supervise_close(&watch);
    cadre_comparison_fini(&c);
    test_tmpdir_destroy(dir);
    free(out);
}

static void run_as(size_t which, int round, const struct cadre_task_piece *what)
{
    const struct cadre_piece piece = {.run = which, .round = round, .place = 2};
    failure = (struct cadre_child_failure){0};
    cadre_status rc = cadre_pieces_run(&pieces, &piece, what, &failure, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
}

static void run(size_t which, int round)
{
    const struct cadre_task_piece what = {.warmup = 2, .steps = 10, .windows = 3};
    run_as(which, round, &what);
}

/* Line n, from 0, of pieces.jsonl. */
static json_t *line(int n)
{
    char *path = cadre_path_join(out, "pieces.jsonl"), text[4096];
    FILE *file = fopen(path, "r");
    for (int i = 0; i <= n; i++)
        ck_assert_ptr_nonnull(fgets(text, sizeof text, file));
    fclose(file);
    free(path);
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_nonnull(object);
    return object;
}

START_TEST(a_piece_is_kept_and_written)
{
    run(BASE, 1);
    ck_assert_uint_eq(c.n_pieces, 1);
    ck_assert(c.piece[0].period_s == 0.5 && c.piece[0].start_s == 0.01);
    ck_assert(c.piece[0].place == 2 && c.piece[0].begin_s >= 0);
    json_t *object = line(0); /* before the file is closed */
    ck_assert_str_eq(json_string_value(json_object_get(object, "run")), "base");
    ck_assert(json_number_value(json_object_get(object, "period_s")) == 0.5);
    ck_assert(json_is_null(json_object_get(object, "failure")));
    ck_assert(json_is_null(json_object_get(object, "bubble_fraction")));
    ck_assert(json_number_value(json_object_get(object, "wall_s")) > 0);
    json_decref(object);
}
END_TEST

/* Of a round that counts, as fractions; the line has seconds. */
START_TEST(parts_of_a_step_are_kept)
{
    run(BASE, 0);
    ck_assert_uint_eq(c.run[BASE].n_parts, 0);
    run(BASE, 1);
    run(BASE, 2);
    run(MANY, 1);
    ck_assert_uint_eq(c.run[BASE].n_parts, 2);
    const struct cadre_step_parts *parts = &c.run[BASE].parts[1];
    ck_assert(parts->known && parts->exposed.n == 1);
    ck_assert_double_eq(parts->part[CADRE_PART_COMPUTE], 0.5);
    ck_assert_double_eq(parts->exposed.of[0].s, 0.25);
    json_t *object = line(1), *written = json_object_get(object, "step_parts");
    ck_assert_double_eq(json_number_value(json_object_get(written, "compute_s")), 0.25);
    ck_assert_double_eq(json_number_value(json_object_get(written, "other_s")), 0.0625);
    json_decref(object);
    cadre_pieces_drop(&pieces, BASE);
    ck_assert_uint_eq(c.run[BASE].n_parts, 0);
    ck_assert_uint_eq(c.run[MANY].n_parts, 1);
    open_pieces_again();
    ck_assert_uint_eq(c.run[MANY].n_parts, 0);
}
END_TEST

START_TEST(a_piece_that_fails_is_not_kept)
{
    run(BASE, 1);
    run(BAD, 1);
    ck_assert(failure.failed);
    ck_assert_str_eq(failure.why, "piece 2 failed with exit status 3");
    run(OTHER, 1);
    ck_assert_str_eq(failure.why, "piece 3 left other windows than were asked for");
    run(LOST, 1);
    ck_assert_str_eq(failure.why, "piece 4 lost ranks and went on without them");
    ck_assert_uint_eq(c.n_pieces, 1);
    json_t *object = line(1);
    ck_assert_str_eq(json_string_value(json_object_get(object, "failure")),
                     "piece 2 failed with exit status 3");
    ck_assert(json_is_null(json_object_get(object, "period_s")));
    json_decref(object);
}
END_TEST

/* An instance's step has 100 tokens, as the baseline's. */
START_TEST(instances_are_timed_by_tokens)
{
    run(MANY, 1);
    ck_assert(c.piece[0].period_s == 0.5);
    c.run[BASE].instances = 0;
    json_object_set_new(c.run[BASE].record.summary, "tokens", json_integer(1200));
    run(MANY, 1);
    ck_assert(c.piece[1].period_s == 1);
}
END_TEST

START_TEST(pieces_of_a_run_are_dropped)
{
    for (int round = 0; round < 50; round++) {
        run(BASE, round);
        run(MANY, round);
    }
    ck_assert_uint_eq(c.n_pieces, 100);
    cadre_pieces_drop(&pieces, BASE);
    ck_assert_uint_eq(c.n_pieces, 50);
    for (int i = 0; i < 50; i++)
        ck_assert(c.piece[i].run == MANY && c.piece[i].round == i);
}
END_TEST

START_TEST(the_time_to_a_target_is_kept_apart)
{
    const struct cadre_task_piece what = {.windows = 1, .target = 2.5, .seed = 9};
    run(BASE, 1);
    cadre_pieces_to_target(&pieces);
    run_as(BASE, 1, &what);
    run_as(OTHER, 1, &what);
    ck_assert_str_eq(failure.why, "piece 3 did not reach compare.target");
    ck_assert(c.n_pieces == 1 && c.n_target_pieces == 1);
    ck_assert(c.piece[0].period_s == 0.5 && c.target_piece[0].period_s == 5);
    json_t *object = line(1);
    ck_assert(json_is_true(json_object_get(object, "to_target")));
    json_decref(object);
}
END_TEST

START_TEST(another_timing_begins_anew)
{
    run(BASE, 1);
    char *folder = cadre_path_join(out, "pieces/base");
    ck_assert(cadre_path_is_dir(folder));
    open_pieces_again();
    ck_assert_uint_eq(c.n_pieces, 0);
    ck_assert(!cadre_path_exists(folder));
    free(folder);
    run(MANY, 4);
    json_t *object = line(0);
    ck_assert_str_eq(json_string_value(json_object_get(object, "run")), "many");
    json_decref(object);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("pieces");
    TCase *tc = tcase_create("pieces");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_piece_is_kept_and_written);
    tcase_add_test(tc, parts_of_a_step_are_kept);
    tcase_add_test(tc, a_piece_that_fails_is_not_kept);
    tcase_add_test(tc, instances_are_timed_by_tokens);
    tcase_add_test(tc, pieces_of_a_run_are_dropped);
    tcase_add_test(tc, the_time_to_a_target_is_kept_apart);
    tcase_add_test(tc, another_timing_begins_anew);
    suite_add_tcase(suite, tc);
    return suite;
}
