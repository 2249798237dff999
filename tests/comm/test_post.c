/* SPDX-License-Identifier: Apache-2.0 */
/* What a backend receives from a post, and what never reaches it: a backend that
 * records its operations stands in for all. */
#include <stdlib.h>
#include <string.h>

#include "core/base/rank_seen.h"
#include "core/comm/backend.h"
#include "tests/support/check_main.h"

#define RANKS 3
#define RANK 1

static struct {
    struct cadre_comm comm;
    struct cadre_comm_context context;
    struct cadre_failure failure;
    _Atomic uint64_t step;
    struct cadre_comm_op *got; /* the last operation */
    int enqueued, waited, progressed;
    struct cadre_device *device; /* that of the last use_device */
    cadre_status answer;
} fake;

/* After struct cadre_comm_op, to check that it is allocated and zero. */
struct fake_op {
    struct cadre_comm_op base;
    uint64_t own[2];
};

static cadre_status fake_enqueue(struct cadre_comm *comm, struct cadre_comm_op *op,
                                 cadre_event *done)
{
    ck_assert_ptr_eq(comm, &fake.comm);
    free(fake.got);
    fake.got = op;
    op->sequence = (uint64_t)++fake.enqueued;
    if (done && fake.answer == CADRE_OK)
        *done = op->sequence;
    return fake.answer;
}

static cadre_status fake_wait(struct cadre_comm *comm, cadre_event event)
{
    (void)comm;
    fake.waited++;
    return event == 1 ? CADRE_OK : CADRE_E_INVALID;
}

static cadre_status fake_test(struct cadre_comm *comm, cadre_event event,
                              bool *happened)
{
    (void)comm;
    *happened = event == 1;
    return event < 3 ? CADRE_OK : CADRE_E_INVALID;
}

static cadre_status fake_use_device(struct cadre_comm *comm,
                                    struct cadre_device *device,
                                    struct cadre_error *err)
{
    (void)comm;
    (void)err;
    fake.device = device;
    return fake.answer;
}

static void fake_progress(const struct cadre_comm *comm)
{
    (void)comm;
    fake.progressed++;
}

static const struct cadre_comm_backend backend = {
    .op_bytes = sizeof(struct fake_op),
    .enqueue = fake_enqueue,
    .wait = fake_wait,
    .test = fake_test,
    .use_device = fake_use_device,
    .progress = fake_progress,
};

/* A device whose memory is the second half of `memory`. */
static float memory[64];

static bool reaches(struct cadre_device *device, const void *ptr)
{
    (void)device;
    return (const float *)ptr < memory + 32;
}

static const struct cadre_device_ops queued_ops = {
    .name = "late", .async = true, .host_reaches = reaches};
static const struct cadre_device_ops inline_ops = {.name = "cpu"};

static void setup(void)
{
    memset(&fake, 0, sizeof fake);
    fake.comm.backend = &backend;
    fake.comm.context = &fake.context;
    fake.comm.rank = RANK;
    fake.comm.size = RANKS;
    fake.step = 40;
    cadre_comm_context_init(&fake.context, RANK, RANKS, &fake.step, &fake.failure);
}

static void teardown(void)
{
    free(fake.got);
    cadre_comm_context_fini(&fake.context);
}

static const struct fake_op *got(enum cadre_comm_kind kind, const char *label)
{
    const struct fake_op *op = (const struct fake_op *)fake.got;
    ck_assert_ptr_nonnull(op);
    ck_assert_int_eq(op->base.kind, kind);
    ck_assert_str_eq(cadre_comm_op_label(&op->base), label);
    ck_assert_uint_eq(op->base.step, 40);
    ck_assert(op->base.posted_s > 0);
    ck_assert(op->own[0] == 0 && op->own[1] == 0);
    return op;
}

