/* SPDX-License-Identifier: Apache-2.0 */
/* The pipeline's lists: every pass once and in a legal order, live micro-batches and
 * the time of a replay with unit costs as the papers promise. That all ranks together
 * reach the end with the buffers of wire.c is in test_wire.c. */
#include <stdio.h>
#include <string.h>

#include "tests/plugins/schedule_replay.h"
#include "tests/support/check_main.h"

static const uint32_t sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 16, 21, 32, 33};

static void setup_replay(struct schedule_replay *r, uint32_t schedule, uint32_t stages,
                         uint32_t chunks, uint32_t microbatches)
{
    struct pipeline_shape shape = {schedule, stages, chunks, microbatches, 0};
    ck_assert_int_eq(schedule_replay_init(r, &shape), 0);
}

static double total(uint32_t schedule, uint32_t stages, uint32_t chunks,
                    uint32_t microbatches, uint32_t buffers)
{
    struct schedule_replay r;
    setup_replay(&r, schedule, stages, chunks, microbatches);
    r.buffers = buffers;
    double time = schedule_replay_run(&r);
    schedule_replay_fini(&r);
    return time;
}

/* Over all chunks of a rank. */
static uint32_t live_of_all(const struct pipeline_list *list)
{
    uint32_t n = 0, most = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        uint32_t kind = list->action[i].kind;
        n += kind == PIPELINE_FORWARD;
        most = n > most ? n : most;
        n -= kind == PIPELINE_BACKWARD || kind == PIPELINE_WEIGHT;
    }
    return most;
}

static uint32_t live(uint32_t schedule, uint32_t stages, uint32_t chunks, uint32_t rank,
                     uint32_t microbatches)
{
    struct pipeline_shape shape = {schedule, stages, chunks, microbatches, 0};
    struct pipeline_list list;
    ck_assert_int_eq(pipeline_list_init(&list, &shape, rank), 0);
    uint32_t n = live_of_all(&list);
    if (chunks == 1)
        ck_assert_uint_eq(n, pipeline_list_live(&list, 0));
    pipeline_list_fini(&list);
    return n;
}

/* Every shape of the tests, one call each. */
typedef void (*visit)(uint32_t schedule, uint32_t stages, uint32_t chunks,
                      uint32_t microbatches);
static void every(visit call)
{
    for (uint32_t schedule = 0; schedule < PIPELINE_SCHEDULES; schedule++)
        for (uint32_t p = 1; p <= MAX_STAGES; p++)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                uint32_t least = 1, most = 1;
                if (schedule == PIPELINE_INTERLEAVED ||
                    schedule == PIPELINE_BREADTH_FIRST) {
                    least = 2;
                    most = MAX_CHUNKS;
                } else if (schedule >= PIPELINE_ZB_V && p > 1) {
                    least = most = 2;
                }
                for (uint32_t v = least; v <= most; v++)
                    call(schedule, p, v, sizes[i]);
            }
}

/* ---- every pass once, in order ---- */

static void ordered(const struct pipeline_list *list, uint32_t schedule,
                    uint32_t chunks, uint32_t microbatches)
{
    uint32_t forward[MAX_CHUNKS] = {0}, input[MAX_CHUNKS] = {0};
    uint32_t weight[MAX_CHUNKS] = {0};
    for (uint32_t i = 0; i < list->n; i++) {
        const struct pipeline_action *a = &list->action[i];
        ck_assert_uint_lt(a->chunk, chunks);
        if (schedule != PIPELINE_DUALPIPEV || chunks == 1) /* that has both */
            ck_assert_uint_eq(a->kind == PIPELINE_BACKWARD,
                              !pipeline_splits(schedule) &&
                                  a->kind != PIPELINE_FORWARD);
        if (a->kind == PIPELINE_FORWARD)
            ck_assert_uint_eq(a->microbatch, forward[a->chunk]++);
        if (a->kind == PIPELINE_BACKWARD || a->kind == PIPELINE_INPUT)
            ck_assert_uint_eq(a->microbatch, input[a->chunk]++);
        if (a->kind == PIPELINE_BACKWARD || a->kind == PIPELINE_WEIGHT)
            ck_assert_uint_eq(a->microbatch, weight[a->chunk]++);
        if (a->kind == PIPELINE_BACKWARD)
            ck_assert_uint_eq(weight[a->chunk], input[a->chunk]);
        ck_assert_uint_le(input[a->chunk], forward[a->chunk]);
        ck_assert_uint_le(weight[a->chunk], input[a->chunk]);
    }
    for (uint32_t c = 0; c < chunks; c++)
        ck_assert(forward[c] == microbatches && input[c] == microbatches &&
                  weight[c] == microbatches);
}

