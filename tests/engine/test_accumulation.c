/* SPDX-License-Identifier: Apache-2.0 */
/* The binary counter against the definition: node (l, j) = node (l-1, 2j) + node (l-1,
 * 2j+1); an absent child is skipped. With these values another order of additions has
 * other bits. */
#include <stdlib.h>
#include <string.h>

#include "core/engine/execute/accumulation.h"
#include "tests/support/check_main.h"

#define MOST 17

static struct cadre_error err;
static struct cadre_model *model;
static struct cadre_mesh mesh;
static struct cadre_rank_plan plan;
static struct cadre_ledger ledger;
static struct cadre_store store;
static struct cadre_accumulation accumulation;

static void setup(void)
{
    const struct cadre_model_config config = {.arch = CADRE_ARCH_GPT2,
                                              .layers = 1,
                                              .channels = 4,
                                              .heads = 2,
                                              .kv_heads = 2,
                                              .hidden = 8,
                                              .context = 5,
                                              .vocab = 7,
                                              .tied = true,
                                              .norm_eps = 1e-5,
                                              .dtype = CADRE_F32};
    const struct cadre_device_config device = {.kind = "cpu", .threads = 1};
    const struct cadre_plan_request request = {
        .model = NULL, .mesh = &mesh, .microbatches = MOST};
    struct cadre_plan_request mine = request;
    ck_assert_int_eq(cadre_model_create(&config, 0, 1, &model, &err), CADRE_OK);
    ck_assert_int_eq(cadre_mesh_init(&mesh, NULL, 0, 0, &err), CADRE_OK);
    memset(&ledger, 0, sizeof ledger);
    ck_assert_int_eq(cadre_device_open(&device, &ledger.device, &err), CADRE_OK);
    mine.model = model;
    ck_assert_int_eq(cadre_rank_plan_init(&plan, &mine, &err), CADRE_OK);
    ck_assert_int_eq(cadre_rank_plan_finish(&plan, &mine, &err), CADRE_OK);
    ck_assert_int_eq(
        cadre_store_init(&store, model, &plan, &ledger, CADRE_OPTIMIZER_SGD, 1, &err),
        CADRE_OK);
}

static void teardown(void)
{
    cadre_accumulation_fini(&accumulation);
    cadre_store_fini(&store);
    cadre_ledger_fini(&ledger);
    cadre_rank_plan_fini(&plan);
    cadre_device_close(ledger.device);
    cadre_model_destroy(model);
}

static void start(int64_t n, bool exact)
{
    cadre_accumulation_fini(&accumulation);
    plan.n_microbatches = n;
    ck_assert_int_eq(
        cadre_accumulation_init(&accumulation, &store, &ledger, exact, &err), CADRE_OK);
    cadre_accumulation_begin_step(&accumulation);
}

/* Element e of leaf i of a parameter: magnitudes that differ much. */
static float value(uint32_t param, uint64_t i, uint64_t e)
{
    uint64_t x = (i + 1) * 2654435761u + e * 40503u + param * 977u;
    float unit = (float)(x % 100003u) / 100003.0f - 0.5f;
    return unit * (float)(1u << (i * 3 % 5));
}

/* The definition, over leaves [begin, begin + 2^level) of which `n` exist in all. */
static float node(uint32_t param, uint64_t e, int level, uint64_t j, uint64_t n)
{
    if (level == 0)
        return value(param, j, e);
    uint64_t right = (2 * j + 1) << (level - 1);
    float left = node(param, e, level - 1, 2 * j, n);
    if (right >= n)
        return left;
    return left + node(param, e, level - 1, 2 * j + 1, n);
}

static float tree(uint32_t param, uint64_t e, uint64_t n)
{
    int level = 0;
    while ((UINT64_C(1) << level) < n)
        level++;
    return node(param, e, level, 0, n);
}

static float *open_microbatch(uint32_t param, uint64_t i)
{
    void *dst;
    int beta;
    ck_assert_int_eq(cadre_accumulation_open(&accumulation, param, &dst, &beta),
                     CADRE_OK);
    ck_assert_int_eq(beta, !accumulation.exact && i > 0);
    return dst;
}

static void fill(uint32_t param, uint64_t i, float *dst)
{
    for (uint64_t e = 0; e < store.param[param].count; e++)
        dst[e] = accumulation.exact || i == 0 ? value(param, i, e)
                                              : dst[e] + value(param, i, e);
}

