/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/report/cells.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/compare/report/report.h"
#include "core/compare/verdict/consumption.h"
#include "core/compare/verdict/seeds.h"
#include "core/run/format.h"

const char *cadre_cells_head(enum cadre_cell cell)
{
    static const char *const heads[CADRE_CELLS] = {
        "run",       "strategy",   "ranks",    "time/step", "tokens/s",
        "speedup",   "verdict",    "effic.",   "overhead",  "bubble",
        "exposed",   "control",    "J/token",  "MFU",       "price/Mtoken",
        "last loss", "valid loss", "equality", "fair"};
    return heads[cell];
}

bool cadre_cells_is_text(enum cadre_cell cell)
{
    return cell == CADRE_CELL_RUN || cell == CADRE_CELL_STRATEGY ||
           cell == CADRE_CELL_VERDICT || cell == CADRE_CELL_EQUALITY ||
           cell == CADRE_CELL_FAIR;
}

/* Energy, utilisation and price, which not every machine and user has. */
static double extra_of(const struct cadre_comparison *c, size_t i, enum cadre_cell cell)
{
    const struct cadre_compared_run *run = &c->run[i];
    return cell == CADRE_CELL_JOULES  ? cadre_consumption_joules(c, i)
           : cell == CADRE_CELL_MFU   ? cadre_consumption_mfu(run)
           : cell == CADRE_CELL_PRICE ? cadre_consumption_price(run)
                                      : (double)NAN;
}

bool cadre_cells_is_empty(const struct cadre_comparison *c, enum cadre_cell cell)
{
    if (cell != CADRE_CELL_JOULES && cell != CADRE_CELL_MFU && cell != CADRE_CELL_PRICE)
        return false;
    for (size_t i = 0; i < c->n; i++)
        if (isfinite(extra_of(c, i, cell)))
            return false;
    return true;
}

static void fill_extra(const struct cadre_comparison *c, size_t i,
                       struct cadre_cells *cells)
{
    static const enum cadre_cell figures[] = {CADRE_CELL_JOULES, CADRE_CELL_MFU,
                                              CADRE_CELL_PRICE};
    for (size_t k = 0; k < sizeof figures / sizeof figures[0]; k++) {
        double value = extra_of(c, i, figures[k]);
        if (isfinite(value) && figures[k] == CADRE_CELL_MFU)
            snprintf(cells->of[figures[k]], CADRE_FIGURE_CHARS, "%.3g %%", 100 * value);
        else if (isfinite(value))
            snprintf(cells->of[figures[k]], CADRE_FIGURE_CHARS, "%.3g", value);
    }
}

const char *cadre_cells_verdict(const struct cadre_comparison *c, size_t i)
{
    const struct cadre_compared_run *run = &c->run[i];
    if (*run->failure)
        return "failed";
    if (run->speed.verdict == CADRE_SPEED_NOT_RANKED)
        return cadre_speed_verdict_name(CADRE_SPEED_NOT_RANKED);
    if (i == c->baseline)
        return "baseline";
    if (run->speed.verdict == CADRE_SPEED_NO_DIFFERENCE)
        return "no difference";
    return cadre_speed_verdict_name(run->speed.verdict);
}

bool cadre_cells_is_shown(const struct cadre_compared_run *run)
{
    return (run->speed.verdict == CADRE_SPEED_FASTER ||
            run->speed.verdict == CADRE_SPEED_SLOWER) &&
           !cadre_report_is_doubtful(run);
}

/* Figures that rest on time carry the mark. */
static void mark_implausible(struct cadre_cells *cells)
{
    static const enum cadre_cell figures[] = {CADRE_CELL_SPEEDUP, CADRE_CELL_EFFICIENCY,
                                              CADRE_CELL_OVERHEAD, CADRE_CELL_BUBBLE};
    for (size_t k = 0; k < sizeof figures / sizeof figures[0]; k++) {
        char *text = cells->of[figures[k]];
        size_t used = strlen(text);
        if (strcmp(text, "-") != 0)
            snprintf(text + used, CADRE_FIGURE_CHARS - used, " !");
    }
}

