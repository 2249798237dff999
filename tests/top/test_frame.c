/* SPDX-License-Identifier: Apache-2.0 */
#include "core/top/frame.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"
#include "tests/top/run_fixture.h"

static struct cadre_top_snapshot s;
static struct cadre_text out;

static void teardown(void)
{
    cadre_top_snapshot_fini(&s);
    cadre_text_fini(&out);
}

static const char *draw(int columns, int rows, bool colours)
{
    const struct cadre_top_look look = {columns, rows, colours};
    cadre_text_reset(&out);
    cadre_top_frame(&s, &look, &out);
    ck_assert(!out.failed);
    return cadre_text_str(&out);
}

static void has(const char *text)
{
    ck_assert_msg(strstr(cadre_text_str(&out), text) != NULL, "no '%s' in:\n%s", text,
                  cadre_text_str(&out));
}

static void lacks(const char *text)
{
    ck_assert_msg(strstr(cadre_text_str(&out), text) == NULL, "'%s' in:\n%s", text,
                  cadre_text_str(&out));
}

/* Lines, and columns of the longest. */
static int measure(const char *text, int *longest)
{
    int lines = 0;
    *longest = 0;
    for (; *text; lines++) {
        const int n = (int)strcspn(text, "\n");
        *longest = n > *longest ? n : *longest;
        text += n + (text[n] == '\n');
    }
    return lines;
}

START_TEST(what_a_frame_says)
{
    run_fixture_make(&s, 2, 12);
    draw(140, 0, false);
    has("first  ddp:2  2 ranks  running");
    has("step 12/100  0:09 left  tokens/s 10000, median of 12 steps 10000");
    has("loss 2.5000  norm 0.75  lr 0.001");
    lacks("validation");
    has("backward 3");
    has("all_reduce(dp) ddp bucket 3 3.0 MiB");
    has("250 ms ago");
    has("150/200 MiB");
    has("full bar 100 ms: # compute");
    lacks("\033");
    lacks("slowest");
    draw(80, 0, false);
    has("full bar 100 ms: # compute = optimizer ~ exposed w waits . bubble d data - "
        "other");
}
END_TEST

/* 60 of 100 ms compute are six tenths of the bar, and all parts fill it. */
START_TEST(the_bar_of_a_step)
{
    run_fixture_make(&s, 1, 1);
    draw(200, 0, false);
    const char *row = strstr(cadre_text_str(&out), "\n0 ");
    ck_assert_ptr_nonnull(row);
    const size_t line = strcspn(row + 1, "\n");
    const char *bar = memchr(row + 1, '#', line);
    ck_assert_ptr_nonnull(bar);
    const size_t whole = (size_t)(row + 1 + line - bar), compute = strspn(bar, "#");
    ck_assert(whole >= 12 && compute >= whole * 58 / 100 &&
              compute <= whole * 62 / 100);
    ck_assert_uint_eq(compute + strspn(bar + compute, "=~wd"), whole);
}
END_TEST

START_TEST(a_pending_operation_and_a_slow_rank)
{
    run_fixture_make(&s, 2, 12);
    for (int k = 0; k < 12; k++)
        run_fixture_slow(&s, 1, k, 0.02);
    s.rank[0].seen.has_pending = true;
    s.rank[0].seen.pending = s.rank[0].seen.last;
    s.rank[0].seen.pending.age_s = 12;
    s.rank[0].seen.phase = CADRE_PHASE_COMM;
    cadre_top_snapshot_conclude(&s);
    draw(140, 0, false);
    has("collective");
    has("for 12.0 s");
    has("\n1*");
    has("compute takes 33.3 % longer");
}
END_TEST

START_TEST(the_dead_and_the_unknown)
{
    run_fixture_make(&s, 4, 12);
    s.rank[1].seen.alive = CADRE_RANK_GONE;
    s.rank[1].seen.phase = CADRE_PHASE_COMM;
    s.rank[2].known = false;
    snprintf(s.rank[2].why, sizeof s.rank[2].why, "no status page yet");
    s.rank[3].seen.state = CADRE_RANK_FAILED;
    snprintf(s.rank[3].seen.said, sizeof s.rank[3].seen.said, "rank 1 was killed");
    cadre_top_snapshot_conclude(&s);
    draw(100, 0, false);
    has("died: collective");
    has("unknown: no status page yet");
    has("failed");
    has("\nrank 1 was killed\n");
    draw(100, 0, true);
    has("\033[31m1 ");
}
END_TEST

/* The frame with every run of blanks and line breaks as one blank: what is wrapped
 * reads as it was. */
