/* SPDX-License-Identifier: Apache-2.0 */
/* tests/cli/test_plan_chakra.sh holds graphs of whole steps to the simulation's times.
 */
#include "core/export/step_graph.h"

#include <stdarg.h>
#include <string.h>

#include "core/engine/rank.h"
#include "tests/support/check_main.h"

static struct cadre_step_graph graph;
static struct cadre_timeline timeline;
static struct cadre_span span[8];
static struct cadre_rank rank;

static void setup(void)
{
    graph = (struct cadre_step_graph){0};
    timeline = (struct cadre_timeline){.span = span};
    cadre_step_graph_begin(&graph, &timeline, 10);
}

static void teardown(void)
{
    cadre_step_graph_fini(&graph);
}

static void compute(double begin_s, double end_s)
{
    cadre_step_graph_compute(&graph, begin_s, end_s, 100, 10);
}

static size_t post(enum cadre_comm_kind kind, double now_s, int group, int peer,
                   size_t after)
{
    const struct cadre_comm_op op = {.kind = kind,
                                     .label = "x",
                                     .count = 6,
                                     .dtype = CADRE_F32,
                                     .bytes = 24,
                                     .posted_s = now_s};
    const struct cadre_step_place place = {
        .group = group, .size = 4, .peer = peer, .after = after};
    return cadre_step_graph_post(&graph, &op, &place);
}

/* Node i comes after the n nodes that follow. */
static void check_deps(size_t i, size_t n, ...)
{
    const struct cadre_step_node *node = &graph.node[i];
    va_list ap;
    ck_assert_uint_eq(node->n_deps, n);
    va_start(ap, n);
    for (size_t d = 0; d < n; d++)
        ck_assert_int_eq((int)graph.dep[node->dep + d], va_arg(ap, int));
    va_end(ap);
}

START_TEST(computing_is_one_node_until_a_span_ends)
{
    compute(10, 11);
    compute(11, 12);
    timeline.n = 1;
    compute(12, 13);
    ck_assert_uint_eq(graph.n, 2);
    ck_assert_double_eq(graph.node[0].end_s, 12);
    ck_assert_double_eq(graph.node[0].flops, 200);
    ck_assert_double_eq(graph.node[0].bytes, 20);
    check_deps(0, 0);
    check_deps(1, 1, 0);
}
END_TEST

START_TEST(computing_comes_after_what_was_waited_for)
{
    compute(10, 11);
    const size_t one = post(CADRE_COMM_ALL_REDUCE, 11, 1, 0, 0);
    compute(11, 12);
    cadre_step_graph_ended(&graph, one, 11.5, 14);
    cadre_step_graph_wait(&graph, one, 14);
    compute(14, 15);
    ck_assert_uint_eq(graph.n, 4);
    check_deps(1, 1, 0);
    check_deps(2, 1, 0);
    check_deps(3, 2, 2, 1);
    ck_assert_double_eq(graph.node[1].begin_s, 11.5);
    ck_assert_double_eq(graph.node[1].end_s, 14);
    ck_assert_uint_eq(graph.node[1].size, 24);
}
END_TEST

/* A group's operations, and messages of a direction, end one after the other. */
START_TEST(operations_come_after_the_one_before_of_their_queue)
{
    compute(10, 11);
    const size_t a = post(CADRE_COMM_ALL_REDUCE, 11, 1, 0, 0);
    const size_t b = post(CADRE_COMM_ALL_GATHER, 11, 1, 0, 0);
    const size_t c = post(CADRE_COMM_ALL_REDUCE, 11, 2, 0, b);
    const size_t d = post(CADRE_COMM_SEND, 11, 1, 3, 0);
    const size_t e = post(CADRE_COMM_RECV, 11, 1, 3, 0);
    const size_t f = post(CADRE_COMM_SEND, 11, 1, 3, 0);
    check_deps(a - 1, 1, 0);
    check_deps(b - 1, 2, 0, 1);
    check_deps(c - 1, 2, 0, 2);
    check_deps(d - 1, 1, 0);
    check_deps(e - 1, 1, 0);
    check_deps(f - 1, 2, 0, 4);
    ck_assert_uint_eq(graph.node[b - 1].size, 8); /* of 6 elements, 4 members: 2 each */
    ck_assert_uint_eq(graph.node[f - 1].ordinal, 1);
    ck_assert_uint_eq(graph.node[e - 1].ordinal, 0);
}
END_TEST

