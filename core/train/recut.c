/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/recut.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/median.h"
#include "core/base/memory.h"
#include "core/run/bench.h"
#include "core/run/recuts.h"
#include "core/train/costs.h"
#include "core/train/elastic.h"
#include "core/train/predict.h"
#include "core/train/stop.h"

/* ---- whether ---- */

bool cadre_recut_wanted(const struct cadre_spec *spec)
{
    return spec->config.run.recut > 0 && spec->run.ranks > 1 &&
           !cadre_bench_wanted(&spec->config.bench);
}

static cadre_status check_plan(const struct cadre_spec *spec, struct cadre_error *err)
{
    struct cadre_rank rank;
    CADRE_TRY(cadre_rank_plan(&rank, &spec->run, 0, err));
    const bool staged = cadre_rank_plan_axis(&rank.plan, "schedule.order") != NULL;
    cadre_rank_fini(&rank);
    if (staged && spec->unit_seconds)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "run.recut = %g cuts stages again by measured seconds, and in "
                      "strategy.stack = %s no plugin cuts by them; set "
                      "pipeline.balance = measured, or leave run.recut out",
                      spec->config.run.recut, spec->stack);
}

cadre_status cadre_recut_check(const struct cadre_spec *spec, bool external,
                               struct cadre_error *err)
{
    if (!cadre_recut_wanted(spec))
        return CADRE_OK;
    CADRE_TRY(check_plan(spec, err));
    if (spec->config.checkpoint.every == 0)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "run.recut = %g cuts stages again at checkpoints, and "
            "checkpoint.every = 0 makes none on the way; set it, or leave "
            "run.recut out",
            spec->config.run.recut);
    if (spec->gpu)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "run.recut = %g needs the times of passes, and a device that "
            "queues its work (device.kind = %s) does not tell them; leave "
            "run.recut out",
            spec->config.run.recut, spec->config.device.kind);
    if (external)
        cadre_log(CADRE_LOG_WARN, "train",
                  "run.recut = %g starts ranks again that cadre starts, and these are "
                  "an external launcher's: the stages stay as they are",
                  spec->config.run.recut);
    return CADRE_OK;
}

/* ---- what a rank measures ---- */

void cadre_recut_clock_init(struct cadre_recut_clock *clock,
                            const struct cadre_spec *spec, int64_t first_step,
                            bool external)
{
    *clock = (struct cadre_recut_clock){
        .on = cadre_recut_wanted(spec) && spec->unit_seconds && !external,
        .skip = (uint64_t)first_step + 1,
    };
}

void cadre_recut_clock_report(struct cadre_recut_clock *clock,
                              const struct cadre_step_report *report)
{
    const double s = report->times.compute_s;
    if (clock->on && report->step > clock->skip && s > 0 && isfinite(s))
        clock->compute_s[clock->n++ % CADRE_RECUT_STEPS] = s;
}

static double median_of(const struct cadre_recut_clock *clock)
{
    double sorted[CADRE_RECUT_STEPS];
    const size_t n =
        clock->n < CADRE_RECUT_STEPS ? (size_t)clock->n : CADRE_RECUT_STEPS;
    memcpy(sorted, clock->compute_s, sizeof sorted);
    return n ? cadre_median(sorted, n) : 0;
}

/* Seconds of a step for each second of this rank's units; 0: nothing was measured. */
static double own_pace(const struct cadre_recut_clock *clock,
                       const struct cadre_rank *rank, const struct cadre_spec *spec)
{
    double units_s = 0;
    for (int c = 0; c < rank->plan.n_chunks; c++)
        for (uint32_t u = rank->plan.chunk[c].begin; u < rank->plan.chunk[c].end; u++)
            units_s += spec->unit_seconds[u];
    return units_s > 0 ? median_of(clock) / units_s : 0;
}

/* ---- cuts ---- */

/* The ranks along the schedule's axis: rank r is stage r / stride % n. */
struct stages {
    int n, stride;
};

static struct stages stages_of(const struct cadre_rank *rank)
{
    const struct cadre_mesh *mesh = &rank->mesh;
    const struct cadre_axis *axis = cadre_rank_plan_axis(&rank->plan, "schedule.order");
    struct stages stages = {axis ? axis->size : 1, 1};
    for (int a = mesh->n - 1; axis && &mesh->axis[a] != axis; a--)
        stages.stride *= mesh->axis[a].size;
    return stages;
}

