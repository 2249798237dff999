/* SPDX-License-Identifier: Apache-2.0 */
#include "core/simulate/simulation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include "core/base/memory.h"
#include "core/comm/backend.h"
#include "core/engine/unit_seconds.h"
#include "core/simulate/member.h"

#define STACK_BYTES ((size_t)8 << 20)
#define BEGIN_S 1.0 /* no time of a simulation is 0, which often means none */
enum { MOST_STEPS = 64 };

/* ---- what is simulated ---- */

cadre_status cadre_simulation_options(struct cadre_options *options,
                                      struct cadre_error *err)
{
    static const char *const set[] = {
        "device.kind=cpu", /* whose memory is exact, and on which everything runs */
        "device.threads=1",
        "data.prefetch=0",
        "comm.ranks=threads",
        "comm.link=",
        "log.trace=no",
        "log.trace_steps=1",
        "log.trace_format=perfetto",
    };
    for (size_t i = 0; i < sizeof set / sizeof set[0]; i++)
        CADRE_TRY(cadre_options_set(options, set[i], "--simulate", err));
    return CADRE_OK;
}

static cadre_status check(const struct cadre_spec *spec,
                          const struct cadre_hardware *hw, struct cadre_error *err)
{
    const struct cadre_run_spec *run = &spec->run;
    if (cadre_spec_pace(spec))
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "device.pace = %s slows ranks that run, not simulated ones; "
                          "leave it out",
                          cadre_spec_pace(spec));
    if (run->model.dtype == CADRE_F64)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "train.precision = fp64 cannot be simulated, expected fp32, "
                          "bf16 or fp16");
    if (run->ranks > hw->node_devices && hw->cluster.bandwidth_gb_s <= 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%d ranks are on more than one node of %lld devices, and the "
                          "hardware file of %s has no link:cluster.bandwidth_gb_s",
                          run->ranks, (long long)hw->node_devices, hw->name);
    if (run->ranks > 1 && hw->node_devices > 1 && hw->node.bandwidth_gb_s <= 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "the hardware file of %s has no link:node.bandwidth_gb_s, "
                          "which %d ranks need",
                          hw->name, run->ranks);
    return CADRE_OK;
}

/* ---- before the ranks ---- */

static cadre_status time_units(struct cadre_spec *spec, const struct cadre_hardware *hw,
                               struct cadre_rank *rank, struct cadre_error *err)
{
    const uint32_t n = rank->model->n_units;
    struct cadre_turns *turns = NULL;
    struct cadre_simulated_device *device = NULL;
    double *seconds = cadre_calloc(n, sizeof *seconds);
    cadre_status rc = seconds ? cadre_turns_create(1, BEGIN_S, &turns, err)
                              : cadre_no_memory(err, "%u costs", n);
    if (rc == CADRE_OK)
        rc = cadre_simulated_device_open(hw, turns, 0, cadre_simulation_room(rank),
                                         &device, err);
    if (rc == CADRE_OK) {
        cadre_clock_simulate(cadre_turns_clock(turns, 0));
        rc = cadre_unit_seconds_measure_on(&spec->run, &device->device, rank->model,
                                           seconds, err);
        cadre_clock_simulate(NULL);
    }
    cadre_simulated_device_close(device);
    cadre_turns_destroy(turns);
    if (rc != CADRE_OK) {
        free(seconds);
        return rc;
    }
    free(spec->unit_seconds);
    spec->run.unit_seconds = spec->unit_seconds = seconds;
    spec->n_unit_seconds = n;
    return CADRE_OK;
}

static bool shares_differ(const struct cadre_rank_plan *plan)
{
    bool differ = false;
    for (int r = 2; r < plan->n_first; r++)
        differ |=
            plan->first[r] - plan->first[r - 1] != plan->first[1] - plan->first[0];
    return differ;
}

static cadre_status choose(const struct cadre_rank *rank,
                           const struct cadre_hardware *hw,
                           struct cadre_representatives *who, struct cadre_error *err)
{
    const struct cadre_representatives_limits limits = {
        .apart = cadre_rank_plan_axis(&rank->plan, "schedule.order"),
        .samples = shares_differ(&rank->plan),
        .node = hw->node_devices,
    };
    return cadre_representatives_of(&rank->mesh, &limits, who, err);
}