static void has_words(const char *text)
{
    struct cadre_text flat = {0};
    for (const char *at = cadre_text_str(&out); *at; at++)
        if (!strchr(" \n", *at) || !strchr(" \n", at[1]))
            cadre_text_append(&flat, *at == '\n' ? " " : at, 1);
    ck_assert_msg(strstr(cadre_text_str(&flat), text) != NULL, "no '%s' in:\n%s", text,
                  cadre_text_str(&out));
    cadre_text_fini(&flat);
}

/* The line that begins with these characters; its length in *n. */
static const char *line_of(const char *begin, int *n)
{
    const char *line = strstr(cadre_text_str(&out), begin);
    ck_assert_msg(line != NULL, "no line '%s' in:\n%s", begin, cadre_text_str(&out));
    *n = (int)strcspn(line + 1, "\n");
    return line + 1;
}

/* Each column of a row begins below its head, behind a blank. */
static void rows_are_aligned(int ranks)
{
    static const char *const names[] = {"phase", "for", "last collective",
                                        "memory/planned", "last step"};
    int n_head;
    const char *head = line_of("\nrank ", &n_head);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *name = strstr(head, names[i]);
        if (!name || name >= head + n_head)
            continue;
        for (int r = 0; r < ranks; r++) {
            char begin[16];
            int n;
            snprintf(begin, sizeof begin, "\n%d ", r);
            const char *row = line_of(begin, &n);
            const int at = (int)(name - head);
            ck_assert_msg(n > at && row[at - 1] == ' ' && row[at] != ' ',
                          "rank %d, '%s':\n%s", r, names[i], cadre_text_str(&out));
        }
    }
}

/* The longest texts of every column. */
static void make_long_texts(void)
{
    run_fixture_make(&s, 3, 12);
    for (int r = 0; r < 3; r++) {
        struct cadre_rank_seen *seen = &s.rank[r].seen;
        seen->microbatch = 12345;
        seen->phase_s = 999999;
        seen->memory_bytes = 999u << 10;
        seen->head.planned_bytes = 999u << 20;
        snprintf(seen->last.op.label, sizeof seen->last.op.label,
                 "ddp bucket 31 of an embedding");
    }
    s.rank[0].seen.alive = CADRE_RANK_GONE;
    s.rank[1].seen.has_pending = true;
    s.rank[1].seen.pending = s.rank[1].seen.last;
    s.rank[1].seen.pending.age_s = 12;
    s.rank[2].seen.state = CADRE_RANK_FAILED;
    snprintf(s.rank[2].seen.said, sizeof s.rank[2].seen.said,
             "rank 0 was killed by signal 9 in step 13; the other ranks end with it, "
             "and the last checkpoint is 'runs/first/checkpoints/step-00000010'");
    cadre_top_snapshot_conclude(&s);
}

START_TEST(readable_at_60_80_and_120_columns)
{
    static const int widths[] = {60, 80, 120};
    int longest;
    make_long_texts();
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        measure(draw(widths[i], 0, false), &longest);
        ck_assert_int_le(longest, widths[i]);
        rows_are_aligned(3);
        has("died: backward 12345  ");
        has("999 KiB/999 MiB");
        has("step 12/100  ");
        has_words(s.rank[2].seen.said);
        has_words("# compute = optimizer ~ exposed w waits . bubble d data - other");
    }
    draw(60, 0, false); /* no column for it */
    has_words(
        "pending for 12.0 s: all_reduce(dp) ddp bucket 31 of an embedding 3.0 MiB");
    draw(80, 0, false); /* cut there, and said below */
    has("last collective");
    has("...  999 KiB");
    has("\n      pending for 12.0 s: all_reduce(dp) ddp bucket 31 of an embedding 3.0 "
        "MiB\n");
    s.rank[1].seen.pending.age_s = 0.2; /* that will have changed in a moment */
    draw(80, 0, false);
    lacks("pending");
    draw(160, 0, false);
    has("all_reduce(dp) ddp bucket 31 of an embedding 3.0 MiB  ");
}
END_TEST

START_TEST(a_wait_that_fits_is_said_once)
{
    run_fixture_make(&s, 1, 12);
    s.rank[0].seen.has_pending = true;
    s.rank[0].seen.pending = s.rank[0].seen.last;
    s.rank[0].seen.pending.age_s = 12;
    draw(120, 0, false);
    has("all_reduce(dp) ddp bucket 3 3.0 MiB  ");
    has("for 12.0 s");
    lacks("pending");
}
END_TEST

