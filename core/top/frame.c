/* SPDX-License-Identifier: Apache-2.0 */
#include "core/top/frame.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/top/frame_private.h"

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

/* What stands two blanks behind the text before it, or in the next line. */
static void item(struct cadre_top_line *line, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void item(struct cadre_top_line *line, const char *fmt, ...)
{
    char text[128];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    cadre_top_line_item(line, text);
}

static void put_title(struct cadre_top_line *line, const struct cadre_top_snapshot *s)
{
    const struct cadre_rank_page_head *head = &s->lead->seen.head;
    static const enum cadre_top_colour colours[] = {CADRE_TOP_GREEN, CADRE_TOP_PLAIN,
                                                    CADRE_TOP_YELLOW, CADRE_TOP_RED,
                                                    CADRE_TOP_RED};
    cadre_top_line_colour(line, CADRE_TOP_BOLD);
    cadre_top_line_item(line, head->name);
    cadre_top_line_colour(line, CADRE_TOP_PLAIN);
    cadre_top_line_item(line, head->stack);
    item(line, "%d rank%s", s->n, s->n == 1 ? "" : "s");
    cadre_top_line_colour(line, colours[s->state]);
    cadre_top_line_item(line, cadre_top_state_name(s->state));
    cadre_top_line_colour(line, CADRE_TOP_PLAIN);
    cadre_top_line_end(line);
}

static void put_rates(struct cadre_top_line *line, const struct cadre_top_snapshot *s)
{
    char left[32], now[32], median[32];
    put_left(s->left_s, left, sizeof left);
    put_fixed(s->tokens_per_s, 0, now, sizeof now);
    put_fixed(s->tokens_per_s_median, 0, median, sizeof median);
    item(line, "step %lld/%lld", (long long)s->step, (long long)s->last_step);
    if (s->state == CADRE_TOP_RUNNING)
        item(line, "%s left", left);
    item(line, "tokens/s %s, median of %zu steps %s", now, s->lead->seen.n_times,
         median);
    cadre_top_line_end(line);
}

static void put_result(struct cadre_top_line *line, const struct cadre_top_snapshot *s)
{
    const struct cadre_rank_page_result *result = &s->lead->seen.result;
    char loss[32], norm[32], lr[32], valid[32];
    put_fixed(result->loss, 4, loss, sizeof loss);
    put_short(result->grad_norm, norm, sizeof norm);
    put_short(result->lr, lr, sizeof lr);
    put_fixed(result->valid_loss, 4, valid, sizeof valid);
    item(line, "loss %s", loss);
    item(line, "norm %s", norm);
    item(line, "lr %s", lr);
    if (!isnan(result->valid_loss))
        item(line, "validation loss %s", valid);
    cadre_top_line_end(line);
}

/* ---- what stands below the ranks ---- */

static void put_legend(struct cadre_top_line *line, const struct cadre_top_snapshot *s)
{
    char seconds[16];
    cadre_top_put_seconds(cadre_top_longest_step(s), seconds, sizeof seconds);
    item(line, "full bar %s:", seconds);
    for (int k = 0; k < CADRE_TOP_KINDS; k++) {
        const struct cadre_top_kind *kind = &cadre_top_kinds[k];
        const int width = 3 + (int)strlen(kind->name);
        if (line->at + width > line->look->columns)
            cadre_top_line_end(line);
        cadre_top_line_put(line, " ", line->at > 0);
        cadre_top_line_colour(line, kind->colour);
        cadre_top_line_put(line, (const char[]){kind->letter, 0}, 1);
        cadre_top_line_colour(line, CADRE_TOP_PLAIN);
        cadre_top_line_put(line, " ", 1);
        cadre_top_line_put(line, kind->name, CADRE_TOP_ANY);
    }
    cadre_top_line_end(line);
}

/* Is there a rank of which no process can be looked at from here, nor has it ended? */
static bool is_out_of_sight(const struct cadre_top_snapshot *s)
{
    for (int r = 0; r < s->n; r++)
        if (s->rank[r].known && s->rank[r].seen.alive == CADRE_RANK_ELSEWHERE &&
            !cadre_rank_state_is_last(s->rank[r].seen.state))
            return true;
    return false;
}

static void put_notes(struct cadre_top_line *line, const struct cadre_top_snapshot *s)
{
    const char *before = "";
    char text[128];
    if (s->slowest >= 0) {
        snprintf(text, sizeof text,
                 "* slowest: compute takes %.1f %% longer than on the other ranks, "
                 "over %d steps",
                 100 * s->slower_by, CADRE_TOP_STEPS);
        cadre_top_line_words(line, 0, text);
    }
    for (int r = 0; r < s->n; r++) {
        const struct cadre_top_rank *rank = &s->rank[r];
        if (!rank->known || !rank->seen.said[0] || strcmp(rank->seen.said, before) == 0)
            continue; /* most have the text of the first failure */
        before = rank->seen.said;
        cadre_top_line_words(line, 0, before);
    }
    if (is_out_of_sight(s))
        cadre_top_line_words(line, 0,
                             "ranks on other hosts, or in other containers: only there "
                             "is seen whether their processes still run");
}

/* Lines to keep free for them: all, or half of the terminal. */
static int lines_below(const struct cadre_top_snapshot *s,
                       const struct cadre_top_look *look)
{
    const struct cadre_top_look same = {.columns = look->columns};
    struct cadre_text text = {0};
    struct cadre_top_line line = {.look = &same, .out = &text};
    put_legend(&line, s);
    put_notes(&line, s);
    cadre_text_fini(&text);
    return line.lines < look->rows / 2 ? line.lines : look->rows / 2;
}

/* ---- the whole ---- */

void cadre_top_frame(const struct cadre_top_snapshot *snapshot,
                     const struct cadre_top_look *look, struct cadre_text *out)
{
    struct cadre_top_line line = {.look = look, .out = out};
    put_title(&line, snapshot);
    put_rates(&line, snapshot);
    put_result(&line, snapshot);
    cadre_top_line_end(&line);
    cadre_top_frame_rows(snapshot, &line, lines_below(snapshot, look));
    put_legend(&line, snapshot);
    put_notes(&line, snapshot);
    cadre_top_frame_stages(snapshot, &line);
}
