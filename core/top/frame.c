/* SPDX-License-Identifier: Apache-2.0 */
#include "core/top/frame.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/top/frame_private.h"

enum {
    RANK_WIDTH = 5,
    PHASE_WIDTH = 19,
    FOR_WIDTH = 8,
    MEMORY_WIDTH = 15,
    SINCE_WIDTH = 14,
    LEAST_BAR = 12,
    LEAST_OP = 12,
    MOST_OP = 44,
};

/* ---- lines ---- */

static const char *colour_of(enum cadre_top_colour colour)
{
    static const char *const codes[] = {"\033[0m",  "\033[1m",  "\033[2m",
                                        "\033[31m", "\033[32m", "\033[33m",
                                        "\033[34m", "\033[35m", "\033[36m"};
    return codes[colour];
}

void cadre_top_line_colour(struct cadre_top_line *line, enum cadre_top_colour colour)
{
    if (line->look->colours)
        cadre_text_printf(line->out, "%s", colour_of(colour));
}

/* At most what is left of the line; bytes that no terminal takes as one column are
 * shown as '?'. */
void cadre_top_line_put(struct cadre_top_line *line, const char *text, int width)
{
    int used = 0;
    for (; *text && used < width && line->at < line->look->columns; text++) {
        const bool plain = *text >= 0x20 && *text < 0x7f;
        cadre_text_append(line->out, plain ? text : "?", 1);
        line->at++;
        used++;
    }
    for (; used < width && width < CADRE_TOP_ANY && line->at < line->look->columns;
         used++) {
        cadre_text_append(line->out, " ", 1);
        line->at++;
    }
}

void cadre_top_line_printf(struct cadre_top_line *line, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    cadre_top_line_put(line, text, CADRE_TOP_ANY);
}

bool cadre_top_line_end(struct cadre_top_line *line)
{
    cadre_text_append(line->out, "\n", 1);
    line->at = 0;
    line->lines++;
    return line->look->rows == 0 || line->lines < line->look->rows;
}

/* ---- numbers ---- */

void cadre_top_put_seconds(double s, char *out, size_t size)
{
    if (!(s >= 0))
        snprintf(out, size, "?");
    else if (s < 0.001)
        snprintf(out, size, "%.0f us", 1e6 * s);
    else if (s < 1)
        snprintf(out, size, "%.0f ms", 1e3 * s);
    else if (s < 100)
        snprintf(out, size, "%.1f s", s);
    else if (s < 6000)
        snprintf(out, size, "%.0f min", s / 60);
    else if (s < 360000)
        snprintf(out, size, "%.0f h", s / 3600);
    else
        snprintf(out, size, "%.0f d", s / 86400);
}

static void put_bytes(double bytes, char *out, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    for (; bytes >= 1000 && unit + 1 < sizeof units / sizeof units[0]; unit++)
        bytes /= 1024;
    snprintf(out, size, unit == 0 || bytes >= 100 ? "%.0f %s" : "%.1f %s", bytes,
             units[unit]);
}

/* "1:02:03" or "2:03". */
static void put_left(double s, char *out, size_t size)
{
    const long whole = s >= 0 && s < 1e9 ? (long)(s + 0.5) : 0;
    if (!(s >= 0) || s >= 1e9)
        snprintf(out, size, "?");
    else if (whole >= 3600)
        snprintf(out, size, "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60,
                 whole % 60);
    else
        snprintf(out, size, "%ld:%02ld", whole / 60, whole % 60);
}

static void put_fixed(double value, int decimals, char *out, size_t size)
{
    if (isnan(value))
        snprintf(out, size, "?");
    else
        snprintf(out, size, "%.*f", decimals, value);
}

static void put_short(double value, char *out, size_t size)
{
    if (isnan(value))
        snprintf(out, size, "?");
    else
        snprintf(out, size, "%.3g", value);
}

/* ---- the header ---- */

static void put_title(struct cadre_top_line *line, const struct cadre_top_snapshot *s)
{
    const struct cadre_rank_page_head *head = &s->lead->seen.head;
    static const enum cadre_top_colour colours[] = {CADRE_TOP_GREEN, CADRE_TOP_PLAIN,
                                                    CADRE_TOP_YELLOW, CADRE_TOP_RED,
                                                    CADRE_TOP_RED};
    cadre_top_line_colour(line, CADRE_TOP_BOLD);
    cadre_top_line_printf(line, "%s", head->name);
    cadre_top_line_colour(line, CADRE_TOP_PLAIN);
    cadre_top_line_printf(line, "  %s  %d rank%s  ", head->stack, s->n,
                          s->n == 1 ? "" : "s");
    cadre_top_line_colour(line, colours[s->state]);
    cadre_top_line_printf(line, "%s", cadre_top_state_name(s->state));
    cadre_top_line_colour(line, CADRE_TOP_PLAIN);
}