static void close_microbatch(uint32_t param, uint64_t i, uint64_t n)
{
    bool final;
    void *sum;
    ck_assert_int_eq(cadre_accumulation_close(&accumulation, param, &final, &sum),
                     CADRE_OK);
    ck_assert_int_eq(final, i + 1 == n);
    if (final || !accumulation.exact)
        ck_assert_ptr_eq(sum, store.param[param].grad);
    else
        ck_assert_ptr_null(sum);
}

static void is_tree(uint32_t param, uint64_t n)
{
    const float *grad = store.param[param].grad;
    for (uint64_t e = 0; e < store.param[param].count; e++) {
        float want = tree(param, e, n);
        ck_assert_msg(memcmp(&grad[e], &want, sizeof want) == 0, "element %d: %a, %a",
                      (int)e, (double)grad[e], (double)want);
    }
}

START_TEST(the_counter_is_the_tree)
{
    uint64_t n = (uint64_t)_i;
    start(_i, true);
    for (int step = 0; step < 2; step++) {
        cadre_accumulation_begin_step(&accumulation);
        for (uint64_t i = 0; i < n; i++) {
            fill(2, i, open_microbatch(2, i));
            close_microbatch(2, i, n);
        }
        is_tree(2, n);
    }
}
END_TEST

/* A norm's weight and bias are both open at once; every leaf of one passes the other's.
 */
START_TEST(two_parameters_interleave)
{
    uint64_t n = (uint64_t)_i;
    start(_i, true);
    for (uint64_t i = 0; i < n; i++) {
        float *a = open_microbatch(2, i), *b = open_microbatch(3, i);
        fill(2, i, a);
        fill(3, i, b);
        close_microbatch(2, i, n);
        close_microbatch(3, i, n);
    }
    is_tree(2, n);
    is_tree(3, n);
    /* and one entirely after the other */
    cadre_accumulation_begin_step(&accumulation);
    for (uint32_t p = 4; p < 6; p++)
        for (uint64_t i = 0; i < n; i++) {
            fill(p, i, open_microbatch(p, i));
            close_microbatch(p, i, n);
        }
    is_tree(4, n);
    is_tree(5, n);
}
END_TEST

/* Blocks of 2^k leaves on R ranks, then the tree over ranks: the tree of one rank. */
START_TEST(blocks_over_ranks_are_the_same_tree)
{
    for (uint64_t per = 1; per <= 8; per *= 2)
        for (uint64_t ranks = 1; ranks * per <= 16; ranks++) {
            float sums[16] = {0}, one = tree(2, 1, ranks * per);
            for (uint64_t r = 0; r < ranks; r++) {
                int level = cadre_accumulation_levels((int64_t)per);
                sums[r] = node(2, 1, level, r, ranks * per);
            }
            for (uint64_t width = 1; width < ranks; width *= 2)
                for (uint64_t r = 0; r + width < ranks; r += 2 * width)
                    sums[r] += sums[r + width];
            ck_assert_msg(memcmp(&sums[0], &one, sizeof one) == 0, "%d x %d",
                          (int)ranks, (int)per);
        }
}
END_TEST

/* With these values the order matters; otherwise the tests above would prove nothing.
 */
START_TEST(another_order_has_other_bits)
{
    int others = 0;
    for (uint64_t e = 0; e < 100; e++) {
        float row = 0, want = tree(2, e, MOST);
        for (uint64_t i = 0; i < MOST; i++)
            row += value(2, i, e);
        others += memcmp(&row, &want, sizeof row) != 0;
    }
    ck_assert_int_gt(others, 25);
}
END_TEST

START_TEST(loose_mode_adds_in_place)
{
    start(5, false);
    ck_assert_int_eq(accumulation.levels, 0);
    for (uint64_t i = 0; i < 5; i++) {
        float *dst = open_microbatch(2, i);
        ck_assert_ptr_eq(dst, store.param[2].grad);
        fill(2, i, dst);
        close_microbatch(2, i, 5);
    }
    float want = 0;
    for (uint64_t i = 0; i < 5; i++)
        want = i ? want + value(2, i, 0) : value(2, 0, 0);
    ck_assert_float_eq(*(float *)store.param[2].grad, want);
}
END_TEST

/* Under CYCLIC each micro-batch's gradient stays separate and is returned reduced; then
 * the tree, or the plain sum. */