static struct cadre_interval only_value(double value)
{
    return (struct cadre_interval){value, NAN, NAN};
}

static void fill_figures(const struct cadre_compared_run *run, bool brief,
                         struct cadre_cells *cells)
{
    enum { SIZE = CADRE_FIGURE_CHARS };
    struct cadre_interval step = run->speed.period_s, efficiency = run->efficiency,
                          overhead = run->speed.overhead_s,
                          bubble = run->speed.bubble_fraction,
                          exposed = run->speed.comm_exposed_s;
    if (!(step.value > 0))
        step = only_value(run->step_s);
    if (!isfinite(bubble.value) || run->schedule.n == 0)
        bubble = only_value(run->schedule.n ? cadre_report_bubble(run) : (double)NAN);
    if (!isfinite(exposed.value))
        exposed = only_value(cadre_report_exposed_s(run));
    if (brief) {
        step = only_value(step.value);
        efficiency = only_value(efficiency.value);
        overhead = only_value(overhead.value);
    }
    cadre_figure_seconds(&step, cells->of[CADRE_CELL_TIME], SIZE);
    cadre_format_count(run->tokens_per_s, cells->of[CADRE_CELL_TOKENS], SIZE);
    cadre_figure_ratio(&run->speed.speedup, cells->of[CADRE_CELL_SPEEDUP], SIZE);
    cadre_figure_percent(&efficiency, cells->of[CADRE_CELL_EFFICIENCY], SIZE);
    cadre_figure_seconds(&overhead, cells->of[CADRE_CELL_OVERHEAD], SIZE);
    cadre_figure_percent(&bubble, cells->of[CADRE_CELL_BUBBLE], SIZE);
    cadre_figure_seconds(&exposed, cells->of[CADRE_CELL_EXPOSED], SIZE);
    char control[CADRE_FIGURE_CHARS - 4];
    if (isfinite(run->speed.control))
        snprintf(cells->of[CADRE_CELL_CONTROL], SIZE, "+- %s",
                 cadre_figure_share(run->speed.control, control, sizeof control));
}

void cadre_cells_fill(const struct cadre_comparison *c, size_t i, bool brief,
                      struct cadre_cells *cells)
{
    enum { SIZE = CADRE_FIGURE_CHARS };
    const struct cadre_compared_run *run = &c->run[i];
    double loss = cadre_record_number(&run->record, "loss_last");
    double valid = cadre_record_number(&run->record, "valid_loss");
    for (int k = 0; k < CADRE_CELLS; k++)
        snprintf(cells->of[k], SIZE, "-");
    snprintf(cells->of[CADRE_CELL_RUN], SIZE, "%s%s", run->name,
             run->fair || *run->failure ? "" : " (unfair)");
    snprintf(cells->of[CADRE_CELL_STRATEGY], SIZE, "%s", run->strategy);
    snprintf(cells->of[CADRE_CELL_RANKS], SIZE, "%d", run->ranks);
    snprintf(cells->of[CADRE_CELL_VERDICT], SIZE, "%s", cadre_cells_verdict(c, i));
    if (!*run->failure) {
        fill_figures(run, brief, cells);
        fill_extra(c, i, cells);
        if (isfinite(loss))
            snprintf(cells->of[CADRE_CELL_LOSS], SIZE, "%.4f", loss);
        if (isfinite(valid))
            snprintf(cells->of[CADRE_CELL_VALID], SIZE, "%.4f", valid);
        snprintf(cells->of[CADRE_CELL_FAIR], SIZE, "%s",
                 run->fair ? "yes" : "no: fair = false");
    }
    if (*run->implausible)
        mark_implausible(cells);
    if (!brief || !cadre_report_is_judged(c, i) || cadre_seeds_baseline(c, i) == i)
        cadre_report_equality(c, i, cells->of[CADRE_CELL_EQUALITY], SIZE);
    else
        snprintf(cells->of[CADRE_CELL_EQUALITY], SIZE, "%s",
                 run->by_design ? "by design" : cadre_equal_name(run->equal));
}