START_TEST(vectors_arrive_whole)
{
    struct cadre_comm *c = &fake.comm;
    float *in = memory, *out = memory + 16;
    cadre_event e = 0;
    ck_assert_int_eq(
        cadre_comm_all_reduce(c, "a", in, out, 12, CADRE_F32, CADRE_MAX, 7, &e), 0);
    const struct cadre_comm_op *op = &got(CADRE_COMM_ALL_REDUCE, "a")->base;
    ck_assert(op->in == in && op->out == out && op->count == 12 && op->after == 7);
    ck_assert(op->dtype == CADRE_F32 && op->red == CADRE_MAX && e == 1);
    ck_assert_uint_eq(op->bytes, 2 * (12 * 4 * 2 / 3));
    ck_assert_int_eq(op->memory, CADRE_COMM_HOST_MEMORY);
    ck_assert_int_eq(cadre_comm_broadcast(c, "b", in, 5, CADRE_F64, 2, 8, &e), 0);
    op = &got(CADRE_COMM_BROADCAST, "b")->base;
    ck_assert(op->in == in && op->out == in && op->count == 5 && op->root == 2);
    ck_assert(op->offsets == NULL && op->bytes == 40 && op->after == 8 && e == 2);
    ck_assert_int_eq(cadre_comm_all_to_all(c, NULL, in, out, 6, CADRE_U8, 0, NULL), 0);
    op = &got(CADRE_COMM_ALL_TO_ALL, "")->base;
    ck_assert(op->in == in && op->out == out && op->count == 6 && op->bytes == 4);
    ck_assert(op->offsets[1] == 2 && op->offsets[2] == 4 && op->offsets[3] == 6);
}
END_TEST

START_TEST(messages_and_barriers_arrive)
{
    struct cadre_comm *c = &fake.comm;
    cadre_event e = 0;
    ck_assert_int_eq(cadre_comm_send(c, "s", memory, 3, CADRE_BF16, 2, 9, &e), 0);
    const struct cadre_comm_op *op = &got(CADRE_COMM_SEND, "s")->base;
    ck_assert(op->in == memory && op->out == NULL && op->count == 3 && op->root == 2);
    ck_assert(op->bytes == 6 && op->after == 9 && e == 1);
    ck_assert_int_eq(cadre_comm_recv(c, "r", memory, 3, CADRE_BF16, 0, 0, NULL), 0);
    op = &got(CADRE_COMM_RECV, "r")->base;
    ck_assert(op->in == NULL && op->out == memory && op->count == 3 && op->root == 0);
    ck_assert_uint_eq(op->bytes, 0);
    ck_assert_int_eq(cadre_comm_barrier(c, "w", 3, &e), 0);
    op = &got(CADRE_COMM_BARRIER, "w")->base;
    ck_assert(op->count == 0 && op->bytes == 0 && op->after == 3 && e == 3);
    ck_assert_int_eq(op->memory, CADRE_COMM_NO_MEMORY);
}
END_TEST

/* Nodes of the three ranks, and what rank 1 sends to others of an all_reduce of 64
 * bytes, a broadcast of 40, and messages to ranks 0 and 2 of 6. */
static const struct {
    int node[RANKS];
    uint64_t all_reduce, broadcast, down, up;
} levels[] = {
    {{0, 0, 0}, 0, 0, 0, 0},   {{0, 0, 1}, 32, 20, 0, 6}, {{0, 1, 1}, 32, 20, 6, 0},
    {{0, 1, 0}, 64, 40, 6, 6}, {{0, 1, 2}, 64, 40, 6, 6},
};

