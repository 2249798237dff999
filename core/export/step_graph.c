/* SPDX-License-Identifier: Apache-2.0 */
#include "core/export/step_graph.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/base/memory.h"
#include "core/export/trace_record.h"
#include "core/tensor/dtype.h"

/* Room for one more element of `size` bytes; NULL: no memory. */
static void *make_room(void *array, size_t n, size_t *room, size_t size)
{
    if (n < *room)
        return array;
    const size_t wanted = *room ? 2 * *room : 64;
    void *grown = cadre_realloc(array, wanted, size);
    if (grown)
        *room = wanted;
    return grown;
}

static bool is_on(const struct cadre_step_graph *graph)
{
    return graph && graph->open && !graph->failed;
}

/* ---- nodes and what they come after ---- */

static struct cadre_step_node *add_node(struct cadre_step_graph *graph)
{
    struct cadre_step_node *grown =
        make_room(graph->node, graph->n, &graph->room, sizeof *grown);
    graph->more = false;
    if (!grown) {
        graph->failed = true;
        return NULL;
    }
    graph->node = grown;
    struct cadre_step_node *node = &grown[graph->n++];
    *node = (struct cadre_step_node){.dep = graph->n_deps};
    return node;
}

/* Of the last node; each once. */
static void add_dep(struct cadre_step_graph *graph, size_t before)
{
    struct cadre_step_node *node = &graph->node[graph->n - 1];
    for (size_t i = node->dep; i < graph->n_deps; i++)
        if (graph->dep[i] == before)
            return;
    size_t *grown =
        make_room(graph->dep, graph->n_deps, &graph->room_deps, sizeof *grown);
    if (!grown) {
        graph->failed = true;
        return;
    }
    graph->dep = grown;
    graph->dep[graph->n_deps++] = before;
    node->n_deps++;
}

static void add_front_deps(struct cadre_step_graph *graph)
{
    for (size_t i = 0; i < graph->n_front; i++)
        add_dep(graph, graph->front[i]);
}

/* One more that the next node comes after. */
static void add_front(struct cadre_step_graph *graph, size_t node)
{
    size_t *grown =
        make_room(graph->front, graph->n_front, &graph->room_front, sizeof *grown);
    if (!grown) {
        graph->failed = true;
        return;
    }
    graph->front = grown;
    graph->front[graph->n_front++] = node;
}

/* The thread does something that takes time. */
static struct cadre_step_node *add_work(struct cadre_step_graph *graph,
                                        enum cadre_step_node_kind kind, double begin_s)
{
    struct cadre_step_node *node = add_node(graph);
    if (!node)
        return NULL;
    node->kind = kind;
    node->begin_s = begin_s;
    add_front_deps(graph);
    graph->n_front = 0;
    add_front(graph, graph->n - 1);
    return node;
}

/* The clock has moved on to now_s, and no node says why. */
static void explain(struct cadre_step_graph *graph, double now_s, const char *why)
{
    if (now_s <= graph->at_s)
        return;
    struct cadre_step_node *node = add_work(graph, CADRE_STEP_IDLE, graph->at_s);
    if (!node)
        return;
    snprintf(node->name, sizeof node->name, "%s", why);
    node->end_s = graph->at_s = now_s;
}

/* ---- computing ---- */

void cadre_step_graph_compute(struct cadre_step_graph *graph, double begin_s,
                              double end_s, double flops, double bytes)
{
    if (!is_on(graph) || end_s <= begin_s)
        return;
    const uint64_t mark = graph->timeline->n + graph->timeline->lost;
    explain(graph, begin_s, "look");
    if (!graph->more || mark != graph->mark)
        if (!add_work(graph, CADRE_STEP_COMPUTE, begin_s))
            return;
    struct cadre_step_node *node = &graph->node[graph->n - 1];
    node->end_s = graph->at_s = end_s;
    node->flops += flops;
    node->bytes += bytes;
    graph->mark = mark;
    graph->more = true;
}

/* ---- communication ---- */

static struct cadre_step_channel *find_channel(struct cadre_step_graph *graph,
                                               enum cadre_comm_kind kind, int group,
                                               int peer)
{
    const bool message = kind == CADRE_COMM_SEND || kind == CADRE_COMM_RECV;
    const struct cadre_step_channel wanted = {
        .kind = message ? kind : CADRE_COMM_IDLE,
        .group = group,
        .peer = message ? peer : 0,
    };
    for (size_t i = 0; i < graph->n_channels; i++) {
        struct cadre_step_channel *c = &graph->channel[i];
        if (c->kind == wanted.kind && c->group == group && c->peer == wanted.peer)
            return c;
    }
    struct cadre_step_channel *grown = make_room(graph->channel, graph->n_channels,
                                                 &graph->room_channels, sizeof *grown);
    if (!grown) {
        graph->failed = true;
        return NULL;
    }
    graph->channel = grown;
    grown[graph->n_channels] = wanted;
    return &grown[graph->n_channels++];
}

static uint64_t bytes_brought(const struct cadre_comm_op *op, int members)
{
    const uint64_t n = (uint64_t)members, element = cadre_dtype_bytes(op->dtype);
    if (op->kind == CADRE_COMM_BARRIER)
        return 0;
    if (op->kind == CADRE_COMM_ALL_GATHER) /* slices may differ: their mean */
        return (op->count + n - 1) / n * element;
    return op->count * element;
}

