/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/verdict/judge.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/path.h"
#include "core/checkpoint/format/tensor_file.h"
#include "core/compare/verdict/seeds.h"

/* Constants of the limits; derived in comparison.h. */
static const double REFUSED = 1e-6; /* alpha */
static const double RESOLVED_LOSS = 0.01, RESOLVED_NORM = 0.1;
static const double STATED_EPS = 64;
enum { STATED_STEPS = 10 };

double cadre_limit_factor(size_t perturbations)
{
    const double root_pi = 1.7724538509055160273, K = (double)perturbations;
    return 2 / root_pi * pow(tgamma((K + 1) / 2) / (root_pi * REFUSED), 1 / K);
}

static bool same_bits(double a, double b)
{
    uint64_t x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    return x == y;
}

/* ---- limits ---- */

static double value_of(const struct cadre_record_step *step,
                       enum cadre_quantity quantity)
{
    return quantity == CADRE_QUANTITY_LOSS ? step->loss : step->grad_norm;
}

/* A step that overflowed under fp16 has no norm: did both runs skip it? */
static bool both_skipped(double a, double b, enum cadre_quantity quantity)
{
    return quantity == CADRE_QUANTITY_GRAD_NORM && isnan(a) && isnan(b);
}

static double diff_of(double a, double b, enum cadre_quantity quantity)
{
    return both_skipped(a, b, quantity) ? 0 : fabs(a - b);
}

/* The largest change of a quantity at step i, counted from 0, over the perturbations;
 * infinite where one of them has none. */
static double change_at(const struct cadre_comparison *c, enum cadre_quantity quantity,
                        size_t i)
{
    double reference = value_of(&c->run[c->baseline].record.step[i], quantity);
    double largest = 0;
    for (size_t p = 0; p < c->n_perturbations; p++) {
        const struct cadre_record *record = &c->perturbation[p].record;
        double diff = i < record->n ? diff_of(value_of(&record->step[i], quantity),
                                              reference, quantity)
                                    : (double)INFINITY;
        largest = isfinite(diff) ? fmax(largest, diff) : (double)INFINITY;
    }
    return largest;
}

/* The allowance of value `reference` at step k, where the perturbations changed it by
 * `seen` at most. */
static double allowance(const struct cadre_comparison *c,
                        const struct cadre_compared_run *run, double seen,
                        double reference, size_t k)
{
    double size = run->eps * fabs(reference);
    if (run->limit == CADRE_LIMIT_BITS)
        return 0;
    if (run->limit == CADRE_LIMIT_MEASURED)
        return c->factor * fmax(seen, size / 2);
    if (run->coarse > 0)
        return (double)k * run->coarse * fabs(reference);
    return STATED_EPS * (double)k * size;
}

/* The number of steps in which limits distinguish a mistake from rounding. If they
 * never do, limits are stated instead. */
static void find_judged_steps(struct cadre_comparison *c)
{
    const struct cadre_record *base = &c->run[c->baseline].record;
    double loss = 0, norm = 0;
    size_t k = 0;
    while (k < base->n) {
        loss = fmax(loss, change_at(c, CADRE_QUANTITY_LOSS, k));
        norm = fmax(norm, change_at(c, CADRE_QUANTITY_GRAD_NORM, k));
        double size = fabs(base->step[k].grad_norm);
        if (!(c->factor * loss <= RESOLVED_LOSS * fabs(base->step[k].loss)) ||
            !(c->factor * norm <= RESOLVED_NORM * size ||
              (isnan(size) && isfinite(norm))))
            break;
        k++;
    }
    c->measured = k > 0;
    c->judged_steps = k > 0 ? (int64_t)k : STATED_STEPS;
    if (k == 0)
        snprintf(c->note, sizeof c->note,
                 "the baseline with other rounding differs from the first step on, by "
                 "more than %s",
                 c->run[c->baseline].coarse > 0
                     ? "distinguishes a mistake from rounding"
                     : "rounding can");
}

/* ---- quantities ---- */

/* The run that this one must train the same as. */
static const struct cadre_compared_run *
baseline_of(const struct cadre_comparison *c, const struct cadre_compared_run *run)
{
    return &c->run[cadre_seeds_baseline(c, (size_t)(run - c->run))];
}