START_TEST(the_last_of_a_queue_stands_for_those_before)
{
    const size_t a = post(CADRE_COMM_SEND, 10, 1, 3, 0);
    const size_t b = post(CADRE_COMM_SEND, 10, 1, 3, 0);
    const size_t c = post(CADRE_COMM_SEND, 10, 1, 2, 0);
    cadre_step_graph_wait(&graph, b, 10);
    cadre_step_graph_wait(&graph, a, 10);
    cadre_step_graph_wait(&graph, c, 10);
    compute(10, 11);
    check_deps(3, 2, 1, 2);
}
END_TEST

START_TEST(time_that_nothing_explains_is_a_node_of_its_own)
{
    compute(10, 11);
    const size_t one = post(CADRE_COMM_RECV, 11, 1, 3, 0);
    compute(11.5, 12); /* in vain it has looked for half a second */
    cadre_step_graph_ended(&graph, one, 12, 13);
    cadre_step_graph_wait(&graph, one, 13.25);
    cadre_step_graph_wait(&graph, 0, 14);
    ck_assert_uint_eq(graph.n, 6);
    ck_assert_int_eq(graph.node[2].kind, CADRE_STEP_IDLE);
    ck_assert_str_eq(graph.node[2].name, "look");
    check_deps(3, 1, 2);
    ck_assert_double_eq(graph.node[4].begin_s, 13);
    ck_assert_double_eq(graph.node[4].end_s, 13.25);
    check_deps(4, 2, 3, 1);
    ck_assert_str_eq(graph.node[5].name, "wait for what was posted before");
    ck_assert_double_eq(graph.node[5].end_s, 14);
}
END_TEST

START_TEST(nodes_are_called_as_the_innermost_span)
{
    compute(10, 11);
    timeline.n = 1;
    compute(11, 12);
    span[0] = (struct cadre_span){
        .kind = CADRE_SPAN_WORK, .name = "inner", .begin = 10, .end = 11};
    span[1] = (struct cadre_span){
        .kind = CADRE_SPAN_WORK, .name = "outer", .begin = 10, .end = 12};
    timeline.n = 2;
    compute(12, 13);
    cadre_step_graph_end_step(&graph, &rank, 13);
    cadre_step_graph_close(&graph);
    compute(13, 14);
    ck_assert_uint_eq(graph.n, 4);
    ck_assert_str_eq(graph.node[0].name, "inner");
    ck_assert_str_eq(graph.node[1].name, "outer");
    ck_assert_str_eq(graph.node[2].name, "step");
    ck_assert_str_eq(graph.node[3].name, "end of the step");
    check_deps(3, 1, 2);
    ck_assert_int_eq(graph.steps, 1);
}
END_TEST

START_TEST(a_split_and_a_group_of_one_are_no_node)
{
    const struct cadre_comm_op op = {.kind = CADRE_COMM_ALL_REDUCE, .posted_s = 10};
    const struct cadre_step_place alone = {.group = 1, .size = 1, .after = 5};
    ck_assert_uint_eq(post(CADRE_COMM_SPLIT, 10, 0, 0, 0), 0);
    ck_assert_uint_eq(cadre_step_graph_post(&graph, &op, &alone), 5);
    ck_assert_uint_eq(cadre_step_graph_post(NULL, &op, &alone), 0);
    ck_assert_uint_eq(graph.n, 0);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("step_graph");
    TCase *tc = tcase_create("step_graph");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, computing_is_one_node_until_a_span_ends);
    tcase_add_test(tc, computing_comes_after_what_was_waited_for);
    tcase_add_test(tc, operations_come_after_the_one_before_of_their_queue);
    tcase_add_test(tc, the_last_of_a_queue_stands_for_those_before);
    tcase_add_test(tc, time_that_nothing_explains_is_a_node_of_its_own);
    tcase_add_test(tc, nodes_are_called_as_the_innermost_span);
    tcase_add_test(tc, a_split_and_a_group_of_one_are_no_node);
    suite_add_tcase(s, tc);
    return s;
}