/* How many steps are to be looked at, what units cost where a plugin asks, and who may
 * represent whom. */
static cadre_status prepare(struct cadre_spec *spec, const struct cadre_hardware *hw,
                            struct cadre_simulation *out,
                            struct cadre_representatives *who, struct cadre_error *err)
{
    struct cadre_rank *rank = calloc(1, sizeof *rank);
    struct cadre_changes changes;
    if (!rank)
        return cadre_no_memory(err, "a rank");
    cadre_status rc = cadre_rank_plan(rank, &spec->run, 0, err);
    if (rc == CADRE_OK) {
        cadre_rank_changes(rank, &changes);
        out->steps = changes.period > 1 ? (int)fmin((double)changes.period, 1e9) : 1;
        out->params = cadre_model_count(rank->model);
        if (out->steps > MOST_STEPS)
            rc = cadre_fail(err, CADRE_E_UNSUPPORTED,
                            "%s repeats its work after %d steps, and a simulation runs "
                            "at most %d: set a shorter period",
                            changes.by, out->steps, MOST_STEPS);
    }
    if (rc == CADRE_OK && rank->services.asked_seconds)
        rc = time_units(spec, hw, rank, err);
    if (rc == CADRE_OK)
        rc = choose(rank, hw, who, err);
    cadre_rank_fini(rank);
    free(rank);
    return rc;
}

/* ---- the ranks ---- */

static void start_all(struct cadre_simulation_crew *crew,
                      struct cadre_simulation_member *member, int n)
{
    int started = 0;
    while (started < n &&
           cadre_comm_thread_start(&member[started].thread, STACK_BYTES,
                                   cadre_simulation_member_main, &member[started]))
        started++;
    cadre_turns_start(crew->turns, started == n);
    for (int r = 0; r < started; r++)
        pthread_join(member[r].thread, NULL);
    if (started < n)
        member[0].rc =
            cadre_fail(&member[0].err, CADRE_E_RESOURCE,
                       "cannot start a thread for simulated rank %d", started);
}

/* The first failure, which others were told of. */
static cadre_status outcome(const struct cadre_simulation_crew *crew,
                            const struct cadre_simulation_member *member, int n,
                            struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    for (int r = 0; r < n && (rc == CADRE_OK || rc == CADRE_E_ABORTED); r++)
        if (member[r].rc != CADRE_OK) {
            rc = member[r].rc;
            if (err)
                *err = member[r].err;
        }
    if (rc == CADRE_E_ABORTED && crew->world &&
        cadre_comm_failure(cadre_simulated_world_comm(crew->world, 0), err) != CADRE_OK)
        return CADRE_E_COMM;
    return rc;
}

static void take_means(struct cadre_simulation *out)
{
    double sum[CADRE_STEP_PARTS_VALUES] = {0};
    for (int r = 0; r < out->n; r++) {
        const struct cadre_simulated_rank *rank = &out->rank[r];
        const double share = (double)rank->represents / out->ranks;
        double values[CADRE_STEP_PARTS_VALUES];
        cadre_step_parts_values(&rank->parts, values);
        for (int i = 0; i < CADRE_STEP_PARTS_VALUES; i++)
            sum[i] += share * values[i];
        out->step_s += share * rank->step_s;
        out->sent_bytes += share * rank->sent_bytes;
        if (rank->memory.peak_bytes > out->rank[out->largest].memory.peak_bytes)
            out->largest = r;
    }
    out->parts = out->rank[0].parts; /* its axes are everybody's */
    cadre_step_parts_set(&out->parts, sum, 1);
    out->other_s = out->step_s - cadre_step_parts_sum(&out->parts);
}

static cadre_status run_ranks(struct cadre_simulation_crew *crew,
                              struct cadre_simulation *out, struct cadre_error *err)
{
    const struct cadre_representatives *who = crew->who;
    const int n = who->n;
    struct cadre_simulation_member *member = cadre_calloc((size_t)n, sizeof *member);
    out->rank = cadre_calloc((size_t)n, sizeof *out->rank);
    if (!member || !out->rank) {
        free(member);
        return cadre_no_memory(err, "%d simulated ranks", n);
    }
    for (int i = 0; i < n; i++)
        member[i] = (struct cadre_simulation_member){
            .crew = crew,
            .index = who->rank[i],
            .turn = i,
            .graph = out->graph ? &out->graph[i] : NULL};
    start_all(crew, member, n);
    cadre_status rc = outcome(crew, member, n, err);
    for (int i = 0; i < n; i++) {
        out->rank[i] = member[i].result;
        out->rank[i].index = who->rank[i];
        out->rank[i].represents = cadre_represented(who, who->rank[i]);
    }
    out->n = n;
    free(member);
    return rc;
}

