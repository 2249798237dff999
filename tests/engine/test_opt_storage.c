/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/layout/opt_storage.h"

#include <string.h>

#include "core/engine/layout/store.h"
#include "tests/plugins/thread_run.h"
#include "tests/support/check_main.h"

static struct spec_fixture f;
static struct thread_run run;

static void setup(void)
{
    spec_fixture_open(&f);
    run = (struct thread_run){.fixture = &f, .steps = 1};
}

static void teardown(void)
{
    spec_fixture_close(&f);
}

/* What each rank has, by rank: bytes under a tag, planned and taken. */
static struct {
    uint64_t planned, taken;
} states[THREAD_RANKS], whole[THREAD_RANKS];
static uint64_t elements[THREAD_RANKS]; /* that its states should have */
static bool right[THREAD_RANKS];

static uint64_t bytes_of(const struct cadre_ledger *ledger, const char *tag)
{
    uint64_t bytes = 0;
    for (int i = 0; i < ledger->n; i++)
        if (strcmp(ledger->entry[i].tag, tag) == 0)
            bytes += ledger->entry[i].bytes;
    return bytes;
}

static void look(struct cadre_rank *rank, int step)
{
    struct cadre_ledger table = {0};
    const struct cadre_store *store = &rank->store;
    const int r = rank->index;
    (void)step;
    cadre_store_note(rank->model, &rank->plan, CADRE_OPTIMIZER_PLUGIN, &table);
    states[r].planned = bytes_of(&table, "optimizer states");
    states[r].taken = bytes_of(&rank->ledger, "optimizer states");
    whole[r].planned = bytes_of(&table, "whole matrices");
    whole[r].taken = bytes_of(&rank->ledger, "whole matrices");
    elements[r] = 0;
    right[r] = true;
    for (uint32_t i = 0; i < rank->plan.n_states; i++) {
        const struct cadre_buf *buf = &store->opt.state[i];
        const struct cadre_share own =
            cadre_store_share(store, rank->plan.state[i].param, CADRE_KIND_OPT);
        right[r] &= buf->count == own.count && (buf->count == 0) == !buf->data;
        elements[r] += buf->count;
    }
    for (size_t i = 0; i < store->opt.owners.n; i++) {
        const struct cadre_matrix *m = &store->opt.owners.matrix[i];
        right[r] &=
            (store->opt.whole[i] != NULL) == (m->members > 1 && cadre_owners_mine(m));
    }
}

static const char *const stacks[] = {
    "",
    "strategy.stack=ddp:2",
    "strategy.stack=zero:2 zero.stage=1",
    "strategy.stack=zero:2 zero.stage=3 train.precision=bf16",
    "strategy.stack=zero:2 zero.offload=optimizer",
    "strategy.stack=tensor:2 train.precision=fp64",
    "strategy.stack=pipeline:2,tensor:2,zero:2",
};
enum { STACKS = sizeof stacks / sizeof *stacks };

/* What --dry-run tells is what is taken, on every rank. */
START_TEST(planned_is_taken)
{
    char sets[256];
    uint64_t all = 0;
    snprintf(sets, sizeof sets, "optim.name=muon model.channels=64 %s", stacks[_i]);
    run.each = look;
    thread_run(&run, sets);
    for (int r = 0; r < run.ranks; r++) {
        ck_assert_uint_eq(states[r].planned, states[r].taken);
        ck_assert_uint_eq(whole[r].planned, whole[r].taken);
        ck_assert(right[r]);
        all += elements[r];
    }
    ck_assert_uint_gt(all, 0);
    ck_assert_int_eq(whole[0].taken > 0, _i > 1);
}
END_TEST

/* One value an element for matrices, two for the others: less than AdamW's. */
START_TEST(a_momentum_and_moments)
{
    run.each = look;
    thread_run(&run, "optim.name=muon");
    /* two blocks of 12 C C + 13 C, of which 4 matrices; wte, wpe, ln_f */
    const uint64_t C = 16, matrices = 2 * 12 * C * C;
    const uint64_t others = 2 * 13 * C + 256 * C + 16 * C + 2 * C;
    ck_assert_uint_eq(elements[0], matrices + 2 * others);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("opt_storage");
    TCase *tc = tcase_create("opt_storage");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, planned_is_taken, 0, STACKS);
    tcase_add_test(tc, a_momentum_and_moments);
    suite_add_tcase(suite, tc);
    return suite;
}
