/* SPDX-License-Identifier: Apache-2.0 */
/* The executor's memory; its passes are in test_executor_pass.c. */
#include <stdlib.h>
#include <string.h>

#include "core/engine/execute/executor_private.h"
#include "tests/engine/rank_fixture.h"
#include "tests/support/check_main.h"

static struct rank_fixture f;

static void setup(void)
{
    rank_fixture_open(&f);
}

static void teardown(void)
{
    rank_fixture_close(&f);
}

static uint64_t bytes_of(const struct cadre_ledger *ledger, const char *tag)
{
    for (int i = 0; i < ledger->n; i++)
        if (strcmp(ledger->entry[i].tag, tag) == 0)
            return ledger->entry[i].bytes;
    return 0;
}

/* Memory planned by --dry-run is the memory allocated. */
START_TEST(planned_is_taken)
{
    static const char *const tags[] = {"activations", "scratch",
                                       "exact-mode partial sums"};
    struct cadre_ledger planned = {0};
    f.spec.recompute = _i & 1;
    f.spec.exact = _i & 2;
    f.spec.model.classes = _i & 4 ? 3 : 0;
    rank_fixture_start(&f);
    cadre_executor_note(&f.rank.exec->config, &planned);
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        ck_assert_uint_eq(bytes_of(&planned, tags[i]),
                          bytes_of(&f.rank.ledger, tags[i]));
    ck_assert_uint_gt(bytes_of(&planned, "activations"), 0);
}
END_TEST

START_TEST(recompute_keeps_less)
{
    rank_fixture_start(&f);
    uint64_t all = bytes_of(&f.rank.ledger, "activations");
    rank_fixture_stop(&f);
    f.spec.recompute = true;
    rank_fixture_start(&f);
    ck_assert_uint_lt(bytes_of(&f.rank.ledger, "activations"), all);
}
END_TEST

static uint32_t live;
static uint32_t live_flags, most;

static cadre_status plan_chunks(struct cadre_self *self, const struct cadre_plan *abi)
{
    (void)self;
    cadre_status rc = abi->chunk(abi->h, 0, 2, live, live_flags);
    if (rc == CADRE_OK)
        rc = abi->chunk(abi->h, 2, 4, live, live_flags);
    return rc == CADRE_OK && most ? abi->live_blocks(abi->h, most) : rc;
}

static const struct cadre_strategy_ops chunked = {.plan = plan_chunks};

START_TEST(slots_are_counted_and_disjoint)
{
    uint64_t before[4] = {0};
    rank_fixture_plug(&f, "pipe", CADRE_ROLE_SCHEDULE, 1, &chunked);
    for (live = 1; live < 4; live++) {
        live_flags = _i ? CADRE_LIVE_SPLIT : 0;
        rank_fixture_start(&f);
        struct cadre_executor *exec = f.rank.exec;
        uint64_t bytes = bytes_of(&f.rank.ledger, "activations");
        ck_assert_int_eq(exec->n_chunks, 2);
        for (uint32_t s = 0; s < live; s++)
            for (int c = 0; c < 2; c++)
                ck_assert(cadre_executor_lend(exec, &exec->chunk[c],
                                              &exec->chunk[c].slot[s]));
        ck_assert_uint_eq(exec->block_buffers.n_free, 0);
        before[live] = bytes;
        if (live > 1 && !_i)
            ck_assert_uint_eq(bytes, live * before[1]);
        if (live == 3)
            ck_assert_uint_eq(bytes - before[2], before[2] - before[1]);
        for (uint32_t s = 0; s < live; s++) {
            const struct cadre_slot *first = &exec->chunk[0].slot[s];
            const struct cadre_slot *last = &exec->chunk[1].slot[s];
            ck_assert(first->tokens && !first->targets && !first->x[0] && first->x[1]);
            ck_assert(!last->tokens && last->targets && last->x[0]);
            ck_assert_int_eq(last->saved_for_input[0] != NULL, _i);
            ck_assert_ptr_ne(first->x[1], last->x[0]);
            if (s)
                ck_assert(first->tokens != exec->chunk[0].slot[s - 1].tokens &&
                          first->x[1] != exec->chunk[0].slot[s - 1].x[1]);
        }
        rank_fixture_stop(&f);
    }
}
END_TEST