static cadre_status make_graphs(struct cadre_simulation *out, struct cadre_error *err)
{
    out->graph = cadre_calloc((size_t)out->ranks, sizeof *out->graph);
    return out->graph ? CADRE_OK
                      : cadre_no_memory(err, "the graphs of %d ranks", out->ranks);
}

static cadre_status keep_groups(const struct cadre_simulation_crew *crew,
                                struct cadre_simulation *out, struct cadre_error *err)
{
    for (int r = 0; r < out->ranks; r++)
        if (out->graph[r].failed)
            return cadre_no_memory(err, "the graph of rank %d", r);
    if (!crew->world)
        return CADRE_OK;
    out->group = cadre_simulated_world_groups(crew->world, &out->n_groups);
    return out->group ? CADRE_OK : cadre_no_memory(err, "groups of ranks");
}

/* ---- ranks that represent others ---- */

static bool near(double a, double b)
{
    return fabs(a - b) <= CADRE_SIMULATION_ALIKE * fmax(a, b);
}

static const struct cadre_simulated_rank *find(const struct cadre_simulation *made,
                                               int rank)
{
    int at = 0;
    while (made->rank[at].index != rank)
        at++;
    return &made->rank[at];
}

static const char *difference(const struct cadre_simulation_crew *crew,
                              const struct cadre_simulated_rank *a,
                              const struct cadre_simulated_rank *b)
{
    if (cadre_simulated_world_posted(crew->world, a->index) !=
        cadre_simulated_world_posted(crew->world, b->index))
        return "post the same";
    if (a->product_flops != b->product_flops ||
        !near(a->parts.part[CADRE_PART_COMPUTE], b->parts.part[CADRE_PART_COMPUTE]))
        return "compute the same";
    if (!near(a->sent_bytes, b->sent_bytes))
        return "send as many bytes";
    if (!near((double)a->memory.peak_bytes, (double)b->memory.peak_bytes))
        return "keep as many bytes";
    return NULL;
}

/* Those that ran and differ only along a thinned part have done the same; *unlike gets
 * a bit of each part where it is not so. */
static cadre_status compare_alike(const struct cadre_simulation_crew *crew,
                                  const struct cadre_simulation *made, uint32_t *unlike,
                                  struct cadre_error *err)
{
    const struct cadre_representatives *who = crew->who;
    cadre_status rc = CADRE_OK;
    for (int p = 0; p < who->n_thinned; p++)
        for (int i = 0; i < made->n && !(*unlike & 1u << p); i++) {
            const int a = made->rank[i].index;
            const int b = cadre_representatives_at(&who->thinned[p], a, 1);
            const char *what = difference(crew, find(made, a), find(made, b));
            if (!what)
                continue;
            *unlike |= 1u << p;
            rc = cadre_fail(err, CADRE_E_UNSUPPORTED,
                            "simulated ranks %d and %d do not %s, so that neither can "
                            "represent others",
                            b, a, what);
        }
    return rc;
}

static cadre_status run_world(struct cadre_simulation_crew *crew,
                              struct cadre_simulation *out, uint32_t *unlike,
                              struct cadre_error *err)
{
    cadre_status rc;
    CADRE_TRY(cadre_turns_create(crew->who->n, BEGIN_S, &crew->turns, err));
    if (out->ranks > 1)
        CADRE_TRY_OR(cadre_simulated_world_open(crew->hw, crew->turns, crew->who,
                                                &crew->world, err),
                     out);
    if (crew->request->graphs)
        CADRE_TRY_OR(make_graphs(out, err), out);
    rc = run_ranks(crew, out, err);
    if (crew->world)
        *unlike = cadre_simulated_world_unlike(crew->world);
    if (rc == CADRE_OK)
        rc = compare_alike(crew, out, unlike, err);
    if (rc == CADRE_OK && crew->request->graphs)
        rc = keep_groups(crew, out, err);
out:
    cadre_simulated_world_close(crew->world);
    cadre_turns_destroy(crew->turns);
    crew->world = NULL;
    crew->turns = NULL;
    return rc;
}

