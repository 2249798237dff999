/* SPDX-License-Identifier: Apache-2.0 */
#include "core/simulate/member.h"

#include <stdlib.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/export/trace.h"

#define BESIDE ((size_t)256 << 20)

size_t cadre_simulation_room(const struct cadre_rank *rank)
{
    struct cadre_ledger plan;
    cadre_rank_memory(rank, &plan);
    return 2 * (size_t)plan.now_bytes + BESIDE;
}

/* A rank while it runs. */
struct running {
    struct cadre_simulation_member *member;
    struct cadre_rank rank;
    struct cadre_simulated_device *device;
    struct cadre_trace trace;
};

/* Counters that only grow. */
struct counted {
    uint64_t sent, between, reads;
    double flops;
};

static struct counted count(const struct running *run)
{
    struct counted now = {.flops = run->device->flops,
                          .reads = run->rank.services.value_reads};
    if (run->member->crew->world)
        cadre_simulated_world_sent(run->member->crew->world, run->member->index,
                                   &now.sent, &now.between);
    return now;
}

static void begin_graph(struct running *run, double now_s)
{
    const struct cadre_simulation_member *m = run->member;
    cadre_step_graph_begin(m->graph, &run->rank.timeline, now_s);
    run->device->graph = m->graph;
    if (m->crew->world)
        cadre_simulated_world_graph(m->crew->world, m->index, m->graph);
}

static cadre_status one_step(struct running *run, int step,
                             struct cadre_step_report *report)
{
    struct cadre_simulation_member *m = run->member;
    CADRE_TRY(cadre_trace_begin(&run->trace, step, &m->err));
    const double begin = cadre_now_s();
    if (m->graph && step == 2)
        begin_graph(run, begin);
    cadre_status rc = cadre_rank_step(&run->rank, (uint64_t)step, report);
    if (rc != CADRE_OK)
        return cadre_fail(&m->err, rc, "%s", run->rank.failure.text);
    cadre_step_graph_end_step(m->graph, &run->rank, cadre_now_s());
    cadre_trace_step(&run->trace, step, begin, report);
    return CADRE_OK;
}

static void take_means(struct running *run, const struct counted *before)
{
    struct cadre_simulated_rank *result = &run->member->result;
    const struct counted now = count(run);
    const double n = run->member->crew->steps;
    double values[CADRE_STEP_PARTS_VALUES];
    cadre_step_parts_values(&result->parts, values);
    cadre_step_parts_set(&result->parts, values, 1 / n);
    result->step_s /= n;
    result->sent_bytes = (double)(now.sent - before->sent) / n;
    result->between_bytes = (double)(now.between - before->between) / n;
    result->product_flops = (now.flops - before->flops) / n;
    result->reads = (double)(now.reads - before->reads) / n;
}

/* Passes of the step that has just ended. */
static cadre_status keep_passes(struct running *run)
{
    struct cadre_simulated_rank *result = &run->member->result;
    const struct cadre_timeline *timeline = &run->rank.timeline;
    result->pass = cadre_calloc(timeline->n + 1, sizeof *result->pass);
    if (!result->pass)
        return cadre_no_memory(&run->member->err, "the passes of a step");
    for (size_t i = 0; i < timeline->n; i++)
        if (timeline->span[i].kind < CADRE_SPAN_PASSES)
            result->pass[result->n_passes++] = timeline->span[i];
    return CADRE_OK;
}

/* The first step is none like the others: plugins begin in it. */
static cadre_status all_steps(struct running *run)
{
    struct cadre_simulation_member *m = run->member;
    struct cadre_step_report report = {0};
    CADRE_TRY(one_step(run, 1, &report));
    const struct counted before = count(run);
    for (int step = 2; step <= 1 + m->crew->steps; step++) {
        CADRE_TRY(one_step(run, step, &report));
        m->result.step_s += report.times.step_s;
        cadre_step_parts_add(&m->result.parts, &report.times);
    }
    if (m->graph)
        cadre_step_graph_close(m->graph);
    if (m->crew->request->passes)
        CADRE_TRY(keep_passes(run));
    take_means(run, &before);
    m->result.memory = run->rank.ledger;
    m->result.memory.device = NULL;
    m->result.memory.blocks = NULL;
    cadre_status rc = cadre_rank_drain(&run->rank);
    return rc == CADRE_OK ? rc : cadre_fail(&m->err, rc, "%s", run->rank.failure.text);
}