START_TEST(bytes_between_nodes_are_counted)
{
    struct cadre_comm *c = &fake.comm;
    int node[RANKS];
    memcpy(node, levels[_i].node, sizeof node);
    c->node = node;
    cadre_comm_all_reduce(c, "a", memory, memory, 12, CADRE_F32, CADRE_SUM, 0, NULL);
    ck_assert_uint_eq(fake.got->bytes, 64);
    ck_assert_uint_eq(fake.got->between_bytes, levels[_i].all_reduce);
    ck_assert_int_eq(cadre_comm_op_crosses(c, fake.got), _i > 0);
    cadre_comm_broadcast(c, "b", memory, 5, CADRE_F64, 2, 0, NULL);
    ck_assert_uint_eq(fake.got->between_bytes, levels[_i].broadcast);
    cadre_comm_send(c, "s", memory, 3, CADRE_BF16, 0, 0, NULL);
    ck_assert_uint_eq(fake.got->between_bytes, levels[_i].down);
    cadre_comm_send(c, "s", memory, 3, CADRE_BF16, 2, 0, NULL);
    ck_assert_uint_eq(fake.got->between_bytes, levels[_i].up);
    cadre_comm_recv(c, "r", memory, 3, CADRE_BF16, 2, 0, NULL);
    ck_assert_uint_eq(fake.got->between_bytes, 0);
    ck_assert_int_eq(cadre_comm_op_crosses(c, fake.got), levels[_i].up > 0);
    cadre_comm_barrier(c, "w", 0, NULL);
    ck_assert_uint_eq(fake.got->between_bytes, 0);
    ck_assert_int_eq(cadre_comm_op_crosses(c, fake.got), _i > 0);
}
END_TEST

START_TEST(offsets_are_copied)
{
    struct cadre_comm *c = &fake.comm;
    uint64_t offsets[RANKS + 1] = {0, 2, 2, 9};
    ck_assert_int_eq(cadre_comm_reduce_scatter(c, "s", memory, memory + 9, offsets,
                                               CADRE_F32, CADRE_SUM, 0, NULL),
                     0);
    const struct cadre_comm_op *op = &got(CADRE_COMM_REDUCE_SCATTER, "s")->base;
    offsets[1] = 1;
    ck_assert(op->count == 9 && op->offsets[1] == 2 && op->offsets[3] == 9);
    ck_assert_uint_eq(op->bytes, 9 * 4 * 2 / 3);
    ck_assert_uint_eq(cadre_comm_op_extent(op, 2, true), 9);
    ck_assert_uint_eq(cadre_comm_op_extent(op, 2, false), 7);
    ck_assert_uint_eq(cadre_comm_slice_longest(op, RANKS), 7);
    ck_assert_uint_eq(cadre_comm_slice_part(op, 2, 0, 3), 3);
    ck_assert_uint_eq(cadre_comm_slice_part(op, 2, 6, 3), 1);
    ck_assert_uint_eq(cadre_comm_slice_part(op, 0, 2, 3), 0);
    ck_assert_int_eq(
        cadre_comm_all_gather(c, "g", memory, memory + 9, offsets, CADRE_F32, 0, NULL),
        0);
    op = &got(CADRE_COMM_ALL_GATHER, "g")->base;
    ck_assert(op->count == 9 && op->offsets[1] == 1 && op->bytes == 9 * 4 * 2 / 3);
    ck_assert_uint_eq(cadre_comm_op_extent(op, 1, true), 1);
    ck_assert_uint_eq(cadre_comm_op_extent(op, 1, false), 9);
}
END_TEST

/* Counts of an all_reduce, and where its slices then begin. */
static const uint64_t even[][RANKS + 2] = {
    {0, 0, 0, 0, 0},
    {1, 0, 1, 1, 1},
    {129, 0, 64, 128, 129},
    {192, 0, 64, 128, 192},
    {193, 0, 128, 193, 193},
    {1000, 0, 384, 768, 1000},
    {3840, 0, 1280, 2560, 3840},
};

START_TEST(slices_are_even)
{
    ck_assert_int_eq(cadre_comm_all_reduce(&fake.comm, "a", memory, memory, even[_i][0],
                                           CADRE_F32, CADRE_SUM, 0, NULL),
                     0);
    for (int m = 0; m <= RANKS; m++)
        ck_assert_uint_eq(fake.got->offsets[m], even[_i][m + 1]);
}
END_TEST