/* In split backward, what INPUT leaves for WEIGHT shares buffers with what INPUT alone
 * needs: less than half a micro-batch more in all, whatever the number of slots. */
START_TEST(a_split_backward_keeps_little_more)
{
    uint64_t bytes[2];
    live = 4;
    rank_fixture_plug(&f, "pipe", CADRE_ROLE_SCHEDULE, 1, &chunked);
    for (int split = 0; split < 2; split++) {
        live_flags = split ? CADRE_LIVE_SPLIT : 0;
        rank_fixture_start(&f);
        bytes[split] = bytes_of(&f.rank.ledger, "activations");
        struct cadre_executor *exec = f.rank.exec;
        struct cadre_chunk_state *chunk = &exec->chunk[0];
        struct cadre_slot *slot = &chunk->slot[0];
        ck_assert(cadre_executor_lend(exec, chunk, slot));
        char *input = slot->x[1];
        cadre_executor_take_grad_outputs(exec, chunk, slot, 1);
        ck_assert(slot->grad_outputs[1] != input || !split);
        cadre_executor_drop_saved_for_input(exec, chunk, slot, 1);
        ck_assert_uint_eq(exec->split_buffers.n_free, split ? 8 : 0);
        cadre_executor_return(exec, chunk, slot);
        ck_assert_uint_eq(exec->split_buffers.n_free, split ? 9 : 0);
        ck_assert_uint_eq(exec->block_buffers.n_free, 8);
        rank_fixture_stop(&f);
    }
    ck_assert_uint_lt(bytes[1], bytes[0] + bytes[0] / live / 2);
}
END_TEST

/* A chunk of each kind keeps 2 micro-batches at most, and both together 3. */
START_TEST(chunks_share_what_their_blocks_keep)
{
    live = 2;
    live_flags = 0;
    rank_fixture_plug(&f, "pipe", CADRE_ROLE_SCHEDULE, 1, &chunked);
    rank_fixture_start(&f);
    uint64_t sum = bytes_of(&f.rank.ledger, "activations");
    rank_fixture_stop(&f);
    most = 3;
    rank_fixture_start(&f);
    ck_assert_uint_lt(bytes_of(&f.rank.ledger, "activations"), sum);
    struct cadre_executor *exec = f.rank.exec;
    struct cadre_chunk_state *a = &exec->chunk[0], *b = &exec->chunk[1];
    ck_assert(cadre_executor_lend(exec, a, &a->slot[0]));
    ck_assert(cadre_executor_lend(exec, a, &a->slot[1]));
    ck_assert(cadre_executor_lend(exec, b, &b->slot[0]));
    ck_assert(!cadre_executor_lend(exec, b, &b->slot[1]));
    cadre_executor_return(exec, a, &a->slot[0]);
    ck_assert(cadre_executor_lend(exec, b, &b->slot[1]));
    ck_assert_ptr_eq(b->slot[1].x[0], a->slot[0].x[1]);
}
END_TEST

START_TEST(too_large_a_batch_is_refused_in_words)
{
    struct cadre_executor *exec = NULL;
    rank_fixture_start(&f);
    struct cadre_executor_config config = f.rank.exec->config;
    config.batch = INT64_C(1) << 40;
    cadre_status rc = cadre_executor_create(&config, &exec, &f.err);
    ck_assert_int_eq(rc, CADRE_E_RESOURCE);
    ck_assert_ptr_nonnull(strstr(f.err.text, "lower train.micro_batch"));
    ck_assert_ptr_null(exec);
    cadre_executor_destroy(NULL);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("executor");
    TCase *tc = tcase_create("executor");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, planned_is_taken, 0, 8);
    tcase_add_test(tc, recompute_keeps_less);
    tcase_add_loop_test(tc, slots_are_counted_and_disjoint, 0, 2);
    tcase_add_test(tc, a_split_backward_keeps_little_more);
    tcase_add_test(tc, chunks_share_what_their_blocks_keep);
    tcase_add_test(tc, too_large_a_batch_is_refused_in_words);
    suite_add_tcase(s, tc);
    return s;
}