START_TEST(ranks_of_several_hosts)
{
    make_long_texts();
    draw(120, 0, false);
    lacks("host"); /* there is one */
    snprintf(s.rank[1].seen.head.host, sizeof s.rank[1].seen.head.host,
             "gpu017.cluster.example");
    for (int columns = 60; columns <= 160; columns += 20) {
        draw(columns, 0, false);
        rows_are_aligned(3);
        has("rank  host    phase");
        has("\n0     node    died: backward");
        has("\n1     gpu017  backward");
        lacks("cluster");
        lacks("is seen");
    }
    s.rank[1].seen.alive = CADRE_RANK_ELSEWHERE;
    draw(60, 0, false);
    has_words("only there is seen whether their processes still run");
    s.rank[1].seen.state = CADRE_RANK_ENDED;
    draw(60, 0, false);
    lacks("is seen");
}
END_TEST

START_TEST(a_missing_page_is_explained_in_full)
{
    run_fixture_make(&s, 2, 12);
    s.rank[1].known = false;
    snprintf(s.rank[1].why, sizeof s.rank[1].why,
             "'runs/first/status/rank-00001' is a status page of version 9, this cadre "
             "reads version 2; take the cadre that trains the run");
    cadre_top_snapshot_conclude(&s);
    draw(60, 0, false);
    has_words(s.rank[1].why);
    has("\n1     unknown: ");
}
END_TEST

START_TEST(no_line_is_wider_than_the_terminal)
{
    run_fixture_make(&s, 3, 12);
    memset(s.rank[0].seen.head.name, 'n', sizeof s.rank[0].seen.head.name - 1);
    snprintf(s.rank[0].seen.last.op.label, sizeof s.rank[0].seen.last.op.label,
             "\xc3\xa9\x1b[2J%s", "a label that goes on for a while");
    for (int columns = 20; columns <= 240; columns++) {
        int longest;
        const int lines = measure(draw(columns, 0, false), &longest);
        ck_assert_msg(longest <= columns, "%d columns: a line of %d", columns, longest);
        /* header, rows and what the bars mean; the title and what they mean wrap */
        ck_assert_int_ge(lines, columns < 88 ? 10 : 9);
        has("running");
        lacks("\033"); /* of a name in the page */
    }
}
END_TEST

START_TEST(no_more_lines_than_the_terminal)
{
    int longest;
    run_fixture_make(&s, 64, 12);
    s.rank[50].seen.alive = CADRE_RANK_GONE;
    cadre_top_snapshot_conclude(&s);
    for (int rows = 1; rows <= 80; rows++)
        ck_assert_int_le(measure(draw(100, rows, false), &longest), rows);
    draw(100, 24, false);
    has("more ranks");
    has("died: backward 3"); /* comes first */
    snprintf(s.rank[50].seen.said, sizeof s.rank[50].seen.said,
             "the reason takes several lines of a terminal as small as this one, and "
             "all of them are drawn before the ranks that train have theirs");
    draw(60, 24, false);
    has_words(s.rank[50].seen.said);
    has("more ranks");
    draw(100, 0, false);
    lacks("more ranks");
    has("\n63 ");
}
END_TEST

START_TEST(stages_of_the_last_step)
{
    run_fixture_make(&s, 2, 12);
    for (int r = 0; r < 2; r++) {
        struct cadre_rank_page_passes *passes = &s.rank[r].seen.passes[0];
        passes->step = 12;
        passes->n = 2;
        passes->pass[0] = (struct cadre_rank_page_pass){
            .microbatch = 4, .begin = 10 + 0.1 * r, .end = 10.1 + 0.1 * r};
        passes->pass[1] = (struct cadre_rank_page_pass){
            .kind = 1, .microbatch = 4, .begin = 10.3 - 0.1 * r, .end = 10.4 - 0.1 * r};
    }
    draw(45, 0, false); /* 40 cells of 10 ms */
    has("\n0    F4FFFFFFFF....................B4BBBBBBBB\n");
    has("\n1    ..........F4FFFFFFFFB4BBBBBBBB..........\n");
    s.rank[1].seen.passes[1] = s.rank[1].seen.passes[0]; /* a step ahead */
    s.rank[1].seen.passes[1].step = 13;
    draw(45, 0, false);
    has("passes of step 12");
    s.rank[1].seen.passes[0].n = 0;
    draw(45, 0, false);
    lacks("F4F");
    s.rank[1].seen.passes[0].n = 2;
    s.rank[1].seen.head.boot = 5; /* another clock */
    draw(45, 0, false);
    lacks("F4F");
}
END_TEST

/* ---- JSON ---- */