static void put_rates(struct cadre_top_line *line, const struct cadre_top_snapshot *s)
{
    char left[32], now[32], median[32];
    put_left(s->left_s, left, sizeof left);
    put_fixed(s->tokens_per_s, 0, now, sizeof now);
    put_fixed(s->tokens_per_s_median, 0, median, sizeof median);
    cadre_top_line_printf(line, "step %lld/%lld", (long long)s->step,
                          (long long)s->last_step);
    if (s->state == CADRE_TOP_RUNNING)
        cadre_top_line_printf(line, "  %s left", left);
    cadre_top_line_printf(line, "  tokens/s %s, median of %zu steps %s", now,
                          s->lead->seen.n_times, median);
}

static void put_result(struct cadre_top_line *line, const struct cadre_top_snapshot *s)
{
    const struct cadre_rank_page_result *result = &s->lead->seen.result;
    char loss[32], norm[32], lr[32], valid[32];
    put_fixed(result->loss, 4, loss, sizeof loss);
    put_short(result->grad_norm, norm, sizeof norm);
    put_short(result->lr, lr, sizeof lr);
    put_fixed(result->valid_loss, 4, valid, sizeof valid);
    cadre_top_line_printf(line, "loss %s  norm %s  lr %s", loss, norm, lr);
    if (!isnan(result->valid_loss))
        cadre_top_line_printf(line, "  validation loss %s", valid);
}

/* ---- rows ---- */

/* The columns that a terminal of this width has. */
struct columns {
    int op, since, memory, bar; /* widths, 0: it has no such column */
};

static struct columns choose_columns(int width)
{
    struct columns c = {.since = SINCE_WIDTH, .memory = MEMORY_WIDTH};
    int left = width - RANK_WIDTH - PHASE_WIDTH - FOR_WIDTH;
    if (left < LEAST_OP + SINCE_WIDTH + MEMORY_WIDTH + LEAST_BAR)
        c.memory = 0;
    if (left < LEAST_OP + SINCE_WIDTH + LEAST_BAR)
        c.since = 0;
    left -= c.memory + c.since;
    c.op = left / 2 < MOST_OP ? left / 2 : MOST_OP;
    c.op = c.op < LEAST_OP ? (left < LEAST_OP ? 0 : LEAST_OP) : c.op;
    c.bar = left - c.op < LEAST_BAR ? 0 : left - c.op;
    return c;
}

static void put_column_names(struct cadre_top_line *line, const struct columns *c)
{
    cadre_top_line_colour(line, CADRE_TOP_FAINT);
    cadre_top_line_put(line, "rank", RANK_WIDTH);
    cadre_top_line_put(line, "phase", PHASE_WIDTH);
    cadre_top_line_put(line, "for", FOR_WIDTH);
    cadre_top_line_put(line, "last collective", c->op);
    cadre_top_line_put(line, "", c->since);
    cadre_top_line_put(line, "memory/planned", c->memory);
    cadre_top_line_put(line, "last step", c->bar);
    cadre_top_line_colour(line, CADRE_TOP_PLAIN);
}

void cadre_top_put_phase(const struct cadre_top_rank *rank, char *out, size_t size)
{
    const struct cadre_rank_seen *seen = &rank->seen;
    const char *died = rank->died ? "died: " : "";
    const char *phase = cadre_rank_phase_name(seen->phase);
    if (seen->state == CADRE_RANK_TRAINING &&
        (seen->phase == CADRE_PHASE_FORWARD || seen->phase == CADRE_PHASE_BACKWARD))
        snprintf(out, size, "%s%s %u", died, phase, seen->microbatch);
    else if (seen->state == CADRE_RANK_TRAINING && seen->phase != CADRE_PHASE_OTHER)
        snprintf(out, size, "%s%s", died, phase);
    else
        snprintf(out, size, "%s%s", died, cadre_rank_state_name(seen->state));
}

/* The one that is pending, else the last one that has ended; NULL: there was none. */
static const struct cadre_rank_seen_op *shown_op(const struct cadre_rank_seen *seen)
{
    return seen->has_pending ? &seen->pending : seen->has_ended ? &seen->last : NULL;
}

