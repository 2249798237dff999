/* SPDX-License-Identifier: Apache-2.0 */
/* All ranks of a pipeline together, with the tables of wire.c and in its way of
 * blocking: a pass waits for its input, which arrives only once its receive is posted,
 * and for room in a buffer that is sent from. No schedule of 1 to 8 stages and 1 to 32
 * micro-batches waits for ever, every message is received in the order in which it was
 * sent, and every pass runs once. */
#include "plugins/pipeline/wire.h"
#include "tests/support/check_main.h"

#define MAX_STAGES 8
#define MAX_CHUNKS 4
#define MAX_MICROBATCHES 32
#define MAX_KEYS (2 * MAX_CHUNKS * MAX_MICROBATCHES)

struct rank {
    struct pipeline_list list;
    struct pipeline_wire wire;
    uint32_t at; /* next action */
    uint32_t sent[2], freed[2]; /* by the outbox, by the inbox */
    uint32_t order[2][MAX_KEYS]; /* what the outbox has sent */
    uint32_t waiting; /* messages to itself */
    bool wrote[MAX_KEYS]; /* to itself */
};

static struct rank world[MAX_STAGES];
static struct pipeline_shape shape;

static uint32_t key_of(const struct pipeline_message *m)
{
    return (m->gradient * shape.chunks + m->chunk) * shape.microbatches + m->microbatch;
}

static void set_up(void)
{
    for (uint32_t i = 0; i < shape.stages; i++) {
        struct rank *r = &world[i];
        *r = (struct rank){.wire = {.shape = shape, .rank = i}};
        ck_assert_int_eq(pipeline_list_init(&r->list, &shape, i), 0);
        ck_assert_int_eq(pipeline_wire_init(&r->wire, &r->list), CADRE_OK);
    }
}

static void tear_down(void)
{
    for (uint32_t i = 0; i < shape.stages; i++) {
        pipeline_wire_fini(&world[i].wire);
        pipeline_list_fini(&world[i].list);
    }
}

/* Place of a peer in the inboxes and outboxes of a rank. */
static uint32_t end_of(uint32_t rank, uint32_t peer)
{
    const struct pipeline_wire *wire = &world[rank].wire;
    uint32_t i = wire->n_peers == 2 && wire->inbox[1].peer == (int32_t)peer;
    ck_assert_int_eq(wire->inbox[i].peer, (int32_t)peer);
    return i;
}

/* Receives of `rank` from `peer` that are posted or done: one for each buffer that is
 * free or was freed. */
static uint32_t posted(uint32_t rank, uint32_t peer)
{
    uint32_t i = end_of(rank, peer);
    return world[rank].freed[i] + world[rank].wire.inbox[i].depth;
}

/* Is what the action receives there? */
static bool arrived(uint32_t rank, const struct pipeline_message *m)
{
    struct rank *r = &world[rank];
    if (m->rank == rank)
        return r->wrote[key_of(m)];
    uint32_t box = end_of(m->rank, rank), place = r->wire.place[key_of(m)];
    if (place >= world[m->rank].sent[box] || place >= posted(rank, m->rank))
        return false;
    ck_assert_uint_eq(world[m->rank].order[box][place], key_of(m));
    return true;
}

/* Is the buffer free that the action writes to? */
static bool has_room(uint32_t rank, const struct pipeline_message *m)
{
    struct rank *r = &world[rank];
    if (m->rank == rank) {
        ck_assert_uint_lt(r->waiting, r->wire.turn.depth);
        return true;
    }
    uint32_t box = end_of(rank, m->rank), depth = r->wire.outbox[box].depth;
    ck_assert_uint_gt(depth, 0);
    return r->sent[box] < depth || r->sent[box] - depth < posted(m->rank, rank);
}

static void receive(uint32_t rank, const struct pipeline_message *m)
{
    struct rank *r = &world[rank];
    if (m->rank == rank) {
        r->waiting--;
        r->wrote[key_of(m)] = false;
    } else {
        r->freed[end_of(rank, m->rank)]++;
    }
}

static void send(uint32_t rank, const struct pipeline_message *m)
{
    struct rank *r = &world[rank];
    if (m->rank == rank) {
        ck_assert(!r->wrote[key_of(m)]);
        r->wrote[key_of(m)] = true;
        r->waiting++;
    } else {
        uint32_t box = end_of(rank, m->rank);
        r->order[box][r->sent[box]++] = key_of(m);
    }
}

