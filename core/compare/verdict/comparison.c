/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/verdict/comparison.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/compare/verdict/figures.h"
#include "core/compare/verdict/judge.h"
#include "core/compare/verdict/passes_file.h"

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

const char *cadre_quantity_name(enum cadre_quantity quantity)
{
    static const char *const names[] = {"loss", "grad_norm", "param", "exp_avg",
                                        "exp_avg_sq"};
    return names[quantity];
}

const char *cadre_state_file(size_t state)
{
    return state == 0 ? "model.safetensors" : "optimizer.safetensors";
}

const char *cadre_state_suffix(size_t state)
{
    static const char *const suffixes[CADRE_STATES] = {"", ".exp_avg", ".exp_avg_sq"};
    return suffixes[state];
}

int64_t cadre_comparison_last_step(const struct cadre_comparison *c)
{
    size_t last = 0;
    for (size_t i = 0; i < c->n; i++)
        if (!*c->run[i].failure && (last == 0 || c->run[i].record.n < last))
            last = c->run[i].record.n;
    return (int64_t)last;
}

int64_t cadre_comparison_first_step(const struct cadre_comparison *c)
{
    return c->warmup < cadre_comparison_last_step(c) ? c->warmup + 1 : 1;
}

bool cadre_comparison_is_chaotic(const struct cadre_comparison *c)
{
    return c->measured && c->judged_steps < cadre_comparison_last_step(c);
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
        if ((c->run[i].equal == CADRE_EQUAL_DIFFERS && !c->run[i].by_design) ||
            (c->run[i].setting.judged &&
             c->run[i].setting.equal == CADRE_EQUAL_DIFFERS))
            return &c->run[i];
    return NULL;
}

/* ---- figures ---- */

static void time_run(const struct cadre_comparison *c, struct cadre_compared_run *run)
{
    run->step_s = run->tokens_per_s = NAN;
    if (*run->failure)
        return;
    run->step_s =
        cadre_record_median_s(&run->record, c->warmup, cadre_comparison_last_step(c));
    /* independent runs may have other batches than the baseline */
    double tokens = cadre_record_step_tokens(&run->record);
    run->tokens_per_s = tokens / run->step_s;
    if (run->record.n_instances)
        run->step_s *= cadre_record_step_tokens(&c->run[c->baseline].record) / tokens;
}

/* The machine in the run's own record is preferred to this one: another process may
 * have trained the run elsewhere. */
static void find_unfair(const struct cadre_comparison *c,
                        struct cadre_compared_run *run)
{
    const struct cadre_record *base = &c->run[c->baseline].record;
    double threads = cadre_record_number(&run->record, "threads");
    double of_base = cadre_record_number(base, "threads");
    double cores = cadre_record_machine(&run->record, "cores");
    double kinds = cadre_record_machine(&run->record, "kinds");
    const char *cpu = cadre_record_cpu(&run->record), *other = cadre_record_cpu(base);
    threads = isfinite(threads) ? threads : run->threads;
    cores = isfinite(cores) ? cores : c->cores;
    run->unfair[0] = 0;
    if (run->ranks * threads > cores)
        snprintf(run->unfair, sizeof run->unfair,
                 "%d rank%s of %.0f core%s each, but there %s %.0f core%s", run->ranks,
                 run->ranks == 1 ? "" : "s", threads, threads == 1 ? "" : "s",
                 cores == 1 ? "is" : "are", cores, cores == 1 ? "" : "s");
    else if (!c->whole && isfinite(of_base) && threads != of_base)
        snprintf(run->unfair, sizeof run->unfair,
                 "its ranks have %.0f cores each, those of the baseline %.0f", threads,
                 of_base);
    else if (kinds > 1)
        snprintf(run->unfair, sizeof run->unfair,
                 "its ranks ran on %.0f kinds of processors", kinds);
    else if (cpu && other && strcmp(cpu, other) != 0)
        snprintf(run->unfair, sizeof run->unfair, "it ran on %s, the baseline on %s",
                 cpu, other);
    run->fair = run->unfair[0] == 0;
}

void cadre_comparison_find_unfair(struct cadre_comparison *c)
{
    for (size_t i = 0; i < c->n; i++)
        find_unfair(c, &c->run[i]);
}