/* Each of these has one fault, and none may reach the backend. */
START_TEST(faults_are_refused)
{
    static const uint64_t falls[] = {0, 4, 2, 6}, starts_late[] = {1, 2, 3, 4};
    static const uint64_t vast[] = {0, 0, 0, UINT64_MAX / 4};
    struct cadre_comm *c = &fake.comm;
    float *x = memory, *y = memory + 16;
    cadre_event e = 99;
    const cadre_status rc[] = {
        cadre_comm_all_reduce(c, "x", x, y, 1, 77, CADRE_SUM, 0, &e),
        cadre_comm_all_reduce(c, "x", x, y, INT64_MAX / 4, CADRE_F32, CADRE_SUM, 0, &e),
        cadre_comm_all_reduce(c, "x", x, y, 1, CADRE_U8, CADRE_SUM, 0, &e),
        cadre_comm_all_reduce(c, "x", x, y, 1, CADRE_I8, CADRE_MAX, 0, &e),
        cadre_comm_all_reduce(c, "x", x, y, 1, CADRE_F32, 9, 0, &e),
        cadre_comm_reduce_scatter(c, "x", x, y, falls, CADRE_F32, CADRE_SUM, 0, &e),
        cadre_comm_reduce_scatter(c, "x", x, y, NULL, CADRE_F32, CADRE_SUM, 0, &e),
        cadre_comm_reduce_scatter(c, "x", x, y, vast, CADRE_F32, CADRE_SUM, 0, &e),
        cadre_comm_all_gather(c, "x", x, y, starts_late, CADRE_F32, 0, &e),
        cadre_comm_broadcast(c, "x", x, 1, CADRE_F32, RANKS, 0, &e),
        cadre_comm_broadcast(c, "x", x, 1, CADRE_F32, -1, 0, &e),
        cadre_comm_all_to_all(c, "x", x, y, RANKS + 1, CADRE_F32, 0, &e),
        cadre_comm_all_to_all(c, "x", x, x, RANKS, CADRE_F32, 0, &e),
        cadre_comm_send(c, "x", x, 1, CADRE_F32, RANK, 0, &e),
        cadre_comm_send(c, "x", x, 1, CADRE_F32, RANKS, 0, &e),
        cadre_comm_recv(c, "x", x, 1, CADRE_F32, RANK, 0, &e),
        cadre_comm_recv(c, "x", x, 1, CADRE_F32, -1, 0, &e),
    };
    for (size_t i = 0; i < sizeof rc / sizeof *rc; i++)
        ck_assert_msg(rc[i] == CADRE_E_INVALID, "case %zu: %d", i, rc[i]);
    ck_assert_int_eq(fake.enqueued, 0);
    ck_assert_uint_eq(e, 99);
}
END_TEST

START_TEST(memory_is_found)
{
    struct cadre_device device = {.ops = &queued_ops}, cpu = {.ops = &inline_ops};
    struct cadre_comm *c = &fake.comm;
    float *host = memory, *far = memory + 32;
    ck_assert_int_eq(cadre_comm_use_device(c, &device, NULL), CADRE_OK);
    ck_assert_ptr_eq(fake.device, &device);
    cadre_comm_all_reduce(c, "d", far, far, 4, CADRE_F32, CADRE_SUM, 0, NULL);
    ck_assert_int_eq(fake.got->memory, CADRE_COMM_DEVICE_MEMORY);
    ck_assert_ptr_eq(fake.got->device, &device);
    cadre_comm_all_reduce(c, "h", host, host, 4, CADRE_F32, CADRE_SUM, 0, NULL);
    ck_assert_int_eq(fake.got->memory, CADRE_COMM_HOST_MEMORY);
    ck_assert_int_eq(
        cadre_comm_all_reduce(c, "x", host, far, 4, CADRE_F32, CADRE_SUM, 0, NULL),
        CADRE_E_INVALID);
    ck_assert_int_eq(fake.enqueued, 2);
    cadre_comm_all_reduce(c, "0", host, far, 0, CADRE_F32, CADRE_SUM, 0, NULL);
    ck_assert_int_eq(fake.got->memory, CADRE_COMM_NO_MEMORY);
    fake.answer = CADRE_E_UNSUPPORTED;
    ck_assert_int_eq(cadre_comm_use_device(c, NULL, NULL), CADRE_E_UNSUPPORTED);
    ck_assert_ptr_eq(atomic_load(&fake.context.device), &device);
    fake.answer = CADRE_OK;
    ck_assert_int_eq(cadre_comm_use_device(c, &cpu, NULL), CADRE_OK);
    ck_assert_ptr_null(fake.device);
    cadre_comm_send(c, "h", far, 4, CADRE_F32, 0, 0, NULL);
    ck_assert_int_eq(fake.got->memory, CADRE_COMM_HOST_MEMORY);
    ck_assert_ptr_null(fake.got->device);
}
END_TEST