static void check_order(uint32_t schedule, uint32_t stages, uint32_t chunks,
                        uint32_t microbatches)
{
    struct pipeline_shape shape = {schedule, stages, chunks, microbatches, 0};
    for (uint32_t rank = 0; rank < stages; rank++) {
        struct pipeline_list list;
        ck_assert_int_eq(pipeline_list_init(&list, &shape, rank), 0);
        ordered(&list, schedule, chunks, microbatches);
        pipeline_list_fini(&list);
    }
}

START_TEST(every_pass_comes_once_and_in_order)
{
    every(check_order);
}
END_TEST

/* ---- the ranks together ---- */

static const char *said(uint32_t schedule, uint32_t stages, uint32_t chunks,
                        uint32_t microbatches)
{
    static char text[80];
    snprintf(text, sizeof text, "schedule %u, %u stages, %u chunks, %u micro-batches",
             schedule, stages, chunks, microbatches);
    return text;
}

/* Two buffers at the sender; at the receiver one for the message that is taken and one
 * ahead. Fewer only make a rank wait, as messages are few ahead of their use. */
static void check_end(uint32_t schedule, uint32_t stages, uint32_t chunks,
                      uint32_t microbatches)
{
    ck_assert_msg(total(schedule, stages, chunks, microbatches, 4) > 0, "%s",
                  said(schedule, stages, chunks, microbatches));
}

START_TEST(no_rank_waits_for_ever)
{
    every(check_end);
}
END_TEST

/* Forward passes alone: each once and in order, with the same buffers. */
static void check_forward(uint32_t schedule, uint32_t stages, uint32_t chunks,
                          uint32_t microbatches)
{
    struct schedule_replay r;
    setup_replay(&r, schedule, stages, chunks, microbatches);
    schedule_replay_fini(&r);
    r.shape.forward = 1;
    r.buffers = 4;
    for (uint32_t i = 0; i < stages; i++) {
        struct pipeline_list *list = &r.player[i].list;
        uint32_t next[MAX_CHUNKS] = {0};
        ck_assert_int_eq(pipeline_list_init(list, &r.shape, i), 0);
        ck_assert_uint_eq(list->n, chunks * microbatches);
        for (uint32_t k = 0; k < list->n; k++) {
            ck_assert_uint_eq(list->action[k].kind, PIPELINE_FORWARD);
            ck_assert_uint_eq(list->action[k].microbatch,
                              next[list->action[k].chunk]++);
        }
    }
    ck_assert_msg(schedule_replay_run(&r) > 0, "%s",
                  said(schedule, stages, chunks, microbatches));
    schedule_replay_fini(&r);
}

START_TEST(forward_passes_run_alone_too)
{
    every(check_forward);
}
END_TEST

/* ---- promises ---- */