/* Bits are judged at every step, limits only up to judged_steps. */
static size_t judged_steps(const struct cadre_comparison *c,
                           const struct cadre_compared_run *run)
{
    size_t n = baseline_of(c, run)->record.n;
    n = run->record.n < n ? run->record.n : n;
    if (run->limit != CADRE_LIMIT_BITS && (size_t)c->judged_steps < n)
        n = (size_t)c->judged_steps;
    return n;
}

/* Where a series comes nearest to its limits, and whether all of it stays inside. A
 * value that is not finite is outside. */
static bool judge_series(const struct cadre_comparison *c,
                         struct cadre_compared_run *run, enum cadre_quantity quantity)
{
    const struct cadre_record *base = &baseline_of(c, run)->record;
    struct cadre_margin *margin = &run->margin[quantity];
    size_t n = judged_steps(c, run);
    double seen = 0, nearest = -1;
    bool inside = true;
    *margin = (struct cadre_margin){0};
    for (size_t i = 0; i < n && inside; i++) {
        double a = value_of(&run->record.step[i], quantity);
        double b = value_of(&base->step[i], quantity), diff = fabs(a - b);
        if (both_skipped(a, b, quantity))
            continue;
        if (run->limit == CADRE_LIMIT_MEASURED)
            seen = fmax(seen, change_at(c, quantity, i));
        double limit = allowance(c, run, seen, b, i + 1);
        inside = run->limit == CADRE_LIMIT_BITS ? same_bits(a, b) && isfinite(a)
                                                : diff <= limit;
        double ratio = limit > 0 ? diff / limit : diff;
        if (!inside || ratio > nearest) {
            *margin = (struct cadre_margin){diff, limit, (int64_t)i + 1};
            nearest = ratio;
        }
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

/* Twice the sum of learning rates: AdamW moves a parameter by about one per step. */
static double moved(const struct cadre_record *record)
{
    double sum = 0;
    for (size_t i = 0; i < record->n; i++)
        sum += record->step[i].lr;
    return 2 * sum;
}

/* State s at the last step. A state that the optimizer does not have, or without
 * meaningful limits, is not judged: its limit is infinite. */
static bool judge_state(const struct cadre_comparison *c,
                        struct cadre_compared_run *run, size_t s)
{
    const struct cadre_param_diff *diff = &run->diff.of[s];
    struct cadre_margin *margin = &run->margin[CADRE_QUANTITY_PARAM + s];
    double seen = 0;
    *margin = (struct cadre_margin){
        .diff = diff->max, .limit = INFINITY, .step = (int64_t)run->record.n};
    if (diff->elements == 0) {
        margin->diff = NAN;
        return true;
    }
    if (run->limit == CADRE_LIMIT_BITS) {
        margin->limit = 0;
        return diff->same_bits && isfinite(diff->max);
    }
    for (size_t p = 0; p < c->n_perturbations; p++)
        seen = fmax(seen, c->perturbation[p].diff.of[s].max);
    if (judged_steps(c, run) < run->record.n)
        return isfinite(diff->max);
    if (run->limit == CADRE_LIMIT_MEASURED)
        margin->limit = allowance(c, run, seen, diff->largest, 0);
    else if (s == 0)
        margin->limit = moved(&run->record);
    return diff->max <= margin->limit;
}

/* Norms are not judged where replicas diverge, each with its own. */
static bool judge(const struct cadre_comparison *c, struct cadre_compared_run *run,
                  enum cadre_quantity quantity)
{
    bool diverging = baseline_of(c, run)->changes.diverging || run->changes.diverging;
    if (quantity >= CADRE_QUANTITY_PARAM)
        return judge_state(c, run, quantity - CADRE_QUANTITY_PARAM);
    if (quantity == CADRE_QUANTITY_LOSS || !diverging)
        return judge_series(c, run, quantity);
    run->margin[quantity] = (struct cadre_margin){.diff = NAN, .limit = INFINITY};
    return true;
}

/* ---- verdicts ---- */

static void explain(struct cadre_compared_run *run, enum cadre_quantity quantity)
{
    static const char *const what[] = {"the loss", "the gradient's norm", "parameter ",
                                       "optimizer state ", "optimizer state "};
    const struct cadre_margin *margin = &run->margin[quantity];
    bool series = quantity < CADRE_QUANTITY_PARAM;
    const char *tensor =
        series ? "" : run->diff.of[quantity - CADRE_QUANTITY_PARAM].worst;
    run->equal = CADRE_EQUAL_DIFFERS;
    if (run->limit == CADRE_LIMIT_BITS)
        snprintf(run->why, sizeof run->why,
                 "%s%s at step %" PRId64 " has other bits (a difference of %.3g)",
                 what[quantity], tensor, margin->step, margin->diff);
    else
        snprintf(run->why, sizeof run->why,
                 "%s%s at step %" PRId64 " differs by %.3g, the limit is %.3g",
                 what[quantity], tensor, margin->step, margin->diff, margin->limit);
}

bool cadre_compared_same_training(const struct cadre_comparison *c, size_t i)
{
    size_t base = cadre_seeds_baseline(c, i);
    return !*c->run[i].other_training || (base != c->baseline && base != i);
}

bool cadre_compared_same_bits(const struct cadre_compared_run *a,
                              const struct cadre_compared_run *b)
{
    return a->exact && b->exact && a->micro_batch == b->micro_batch &&
           strcmp(a->sums, b->sums) == 0;
}

static bool same_text(const char *a, const char *b)
{
    return !a || !b || strcmp(a, b) == 0;
}

bool cadre_compared_same_gemm(const struct cadre_compared_run *a,
                              const struct cadre_compared_run *b)
{
    return same_text(cadre_record_gemm(&a->record, "library"),
                     cadre_record_gemm(&b->record, "library")) &&
           same_text(cadre_record_gemm(&a->record, "algorithms"),
                     cadre_record_gemm(&b->record, "algorithms"));
}

/* If two exact runs differ and have other algorithms, these are the cause. */
static void explain_gemm(struct cadre_compared_run *run,
                         const struct cadre_compared_run *other)
{
    size_t used = strlen(run->why);
    if (!cadre_compared_same_gemm(run, other))
        snprintf(
            run->why + used, sizeof run->why - used,
            "; its GEMMs took another library or other algorithms than those of %.64s",
            other->name);
}

/* The reason is the first quantity that left its limits; within one step the loss. */
static void judge_run(const struct cadre_comparison *c, struct cadre_compared_run *run)
{
    const struct cadre_compared_run *base = baseline_of(c, run);
    bool inside[CADRE_QUANTITIES];
    int first = -1;
    if (cadre_compared_same_bits(base, run))
        run->limit = CADRE_LIMIT_BITS;
    else
        run->limit = c->measured ? CADRE_LIMIT_MEASURED : CADRE_LIMIT_STATED;
    for (int q = 0; q < CADRE_QUANTITIES; q++) {
        inside[q] = judge(c, run, (enum cadre_quantity)q);
        if (!inside[q] && (first < 0 || run->margin[q].step < run->margin[first].step))
            first = q;
    }
    run->equal = run->digest == base->digest ? CADRE_EQUAL_EXACT : CADRE_EQUAL_WITHIN;
    if (run->record.n != base->record.n) {
        run->equal = CADRE_EQUAL_DIFFERS;
        snprintf(run->why, sizeof run->why, "it made %zu steps, the baseline %zu",
                 run->record.n, base->record.n);
    } else if (first >= 0) {
        explain(run, (enum cadre_quantity)first);
        if (run->limit == CADRE_LIMIT_BITS)
            explain_gemm(run, base);
    }
    run->by_design =
        run->equal == CADRE_EQUAL_DIFFERS && (*run->changes.by || *base->changes.by);
}

/* Two runs that promise each other the same bits must have them, even if the baseline
 * does not promise them. */
static void judge_bit_identical(const struct cadre_comparison *c,
                                struct cadre_compared_run *run)
{
    const struct cadre_compared_run *bit_identical = c->run;
    const struct cadre_compared_run *base = baseline_of(c, run);
    run->bit_identical = -1;
    if (run->limit == CADRE_LIMIT_BITS || run->equal == CADRE_EQUAL_INDEPENDENT)
        return;
    while (bit_identical != run && (!cadre_compared_same_bits(bit_identical, run) ||
                                    bit_identical->equal == CADRE_EQUAL_INDEPENDENT ||
                                    baseline_of(c, bit_identical) != base))
        bit_identical++;
    if (bit_identical == run)
        return;
    if (bit_identical->digest == run->digest) {
        run->bit_identical = bit_identical - c->run;
    } else if (run->equal != CADRE_EQUAL_DIFFERS) {
        run->equal = CADRE_EQUAL_DIFFERS;
        snprintf(run->why, sizeof run->why,
                 "it has other bits than %s, though both ask for run.exact",
                 bit_identical->name);
        explain_gemm(run, bit_identical);
    }
}

/* Runs with adapters save them under another name. NULL where there is no memory. */
static char *state_path(const struct cadre_record *record, size_t state)
{
    char *path = cadre_record_checkpoint(record, cadre_state_file(state));
    if (state > 0 || !path || cadre_path_exists(path))
        return path;
    char *adapters = cadre_record_checkpoint(record, CADRE_CHECKPOINT_ADAPTERS);
    const bool plain = adapters && !cadre_path_exists(adapters);
    free(plain ? adapters : path);
    return plain ? path : adapters;
}

cadre_status cadre_judge_states(const struct cadre_record *record,
                                const struct cadre_record *reference,
                                struct cadre_state_diffs *out, struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    for (size_t s = 0; rc == CADRE_OK && s < CADRE_STATES; s++) {
        char *path = state_path(record, s);
        char *other = state_path(reference, s);
        bool optional = *cadre_state_suffix(s) != 0;
        out->of[s] = (struct cadre_param_diff){.same_bits = true};
        if (!path || !other)
            rc = cadre_no_memory(err, "a path");
        else if (!optional || cadre_path_exists(path) || cadre_path_exists(other))
            rc = cadre_param_diff(path, other, cadre_state_suffix(s), &out->of[s], err);
        free(path);
        free(other);
    }
    return rc;
}

uint64_t cadre_judge_digest(uint64_t chain, const struct cadre_state_diffs *states)
{
    uint64_t parts[1 + CADRE_STATES] = {chain};
    for (size_t s = 0; s < CADRE_STATES; s++)
        parts[1 + s] = states->of[s].hash;
    return cadre_hash_of(parts, sizeof parts, 0);
}

/* Nothing is compared, as with a run or a baseline that failed: margins are NaN. */
static void leave_alone(struct cadre_compared_run *run)
{
    run->equal = CADRE_EQUAL_INDEPENDENT;
    run->limit = CADRE_LIMIT_NONE;
    run->loss_max_diff = NAN;
    for (int q = 0; q < CADRE_QUANTITIES; q++)
        run->margin[q] = (struct cadre_margin){.diff = NAN, .limit = NAN};
}

/* States of an independent run are only hashed: they may have other shapes. */
static cadre_status judge_equality(struct cadre_comparison *c,
                                   struct cadre_compared_run *run,
                                   struct cadre_error *err)
{
    const struct cadre_compared_run *of = baseline_of(c, run);
    const struct cadre_record *base = &of->record;
    bool other = !cadre_compared_same_training(c, (size_t)(run - c->run)) ||
                 run->instances || of->instances || *run->failure || *of->failure;
    if (*run->failure) {
        leave_alone(run);
        run->bit_identical = -1;
        return CADRE_OK;
    }
    CADRE_TRY(
        cadre_judge_states(&run->record, other ? &run->record : base, &run->diff, err));
    run->chain = cadre_record_chain(&run->record, (int64_t)run->record.n);
    run->digest = cadre_judge_digest(run->chain, &run->diff);
    if (other) {
        leave_alone(run);
    } else {
        run->loss_max_diff = largest_loss_diff(&run->record, base);
        judge_run(c, run);
    }
    judge_bit_identical(c, run);
    return CADRE_OK;
}

cadre_status cadre_judge(struct cadre_comparison *c, struct cadre_error *err)
{
    struct cadre_compared_run *base = &c->run[c->baseline];
    c->measured = false;
    c->judged_steps = STATED_STEPS;
    if (c->n_perturbations > 0 && !*base->failure) {
        c->factor = cadre_limit_factor(c->n_perturbations);
        find_judged_steps(c);
    }
    for (size_t p = 0; c->measured && p < c->n_perturbations; p++)
        CADRE_TRY(cadre_judge_states(&c->perturbation[p].record, &base->record,
                                     &c->perturbation[p].diff, err));
    /* the others need the digest of theirs */
    for (size_t i = 0; i < c->n; i++)
        if (cadre_seeds_baseline(c, i) == i)
            CADRE_TRY(judge_equality(c, &c->run[i], err));
    for (size_t i = 0; i < c->n; i++)
        if (cadre_seeds_baseline(c, i) != i)
            CADRE_TRY(judge_equality(c, &c->run[i], err));
    return CADRE_OK;
}