/* A cut that is looked at. */
struct cut {
    uint32_t *stage; /* (n_units) owned */
    double slowest_s;
};

static double slowest(const struct cadre_spec *spec, const struct stages *stages,
                      const double *pace_s, const uint32_t *stage)
{
    double most = 0;
    for (int k = 0; k < stages->n; k++) {
        double units_s = 0;
        for (uint32_t u = 0; u < spec->n_unit_seconds; u++)
            units_s += stage[u] == (uint32_t)k ? spec->unit_seconds[u] : 0;
        most = fmax(most, pace_s[k] * units_s);
    }
    return most;
}

/* The stage of each unit, as the plugins plan with `seconds`. */
static cadre_status plan_cut(const struct cadre_spec *spec, const struct stages *stages,
                             const double *seconds, uint32_t *stage,
                             struct cadre_error *err)
{
    struct cadre_run_spec run = spec->run;
    run.unit_seconds = seconds;
    for (int k = 0; k < stages->n; k++) {
        struct cadre_rank rank;
        CADRE_TRY(cadre_rank_plan(&rank, &run, k * stages->stride, err));
        for (int c = 0; c < rank.plan.n_chunks; c++)
            for (uint32_t u = rank.plan.chunk[c].begin; u < rank.plan.chunk[c].end; u++)
                stage[u] = (uint32_t)k;
        cadre_rank_fini(&rank);
    }
    return CADRE_OK;
}

/* "4 4": units of each chunk in the order of the model. Neighbouring chunks are of
 * different stages. */
static char *text_of(const uint32_t *stage, uint32_t n)
{
    struct cadre_text text = {0};
    for (uint32_t u = 0, begin = 0; u < n; u++)
        if (u + 1 == n || stage[u + 1] != stage[u]) {
            cadre_text_printf(&text, "%s%u", begin ? " " : "", u + 1 - begin);
            begin = u + 1;
        }
    char *copy = text.failed ? NULL : cadre_strdup(cadre_text_str(&text));
    cadre_text_fini(&text);
    return copy;
}

/* What every unit would cost where the cut has it. */
static void weigh(const struct cadre_spec *spec, const double *pace_s,
                  const uint32_t *stage, double *seconds)
{
    for (uint32_t u = 0; u < spec->n_unit_seconds; u++)
        seconds[u] = spec->unit_seconds[u] * pace_s[stage[u]];
}

/* Would the ranks of the cut take more memory than there is? */
static bool fits(const struct cadre_spec *spec, const double *seconds, const char *to)
{
    struct cadre_spec cut = *spec;
    struct cadre_prediction now, then;
    struct cadre_error err = {0};
    cut.run.unit_seconds = seconds;
    if (cadre_predict(spec, NULL, NULL, &now, &err) != CADRE_OK ||
        cadre_predict(&cut, NULL, NULL, &then, &err) != CADRE_OK)
        return false;
    const uint64_t more = then.host > now.host ? then.host - now.host : 0;
    if (now.host_free == 0 || more <= now.host_free || !spec->config.run.memory_check)
        return true;
    cadre_log(CADRE_LOG_WARN, "train",
              "run.recut: units of each chunk %s would be faster, but take %llu bytes "
              "more than are free; the stages stay as they are",
              to, (unsigned long long)(more - now.host_free));
    return false;
}

void cadre_recut_choice_fini(struct cadre_recut_choice *choice)
{
    free(choice->from);
    free(choice->to);
    free(choice->seconds);
    *choice = (struct cadre_recut_choice){0};
}

/* The best cut of those that the plugins plan: *best and the seconds that made it. Each
 * is planned with what units cost in the one before, so a unit that a slow rank had is
 * seen to be cheaper on a fast one. A plan that was seen before ends it. */