START_TEST(backend_refuses)
{
    cadre_event e = 99;
    fake.answer = CADRE_E_ABORTED;
    ck_assert_int_eq(cadre_comm_barrier(&fake.comm, "b", 0, &e), CADRE_E_ABORTED);
    ck_assert_uint_eq(e, 99);
}
END_TEST

static void take(void *arg, const struct cadre_comm_done *done)
{
    *(struct cadre_comm_done *)arg = *done;
}

START_TEST(counted_and_observed)
{
    struct cadre_comm *c = &fake.comm;
    struct cadre_comm_done done = {0};
    struct cadre_comm_stats stats;
    cadre_comm_observe(c, take, &done);
    ck_assert_int_eq(cadre_comm_send(c, NULL, memory, 3, CADRE_F32, 0, 0, NULL), 0);
    cadre_comm_account(c, fake.got, fake.got->posted_s);
    ck_assert_str_eq(done.kind, "send");
    ck_assert_str_eq(done.label, "");
    ck_assert(done.bytes == 12 && done.ended_s >= done.posted_s);
    ck_assert(done.comm == c && done.began_s == fake.got->posted_s);
    ck_assert(done.dtype == CADRE_F32 && done.sequence == fake.got->sequence);
    ck_assert(done.in_count == 3 && done.out_count == 0);
    cadre_comm_observe(c, NULL, NULL);
    done.bytes = 0;
    cadre_comm_account(c, fake.got, fake.got->posted_s);
    ck_assert_uint_eq(done.bytes, 0);
    cadre_comm_read_stats(c, &stats);
    ck_assert(stats.operations == 2 && stats.bytes == 24 && stats.busy_s >= 0);
    ck_assert_int_eq(fake.progressed, 3);
    ck_assert_int_eq(cadre_comm_wait(c, 0), CADRE_OK);
    ck_assert_int_eq(fake.waited, 0);
    ck_assert_int_eq(cadre_comm_wait(c, 1), CADRE_OK);
    ck_assert_int_eq(cadre_comm_wait(c, 2), CADRE_E_INVALID);
    ck_assert_int_eq(cadre_comm_stream_wait(c, NULL, 1), CADRE_OK);
    ck_assert_int_eq(fake.waited, 3);
}
END_TEST

