/* SPDX-License-Identifier: Apache-2.0 */
/* Simulated ranks that talk: when operations begin and end, what reaches the host's
 * memory, what is charged to whom, and how a world fails. */
#include "core/simulate/simulated_world.h"

#include <pthread.h>
#include <string.h>

#include "core/base/clock.h"
#include "tests/plan/plan_fixture.h"
#include "tests/support/check_main.h"

enum { RANKS = 4 };

struct member {
    int rank;
    struct cadre_comm *comm;
    void (*act)(struct member *);
    double ended_s; /* clock at its end */
    struct cadre_comm_stats stats;
    cadre_status rc;
};

static struct cadre_turns *turns;
static struct cadre_simulated_world *world;
static struct cadre_representatives who;
static struct member member[RANKS];

static void *member_main(void *arg)
{
    struct member *m = arg;
    if (!cadre_turns_begin(turns, m->rank))
        return NULL;
    cadre_clock_simulate(cadre_turns_clock(turns, m->rank));
    m->act(m);
    cadre_comm_read_stats(m->comm, &m->stats);
    m->ended_s = cadre_now_s();
    cadre_turns_end(turns, m->rank);
    return NULL;
}

/* Ranks on one node: 100 GB/s, 10 us a turn. Clocks begin at 1. */
static void run(void (*act)(struct member *))
{
    static struct cadre_hardware hw;
    pthread_t thread[RANKS];
    struct cadre_error err = {0};
    hw = round_machine;
    hw.node.latency_us = 10;
    ck_assert_int_eq(cadre_turns_create(RANKS, 1, &turns, &err), CADRE_OK);
    who.ranks = RANKS;
    ck_assert_int_eq(cadre_representatives_drop(&who, 0, &err), CADRE_OK);
    ck_assert_int_eq(cadre_simulated_world_open(&hw, turns, &who, &world, &err),
                     CADRE_OK);
    for (int r = 0; r < RANKS; r++) {
        member[r] = (struct member){
            .rank = r, .comm = cadre_simulated_world_comm(world, r), .act = act};
        ck_assert_int_eq(pthread_create(&thread[r], NULL, member_main, &member[r]), 0);
    }
    cadre_turns_start(turns, true);
    for (int r = 0; r < RANKS; r++)
        pthread_join(thread[r], NULL);
}

static void teardown(void)
{
    cadre_simulated_world_close(world);
    cadre_turns_destroy(turns);
    cadre_representatives_fini(&who);
    world = NULL;
    turns = NULL;
}

#define TURNS 30e-6 /* of a ring of 4: 3 latencies */

/* ---- time ---- */

/* Rank r computes for r seconds; then 1 GB is summed, in 15 ms. */
static void reduce_late(struct member *m)
{
    static float host[RANKS][4];
    cadre_event done = 0;
    for (int i = 0; i < 4; i++)
        host[m->rank][i] = (float)(m->rank + i);
    cadre_turns_spend(turns, m->rank, m->rank);
    ck_assert_int_eq(cadre_comm_all_reduce(m->comm, "late", host[m->rank],
                                           host[m->rank], 4, CADRE_F32, CADRE_SUM, 0,
                                           &done),
                     CADRE_OK);
    ck_assert_int_eq(cadre_comm_wait(m->comm, done), CADRE_OK);
    for (int i = 0; i < 4; i++)
        ck_assert_float_eq(host[m->rank][i], (float)(6 + 4 * i));
}

START_TEST(all_wait_for_the_latest)
{
    run(reduce_late);
    const double moves = 2 * (TURNS + 16.0 * 3 / 4 / 100e9);
    for (int r = 0; r < RANKS; r++) {
        ck_assert_double_eq_tol(member[r].ended_s, 4 + moves, 1e-9);
        ck_assert_double_eq_tol(member[r].stats.waited_s, 3 - r + moves, 1e-9);
        ck_assert_double_eq_tol(member[r].stats.exposed_s, moves, 1e-9);
        ck_assert_double_eq_tol(member[r].stats.busy_s, moves, 1e-9);
        ck_assert_uint_eq(member[r].stats.bytes, 24);
    }
}
END_TEST