/* The bubble of the schedule itself, by replay, and that of the step it was read from.
 */
static cadre_status replay_run(struct cadre_compared_run *run, struct cadre_error *err)
{
    struct cadre_replay_result result, of_step;
    run->bubble_replayed = run->step_bubble = run->step_replayed = NAN;
    if (*run->failure)
        return CADRE_OK;
    cadre_status rc = cadre_passes_read(run->record.dir, &run->schedule, err);
    if (rc != CADRE_OK || run->schedule.n == 0)
        return rc;
    rc = cadre_replay_run(&run->schedule, CADRE_REPLAY_MEDIANS, &result, err);
    if (rc == CADRE_OK)
        rc = cadre_replay_run(&run->schedule, CADRE_REPLAY_STEP, &of_step, err);
    if (rc != CADRE_OK) {
        cadre_error_prefix(err, "'%s/passes.json'", run->record.dir);
        return rc;
    }
    run->bubble_replayed = result.bubble_fraction;
    run->step_replayed = of_step.bubble_fraction;
    run->step_bubble = cadre_replay_measured(&run->schedule);
    return CADRE_OK;
}

/* T of run a / T of run b, NaN where there is none. */
static struct cadre_interval ratio_of(const struct cadre_comparison *c, size_t a,
                                      size_t b)
{
    struct cadre_interval ratio = {NAN, NAN, NAN};
    struct cadre_speed_input input = cadre_figures_input(c);
    enum cadre_speed_verdict verdict;
    if (c->n_pieces == 0)
        ratio.value = c->run[a].step_s / c->run[b].step_s;
    else if (cadre_speed_pair(&input, a, b, &ratio, &verdict, NULL) != CADRE_OK)
        ratio = (struct cadre_interval){NAN, NAN, NAN};
    return ratio;
}

ptrdiff_t cadre_comparison_price(const struct cadre_comparison *c, size_t i,
                                 struct cadre_interval *price)
{
    const struct cadre_compared_run *run = &c->run[i];
    for (size_t k = 0; run->exact && k < c->n; k++) {
        const struct cadre_compared_run *plain = &c->run[k];
        if (plain->exact || plain->setup != run->setup ||
            strcmp(plain->strategy, run->strategy) != 0)
            continue;
        if (c->n_pieces > 0 &&
            (!cadre_figures_timed(c, i) || !cadre_figures_timed(c, k)))
            continue;
        struct cadre_interval ratio = ratio_of(c, i, k);
        *price =
            (struct cadre_interval){ratio.value - 1, ratio.low - 1, ratio.high - 1};
        return (ptrdiff_t)k;
    }
    return -1;
}

bool cadre_comparison_has_instances(const struct cadre_comparison *c)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->run[i].instances)
            return true;
    return false;
}

double cadre_comparison_perturbed_s(const struct cadre_comparison *c)
{
    double seconds = 0;
    for (size_t i = 0; i < c->n_perturbations; i++)
        seconds += cadre_record_number(&c->perturbation[i].record, "time_s");
    return seconds;
}

cadre_status cadre_comparison_judge(struct cadre_comparison *c, struct cadre_error *err)
{
    for (size_t i = 0; i < c->n; i++) {
        time_run(c, &c->run[i]);
        CADRE_TRY(replay_run(&c->run[i], err));
    }
    cadre_comparison_find_unfair(c);
    CADRE_TRY(cadre_judge(c, err));
    return cadre_figures_fill(c, err);
}

void cadre_comparison_fini(struct cadre_comparison *c)
{
    for (size_t i = 0; i < c->n; i++) {
        struct cadre_compared_run *run = &c->run[i];
        cadre_record_fini(&run->record);
        cadre_replay_fini(&run->schedule);
        free(run->name);
        free(run->strategy);
        free(run->layout);
        free(run->other_training);
        free(run->parts);
        cadre_options_destroy(run->options);
    }
    for (size_t i = 0; i < c->n_perturbations; i++)
        cadre_record_fini(&c->perturbation[i].record);
    cadre_speed_fini(&c->speed);
    free(c->piece);
    free(c->target_piece);
    free(c->perturbation);
    free(c->run);
    free(c->title);
    free(c->predicted_by);
    free(c->command);
    memset(c, 0, sizeof *c);
}
