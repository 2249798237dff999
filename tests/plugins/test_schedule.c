/* SPDX-License-Identifier: Apache-2.0 */
/* The pipeline's lists: every pass once and in a legal order, all ranks together reach
 * the end with the buffers that wire.c takes, live micro-batches and the time of a
 * replay with unit costs as the papers promise. */
#include <stdio.h>
#include <string.h>

#include "plugins/pipeline/schedule.h"
#include "tests/support/check_main.h"

#define MAX_STAGES 8
#define MAX_CHUNKS 4
#define MAX_MICROBATCHES 33

static const uint32_t sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 16, 21, 32, 33};

/* What a replay knows of a rank. */
struct player {
    struct pipeline_list list;
    uint32_t at; /* next action */
    double time; /* when it is free */
    double came[2][MAX_CHUNKS][MAX_MICROBATCHES]; /* < 0: not yet */
    uint32_t sent[MAX_STAGES], taken[MAX_STAGES]; /* to and from */
};

struct replay {
    struct pipeline_shape shape;
    double cost[4]; /* by kind */
    uint32_t buffers; /* between two ranks; 0: any number */
    struct player player[MAX_STAGES];
};

static void setup_replay(struct replay *r, uint32_t schedule, uint32_t stages,
                         uint32_t chunks, uint32_t microbatches)
{
    static const double cost[] = {1, 2, 1, 1};
    memset(r, 0, sizeof *r);
    memcpy(r->cost, cost, sizeof cost);
    r->shape = (struct pipeline_shape){schedule, stages, chunks, microbatches, 0};
    for (uint32_t i = 0; i < stages; i++) {
        struct player *p = &r->player[i];
        ck_assert_int_eq(pipeline_list_init(&p->list, &r->shape, i), 0);
        for (uint32_t g = 0; g < 2; g++)
            for (uint32_t c = 0; c < MAX_CHUNKS; c++)
                for (uint32_t m = 0; m < MAX_MICROBATCHES; m++)
                    p->came[g][c][m] = -1;
    }
}

static void end_replay(struct replay *r)
{
    for (uint32_t i = 0; i < r->shape.stages; i++)
        pipeline_list_fini(&r->player[i].list);
}

/* Run rank i's next action if its input is there and its output has a free buffer. */
static int play_one(struct replay *r, uint32_t i)
{
    struct player *p = &r->player[i];
    struct pipeline_message in, out;
    if (p->at == p->list.n)
        return 0;
    const struct pipeline_action *action = &p->list.action[p->at];
    int takes = pipeline_takes(&r->shape, i, action, &in);
    int gives = pipeline_gives(&r->shape, i, action, &out);
    if (takes) {
        double came = p->came[in.gradient][in.chunk][in.microbatch];
        if (came < 0)
            return 0;
        p->time = came > p->time ? came : p->time;
    }
    struct player *to = gives ? &r->player[out.rank] : NULL;
    if (to && r->buffers && p->sent[out.rank] >= to->taken[i] + r->buffers)
        return 0;
    p->time += r->cost[action->kind];
    if (takes)
        p->taken[in.rank]++;
    if (to) {
        ck_assert(to->came[out.gradient][out.chunk][out.microbatch] < 0);
        to->came[out.gradient][out.chunk][out.microbatch] = p->time;
        p->sent[out.rank]++;
    }
    p->at++;
    return 1;
}

/* The time at which the last rank ends, -1: they wait for each other. */
static double play(struct replay *r)
{
    double end = 0;
    int moved = 1;
    while (moved) {
        moved = 0;
        for (uint32_t i = 0; i < r->shape.stages; i++)
            while (play_one(r, i))
                moved = 1;
    }
    for (uint32_t i = 0; i < r->shape.stages; i++) {
        const struct player *p = &r->player[i];
        if (p->at < p->list.n)
            return -1;
        end = p->time > end ? p->time : end;
    }
    return end;
}

static double total(uint32_t schedule, uint32_t stages, uint32_t chunks,
                    uint32_t microbatches, uint32_t buffers)
{
    struct replay r;
    setup_replay(&r, schedule, stages, chunks, microbatches);
    r.buffers = buffers;
    double time = play(&r);
    end_replay(&r);
    return time;
}

