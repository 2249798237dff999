/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank computes which matrix: planned for every rank of a stack, without running
 * any. */
#include "core/engine/layout/owners.h"

#include "core/engine/rank.h"
#include "tests/support/check_main.h"
#include "tests/train/spec_fixture.h"

enum { RANKS = 8 };

static struct spec_fixture f;
static struct cadre_spec *spec;
static struct cadre_rank rank[RANKS];
static struct cadre_owners owners[RANKS];
static int ranks;

static void plan(const char *sets)
{
    spec = spec_fixture_make(&f, sets);
    ranks = spec->run.ranks;
    ck_assert_int_le(ranks, RANKS);
    for (int r = 0; r < ranks; r++) {
        cadre_status rc = cadre_rank_plan(&rank[r], &spec->run, r, &f.err);
        if (rc == CADRE_OK)
            rc = cadre_owners_init(&owners[r], &rank[r].plan, &f.err);
        ck_assert_msg(rc == CADRE_OK, "%s", f.err.text);
    }
}

static void setup(void)
{
    spec_fixture_open(&f);
}

static void teardown(void)
{
    for (int r = 0; r < ranks; r++) {
        cadre_owners_fini(&owners[r]);
        cadre_rank_fini(&rank[r]);
    }
    cadre_spec_destroy(spec);
    spec_fixture_close(&f);
}

static const struct cadre_matrix *matrix_on(int r, uint32_t param)
{
    for (size_t i = 0; i < owners[r].n; i++)
        if (owners[r].matrix[i].param == param)
            return &owners[r].matrix[i];
    return NULL;
}

/* The stack, and the ranks that hold different parts of a matrix. */
static const struct {
    const char *sets;
    int members;
} stacks[] = {
    {"", 1},
    {"strategy.stack=ddp:4", 1},
    {"strategy.stack=pipeline:2", 1},
    {"strategy.stack=zero:2", 2},
    {"strategy.stack=zero:4 zero.stage=3", 4},
    {"strategy.stack=tensor:2", 2},
    {"strategy.stack=tensor:2,zero:4", 8},
    {"strategy.stack=zero:2,tensor:2 zero.stage=2 model.arch=llama", 4},
    {"strategy.stack=hsdp:2,zero:2", 2},
    {"strategy.stack=pipeline:2,tensor:2,zero:2", 4},
    {"strategy.stack=ddp:2,tensor:2", 2},
};
enum { STACKS = sizeof stacks / sizeof *stacks };

#define MUON "optim.name=muon model.channels=64 model.layers=3 model.heads=4 "

static void plan_stack(int i)
{
    char sets[256];
    snprintf(sets, sizeof sets, MUON "train.micro_batch=1 %s", stacks[i].sets);
    plan(sets);
}

/* Members see one another, and the same owner. */
START_TEST(all_members_agree)
{
    plan_stack(_i);
    for (int r = 0; r < ranks; r++)
        for (size_t i = 0; i < owners[r].n; i++) {
            const struct cadre_matrix *m = &owners[r].matrix[i];
            ck_assert_int_eq(m->members, stacks[_i].members);
            ck_assert_int_eq(cadre_owners_rank(&owners[r], m, m->own), r);
            for (int k = 0; k < m->members; k++) {
                const int other = cadre_owners_rank(&owners[r], m, k);
                const struct cadre_matrix *there = matrix_on(other, m->param);
                ck_assert_ptr_nonnull(there);
                ck_assert_int_eq(there->own, k);
                ck_assert_int_eq(there->owner, m->owner);
                ck_assert_int_eq(cadre_owners_mine(there), k == m->owner);
                ck_assert_int_eq(cadre_owners_rank(&owners[other], there, m->own), r);
                ck_assert_int_eq(cadre_owners_shard(&owners[r], m, k),
                                 cadre_owners_shards(&owners[r], m) > 1
                                     ? rank[other].model->tp_rank
                                     : 0);
            }
        }
}
END_TEST

/* The matrices of the blocks, and no other; each stage has its own. */
START_TEST(the_matrices_are_those_of_the_blocks)
{
    uint64_t seen = 0;
    plan_stack(_i);
    const struct cadre_model *model = rank[0].model;
    for (uint32_t p = 0; p < model->n_params; p++) {
        const bool hidden = model->params[p].shape.ndim == 2 &&
                            model->params[p].unit > 0 &&
                            model->params[p].unit + 1 < model->n_units;
        for (int r = 0; r < ranks; r++) {
            const bool here = rank[r].plan.param[p].present;
            ck_assert_int_eq(matrix_on(r, p) != NULL, hidden && here);
            seen += matrix_on(r, p) != NULL;
        }
    }
    ck_assert_uint_gt(seen, 0);
}
END_TEST

/* No rank has more than its part and one matrix. */
START_TEST(work_is_balanced)
{
    plan_stack(_i);
    for (int r = 0; r < ranks; r++) {
        uint64_t mine = 0, all = 0, most = 0;
        for (size_t i = 0; i < owners[r].n; i++) {
            const struct cadre_matrix *m = &owners[r].matrix[i];
            const uint64_t n = m->rows * m->columns;
            mine += cadre_owners_mine(m) ? n : 0;
            all += n;
            most = n > most ? n : most;
        }
        ck_assert_uint_le(mine, all / (uint64_t)stacks[_i].members + most);
        ck_assert_uint_gt(mine, 0);
    }
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("owners");
    TCase *tc = tcase_create("owners");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, all_members_agree, 0, STACKS);
    tcase_add_loop_test(tc, the_matrices_are_those_of_the_blocks, 0, STACKS);
    tcase_add_loop_test(tc, work_is_balanced, 0, STACKS);
    suite_add_tcase(suite, tc);
    return suite;
}