static void look(const char *dir, struct cadre_rank_seen *seen)
{
    struct cadre_error err = {0};
    char *path = cadre_rank_page_path(dir, RANK);
    cadre_status rc = cadre_rank_seen_read(path, seen, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    free(path);
}

START_TEST(the_status_page_shows_operations)
{
    static struct cadre_rank_seen seen;
    struct cadre_comm *c = &fake.comm;
    struct cadre_rank_page *page = NULL;
    char *dir = test_tmpdir();
    const struct cadre_rank_page_request request = {
        .dir = dir, .rank = RANK, .ranks = RANKS, .name = "n", .stack = "s"};
    ck_assert_int_eq(cadre_comm_barrier(c, "early", 0, NULL), CADRE_OK);
    ck_assert_int_eq(cadre_rank_page_create(&request, &page, NULL), CADRE_OK);
    cadre_comm_show(c, page);
    cadre_comm_account(c, fake.got, 1);
    look(dir, &seen);
    ck_assert(seen.posted == 0 && seen.ended == 0);
    c->name = "dp";
    ck_assert_int_eq(cadre_comm_send(c, "grads", memory, 3, CADRE_F32, 0, 0, NULL), 0);
    look(dir, &seen);
    ck_assert(seen.has_pending && seen.posted == 1 && seen.ended == 0);
    ck_assert_str_eq(seen.pending.op.kind, "send");
    ck_assert_str_eq(seen.pending.op.label, "grads");
    ck_assert_str_eq(seen.pending.op.comm, "dp");
    ck_assert_uint_eq(seen.pending.op.bytes, 12);
    ck_assert_uint_eq(seen.pending.op.step, 40);
    ck_assert_uint_eq(seen.pending.op.ranks, RANKS);
    cadre_comm_account(c, fake.got, fake.got->posted_s);
    look(dir, &seen);
    ck_assert(!seen.has_pending && seen.has_ended && seen.ended == 1);
    fake.answer = CADRE_E_ABORTED;
    ck_assert_int_eq(cadre_comm_barrier(c, "refused", 0, NULL), CADRE_E_ABORTED);
    look(dir, &seen);
    ck_assert(!seen.has_pending && seen.ended == 2);
    ck_assert_str_eq(seen.last.op.label, "grads");
    cadre_comm_show(c, NULL);
    cadre_rank_page_close(page);
    test_tmpdir_destroy(dir);
}
END_TEST

/* A wait ends while another operation is at work: its part is counted when it ends. */
START_TEST(an_operation_that_outlasts_a_wait_is_exposed_in_it)
{
    struct cadre_comm *c = &fake.comm;
    struct cadre_comm_stats stats;
    ck_assert_int_eq(cadre_comm_send(c, NULL, memory, 3, CADRE_F32, 0, 0, NULL), 0);
    double began = fake.got->posted_s;
    ck_assert_int_eq(cadre_comm_wait(c, 1), CADRE_OK);
    ck_assert_int_eq(cadre_comm_wait(c, 1), CADRE_OK);
    cadre_comm_read_stats(c, &stats);
    ck_assert(stats.exposed_s == 0 && stats.waited_s > 0);
    cadre_comm_account(c, fake.got, began);
    cadre_comm_read_stats(c, &stats);
    ck_assert_double_eq_tol(stats.exposed_s, stats.waited_s, 1e-12);
    cadre_comm_account(c, fake.got, began); /* another one: no time counts twice */
    cadre_comm_read_stats(c, &stats);
    ck_assert_double_eq_tol(stats.exposed_s, stats.waited_s, 1e-12);
    double before = stats.exposed_s;
    ck_assert_int_eq(cadre_comm_wait(c, 1), CADRE_OK);
    cadre_comm_account(c, fake.got, 1e18); /* one that began after the wait */
    cadre_comm_read_stats(c, &stats);
    ck_assert_double_eq(stats.exposed_s, before);
}
END_TEST

START_TEST(failure_and_step_are_the_worlds)
{
    struct cadre_device device = {.ops = &queued_ops};
    struct cadre_error err = {0};
    cadre_comm_set_step(&fake.comm, 41);
    ck_assert_uint_eq(atomic_load(&fake.step), 41);
    ck_assert_int_eq(cadre_comm_failure(&fake.comm, &err), CADRE_OK);
    cadre_failure_set(&fake.failure, CADRE_E_COMM, "gone");
    ck_assert_int_eq(cadre_comm_failure(&fake.comm, &err), CADRE_E_COMM);
    ck_assert_str_eq(err.text, "gone");
    ck_assert_int_eq(
        cadre_comm_stream_wait(&fake.comm, &device, CADRE_DEVICE_EVENT | 1),
        CADRE_E_ABORTED);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("comm/post");
    TCase *t = tcase_create("post");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, vectors_arrive_whole);
    tcase_add_test(t, messages_and_barriers_arrive);
    tcase_add_loop_test(t, bytes_between_nodes_are_counted, 0,
                        (int)(sizeof levels / sizeof *levels));
    tcase_add_test(t, offsets_are_copied);
    tcase_add_loop_test(t, slices_are_even, 0, (int)(sizeof even / sizeof *even));
    tcase_add_test(t, faults_are_refused);
    tcase_add_test(t, memory_is_found);
    tcase_add_test(t, backend_refuses);
    tcase_add_test(t, counted_and_observed);
    tcase_add_test(t, the_status_page_shows_operations);
    tcase_add_test(t, an_operation_that_outlasts_a_wait_is_exposed_in_it);
    tcase_add_test(t, failure_and_step_are_the_worlds);
    suite_add_tcase(s, t);
    return s;
}