static cadre_status too_many(const struct cadre_spec *spec,
                             const struct cadre_representatives *who, const char *why,
                             struct cadre_error *err)
{
    if (who->n <= CADRE_SIMULATION_RANKS)
        return CADRE_OK;
    return cadre_fail(
        err, CADRE_E_UNSUPPORTED,
        "--simulate has to run %d of the %d ranks of strategy.stack = %s "
        "(%s), expected at most %d; leave --simulate out for the formulas",
        who->n, who->ranks, spec->run.stack_text, why, CADRE_SIMULATION_RANKS);
}

/* With fewer ranks that represent others each time that these turn out to differ. */
static cadre_status run_few(struct cadre_simulation_crew *crew,
                            struct cadre_representatives *who,
                            struct cadre_simulation *made, struct cadre_error *err)
{
    const struct cadre_simulation empty = *made;
    struct cadre_error seen = {0};
    snprintf(seen.text, sizeof seen.text, "%s",
             crew->spec->config.log.trace ? "--trace and --chakra have each of them"
             : who->n_thinned > 0         ? "they represent the others"
                                          : "on their nodes, or by their shares of "
                                            "micro-batches, none is like others");
    for (;;) {
        uint32_t unlike = 0;
        CADRE_TRY(too_many(crew->spec, who, seen.text, err));
        seen = (struct cadre_error){0};
        const cadre_status rc = run_world(crew, made, &unlike, &seen);
        if (rc == CADRE_OK)
            return rc;
        if (who->n_thinned == 0 || (!unlike && who->ranks > CADRE_SIMULATION_RANKS)) {
            cadre_fail(err, rc, "%s", seen.text);
            return rc;
        }
        cadre_simulation_fini(made);
        *made = empty;
        CADRE_TRY(cadre_representatives_drop(who, unlike ? unlike : UINT32_MAX, err));
    }
}

cadre_status cadre_simulate(struct cadre_spec *spec, const struct cadre_hardware *hw,
                            const struct cadre_simulation_request *request,
                            struct cadre_simulation *out, struct cadre_error *err)
{
    struct cadre_simulation made = {.ranks = spec->run.ranks};
    const struct cadre_hardware alone = cadre_hardware_alone(hw);
    struct cadre_representatives who = {0};
    struct cadre_simulation_crew crew = {
        .spec = spec, .hw = hw, .request = request, .who = &who};
    const int apart = request->apart ? request->apart : CADRE_SIMULATION_APART;
    cadre_status rc;
    CADRE_TRY(check(spec, hw, err));
    hw = crew.hw = made.ranks == 1 ? &alone : hw;
    spec->run.node = (int)fmin((double)hw->node_devices, 1 << 20);
    spec->config.log.trace = request->trace_dir || request->graphs;
    CADRE_TRY_OR(prepare(spec, hw, &made, &who, err), out);
    spec->config.compare.warmup = made.steps;
    crew.steps = made.steps;
    if (made.ranks <= apart || spec->config.log.trace)
        CADRE_TRY_OR(cadre_representatives_drop(&who, UINT32_MAX, err), out);
    rc = run_few(&crew, &who, &made, err);
    if (rc == CADRE_OK)
        take_means(&made);
out:
    cadre_representatives_fini(&who);
    if (rc == CADRE_OK)
        *out = made;
    else
        cadre_simulation_fini(&made);
    return rc;
}

void cadre_simulation_fini(struct cadre_simulation *simulation)
{
    for (int r = 0; simulation->rank && r < simulation->n; r++)
        free(simulation->rank[r].pass);
    for (int r = 0; simulation->graph && r < simulation->ranks; r++)
        cadre_step_graph_fini(&simulation->graph[r]);
    for (int g = 0; g < simulation->n_groups; g++)
        free(simulation->group[g].rank);
    free(simulation->graph);
    free(simulation->group);
    free(simulation->rank);
    *simulation = (struct cadre_simulation){0};
}