static cadre_status search(const struct cadre_spec *spec, const struct stages *stages,
                           const double *pace_s, const uint32_t *now, struct cut *best,
                           double *seconds, struct cadre_error *err)
{
    const size_t n = spec->n_unit_seconds;
    uint32_t *before = cadre_calloc(n, sizeof *before),
             *stage = cadre_calloc(n, sizeof *stage);
    double *tried = cadre_calloc(n, sizeof *tried);
    cadre_status rc =
        before && stage && tried ? CADRE_OK : cadre_no_memory(err, "%zu units", n);
    if (rc == CADRE_OK)
        memcpy(before, now, n * sizeof *now);
    for (int i = 0; rc == CADRE_OK && i < CADRE_RECUT_TRIES; i++) {
        weigh(spec, pace_s, before, tried);
        rc = plan_cut(spec, stages, tried, stage, err);
        if (rc != CADRE_OK || memcmp(stage, before, n * sizeof *stage) == 0)
            break;
        const double s = slowest(spec, stages, pace_s, stage);
        if (s < best->slowest_s) {
            best->slowest_s = s;
            memcpy(best->stage, stage, n * sizeof *stage);
            memcpy(seconds, tried, n * sizeof *tried);
        }
        memcpy(before, stage, n * sizeof *stage);
    }
    free(before);
    free(stage);
    free(tried);
    return rc;
}

/* Fill choice where the best cut is better by more than the threshold. */
static cadre_status judge(const struct cadre_spec *spec, const uint32_t *now,
                          double before_s, const struct cut *best, double *seconds_take,
                          bool *found, struct cadre_recut_choice *choice,
                          struct cadre_error *err)
{
    const uint32_t n = spec->n_unit_seconds;
    *choice = (struct cadre_recut_choice){
        .before_s = before_s,
        .after_s = best->slowest_s,
        .seconds = seconds_take,
    };
    if (!(best->slowest_s < before_s * (1 - spec->config.run.recut))) {
        cadre_recut_choice_fini(choice);
        return CADRE_OK;
    }
    choice->from = text_of(now, n);
    choice->to = text_of(best->stage, n);
    if (!choice->from || !choice->to) {
        cadre_recut_choice_fini(choice);
        return cadre_no_memory(err, "the cut's text");
    }
    *found = fits(spec, choice->seconds, choice->to);
    if (!*found)
        cadre_recut_choice_fini(choice);
    return CADRE_OK;
}

cadre_status cadre_recut_choose(const struct cadre_spec *spec, const double *pace_s,
                                bool *found, struct cadre_recut_choice *choice,
                                struct cadre_error *err)
{
    const uint32_t n = spec->n_unit_seconds;
    struct cadre_rank rank;
    *found = false;
    *choice = (struct cadre_recut_choice){0};
    CADRE_TRY(cadre_rank_plan(&rank, &spec->run, 0, err));
    const struct stages stages = stages_of(&rank);
    cadre_rank_fini(&rank);
    uint32_t *now = cadre_calloc(n, sizeof *now);
    struct cut best = {.stage = cadre_calloc(n, sizeof *best.stage)};
    double *seconds = cadre_calloc(n, sizeof *seconds);
    cadre_status rc =
        now && best.stage && seconds ? CADRE_OK : cadre_no_memory(err, "%u units", n);
    if (rc == CADRE_OK)
        rc = plan_cut(spec, &stages, spec->run.unit_seconds, now, err);
    if (rc == CADRE_OK) {
        const double before_s = slowest(spec, &stages, pace_s, now);
        best.slowest_s = before_s;
        rc = search(spec, &stages, pace_s, now, &best, seconds, err);
        if (rc == CADRE_OK) {
            rc = judge(spec, now, before_s, &best, seconds, found, choice, err);
            seconds = NULL;
        }
    }
    free(now);
    free(best.stage);
    free(seconds);
    return rc;
}

/* ---- at a checkpoint ---- */

/* The pace of each stage: that of its slowest rank. False: a rank has measured none. */
static bool stage_paces(const struct stages *stages, const double *rank_pace_s,
                        int ranks, double *pace_s)
{
    for (int k = 0; k < stages->n; k++)
        pace_s[k] = 0;
    for (int r = 0; r < ranks; r++) {
        double *pace = &pace_s[r / stages->stride % stages->n];
        if (!(rank_pace_s[r] > 0))
            return false;
        *pace = fmax(*pace, rank_pace_s[r]);
    }
    return true;
}