static void put_op(struct cadre_top_line *line, const struct cadre_rank_seen *seen,
                   const struct columns *c)
{
    const struct cadre_rank_seen_op *shown = shown_op(seen);
    char text[160] = "none", since[32] = "", seconds[16], bytes[16];
    if (shown) {
        put_bytes((double)shown->op.bytes, bytes, sizeof bytes);
        cadre_top_put_seconds(shown->age_s, seconds, sizeof seconds);
        snprintf(text, sizeof text, "%s(%s) %s%s%s", shown->op.kind, shown->op.comm,
                 shown->op.label, shown->op.label[0] ? " " : "", bytes);
        if (seen->has_pending)
            snprintf(since, sizeof since, "for %s", seconds);
        else
            snprintf(since, sizeof since, "%s ago", seconds);
    }
    if (c->op > 1)
        cadre_top_line_put(line, text, c->op - 1);
    cadre_top_line_put(line, " ", c->op > 1);
    cadre_top_line_put(line, since, c->since);
}

static void put_memory(struct cadre_top_line *line, const struct cadre_rank_seen *seen,
                       int width)
{
    char used[16], planned[16], text[40];
    put_bytes((double)seen->memory_bytes, used, sizeof used);
    put_bytes((double)seen->head.planned_bytes, planned, sizeof planned);
    const char *unit = strchr(planned, ' ');
    size_t n = strlen(used);
    if (unit && n > strlen(unit) && strcmp(used + n - strlen(unit), unit) == 0)
        used[n - strlen(unit)] = '\0'; /* the same unit, said once */
    snprintf(text, sizeof text, "%s/%s", used, planned);
    cadre_top_line_put(line, width > 1 ? text : "", width > 1 ? width - 1 : 0);
    cadre_top_line_put(line, " ", width > 1);
}

/* ---- the time of a step ---- */

const struct cadre_top_kind cadre_top_kinds[CADRE_TOP_KINDS] = {
    {"compute", '#', CADRE_TOP_GREEN},  {"optimizer", '=', CADRE_TOP_BLUE},
    {"exposed", '~', CADRE_TOP_RED},    {"waits", 'w', CADRE_TOP_YELLOW},
    {"bubble", '.', CADRE_TOP_MAGENTA}, {"data", 'd', CADRE_TOP_CYAN},
    {"other", '-', CADRE_TOP_FAINT},
};

static double time_of(const struct cadre_rank_page_step *step, int kind)
{
    const double times[CADRE_TOP_KINDS] = {
        step->compute_s, step->optim_s, step->comm_exposed_s, step->wait_ranks_s,
        step->bubble_s,  step->data_s,  step->other_s};
    return times[kind];
}

/* Cells up to the end of each kind are rounded, so that the whole is right. */
static void put_bar(struct cadre_top_line *line,
                    const struct cadre_rank_page_step *step, double scale_s, int width)
{
    double until = 0;
    int cells = 0;
    for (int k = 0; k < CADRE_TOP_KINDS; k++) {
        until += time_of(step, k);
        const int end = (int)(width * fmin(until / scale_s, 1) + 0.5);
        if (end > cells)
            cadre_top_line_colour(line, cadre_top_kinds[k].colour);
        for (; cells < end; cells++) {
            const char cell[2] = {cadre_top_kinds[k].letter, 0};
            cadre_top_line_put(line, cell, 1);
        }
    }
    cadre_top_line_colour(line, CADRE_TOP_PLAIN);
}

static double longest_step(const struct cadre_top_snapshot *s)
{
    double longest = 0;
    for (int r = 0; r < s->n; r++) {
        const struct cadre_rank_page_step *step = cadre_top_last_step(&s->rank[r]);
        if (step)
            longest = fmax(longest, step->step_s);
    }
    return longest;
}

