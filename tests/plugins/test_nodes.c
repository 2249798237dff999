/* SPDX-License-Identifier: Apache-2.0 */
/* ddp under a map of ranges of micro-batches in exact mode, on ranks that are threads:
 * whatever the ranges, the bits are those of the one tree over all micro-batches. */
#include <stdlib.h>
#include <string.h>

#include "tests/support/built_plugin.h"
#include "tests/support/check_main.h"
#include "tests/support/fake_ranks.h"

#define N_PARAMS 5

static const struct cadre_plugin_handle *ddp;
static struct fake_ranks all;

/* Ranges of 8 or 16 micro-batches, and how many ranks run them. */
static const struct {
    int ranks;
    uint64_t first[FAKE_RANKS + 1];
    uint32_t nodes[FAKE_RANKS]; /* of each rank */
} cases[] = {
    {2, {0, 4, 8}, {1, 1}},
    {2, {0, 1, 8}, {1, 3}},
    {3, {0, 3, 4, 8}, {2, 1, 1}},
    {3, {0, 5, 6, 16}, {2, 1, 2}},
    {4, {0, 7, 8, 9, 16}, {3, 1, 1, 3}},
};
enum { CASES = sizeof cases / sizeof *cases };

/* Values of many magnitudes, others for every micro-batch and in every step. */
static float rough(cadre_param_id id, uint64_t i, int step, uint64_t microbatch)
{
    uint64_t h = (i + 1) * 0x9e3779b97f4a7c15u + microbatch * 0x632be59bd9b4e019u +
                 id * 0xd1342543de82ef95u + (uint64_t)step * 0xaf251af3b0f025b5u;
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
    h ^= h >> 31;
    return (float)((double)(h & 0xffff) / 32768 - 1) / (float)(1 + (h >> 60));
}

static double gradient(const struct fake_host *fake, cadre_param_id id, uint64_t i)
{
    return (double)rough(id, i, fake->steps, fake->global_microbatch);
}

/* The sum of micro-batches [begin, begin + n), n a power of two, as the tree has it. */
static float tree_sum(cadre_param_id id, uint64_t i, int step, uint64_t begin,
                      uint64_t n)
{
    if (n == 1)
        return rough(id, i, step, begin);
    float left = tree_sum(id, i, step, begin, n / 2);
    return left + tree_sum(id, i, step, begin + n / 2, n / 2);
}

static void open_ranks(int number, const char *bucket_mb, const char *overlap)
{
    static const uint64_t counts[N_PARAMS] = {401, 7, 1, 160, 33};
    struct fake_host *first = &all.rank[0];
    fake_ranks_init(&all, &ddp->ops, cases[number].ranks, N_PARAMS);
    for (int i = 0; i < N_PARAMS; i++)
        first->entry[i].count = counts[i];
    first->gradient = gradient;
    first->plan.exact = 1;
    first->other_map = CADRE_MICROBATCHES_RANGES;
    memcpy(first->first, cases[number].first, sizeof first->first);
    fake_set(first, "bucket_mb", "%s", bucket_mb);
    fake_set(first, "overlap", "%s", overlap);
    fake_set(first, "compress", "none");
    fake_set(first, "level", "0");
    fake_set(first, "node", "0");
}

static void start(void)
{
    cadre_status rc = fake_ranks_start(&all);
    ck_assert_msg(rc == CADRE_OK, "%d %s", rc, all.rank[0].failure);
}

static void setup(void)
{
    ddp = built_plugin_load("ddp");
}

static void check_sums(int step)
{
    const uint64_t n = all.rank[0].first[all.n];
    for (uint32_t id = 0; id < N_PARAMS; id++)
        for (uint64_t i = 0; i < all.rank[0].entry[id].count; i++) {
            float want = tree_sum(id, i, step, 0, n);
            float got = (float)fake_gradient(&all.rank[all.n - 1], id, i);
            ck_assert_msg(memcmp(&want, &got, sizeof want) == 0,
                          "entry %u, element %u: %a, expected %a", id, (unsigned)i,
                          (double)got, (double)want);
        }
}

START_TEST(the_bits_are_those_of_one_tree)
{
    static const char *const buckets[] = {"25", "0.001", "0.0001"};
    for (size_t b = 0; b < sizeof buckets / sizeof *buckets; b++)
        for (int overlap = 0; overlap < 2; overlap++) {
            open_ranks(_i, buckets[b], overlap ? "yes" : "no");
            start();
            for (int step = 1; step <= 2; step++) {
                fake_ranks_step(&all);
                ck_assert(fake_ranks_same(&all));
                check_sums(step);
            }
            fake_ranks_fini(&all);
        }
}
END_TEST

