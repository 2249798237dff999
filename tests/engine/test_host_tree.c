/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that ranks have under RANGES are added as one rank adds all micro-batches. */
#include <math.h>
#include <stdlib.h>

#include <cadre/helpers.h>

#include "core/base/tree.h"
#include "tests/engine/comm_pair.h"
#include "tests/support/check_main.h"

static struct comm_pair pair;
static struct cadre_rank_plan plan;
static struct cadre_mesh mesh;
static uint64_t first[3];

/* Two ranks along "x" with micro-batches [0, cut) and [cut, m). */
static void setup(void)
{
    const struct cadre_axis_request request = {"x", 2, "pair"};
    ck_assert_int_eq(cadre_mesh_init(&mesh, &request, 1, 0, NULL), CADRE_OK);
    mesh.axis[0].split_batch = true;
    plan = (struct cadre_rank_plan){
        .mesh = &mesh,
        .map = CADRE_MICROBATCHES_RANGES,
        .exact = true,
        .first = first,
        .n_first = 3,
    };
    ck_assert_int_eq(comm_pair_open(&pair, 0, NULL), CADRE_OK);
    pair.services.plan = &plan;
    mesh.axis[0].services = &pair.services;
}

static void teardown(void)
{
    comm_pair_close(&pair);
}

static double leaf(int64_t i)
{
    return sin((double)i * 12.9898) * exp2((double)(i % 30));
}

/* The sum of a node's leaves, in the tree. */
static double node_sum(const struct cadre_tree_node *node)
{
    double value[256];
    int64_t n = (int64_t)1 << node->level;
    for (int64_t i = 0; i < n; i++)
        value[i] = leaf(node->index * n + i);
    return cadre_tree_sum(value, (size_t)n);
}

START_TEST(nodes_are_added_as_leaves_are)
{
    const struct cadre_tree_svc *tree = &cadre_tree_service;
    double all[64], part[128], sum;
    for (int64_t m = 1; m <= 40; m++)
        for (int64_t cut = 0; cut <= m; cut++) {
            uint32_t n = 0;
            first[1] = (uint64_t)cut;
            first[2] = (uint64_t)m;
            for (int r = 0; r < 2; r++) {
                struct cadre_tree_node node[CADRE_TREE_NODES];
                int count =
                    cadre_tree_nodes((int64_t)first[r], (int64_t)first[r + 1], node);
                ck_assert_uint_eq(tree->n_nodes(&mesh.axis[0], r), (uint32_t)count);
                for (int k = 0; k < count; k++)
                    part[n++] = node_sum(&node[k]);
            }
            for (int64_t i = 0; i < m; i++)
                all[i] = leaf(i);
            double expected = cadre_tree_sum(all, (size_t)m);
            struct cadre_buf in = cadre_buf_of(part, n, CADRE_F64, 0);
            struct cadre_buf out = cadre_buf_of(&sum, 1, CADRE_F64, 0);
            ck_assert_int_eq(tree->sum(&mesh.axis[0], &in, &out), CADRE_OK);
            ck_assert_mem_eq(&sum, &expected, sizeof sum);
        }
}
END_TEST

START_TEST(other_counts_are_refused)
{
    double part[3] = {0}, sum;
    struct cadre_buf in = cadre_buf_of(part, 3, CADRE_F64, 0);
    struct cadre_buf out = cadre_buf_of(&sum, 1, CADRE_F64, 0);
    first[1] = 2;
    first[2] = 4;
    ck_assert_int_eq(cadre_tree_service.sum(&mesh.axis[0], &in, &out), CADRE_E_INVALID);
    ck_assert_ptr_nonnull(
        strstr(pair.failure.text, "part has 3 elements, expected 2 nodes of 1"));
    ck_assert_uint_eq(cadre_tree_service.n_nodes(NULL, 0), 0);
    ck_assert_uint_eq(cadre_tree_service.n_nodes(&mesh.axis[0], 2), 0);
}
END_TEST

/* Gradients are whole then. */
START_TEST(other_runs_have_no_nodes)
{
    first[1] = 2;
    first[2] = 4;
    ck_assert_uint_eq(cadre_tree_service.n_nodes(&mesh.axis[0], 0), 1);
    plan.exact = false;
    ck_assert_uint_eq(cadre_tree_service.n_nodes(&mesh.axis[0], 0), 0);
    plan.exact = true;
    plan.map = CADRE_MICROBATCHES_BLOCK;
    ck_assert_uint_eq(cadre_tree_service.n_nodes(&mesh.axis[0], 0), 0);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("host_tree");
    TCase *tc = tcase_create("host_tree");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, nodes_are_added_as_leaves_are);
    tcase_add_test(tc, other_counts_are_refused);
    tcase_add_test(tc, other_runs_have_no_nodes);
    suite_add_tcase(s, tc);
    return s;
}