static void put_rank(struct cadre_top_line *line, const struct cadre_top_snapshot *s,
                     int r, const struct columns *c)
{
    const struct cadre_top_rank *rank = &s->rank[r];
    const struct cadre_rank_page_step *step = cadre_top_last_step(rank);
    const double scale_s = longest_step(s);
    char number[16], phase[48], since[16];
    snprintf(number, sizeof number, "%d%s", r, r == s->slowest ? "*" : "");
    if (rank->died || (rank->known && rank->seen.state == CADRE_RANK_FAILED))
        cadre_top_line_colour(line, CADRE_TOP_RED);
    else if (r == s->slowest)
        cadre_top_line_colour(line, CADRE_TOP_YELLOW);
    cadre_top_line_put(line, number, RANK_WIDTH);
    if (!rank->known) {
        cadre_top_line_printf(line, "unknown: %s", rank->why);
        cadre_top_line_colour(line, CADRE_TOP_PLAIN);
        return;
    }
    cadre_top_put_phase(rank, phase, sizeof phase);
    cadre_top_put_seconds(rank->seen.phase_s, since, sizeof since);
    cadre_top_line_put(line, phase, PHASE_WIDTH);
    cadre_top_line_put(line, since, FOR_WIDTH);
    put_op(line, &rank->seen, c);
    put_memory(line, &rank->seen, c->memory);
    cadre_top_line_colour(line, CADRE_TOP_PLAIN);
    if (step && scale_s > 0)
        put_bar(line, step, scale_s, c->bar);
}

static void put_legend(struct cadre_top_line *line, const struct cadre_top_snapshot *s)
{
    char seconds[16];
    cadre_top_put_seconds(longest_step(s), seconds, sizeof seconds);
    cadre_top_line_printf(line, "full bar %s:", seconds);
    for (int k = 0; k < CADRE_TOP_KINDS; k++) {
        cadre_top_line_colour(line, cadre_top_kinds[k].colour);
        cadre_top_line_printf(line, " %c", cadre_top_kinds[k].letter);
        cadre_top_line_colour(line, CADRE_TOP_PLAIN);
        cadre_top_line_printf(line, " %s", cadre_top_kinds[k].name);
    }
}

static bool put_notes(struct cadre_top_line *line, const struct cadre_top_snapshot *s)
{
    const char *before = "";
    if (s->slowest >= 0) {
        cadre_top_line_printf(line,
                              "* slowest: compute takes %.1f %% longer than on the "
                              "other ranks, over %d steps",
                              100 * s->slower_by, CADRE_TOP_STEPS);
        if (!cadre_top_line_end(line))
            return false;
    }
    for (int r = 0; r < s->n; r++) {
        const struct cadre_top_rank *rank = &s->rank[r];
        if (!rank->known || !rank->seen.said[0] || strcmp(rank->seen.said, before) == 0)
            continue; /* most have the text of the first failure */
        before = rank->seen.said;
        cadre_top_line_printf(line, "%s", before);
        if (!cadre_top_line_end(line))
            return false;
    }
    return true;
}

/* ---- the whole ---- */

/* As many rows as there is space for, less one that says how many are left out. */
static int rows_for_ranks(const struct cadre_top_snapshot *s,
                          const struct cadre_top_look *look, int above)
{
    const int left = look->rows - above - 2;
    if (look->rows == 0 || s->n <= left)
        return s->n;
    return left > 1 ? left - 1 : 1;
}

/* Those that died or failed come first where there is no space for all. */
static bool comes_first(const struct cadre_top_rank *rank)
{
    return !rank->known || rank->died || rank->seen.state == CADRE_RANK_FAILED;
}

static bool put_rows(struct cadre_top_line *line, const struct cadre_top_snapshot *s,
                     const struct columns *c)
{
    int left = rows_for_ranks(s, line->look, line->lines);
    const bool all = left == s->n;
    const int out = s->n - left;
    for (int pass = 0; pass < 2; pass++)
        for (int r = 0; r < s->n && left > 0; r++) {
            if (all ? pass == 1 : comes_first(&s->rank[r]) != (pass == 0))
                continue;
            put_rank(line, s, r, c);
            left--;
            if (!cadre_top_line_end(line))
                return false;
        }
    if (all)
        return true;
    cadre_top_line_printf(line, "and %d more ranks: a higher terminal, or --once", out);
    return cadre_top_line_end(line);
}

void cadre_top_frame(const struct cadre_top_snapshot *snapshot,
                     const struct cadre_top_look *look, struct cadre_text *out)
{
    struct cadre_top_line line = {.look = look, .out = out};
    const struct columns c = choose_columns(look->columns);
    put_title(&line, snapshot);
    cadre_top_line_end(&line);
    put_rates(&line, snapshot);
    cadre_top_line_end(&line);
    put_result(&line, snapshot);
    cadre_top_line_end(&line);
    cadre_top_line_end(&line);
    put_column_names(&line, &c);
    if (!cadre_top_line_end(&line) || !put_rows(&line, snapshot, &c))
        return;
    put_legend(&line, snapshot);
    if (cadre_top_line_end(&line) && put_notes(&line, snapshot))
        cadre_top_frame_stages(snapshot, &line);
}