START_TEST(accumulated_microbatches_come_back)
{
    uint64_t n = (uint64_t)_i / 2;
    plan.cyclic = true;
    start((int64_t)n, _i % 2);
    for (uint64_t i = 0; i < n; i++) {
        bool final;
        void *dst, *own_sum;
        int beta;
        ck_assert_int_eq(cadre_accumulation_open(&accumulation, 2, &dst, &beta),
                         CADRE_OK);
        ck_assert_int_eq(beta, 0);
        float *own = dst;
        for (uint64_t e = 0; e < store.param[2].count; e++)
            own[e] = value(2, i, e);
        ck_assert_int_eq(cadre_accumulation_close(&accumulation, 2, &final, &own_sum),
                         CADRE_OK);
        ck_assert_ptr_eq(own_sum, dst);
        size_t bytes = store.param[2].count * sizeof(float);
        float *part = malloc(bytes);
        memcpy(part, own_sum, bytes);
        ck_assert_int_eq(cadre_accumulation_add(&accumulation, 2, part), CADRE_OK);
        ck_assert_int_eq(cadre_accumulation_add(&accumulation, 2, part),
                         CADRE_E_INTERNAL);
        free(part);
    }
    if (accumulation.exact)
        is_tree(2, n);
    plan.cyclic = false;
}
END_TEST

/* Nodes of a range, each against the definition. */
static void check_nodes(uint64_t n, uint64_t first)
{
    const struct cadre_grad_node *got = cadre_accumulation_nodes(&accumulation, 2);
    ck_assert_ptr_nonnull(got);
    for (int k = 0; k < accumulation.n_nodes; k++) {
        const float *sum = got[k].sum.data;
        for (uint64_t e = 0; e < store.param[2].count; e++) {
            float want = node(2, e, (int)got[k].level, got[k].index, n);
            ck_assert_msg(memcmp(&sum[e], &want, sizeof want) == 0,
                          "node %d from %d on, element %d", k, (int)first, (int)e);
        }
    }
}

/* Ranges that change between steps, in buffers that were made for the most of any. */
START_TEST(ranges_change_between_steps)
{
    static const int64_t range[][2] = {{0, 4},  {1, 10}, {7, 1},
                                       {3, 10}, {5, 6},  {0, 8}};
    plan.map = CADRE_MICROBATCHES_RANGES;
    plan.most = 10;
    const uint64_t before = ledger.now_bytes;
    start(4, true);
    ck_assert_uint_eq(ledger.now_bytes - before,
                      cadre_accumulation_bytes(model, &plan, true));
    const uint64_t taken = ledger.now_bytes;
    for (size_t i = 0; i < sizeof range / sizeof *range; i++) {
        plan.first_microbatch = range[i][0];
        plan.n_microbatches = range[i][1];
        cadre_accumulation_divide(&accumulation);
        cadre_accumulation_begin_step(&accumulation);
        for (int64_t k = 0; k < range[i][1]; k++) {
            void *dst, *sum;
            bool final;
            int beta;
            ck_assert_int_eq(cadre_accumulation_open(&accumulation, 2, &dst, &beta),
                             CADRE_OK);
            fill(2, (uint64_t)(range[i][0] + k), dst);
            ck_assert_int_eq(cadre_accumulation_close(&accumulation, 2, &final, &sum),
                             CADRE_OK);
            ck_assert_int_eq(final, k + 1 == range[i][1]);
        }
        check_nodes(MOST, (uint64_t)range[i][0]);
    }
    ck_assert_uint_eq(ledger.now_bytes, taken);
    plan.map = CADRE_MICROBATCHES_BLOCK;
    plan.most = 0;
}
END_TEST

START_TEST(planned_bytes_are_taken)
{
    uint64_t before = ledger.now_bytes;
    start(6, true);
    ck_assert_uint_eq(ledger.now_bytes - before,
                      cadre_accumulation_bytes(model, &plan, true));
    ck_assert_uint_eq(cadre_accumulation_bytes(model, &plan, false), 0);
    ck_assert_int_eq(accumulation.levels, 3);
}
END_TEST

START_TEST(a_detached_gradient_is_an_error)
{
    void *dst;
    int beta;
    start(1, true);
    store.param[2].grad = NULL;
    ck_assert_int_eq(cadre_accumulation_open(&accumulation, 2, &dst, &beta),
                     CADRE_E_INTERNAL);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("accumulation");
    TCase *tc = tcase_create("accumulation");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, the_counter_is_the_tree, 1, MOST + 1);
    tcase_add_loop_test(tc, two_parameters_interleave, 1, MOST + 1);
    tcase_add_test(tc, blocks_over_ranks_are_the_same_tree);
    tcase_add_test(tc, another_order_has_other_bits);
    tcase_add_test(tc, loose_mode_adds_in_place);
    tcase_add_loop_test(tc, accumulated_microbatches_come_back, 2, 2 * MOST);
    tcase_add_test(tc, ranges_change_between_steps);
    tcase_add_test(tc, planned_bytes_are_taken);
    tcase_add_test(tc, a_detached_gradient_is_an_error);
    suite_add_tcase(s, tc);
    return s;
}