size_t cadre_step_graph_post(struct cadre_step_graph *graph,
                             const struct cadre_comm_op *op,
                             const struct cadre_step_place *place)
{
    if (!is_on(graph) || op->kind == CADRE_COMM_SPLIT)
        return 0;
    if (place->size < 2) /* it ends when it may begin */
        return place->after;
    explain(graph, op->posted_s, "look");
    struct cadre_step_channel *channel =
        find_channel(graph, op->kind, place->group, place->peer);
    struct cadre_step_node *node = channel ? add_node(graph) : NULL;
    if (!node)
        return 0;
    const char *label = cadre_comm_op_label(op);
    snprintf(node->name, sizeof node->name, "%s%s%.56s", cadre_comm_kind_name(op->kind),
             *label ? " " : "", label);
    node->kind = CADRE_STEP_COMM;
    node->op = op->kind;
    node->group = place->group;
    node->peer = place->peer;
    node->size = bytes_brought(op, place->size);
    node->sent = op->bytes;
    node->ordinal = channel->n;
    node->begin_s = node->end_s = op->posted_s;
    add_front_deps(graph);
    if (place->after)
        add_dep(graph, place->after - 1);
    if (channel->n++ > 0)
        add_dep(graph, channel->last);
    channel->last = graph->n - 1;
    return graph->failed ? 0 : graph->n;
}

void cadre_step_graph_ended(struct cadre_step_graph *graph, size_t node, double began_s,
                            double ended_s)
{
    if (!graph || node == 0 || node > graph->n)
        return;
    graph->node[node - 1].begin_s = began_s;
    graph->node[node - 1].end_s = ended_s;
}

static bool same_channel(const struct cadre_step_graph *graph, size_t a, size_t b)
{
    const struct cadre_step_node *x = &graph->node[a], *y = &graph->node[b];
    const bool messages = x->op == CADRE_COMM_SEND || x->op == CADRE_COMM_RECV ||
                          y->op == CADRE_COMM_SEND || y->op == CADRE_COMM_RECV;
    if (x->kind != CADRE_STEP_COMM || y->kind != CADRE_STEP_COMM)
        return false;
    return x->group == y->group &&
           (!messages || (x->op == y->op && x->peer == y->peer));
}

/* The later one of a channel comes after the earlier one, which need not be named. */
static void wait_for(struct cadre_step_graph *graph, size_t node)
{
    for (size_t i = 0; i < graph->n_front; i++) {
        size_t *other = &graph->front[i];
        if (*other != node && !same_channel(graph, *other, node))
            continue;
        if (*other < node) {
            *other = node;
            graph->more = false;
        }
        return;
    }
    add_front(graph, node);
    graph->more = false;
}

void cadre_step_graph_wait(struct cadre_step_graph *graph, size_t node, double now_s)
{
    if (!is_on(graph))
        return;
    if (node > 0) {
        wait_for(graph, node - 1);
        if (graph->at_s < graph->node[node - 1].end_s)
            graph->at_s = graph->node[node - 1].end_s;
    }
    explain(graph, now_s, node > 0 ? "look" : "wait for what was posted before");
}

/* ---- a step ---- */

void cadre_step_graph_begin(struct cadre_step_graph *graph,
                            const struct cadre_timeline *timeline, double now_s)
{
    graph->open = true;
    graph->timeline = timeline;
    graph->begin_s = graph->at_s = now_s;
}

/* The innermost span at a moment; `from`: the first that ends then or later. */
static const struct cadre_span *span_at(const struct cadre_timeline *timeline,
                                        size_t from, double at_s)
{
    for (size_t i = from; i < timeline->n; i++) {
        const struct cadre_span *span = &timeline->span[i];
        if (span->begin <= at_s && span->end >= at_s)
            return span;
    }
    return NULL;
}

static void put_name(struct cadre_step_node *node, const struct cadre_rank *rank,
                     const struct cadre_span *span)
{
    char name[CADRE_TRACE_NAME];
    if (!span)
        snprintf(node->name, sizeof node->name, "step");
    else if (span->kind == CADRE_SPAN_UNIT)
        snprintf(node->name, sizeof node->name, "%.48s, micro-batch %u",
                 cadre_trace_span_name(rank, span, name), span->microbatch);
    else
        snprintf(node->name, sizeof node->name, "%.79s",
                 cadre_trace_span_name(rank, span, name));
}

/* Nodes of a step from `named` on; they ascend in time, as the spans do by their ends.
 */
static void put_names(struct cadre_step_graph *graph, const struct cadre_rank *rank)
{
    const struct cadre_timeline *timeline = graph->timeline;
    size_t from = 0;
    for (; graph->named < graph->n; graph->named++) {
        struct cadre_step_node *node = &graph->node[graph->named];
        const double at_s = (node->begin_s + node->end_s) / 2;
        if (node->kind != CADRE_STEP_COMPUTE)
            continue;
        while (from < timeline->n && timeline->span[from].end < at_s)
            from++;
        put_name(node, rank, span_at(timeline, from, at_s));
    }
}

void cadre_step_graph_end_step(struct cadre_step_graph *graph,
                               const struct cadre_rank *rank, double now_s)
{
    if (!is_on(graph))
        return;
    explain(graph, now_s, "look");
    put_names(graph, rank);
    struct cadre_step_node *node = add_work(graph, CADRE_STEP_IDLE, now_s);
    if (node) {
        snprintf(node->name, sizeof node->name, "end of the step");
        node->end_s = graph->end_s = now_s;
        graph->steps++;
    }
}

void cadre_step_graph_close(struct cadre_step_graph *graph)
{
    graph->timeline = NULL;
    graph->open = false;
}

void cadre_step_graph_fini(struct cadre_step_graph *graph)
{
    free(graph->node);
    free(graph->dep);
    free(graph->front);
    free(graph->channel);
    *graph = (struct cadre_step_graph){0};
}