static bool run_one(uint32_t rank)
{
    struct rank *r = &world[rank];
    struct pipeline_message in, out;
    if (r->at == r->list.n)
        return false;
    const struct pipeline_action *action = &r->list.action[r->at];
    bool takes = pipeline_takes(&shape, rank, action, &in);
    bool gives = pipeline_gives(&shape, rank, action, &out);
    if ((takes && !arrived(rank, &in)) || (gives && !has_room(rank, &out)))
        return false;
    if (gives)
        send(rank, &out);
    if (takes)
        receive(rank, &in);
    r->at++;
    return true;
}

/* All messages sent are received, and all passes made. */
static void check_end(void)
{
    for (uint32_t i = 0; i < shape.stages; i++) {
        const struct rank *r = &world[i];
        ck_assert_msg(r->at == r->list.n,
                      "schedule %u, %u stages, %u chunks, %u micro-batches: rank %u "
                      "waits for ever in pass %u of %u",
                      shape.schedule, shape.stages, shape.chunks, shape.microbatches, i,
                      r->at, r->list.n);
        ck_assert_uint_eq(r->waiting, 0);
        for (uint32_t k = 0; k < r->wire.n_peers; k++) {
            uint32_t peer = (uint32_t)r->wire.inbox[k].peer;
            ck_assert_uint_eq(r->freed[k], r->wire.inbox[k].n);
            ck_assert_uint_eq(r->sent[k], r->wire.outbox[k].n);
            ck_assert_uint_eq(r->sent[k], world[peer].wire.inbox[end_of(peer, i)].n);
        }
    }
}

static void check_shape(void)
{
    bool moved = true;
    set_up();
    while (moved) {
        moved = false;
        for (uint32_t i = 0; i < shape.stages; i++)
            while (run_one(i))
                moved = true;
    }
    check_end();
    tear_down();
}

typedef void (*visit)(void);

static void every(visit call)
{
    const uint32_t by = test_lean() ? 5 : 1;
    for (uint32_t schedule = 0; schedule < PIPELINE_SCHEDULES; schedule++)
        for (uint32_t p = 1; p <= MAX_STAGES; p++)
            for (uint32_t v = 1; v <= MAX_CHUNKS; v++)
                for (uint32_t m = 1; m <= MAX_MICROBATCHES; m += by) {
                    bool several = schedule == PIPELINE_INTERLEAVED ||
                                   schedule == PIPELINE_BREADTH_FIRST;
                    uint32_t most = several                     ? MAX_CHUNKS
                                    : schedule >= PIPELINE_ZB_V ? 2
                                                                : 1;
                    if (p == 1 ? v > 1 : v > most || (most > 1 && v == 1))
                        continue;
                    shape = (struct pipeline_shape){schedule, p, v, m, 0};
                    call();
                }
}

START_TEST(no_rank_waits_for_ever)
{
    every(check_shape);
}
END_TEST

/* Forward passes alone, with any number of micro-batches, take no more buffers than
 * training has. */
static void check_forward(void)
{
    static const uint32_t sizes[] = {1, 2, 7, MAX_MICROBATCHES};
    uint32_t in[MAX_STAGES][2], out[MAX_STAGES][2], turn[MAX_STAGES];
    const struct pipeline_shape training = shape;
    set_up();
    for (uint32_t i = 0; i < shape.stages; i++) {
        turn[i] = world[i].wire.turn.depth;
        for (uint32_t k = 0; k < 2; k++) {
            in[i][k] = world[i].wire.inbox[k].depth;
            out[i][k] = world[i].wire.outbox[k].depth;
        }
    }
    tear_down();
    shape.forward = 1;
    for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
        shape.microbatches = sizes[n];
        check_shape();
        set_up();
        for (uint32_t i = 0; i < shape.stages; i++) {
            ck_assert_uint_le(world[i].wire.turn.depth, turn[i]);
            for (uint32_t k = 0; k < 2; k++) {
                ck_assert_uint_le(world[i].wire.inbox[k].depth, in[i][k]);
                ck_assert(world[i].wire.outbox[k].depth == 0 || out[i][k] > 0);
            }
        }
        tear_down();
    }
    shape = training;
}

START_TEST(forward_passes_fit_in_the_buffers_of_training)
{
    every(check_forward);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("pipeline wire");
    TCase *tc = tcase_create("ranks together");
    tcase_add_test(tc, no_rank_waits_for_ever);
    tcase_add_test(tc, forward_passes_fit_in_the_buffers_of_training);
    suite_add_tcase(suite, tc);
    return suite;
}