/* Of what moves while a rank computes nothing is exposed. */
static void overlap(struct member *m)
{
    static char host[RANKS][64];
    cadre_event done = 0;
    ck_assert_int_eq(cadre_comm_broadcast(m->comm, "early", host[m->rank], 64, CADRE_U8,
                                          0, 0, &done),
                     CADRE_OK);
    cadre_turns_spend(turns, m->rank, 1);
    ck_assert_int_eq(cadre_comm_wait(m->comm, done), CADRE_OK);
}

START_TEST(what_moves_meanwhile_is_hidden)
{
    run(overlap);
    for (int r = 0; r < RANKS; r++) {
        ck_assert_double_eq_tol(member[r].ended_s, 2, 1e-12);
        ck_assert_double_eq_tol(member[r].stats.exposed_s, 0, 1e-12);
        ck_assert_double_gt(member[r].stats.busy_s, 29e-6);
    }
}
END_TEST

/* The second begins when the first has ended; a send after it, too. */
static void chain(struct member *m)
{
    static char host[RANKS][64];
    char *mine = host[m->rank];
    cadre_event first = 0, second = 0, sent = 0;
    cadre_comm_barrier(m->comm, "first", 0, &first);
    cadre_comm_barrier(m->comm, "second", 0, &second);
    if (m->rank == 0)
        cadre_comm_send(m->comm, "after", mine, 64, CADRE_U8, 1, second, &sent);
    if (m->rank == 1)
        cadre_comm_recv(m->comm, "after", mine, 64, CADRE_U8, 0, 0, &sent);
    ck_assert_int_eq(cadre_comm_wait(m->comm, sent), CADRE_OK);
}

START_TEST(operations_queue)
{
    run(chain);
    const double second = 1 + 4 * TURNS;
    ck_assert_double_eq_tol(member[1].ended_s, second + 10e-6 + 64 / 100e9, 1e-9);
    ck_assert_double_eq(member[0].ended_s, member[1].ended_s);
    ck_assert_double_eq(member[2].ended_s, 1); /* waits for nothing */
}
END_TEST

/* A rank that asks whether something has happened is told what is so at its time. */
static void poll(struct member *m)
{
    cadre_event done = 0;
    bool happened = false;
    int looks = 0;
    cadre_turns_spend(turns, m->rank, m->rank * 1e-3);
    cadre_comm_barrier(m->comm, "polled", 0, &done);
    while (!happened) {
        ck_assert_int_eq(cadre_comm_test(m->comm, done, &happened), CADRE_OK);
        looks++;
    }
    ck_assert_int_gt(looks, 1);
    ck_assert_double_ge(cadre_now_s(), 1 + 3e-3 + 2 * TURNS);
    ck_assert_double_lt(cadre_now_s(), 1 + 3e-3 + 2 * TURNS + 1e-4);
}

START_TEST(looking_takes_time)
{
    run(poll);
}
END_TEST

/* ---- values ---- */

static void move_all(struct member *m)
{
    static int32_t sum[RANKS][4], part[RANKS], all[RANKS][4], out[RANKS][4];
    static int32_t from_root[RANKS];
    static const uint64_t offsets[] = {0, 1, 2, 3, 4};
    const int r = m->rank;
    int records[RANKS];
    cadre_event done = 0;
    for (int i = 0; i < 4; i++)
        sum[r][i] = 10 * r + i;
    part[r] = 100 + r;
    from_root[r] = r;
    cadre_comm_reduce_scatter(m->comm, "rs", sum[r], &out[r][0], offsets, CADRE_I32,
                              CADRE_SUM, 0, &done);
    cadre_comm_all_gather(m->comm, "ag", &part[r], all[r], offsets, CADRE_I32, 0, NULL);
    cadre_comm_broadcast(m->comm, "b", &from_root[r], 1, CADRE_I32, 2, 0, &done);
    ck_assert_int_eq(cadre_comm_wait(m->comm, done), CADRE_OK);
    ck_assert_int_eq(out[r][0], 60 + 4 * r);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(all[r][i], 100 + i);
    ck_assert_int_eq(from_root[r], 2);
    cadre_comm_all_to_all(m->comm, "a2a", sum[r], out[r], 4, CADRE_I32, 0, &done);
    ck_assert_int_eq(cadre_comm_wait(m->comm, done), CADRE_OK);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(out[r][i], 10 * i + r);
    ck_assert_int_eq(
        cadre_comm_gather_records(m->comm, "records", &r, records, sizeof r), CADRE_OK);
    for (int i = 0; i < RANKS; i++)
        ck_assert_int_eq(records[i], i);
}