static cadre_status check_products(const struct running *run)
{
    const uint32_t dtype = run->device->unknown;
    const struct cadre_simulation_member *m = run->member;
    if (dtype == 0)
        return CADRE_OK;
    return cadre_fail(&run->member->err, CADRE_E_UNSUPPORTED,
                      "a step multiplies matrices of %s, and the hardware file of %s "
                      "has no peak for it; add device.peak_%s_tflops",
                      cadre_dtype_name(dtype), m->crew->hw->name,
                      dtype == CADRE_F32    ? "fp32"
                      : dtype == CADRE_F16  ? "fp16"
                      : dtype == CADRE_BF16 ? "bf16"
                                            : "X, which there is for fp32, fp16, bf16");
}

static cadre_status run_bound(struct running *run)
{
    struct cadre_simulation_member *m = run->member;
    const struct cadre_simulation_request *request = m->crew->request;
    const int last = 1 + m->crew->steps;
    cadre_trace_init(&run->trace, &run->rank, m->crew->spec, 0, last);
    run->trace.record.simulated = true;
    run->trace.dir = request->trace_dir;
    run->trace.name = request->trace_name;
    cadre_status rc = all_steps(run);
    if (rc == CADRE_OK)
        rc = check_products(run);
    if (rc == CADRE_OK && request->trace_dir)
        rc = cadre_trace_write(&run->trace, &m->err);
    cadre_trace_fini(&run->trace);
    return rc;
}

static cadre_status run_planned(struct running *run)
{
    struct cadre_simulation_member *m = run->member;
    const struct cadre_simulation_crew *crew = m->crew;
    struct cadre_comm *world =
        crew->world ? cadre_simulated_world_comm(crew->world, m->index) : NULL;
    CADRE_TRY(cadre_simulated_device_open(crew->hw, crew->turns, m->turn,
                                          cadre_simulation_room(&run->rank),
                                          &run->device, &m->err));
    run->rank.device = &run->device->device;
    run->rank.device_lent = true;
    if (crew->world)
        cadre_simulated_world_memory(crew->world, m->index, run->device->memory,
                                     run->device->pinned);
    CADRE_TRY(cadre_rank_bind(&run->rank, world, 0, &m->err));
    return run_bound(run);
}

static void run_member(struct cadre_simulation_member *m)
{
    struct running *run = calloc(1, sizeof *run);
    if (!run) {
        m->rc = cadre_no_memory(&m->err, "a simulated rank");
        return;
    }
    run->member = m;
    m->rc = cadre_rank_plan(&run->rank, &m->crew->spec->run, m->index, &m->err);
    if (m->rc == CADRE_OK) {
        m->rc = run_planned(run);
        cadre_rank_fini(&run->rank);
    }
    if (run->device && m->crew->world)
        cadre_simulated_world_memory(m->crew->world, m->index, NULL, NULL);
    cadre_simulated_device_close(run->device);
    free(run);
}

/* Also where a plugin has ended the thread. */
static void leave(void *arg)
{
    struct cadre_simulation_member *m = arg;
    const struct cadre_simulation_crew *crew = m->crew;
    if (!m->ended)
        m->rc =
            cadre_fail(&m->err, CADRE_E_COMM,
                       "a plugin has ended the thread of simulated rank %d", m->index);
    if (m->rc != CADRE_OK && m->rc != CADRE_E_ABORTED && crew->world)
        cadre_comm_abort(cadre_simulated_world_comm(crew->world, m->index),
                         m->err.text);
    cadre_clock_simulate(NULL);
    cadre_turns_end(crew->turns, m->turn);
}

void *cadre_simulation_member_main(void *arg)
{
    struct cadre_simulation_member *m = arg;
    const struct cadre_simulation_crew *crew = m->crew;
    cadre_log_set_rank(m->index, crew->spec->run.ranks);
    if (!cadre_turns_begin(crew->turns, m->turn))
        return NULL;
    cadre_clock_simulate(cadre_turns_clock(crew->turns, m->turn));
    pthread_cleanup_push(leave, m);
    run_member(m);
    m->ended = true;
    pthread_cleanup_pop(1);
    return NULL;
}