static json_t *parse(void)
{
    json_error_t why;
    cadre_text_reset(&out);
    ck_assert_int_eq(cadre_top_frame_json(&s, &out), CADRE_OK);
    json_t *root = json_loads(cadre_text_str(&out), JSON_REJECT_DUPLICATES, &why);
    ck_assert_msg(root != NULL, "line %d: %s", why.line, why.text);
    return root;
}

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    ck_assert_msg(json_is_number(value), "%s is no number", key);
    return json_number_value(value);
}

START_TEST(json_of_a_run)
{
    run_fixture_make(&s, 2, 12);
    json_t *root = parse();
    ck_assert_int_eq((int)number(root, "format"), CADRE_TOP_FORMAT);
    ck_assert_str_eq(json_string_value(json_object_get(root, "state")), "running");
    ck_assert_double_eq(number(root, "step"), 12);
    ck_assert_double_eq_tol(number(root, "tokens_per_s"), 10000, 1e-6);
    ck_assert(json_is_null(json_object_get(root, "slowest")));
    ck_assert(json_is_null(json_object_get(root, "valid_loss")));
    const json_t *ranks = json_object_get(root, "ranks");
    ck_assert_uint_eq(json_array_size(ranks), 2);
    const json_t *rank = json_array_get(ranks, 1);
    ck_assert_str_eq(json_string_value(json_object_get(rank, "phase")), "backward");
    ck_assert_double_eq(number(rank, "microbatch"), 3);
    ck_assert(json_is_true(json_object_get(rank, "alive")));
    ck_assert(json_is_null(json_object_get(rank, "pending")));
    ck_assert_double_eq(number(json_object_get(rank, "last"), "bytes"), 3 << 20);
    const json_t *step = json_object_get(rank, "last_step");
    static const char *const parts[] = {"compute_s",    "optim_s",  "comm_exposed_s",
                                        "wait_ranks_s", "bubble_s", "wait_data_s",
                                        "other_s"};
    double sum = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        sum += number(step, parts[i]);
    ck_assert_double_eq_tol(sum, number(step, "step_s"), 1e-9);
    json_decref(root);
}
END_TEST

/* Unknown is null, and says why. */
START_TEST(json_of_what_is_not_known)
{
    run_fixture_make(&s, 2, 0);
    s.rank[0].seen.alive = CADRE_RANK_ELSEWHERE;
    s.rank[0].seen.result.loss = NAN;
    s.rank[0].seen.has_ended = false;
    s.rank[1].known = false;
    snprintf(s.rank[1].why, sizeof s.rank[1].why, "no status page yet");
    cadre_top_snapshot_conclude(&s);
    json_t *root = parse();
    static const char *const nulls[] = {"left_s", "tokens_per_s", "tokens_per_s_median",
                                        "loss"};
    for (size_t i = 0; i < sizeof nulls / sizeof nulls[0]; i++)
        ck_assert_msg(json_is_null(json_object_get(root, nulls[i])), "%s", nulls[i]);
    const json_t *ranks = json_object_get(root, "ranks");
    const json_t *zero = json_array_get(ranks, 0), *one = json_array_get(ranks, 1);
    ck_assert(json_is_null(json_object_get(zero, "alive")));
    ck_assert_ptr_nonnull(json_string_value(json_object_get(zero, "alive_why")));
    ck_assert(json_is_null(json_object_get(zero, "last")));
    ck_assert(json_is_null(json_object_get(zero, "last_step")));
    ck_assert(json_is_false(json_object_get(one, "known")));
    ck_assert_str_eq(json_string_value(json_object_get(one, "why")),
                     "no status page yet");
    json_decref(root);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("frame");
    TCase *tc = tcase_create("frame");
    tcase_add_checked_fixture(tc, NULL, teardown);
    tcase_add_test(tc, what_a_frame_says);
    tcase_add_test(tc, the_bar_of_a_step);
    tcase_add_test(tc, a_pending_operation_and_a_slow_rank);
    tcase_add_test(tc, the_dead_and_the_unknown);
    tcase_add_test(tc, readable_at_60_80_and_120_columns);
    tcase_add_test(tc, a_wait_that_fits_is_said_once);
    tcase_add_test(tc, ranks_of_several_hosts);
    tcase_add_test(tc, a_missing_page_is_explained_in_full);
    tcase_add_test(tc, no_line_is_wider_than_the_terminal);
    tcase_add_test(tc, no_more_lines_than_the_terminal);
    tcase_add_test(tc, stages_of_the_last_step);
    tcase_add_test(tc, json_of_a_run);
    tcase_add_test(tc, json_of_what_is_not_known);
    suite_add_tcase(suite, tc);
    return suite;
}