START_TEST(values_of_the_host_arrive)
{
    run(move_all);
}
END_TEST

/* Ranks 0, 2 and 1, 3; the key turns the order. Rank 3 is in none at first. */
static void divide(struct member *m)
{
    struct cadre_comm *group = NULL, *none = NULL;
    struct cadre_error err = {0};
    double value = m->rank;
    cadre_event done = 0;
    ck_assert_int_eq(cadre_comm_split(m->comm, m->rank == 3 ? -1 : 0, 0, &none, &err),
                     CADRE_OK);
    ck_assert((none == NULL) == (m->rank == 3));
    ck_assert_int_eq(cadre_comm_split(m->comm, m->rank % 2, -m->rank, &group, &err),
                     CADRE_OK);
    ck_assert_int_eq(group->size, 2);
    ck_assert_int_eq(group->rank, m->rank < 2);
    cadre_comm_all_reduce(group, "in a group", &value, &value, 1, CADRE_F64, CADRE_SUM,
                          0, &done);
    ck_assert_int_eq(cadre_comm_wait(group, done), CADRE_OK);
    ck_assert_double_eq(value, m->rank % 2 ? 4 : 2);
    cadre_comm_destroy(group);
    if (none)
        cadre_comm_destroy(none);
}

START_TEST(groups_are_split)
{
    run(divide);
}
END_TEST

/* ---- failures ---- */

static void differ(struct member *m)
{
    static float host[RANKS][8];
    cadre_event done = 0;
    float *mine = host[m->rank];
    m->rc = cadre_comm_all_reduce(m->comm, "sum", mine, mine, m->rank == 2 ? 8 : 4,
                                  CADRE_F32, CADRE_SUM, 0, &done);
    if (m->rc == CADRE_OK)
        m->rc = cadre_comm_wait(m->comm, done);
}

static void wait_in_vain(struct member *m)
{
    cadre_event done = 0;
    char byte = 0;
    if (m->rank == 3)
        return;
    cadre_comm_recv(m->comm, "never sent", &byte, 1, CADRE_U8, 3, 0, &done);
    m->rc = cadre_comm_wait(m->comm, done);
}

static void poll_in_vain(struct member *m)
{
    cadre_event done = 0;
    bool happened = false;
    if (m->rank == 3)
        return;
    cadre_comm_barrier(m->comm, "never whole", 0, &done);
    while (m->rc == CADRE_OK && !happened)
        m->rc = cadre_comm_test(m->comm, done, &happened);
    ck_assert(!happened);
}

static void end_all(struct member *m)
{
    cadre_event done = 0;
    if (m->rank == 1)
        cadre_comm_abort(m->comm, "rank 1 has had enough");
    m->rc = cadre_comm_barrier(m->comm, "together", 0, &done);
    if (m->rc == CADRE_OK)
        m->rc = cadre_comm_wait(m->comm, done);
}

START_TEST(a_world_fails_in_one_line)
{
    static const struct {
        void (*act)(struct member *);
        const char *says;
    } ways[] = {
        {differ, "rank 2 posts all_reduce #1 'sum' (f32, 8 elements)"},
        {wait_in_vain, "waits for recv #1 'never sent'"},
        {poll_in_vain, "waits for barrier #1 'never whole'"},
        {end_all, "rank 1 has had enough"},
    };
    struct cadre_error err = {0};
    run(ways[_i].act);
    ck_assert_int_ne(cadre_comm_failure(member[0].comm, &err), CADRE_OK);
    ck_assert_msg(strstr(err.text, ways[_i].says) && !strchr(err.text, '\n'), "%s",
                  err.text);
    for (int r = 0; r < 3; r++)
        ck_assert_int_eq(member[r].rc, CADRE_E_ABORTED);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("simulated_world");
    TCase *tc = tcase_create("simulated_world");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, NULL, teardown);
    tcase_add_test(tc, all_wait_for_the_latest);
    tcase_add_test(tc, what_moves_meanwhile_is_hidden);
    tcase_add_test(tc, operations_queue);
    tcase_add_test(tc, looking_takes_time);
    tcase_add_test(tc, values_of_the_host_arrive);
    tcase_add_test(tc, groups_are_split);
    tcase_add_loop_test(tc, a_world_fails_in_one_line, 0, 4);
    suite_add_tcase(s, tc);
    return s;
}