START_TEST(live_is_as_promised)
{
    for (uint32_t p = 1; p <= MAX_STAGES; p++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (uint32_t r = 0; r < p; r++) {
                uint32_t m = sizes[i], left = p - r;
                ck_assert_uint_eq(live(PIPELINE_GPIPE, p, 1, r, m), m);
                ck_assert_uint_eq(live(PIPELINE_1F1B, p, 1, r, m), m < left ? m : left);
                ck_assert_uint_eq(live(PIPELINE_ZB_H1, p, 1, r, m), m < p ? m : p);
                ck_assert_uint_eq(live(PIPELINE_BREADTH_FIRST, p, 3, r, m), 3 * m);
            }
}
END_TEST

/* What is warmed up and one more. */
START_TEST(live_of_interleaved_is_as_promised)
{
    for (uint32_t p = 2; p <= MAX_STAGES; p++)
        for (uint32_t v = 2; v <= MAX_CHUNKS; v++)
            for (uint32_t r = 0; r < p; r++)
                ck_assert_uint_eq(live(PIPELINE_INTERLEAVED, p, v, r, 4 * p),
                                  2 * (p - r - 1) + (v - 1) * p + 1);
}
END_TEST

/* In chunks of half a stage: 2 p are as much as the first stage keeps in 1f1b, and the
 * report on DualPipe counts PP + 1 with PP = 2 p. */
START_TEST(live_of_two_halves_is_as_promised)
{
    for (uint32_t p = 2; p <= MAX_STAGES; p++)
        for (uint32_t m = 2 * p - 1; m <= 2 * p + 9; m++)
            for (uint32_t r = 0; r < p; r++) {
                ck_assert_uint_eq(live(PIPELINE_ZB_V, p, 2, r, m), 2 * p);
                if (m >= 2 * p)
                    ck_assert_uint_eq(live(PIPELINE_DUALPIPEV, p, 2, r, m), 2 * p + 1);
            }
}
END_TEST

/* Forward 1 and backward 2 a pass (1 and 1 if separate), so the work of a rank is 3 v
 * m. */
static void check_bubble(uint32_t schedule, uint32_t p, uint32_t v, uint32_t m)
{
    double work = 3.0 * v * m, lost = 3.0 * (p - 1);
    uint32_t least = schedule == PIPELINE_GPIPE || schedule == PIPELINE_1F1B ? 1 : p;
    if (pipeline_splits(schedule))
        lost = p - 1; /* (p - 1)(F + I - W), or the first forward on its way down */
    if (schedule == PIPELINE_ZB_V)
        least = 2 * p - 1;
    if (schedule == PIPELINE_DUALPIPEV)
        least = 2 * p;
    if (m < least)
        return; /* too few to fill it */
    ck_assert_msg(total(schedule, p, v, m, 0) == work + lost, "%s",
                  said(schedule, p, v, m));
}

START_TEST(bubble_is_as_promised)
{
    every(check_bubble);
}
END_TEST

/* Between its first pass and its last a rank of zb-v never waits. */
START_TEST(zb_v_has_no_bubble_within_a_rank)
{
    for (uint32_t p = 2; p <= MAX_STAGES; p++)
        for (uint32_t m = 2 * p - 1; m <= 2 * p + 9; m++) {
            struct schedule_replay r;
            setup_replay(&r, PIPELINE_ZB_V, p, 2, m);
            ck_assert(schedule_replay_run(&r) > 0);
            for (uint32_t i = 0; i < p; i++)
                ck_assert_double_eq(r.player[i].time - r.player[i].begin, 6 * m);
            schedule_replay_fini(&r);
        }
}
END_TEST

/* The report's formula is for a forward and a backward that run as one, F&B, whose
 * outputs are there at its end: (PP/2 - 1)(F&B + B - 3 W), PP = 2 p, B the whole
 * backward of a chunk. */
static void check_overlapped(uint32_t p, uint32_t m, double pair)
{
    struct schedule_replay r;
    setup_replay(&r, PIPELINE_DUALPIPEV, p, 2, m);
    r.pair = pair;
    double end = schedule_replay_run(&r), idle = 0;
    ck_assert(end > 0);
    for (uint32_t i = 0; i < p; i++)
        idle = end - r.player[i].busy > idle ? end - r.player[i].busy : idle;
    schedule_replay_fini(&r);
    ck_assert_double_eq(idle, (p - 1) * (pair + 2 - 3));
}

START_TEST(overlapped_pairs_idle_as_the_report_says)
{
    for (uint32_t p = 2; p <= MAX_STAGES; p++)
        for (uint32_t m = 2 * p; m <= 2 * p + 9; m++) {
            check_overlapped(p, m, 3);
            check_overlapped(p, m, 2.5);
        }
}
END_TEST

/* ---- by hand ---- */

static void reads(uint32_t schedule, uint32_t stages, uint32_t chunks, uint32_t rank,
                  uint32_t microbatches, const char *want)
{
    struct pipeline_shape shape = {schedule, stages, chunks, microbatches, 0};
    struct pipeline_list list;
    char text[512] = "";
    size_t n = 0;
    ck_assert_int_eq(pipeline_list_init(&list, &shape, rank), 0);
    for (uint32_t i = 0; i < list.n; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%c%u%.1s", i ? " " : "",
                              "FBIW"[list.action[i].kind], list.action[i].microbatch,
                              list.action[i].chunk ? "'" : "");
    pipeline_list_fini(&list);
    ck_assert_str_eq(text, want);
}

START_TEST(lists_are_those_of_the_papers)
{
    reads(PIPELINE_GPIPE, 2, 1, 0, 3, "F0 F1 F2 B0 B1 B2");
    reads(PIPELINE_1F1B, 4, 1, 1, 4, "F0 F1 F2 B0 F3 B1 B2 B3");
    reads(PIPELINE_1F1B, 4, 1, 3, 3, "F0 B0 F1 B1 F2 B2");
    reads(PIPELINE_INTERLEAVED, 2, 2, 1, 2, "F0 F1 F0' B0' F1' B1' B0 B1");
    reads(PIPELINE_INTERLEAVED, 2, 2, 0, 2, "F0 F1 F0' F1' B0' B1' B0 B1");
    reads(PIPELINE_ZB_H1, 2, 1, 0, 3, "F0 F1 I0 W0 F2 I1 W1 I2 W2");
    reads(PIPELINE_ZB_H1, 2, 1, 1, 3, "F0 I0 F1 I1 W0 F2 I2 W1 W2");
    reads(PIPELINE_BREADTH_FIRST, 2, 2, 1, 2, "F0 F1 F0' F1' B0' B1' B0 B1");
    reads(PIPELINE_ZB_V, 2, 2, 0, 3,
          "F0 F1 F2 F0' I0' W0' F1' I1' W1' I0 W0 F2' I2' W2' I1 W1 I2 W2");
    reads(PIPELINE_ZB_V, 2, 2, 1, 3,
          "F0 F0' F1 F1' I0' W0' F2 I0 W0 F2' I1' W1' I1 I2' I2 W1 W2' W2");
    reads(PIPELINE_ZB_V, 2, 2, 1, 1, "F0 F0' I0' W0' I0 W0");
    reads(PIPELINE_DUALPIPEV, 2, 2, 0, 4,
          "F0 F1 F2 F0' I0' W0' F1' F3 B1' F2' B0 B2' F3' B1 B3' I2 W2 I3 W3");
    reads(PIPELINE_DUALPIPEV, 2, 2, 1, 4,
          "F0 F0' F1 F1' F2 B0' F2' B0 F3 B1' F3' B1 B2' B2 I3' I3 W3' W3");
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("pipeline schedule");
    TCase *tc = tcase_create("lists");
    tcase_add_test(tc, every_pass_comes_once_and_in_order);
    tcase_add_test(tc, no_rank_waits_for_ever);
    tcase_add_test(tc, forward_passes_run_alone_too);
    tcase_add_test(tc, live_is_as_promised);
    tcase_add_test(tc, live_of_interleaved_is_as_promised);
    tcase_add_test(tc, live_of_two_halves_is_as_promised);
    tcase_add_test(tc, bubble_is_as_promised);
    tcase_add_test(tc, zb_v_has_no_bubble_within_a_rank);
    tcase_add_test(tc, overlapped_pairs_idle_as_the_report_says);
    tcase_add_test(tc, lists_are_those_of_the_papers);
    suite_add_tcase(suite, tc);
    return suite;
}