/* Memory is for the nodes of the plan; a step may have fewer, on either rank. */
START_TEST(ranges_may_change_between_steps)
{
    static const uint64_t first[][3] = {{0, 3, 8}, {0, 4, 8}, {0, 2, 8}, {0, 6, 8}};
    open_ranks(0, "0.001", _i ? "yes" : "no");
    memcpy(all.rank[0].first, first[0], sizeof first[0]);
    start();
    for (int step = 0; step < 8; step++) {
        for (int r = 0; r < all.n; r++)
            memcpy(all.rank[r].first, first[step % 4], sizeof first[0]);
        fake_ranks_step(&all);
        ck_assert(fake_ranks_same(&all));
        check_sums(step + 1);
    }
    fake_ranks_fini(&all);
}
END_TEST

/* Each rank sends its nodes but for its own slice, and its slice of the sum. */
START_TEST(bytes_and_memory_are_those_promised)
{
    open_ranks(_i, "25", "yes");
    start();
    fake_ranks_step(&all);
    const struct fake_host *last = &all.rank[all.n - 1];
    uint64_t n = last->post[1].out.count, part = n / (uint64_t)all.n;
    ck_assert_int_eq(last->posts, 2);
    for (int r = 0; r < all.n; r++) {
        uint64_t others = n - part, nodes = cases[_i].nodes[r];
        const struct fake_host *rank = &all.rank[r];
        ck_assert_double_eq_tol((double)all.bytes[r],
                                4.0 * (double)(nodes + 1) * (double)others,
                                4.0 * (double)((nodes + 1) * (uint64_t)all.n));
        ck_assert_uint_eq(rank->post[0].kind, FAKE_ALL_TO_ALL_V);
        ck_assert_uint_eq(rank->post[0].in.count, nodes * n);
        ck_assert_uint_eq(rank->post[1].kind, FAKE_ALL_GATHER);
        ck_assert_uint_ge(rank->planned, rank->taken);
    }
    fake_ranks_fini(&all);
}
END_TEST

/* Without run.exact a rank's sum is whole, and one all_reduce is enough. */
START_TEST(other_runs_need_no_nodes)
{
    open_ranks(2, "25", "yes");
    all.rank[0].plan.exact = 0;
    start();
    fake_ranks_step(&all);
    ck_assert_int_eq(all.rank[0].posts, 1);
    ck_assert_uint_eq(all.rank[0].post[0].kind, FAKE_ALL_REDUCE);
    ck_assert_uint_eq(all.rank[0].planned + all.rank[0].taken, 0);
    fake_ranks_fini(&all);
    open_ranks(2, "25", "yes");
    all.rank[0].other_map = 0;
    start();
    fake_ranks_step(&all);
    ck_assert_uint_eq(all.rank[0].post[0].kind, FAKE_ALL_REDUCE);
    fake_ranks_fini(&all);
}
END_TEST

static uint32_t stray_flags;

/* One node of entry 2, which has two (_i 1), or none because the plan said so (0). */
static cadre_status stray(void *h, const struct cadre_step *step)
{
    float value[1] = {1};
    struct fake_host *fake = h;
    struct cadre_grad_node node = {.sum = {value, 1, CADRE_F32, 0}};
    struct cadre_grad_ev ev = {.struct_size = sizeof ev,
                               .flags = CADRE_GRAD_FINAL | stray_flags,
                               .param = 2,
                               .node = &node,
                               .n_nodes = 1,
                               .map = CADRE_MICROBATCHES_RANGES};
    return ddp->ops.on_grad(fake->self, &ev);
}

START_TEST(other_nodes_than_planned_are_refused)
{
    struct fake_host *fake = &all.rank[0];
    struct cadre_step step = {.struct_size = sizeof step, .n_microbatches = 3};
    struct cadre_next next = {sizeof next, 0, fake, stray};
    open_ranks(2, "25", "yes");
    fake->plan.exact = (uint32_t)_i;
    start();
    ck_assert_int_eq(ddp->ops.step(fake->self, &step, &next), CADRE_E_INTERNAL);
    ck_assert_ptr_nonnull(strstr(fake->failure, "1 nodes of the reduction tree, "));
    fake_ranks_fini(&all);
}
END_TEST

/* What a lower level has summed need not be a node. */
START_TEST(a_second_level_is_refused)
{
    struct fake_host *fake = &all.rank[0];
    struct cadre_step step = {.struct_size = sizeof step, .n_microbatches = 3};
    struct cadre_next next = {sizeof next, 0, fake, stray};
    open_ranks(2, "25", "yes");
    start();
    stray_flags = CADRE_GRAD_REDUCED;
    ck_assert_int_eq(ddp->ops.step(fake->self, &step, &next), CADRE_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(fake->failure, "two levels of reduction"));
    fake_ranks_fini(&all);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("nodes");
    TCase *tc = tcase_create("nodes");
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, the_bits_are_those_of_one_tree, 0, CASES);
    tcase_add_loop_test(tc, ranges_may_change_between_steps, 0, 2);
    tcase_add_loop_test(tc, bytes_and_memory_are_those_promised, 0, CASES);
    tcase_add_test(tc, other_runs_need_no_nodes);
    tcase_add_loop_test(tc, other_nodes_than_planned_are_refused, 0, 2);
    tcase_add_test(tc, a_second_level_is_refused);
    suite_add_tcase(s, tc);
    return s;
}