static uint32_t live(uint32_t schedule, uint32_t stages, uint32_t rank,
                     uint32_t microbatches)
{
    struct pipeline_shape shape = {schedule, stages, 1, microbatches, 0};
    struct pipeline_list list;
    ck_assert_int_eq(pipeline_list_init(&list, &shape, rank), 0);
    uint32_t n = pipeline_list_live(&list, 0);
    pipeline_list_fini(&list);
    return n;
}

/* Every shape of the tests, one call each. */
typedef void (*visit)(uint32_t schedule, uint32_t stages, uint32_t chunks,
                      uint32_t microbatches);
static void every(visit call)
{
    for (uint32_t schedule = PIPELINE_GPIPE; schedule <= PIPELINE_ZB_H1; schedule++)
        for (uint32_t p = 1; p <= MAX_STAGES; p++)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                if (schedule != PIPELINE_INTERLEAVED)
                    call(schedule, p, 1, sizes[i]);
                else
                    for (uint32_t v = 2; v <= MAX_CHUNKS; v++)
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
        ck_assert_uint_eq(a->kind == PIPELINE_BACKWARD,
                          schedule != PIPELINE_ZB_H1 && a->kind != PIPELINE_FORWARD);
        if (a->kind == PIPELINE_FORWARD)
            ck_assert_uint_eq(a->microbatch, forward[a->chunk]++);
        if (a->kind == PIPELINE_BACKWARD || a->kind == PIPELINE_INPUT)
            ck_assert_uint_eq(a->microbatch, input[a->chunk]++);
        if (a->kind == PIPELINE_BACKWARD || a->kind == PIPELINE_WEIGHT)
            ck_assert_uint_eq(a->microbatch, weight[a->chunk]++);
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
    struct replay r;
    setup_replay(&r, schedule, stages, chunks, microbatches);
    end_replay(&r);
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
    ck_assert_msg(play(&r) > 0, "%s", said(schedule, stages, chunks, microbatches));
    end_replay(&r);
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
                ck_assert_uint_eq(live(PIPELINE_GPIPE, p, r, m), m);
                ck_assert_uint_eq(live(PIPELINE_1F1B, p, r, m), m < left ? m : left);
                ck_assert_uint_eq(live(PIPELINE_ZB_H1, p, r, m), m < p ? m : p);
            }
}
END_TEST

/* Over all chunks of a rank: what is warmed up and one more. */
static uint32_t live_of_all(const struct pipeline_list *list)
{
    uint32_t n = 0, most = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        n += list->action[i].kind == PIPELINE_FORWARD;
        most = n > most ? n : most;
        n -= list->action[i].kind == PIPELINE_BACKWARD;
    }
    return most;
}

START_TEST(live_of_interleaved_is_as_promised)
{
    for (uint32_t p = 2; p <= MAX_STAGES; p++)
        for (uint32_t v = 2; v <= MAX_CHUNKS; v++)
            for (uint32_t r = 0; r < p; r++) {
                struct pipeline_shape shape = {PIPELINE_INTERLEAVED, p, v, 4 * p, 0};
                struct pipeline_list list;
                ck_assert_int_eq(pipeline_list_init(&list, &shape, r), 0);
                ck_assert_uint_eq(live_of_all(&list),
                                  2 * (p - r - 1) + (v - 1) * p + 1);
                pipeline_list_fini(&list);
            }
}
END_TEST

/* Forward 1 and backward 2 a pass (1 and 1 if separate), so the work of a rank is 3 v
 * m. */
static void check_bubble(uint32_t schedule, uint32_t p, uint32_t v, uint32_t m)
{
    double work = 3.0 * v * m, lost = 3.0 * (p - 1);
    if (schedule == PIPELINE_ZB_H1)
        lost = p - 1; /* (p - 1)(F + I - W) */
    if (m < p && (schedule == PIPELINE_INTERLEAVED || schedule == PIPELINE_ZB_H1))
        return; /* too few to fill it, promised for m >= p */
    ck_assert_msg(total(schedule, p, v, m, 0) == work + lost, "%s",
                  said(schedule, p, v, m));
}

START_TEST(bubble_is_as_promised)
{
    every(check_bubble);
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
    tcase_add_test(tc, bubble_is_as_promised);
    tcase_add_test(tc, lists_are_those_of_the_papers);
    suite_add_tcase(suite, tc);
    return suite;
}
