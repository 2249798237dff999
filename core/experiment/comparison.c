/* SPDX-License-Identifier: Apache-2.0 */
#include "core/experiment/comparison.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/median.h"
#include "core/base/memory.h"

/* The limits' constants; comparison.h says why. */
static const double PERTURBATION_FACTOR = 100, FLOOR_EPS = 16;
static const double STATED_EPS = 64;
enum { STATED_STEPS = 20 };
static const double CHAOS_LOSS = 1e-4, CHAOS_NORM = 1e-3;

const char *cadre_equal_name(enum cadre_equal equal)
{
    static const char *const names[] = {"exact", "within", "differs", "independent"};
    return names[equal];
}

const char *cadre_limit_name(enum cadre_limit_kind kind)
{
    static const char *const names[] = {"bits", "measured", "stated", "none"};
    return names[kind];
}

int64_t cadre_comparison_last_step(const struct cadre_comparison *c)
{
    size_t last = c->run[c->baseline].record.n;
    for (size_t i = 0; i < c->n; i++)
        if (c->run[i].record.n < last)
            last = c->run[i].record.n;
    return (int64_t)last;
}

int64_t cadre_comparison_first_step(const struct cadre_comparison *c)
{
    return c->warmup < cadre_comparison_last_step(c) ? c->warmup + 1 : 1;
}

bool cadre_comparison_is_chaotic(const struct cadre_comparison *c)
{
    return c->perturbed && c->judged_steps < cadre_comparison_last_step(c);
}

bool cadre_comparison_is_fair(const struct cadre_comparison *c)
{
    bool fair = true;
    for (size_t i = 0; i < c->n; i++)
        fair = fair && c->run[i].fair;
    return fair;
}

const struct cadre_compared_run *
cadre_comparison_differing(const struct cadre_comparison *c)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->run[i].equal == CADRE_EQUAL_DIFFERS && !c->run[i].by_design)
            return &c->run[i];
    return NULL;
}

/* ---- figures --------------------------------------------------------------------- */

static cadre_status time_run(const struct cadre_comparison *c,
                             struct cadre_compared_run *run, struct cadre_error *err)
{
    size_t n = run->repeats + 1;
    double *medians = cadre_calloc(n, sizeof *medians);
    if (!medians)
        return cadre_fail(err, CADRE_E_RESOURCE, "no memory for %zu repeats", n);
    medians[0] =
        cadre_record_median_s(&run->record, c->warmup, cadre_comparison_last_step(c));
    for (size_t i = 1; i < n; i++)
        medians[i] = run->repeat_s[i - 1];
    run->step_s = cadre_median(medians, n);
    free(medians);
    double tokens = cadre_record_number(&run->record, "tokens") /
                    cadre_record_number(&run->record, "steps");
    run->tokens_per_s = tokens / run->step_s;
    run->fair = (int64_t)run->ranks * run->threads <= c->cores;
    return CADRE_OK;
}

static void figure(const struct cadre_compared_run *base,
                   struct cadre_compared_run *run)
{
    double N = (double)run->ranks / base->ranks;
    run->speedup = base->step_s / run->step_s;
    run->efficiency = run->speedup / N;
    run->overhead_s = run->step_s - base->step_s / N;
}

/* ---- equality -------------------------------------------------------------------- */

static uint64_t chain_losses(const struct cadre_record *record)
{
    struct cadre_hash hash;
    cadre_hash_init(&hash, 0);
    for (size_t i = 0; i < record->n; i++)
        cadre_hash_update(&hash, &record->step[i].loss, sizeof record->step[i].loss);
    return cadre_hash_final(&hash);
}

static bool same_bits(double a, double b)
{
    uint64_t x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    return x == y;
}

static double loss_of(const struct cadre_record_step *step)
{
    return step->loss;
}

static double grad_norm_of(const struct cadre_record_step *step)
{
    return step->grad_norm;
}

/* The allowance of value `reference` at step k, where the perturbation's largest
 * difference up to k is `seen`. */
static double allowance(const struct cadre_compared_run *run, double seen,
                        double reference, size_t k)
{
    double size = fabs(reference);
    if (run->limit == CADRE_LIMIT_BITS)
        return 0;
    if (run->limit == CADRE_LIMIT_MEASURED)
        return PERTURBATION_FACTOR * seen + FLOOR_EPS * run->eps * size;
    return STATED_EPS * run->eps * (double)k * size;
}

/* Bits are judged at every step, limits as far as they mean something. */
static size_t judged_steps(const struct cadre_comparison *c,
                           const struct cadre_compared_run *run)
{
    size_t n = c->run[c->baseline].record.n;
    n = run->record.n < n ? run->record.n : n;
    if (run->limit != CADRE_LIMIT_BITS && (size_t)c->judged_steps < n)
        n = (size_t)c->judged_steps;
    return n;
}

/* Where a series comes nearest to its limits, and whether all of it stays inside. A
 * value that is not finite is outside. */