cadre_status cadre_recut_decide(const struct cadre_recut_clock *clock,
                                struct cadre_rank *rank, const struct cadre_spec *spec,
                                bool *again, struct cadre_recut_choice *choice,
                                struct cadre_error *err)
{
    const int ranks = spec->run.ranks;
    const struct stages stages = stages_of(rank);
    *again = false;
    *choice = (struct cadre_recut_choice){0};
    if (!clock->on)
        return CADRE_OK;
    double *paces = cadre_calloc((size_t)ranks + (size_t)stages.n, sizeof *paces);
    double yes = 0;
    if (!paces)
        return cadre_no_memory(err, "the paces of %d ranks", ranks);
    paces[rank->index] = own_pace(clock, rank, spec);
    cadre_status rc = cadre_rank_sum(rank, "recut", paces, (uint64_t)ranks);
    if (rc != CADRE_OK)
        cadre_fail(err, rc, "cannot exchange the paces of ranks: %s",
                   cadre_strerror(rc));
    if (rc == CADRE_OK && rank->index == 0 &&
        stage_paces(&stages, paces, ranks, paces + ranks)) {
        rc = cadre_recut_choose(spec, paces + ranks, again, choice, err);
        yes = *again;
    }
    if (rc == CADRE_OK) {
        rc = cadre_rank_sum(rank, "recut", &yes, 1);
        if (rc != CADRE_OK)
            cadre_fail(err, rc, "cannot agree on the stages: %s", cadre_strerror(rc));
    }
    *again = rc == CADRE_OK && yes > 0;
    free(paces);
    return rc;
}

cadre_status cadre_recut_leave(const struct cadre_recut_choice *choice,
                               const struct cadre_spec *spec, int64_t step,
                               struct cadre_error *err)
{
    const struct cadre_recut recut = {
        .step = step,
        .from = choice->from,
        .to = choice->to,
        .before_s = choice->before_s,
        .after_s = choice->after_s,
        .seconds = choice->seconds,
        .n_units = spec->n_unit_seconds,
    };
    CADRE_TRY(cadre_recuts_add(spec->out, &recut, err));
    cadre_log(
        CADRE_LOG_INFO, "train",
        "run.recut: units of each chunk %s become %s after step %lld: the slowest "
        "stage is predicted to compute for %.4g ms of a step in place of %.4g ms, "
        "%.1f %% less",
        choice->from, choice->to, (long long)step, 1e3 * choice->after_s,
        1e3 * choice->before_s, 100 * (1 - choice->after_s / choice->before_s));
    return CADRE_OK;
}

/* ---- in the launcher ---- */

static cadre_status make_next(const struct cadre_spec *spec, struct cadre_spec **next,
                              struct cadre_error *err)
{
    const uint32_t n = spec->n_unit_seconds;
    double *measured = cadre_calloc(n, sizeof *measured),
           *seconds = cadre_calloc(n, sizeof *seconds);
    cadre_status rc =
        measured && seconds ? CADRE_OK : cadre_no_memory(err, "%u units", n);
    if (rc == CADRE_OK)
        rc = cadre_recuts_last(spec->out, n, seconds, err);
    if (rc == CADRE_OK)
        rc = cadre_elastic_spec(spec, spec->config.strategy.stack, "auto", "run.recut",
                                next, err);
    if (rc == CADRE_OK) {
        memcpy(measured, spec->unit_seconds, n * sizeof *measured);
        cadre_costs_set(*next, measured, seconds, n);
        return CADRE_OK;
    }
    free(measured);
    free(seconds);
    return rc;
}

cadre_status cadre_recut_next(const struct cadre_spec *spec, uint32_t known,
                              struct cadre_spec **next, struct cadre_error *err)
{
    *next = NULL;
    if (!cadre_recut_wanted(spec) || cadre_recuts_count(spec->out) <= known)
        return CADRE_OK;
    if (cadre_stop_requested())
        return cadre_fail(
            err, CADRE_E_STOPPED,
            "stopped by a signal between two cuts; a checkpoint is in "
            "'%s/checkpoints'; continue with --set checkpoint.resume=auto",
            spec->out);
    return make_next(spec, next, err);
}