static bool judge_series(const struct cadre_comparison *c,
                         const struct cadre_compared_run *run,
                         double (*value)(const struct cadre_record_step *),
                         struct cadre_margin *margin)
{
    const struct cadre_record *base = &c->run[c->baseline].record;
    size_t n = judged_steps(c, run);
    double seen = 0, nearest = -1;
    bool inside = true;
    *margin = (struct cadre_margin){0};
    for (size_t i = 0; i < n; i++) {
        double a = value(&run->record.step[i]), b = value(&base->step[i]);
        double diff = fabs(a - b);
        if (c->perturbed && i < c->perturbation.n)
            seen = fmax(seen, fabs(value(&c->perturbation.step[i]) - b));
        double limit = allowance(run, seen, b, i + 1);
        bool good = run->limit == CADRE_LIMIT_BITS ? same_bits(a, b) && isfinite(a)
                                                   : diff <= limit;
        double ratio = limit > 0 ? diff / limit : diff;
        if ((good && inside && ratio > nearest) || (!good && inside)) {
            *margin = (struct cadre_margin){diff, limit, (int64_t)i + 1};
            nearest = ratio;
        }
        inside = inside && good;
    }
    return inside;
}

static double largest_loss_diff(const struct cadre_record *run,
                                const struct cadre_record *base)
{
    double largest = 0;
    for (size_t i = 0; i < run->n && i < base->n; i++) {
        double diff = fabs(run->step[i].loss - base->step[i].loss);
        largest = isnan(diff) || isnan(largest) ? (double)NAN : fmax(largest, diff);
    }
    return largest;
}

static bool judge_params(const struct cadre_comparison *c,
                         struct cadre_compared_run *run)
{
    double moved = 0;
    for (size_t i = 0; i < run->record.n; i++)
        moved += run->record.step[i].lr;
    run->param =
        (struct cadre_margin){.diff = run->diff.max, .step = (int64_t)run->record.n};
    if (run->limit == CADRE_LIMIT_BITS)
        return run->diff.same_bits && isfinite(run->diff.max);
    if (judged_steps(c, run) < run->record.n)
        run->param.limit = INFINITY;
    else if (run->limit == CADRE_LIMIT_MEASURED)
        run->param.limit = allowance(run, c->perturbed_diff.max, run->diff.largest, 0);
    else
        run->param.limit = 2 * moved;
    return run->diff.max <= run->param.limit;
}

static void explain(struct cadre_compared_run *run, const char *what,
                    const struct cadre_margin *margin)
{
    run->equal = CADRE_EQUAL_DIFFERS;
    if (run->limit == CADRE_LIMIT_BITS)
        snprintf(run->why, sizeof run->why,
                 "%s at step %" PRId64 " has other bits (a difference of %.3g)", what,
                 margin->step, margin->diff);
    else
        snprintf(run->why, sizeof run->why,
                 "%s at step %" PRId64 " differs by %.3g, the limit is %.3g", what,
                 margin->step, margin->diff, margin->limit);
}

bool cadre_compared_same_bits(const struct cadre_compared_run *a,
                              const struct cadre_compared_run *b)
{
    return a->exact && b->exact && a->micro_batch == b->micro_batch &&
           strcmp(a->sums, b->sums) == 0;
}

static void judge_run(const struct cadre_comparison *c, struct cadre_compared_run *run)
{
    const struct cadre_compared_run *base = &c->run[c->baseline];
    char param[192];
    if (cadre_compared_same_bits(base, run))
        run->limit = CADRE_LIMIT_BITS;
    else
        run->limit = c->perturbed ? CADRE_LIMIT_MEASURED : CADRE_LIMIT_STATED;
    bool loss = judge_series(c, run, loss_of, &run->loss);
    bool norm = true;
    if (base->changes.apart || run->changes.apart)
        run->grad_norm = (struct cadre_margin){.diff = NAN, .limit = INFINITY};
    else
        norm = judge_series(c, run, grad_norm_of, &run->grad_norm);
    bool params = judge_params(c, run);
    bool bits = run->diff.same_bits && run->loss_chain == base->loss_chain;
    run->equal = bits ? CADRE_EQUAL_EXACT : CADRE_EQUAL_WITHIN;
    snprintf(param, sizeof param, "parameter %s", run->diff.worst);
    if (run->record.n != base->record.n) {
        run->equal = CADRE_EQUAL_DIFFERS;
        snprintf(run->why, sizeof run->why, "it made %zu steps, the baseline %zu",
                 run->record.n, base->record.n);
    } else if (!loss) {
        explain(run, "the loss", &run->loss);
    } else if (!norm) {
        explain(run, "the gradient's norm", &run->grad_norm);
    } else if (!params) {
        explain(run, param, &run->param);
    }
    run->by_design =
        run->equal == CADRE_EQUAL_DIFFERS && (*run->changes.by || *base->changes.by);
}

/* Two runs that promise each other the same bits have them, also where the baseline
 * does not promise them. */
static void judge_twins(const struct cadre_comparison *c,
                        struct cadre_compared_run *run)
{
    const struct cadre_compared_run *twin = c->run;
    run->twin = -1;
    if (run->limit == CADRE_LIMIT_BITS || run->equal == CADRE_EQUAL_INDEPENDENT)
        return;
    while (twin != run && (!cadre_compared_same_bits(twin, run) ||
                           twin->equal == CADRE_EQUAL_INDEPENDENT))
        twin++;
    if (twin == run)
        return;
    if (twin->loss_chain == run->loss_chain && twin->diff.hash == run->diff.hash) {
        run->twin = twin - c->run;
    } else if (run->equal != CADRE_EQUAL_DIFFERS) {
        run->equal = CADRE_EQUAL_DIFFERS;
        snprintf(run->why, sizeof run->why,
                 "it has other bits than %s, though both ask for run.exact",
                 twin->name);
    }
}

static cadre_status diff_params(const struct cadre_comparison *c,
                                const struct cadre_record *record,
                                struct cadre_param_diff *out, struct cadre_error *err)
{
    char *path = cadre_record_model_path(record);
    char *reference = cadre_record_model_path(&c->run[c->baseline].record);
    cadre_status rc;
    if (path && reference)
        rc = cadre_param_diff(path, reference, out, err);
    else
        rc = cadre_fail(err, CADRE_E_RESOURCE, "no memory for a path");
    free(path);
    free(reference);
    return rc;
}

/* An independent run's parameters are hashed alone: they may have other shapes. */
static cadre_status hash_params(struct cadre_compared_run *run, struct cadre_error *err)
{
    char *path = cadre_record_model_path(&run->record);
    if (!path)
        return cadre_fail(err, CADRE_E_RESOURCE, "no memory for a path");
    cadre_status rc = cadre_param_diff(path, path, &run->diff, err);
    run->diff.ulp_max = 0;
    run->diff.max = NAN;
    free(path);
    return rc;
}

static cadre_status judge_equality(struct cadre_comparison *c,
                                   struct cadre_compared_run *run,
                                   struct cadre_error *err)
{
    if (*run->other_training) {
        run->equal = CADRE_EQUAL_INDEPENDENT;
        run->limit = CADRE_LIMIT_NONE;
        run->loss_max_diff = run->loss.diff = run->grad_norm.diff = NAN;
        run->param.diff = NAN;
        return hash_params(run, err);
    }
    cadre_status rc = diff_params(c, &run->record, &run->diff, err);
    if (rc != CADRE_OK)
        return rc;
    run->loss_max_diff = largest_loss_diff(&run->record, &c->run[c->baseline].record);
    judge_run(c, run);
    return CADRE_OK;
}

/* How far the extra run stays close to the baseline. One that is away from the start on
 * shows no rounding, and limits are stated instead. */
static void find_judged_steps(struct cadre_comparison *c)
{
    const struct cadre_record *base = &c->run[c->baseline].record;
    size_t n = c->perturbation.n < base->n ? c->perturbation.n : base->n, k = 0;
    while (k < n) {
        const struct cadre_record_step *a = &c->perturbation.step[k];
        const struct cadre_record_step *b = &base->step[k];
        if (!(fabs(a->loss - b->loss) <= CHAOS_LOSS * fabs(b->loss)) ||
            !(fabs(a->grad_norm - b->grad_norm) <= CHAOS_NORM * fabs(b->grad_norm)))
            break;
        k++;
    }
    if (k > 0) {
        c->judged_steps = (int64_t)k;
        return;
    }
    c->perturbed = false;
    snprintf(c->note, sizeof c->note,
             "the baseline with train.micro_batch = %" PRId64
             " differs from the first step on, by more than rounding can",
             c->perturbed_micro_batch);
}

cadre_status cadre_comparison_judge(struct cadre_comparison *c, struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    for (size_t i = 0; i < c->n; i++) {
        CADRE_TRY(time_run(c, &c->run[i], err));
        c->run[i].loss_chain = chain_losses(&c->run[i].record);
    }
    c->judged_steps = STATED_STEPS;
    if (c->perturbed)
        find_judged_steps(c);
    if (c->perturbed)
        CADRE_TRY(diff_params(c, &c->perturbation, &c->perturbed_diff, err));
    for (size_t i = 0; i < c->n; i++) {
        figure(&c->run[c->baseline], &c->run[i]);
        CADRE_TRY(judge_equality(c, &c->run[i], err));
        judge_twins(c, &c->run[i]);
    }
fail:
    return rc;
}

void cadre_comparison_fini(struct cadre_comparison *c)
{
    for (size_t i = 0; i < c->n; i++) {
        struct cadre_compared_run *run = &c->run[i];
        cadre_record_fini(&run->record);
        free(run->name);
        free(run->strategy);
        free(run->layout);
        free(run->other_training);
        free(run->repeat_s);
    }
    cadre_record_fini(&c->perturbation);
    free(c->run);
    free(c->title);
    memset(c, 0, sizeof *c);
}
