/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of a frame: a row each, in the columns that the terminal has room for. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/top/frame_private.h"

/* An operation that is pending for so long is what the rank waits for: it is said in
 * full, in lines below where its column has no room. Shorter ones change with every
 * frame. */
#define LONG_S 1

enum column { RANK, HOST, PHASE, FOR, OP, SINCE, MEMORY, BAR, COLUMNS };

enum { GAP = 2, LEAST_BAR = 10, LEAST_OP = 14, MOST_OP = 60 };

static const struct {
    const char *head;
    int least; /* a width that most frames keep to, so that columns stand still */
} kinds[COLUMNS] = {
    [RANK] = {"rank", 4},
    [HOST] = {"host", 4},
    [PHASE] = {"phase", 11},
    [FOR] = {"for", 6},
    [OP] = {"last collective", LEAST_OP},
    [SINCE] = {"", 10},
    [MEMORY] = {"memory/planned", 14},
    [BAR] = {"last step", LEAST_BAR},
};

/* ---- cells ---- */

static void put_bytes(double bytes, char *out, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    for (; bytes >= 1000 && unit + 1 < sizeof units / sizeof units[0]; unit++)
        bytes /= 1024;
    snprintf(out, size, unit == 0 || bytes >= 100 ? "%.0f %s" : "%.1f %s", bytes,
             units[unit]);
}

/* The one that is pending, else the last one that has ended; NULL: there was none. */
static const struct cadre_rank_seen_op *shown_op(const struct cadre_rank_seen *seen)
{
    return seen->has_pending ? &seen->pending : seen->has_ended ? &seen->last : NULL;
}

static void put_op(const struct cadre_rank_seen *seen, char *out, size_t size)
{
    const struct cadre_rank_seen_op *shown = shown_op(seen);
    char bytes[16];
    if (shown) {
        put_bytes((double)shown->op.bytes, bytes, sizeof bytes);
        snprintf(out, size, "%s(%s) %s%s%s", shown->op.kind, shown->op.comm,
                 shown->op.label, shown->op.label[0] ? " " : "", bytes);
    } else {
        snprintf(out, size, "none");
    }
}

static void put_since(const struct cadre_rank_seen *seen, char *out, size_t size)
{
    const struct cadre_rank_seen_op *shown = shown_op(seen);
    char seconds[16];
    if (!shown)
        return;
    cadre_top_put_seconds(shown->age_s, seconds, sizeof seconds);
    if (seen->has_pending)
        snprintf(out, size, "for %s", seconds);
    else
        snprintf(out, size, "%s ago", seconds);
}

static void put_memory(const struct cadre_rank_seen *seen, char *out, size_t size)
{
    char used[16], planned[16];
    put_bytes((double)seen->memory_bytes, used, sizeof used);
    put_bytes((double)seen->head.planned_bytes, planned, sizeof planned);
    const char *unit = strchr(planned, ' ');
    size_t n = strlen(used);
    if (unit && n > strlen(unit) && strcmp(used + n - strlen(unit), unit) == 0)
        used[n - strlen(unit)] = '\0'; /* the same unit, said once */
    snprintf(out, size, "%s/%s", used, planned);
}

/* Without its domain. */
static void put_host(const struct cadre_rank_seen *seen, char *out, size_t size)
{
    const int n = (int)strcspn(seen->head.host, ".");
    snprintf(out, size, "%.*s", n, seen->head.host);
}

/* The text of a cell; "" of a bar, and of a rank that is not known. */
static void put_cell(const struct cadre_top_snapshot *s, int r, enum column column,
                     char *out, size_t size)
{
    const struct cadre_top_rank *rank = &s->rank[r];
    out[0] = '\0';
    if (column == RANK)
        snprintf(out, size, "%d%s", r, r == s->slowest ? "*" : "");
    else if (rank->known && column == HOST)
        put_host(&rank->seen, out, size);
    else if (rank->known && column == PHASE)
        cadre_top_put_phase(rank, out, size);
    else if (rank->known && column == FOR)
        cadre_top_put_seconds(rank->seen.phase_s, out, size);
    else if (rank->known && column == OP)
        put_op(&rank->seen, out, size);
    else if (rank->known && column == SINCE)
        put_since(&rank->seen, out, size);
    else if (rank->known && column == MEMORY)
        put_memory(&rank->seen, out, size);
}

/* ---- columns ---- */

struct columns {
    int width[COLUMNS]; /* 0: the terminal has no room for it */
    double scale_s; /* of a full bar; 0: there are none */
};

static int width_of(const struct cadre_top_snapshot *s, enum column column)
{
    int width = kinds[column].least;
    char text[160];
    for (int r = 0; column != OP && column != BAR && r < s->n; r++) {
        put_cell(s, r, column, text, sizeof text);
        width = (int)strlen(text) > width ? (int)strlen(text) : width;
    }
    return width;
}

double cadre_top_longest_step(const struct cadre_top_snapshot *s)
{
    double longest = 0;
    for (int r = 0; r < s->n; r++) {
        const struct cadre_rank_page_step *step = cadre_top_last_step(&s->rank[r]);
        if (step)
            longest = fmax(longest, step->step_s);
    }
    return longest;
}

static bool has_several_hosts(const struct cadre_top_snapshot *s)
{
    for (int r = 0; r < s->n; r++)
        if (s->rank[r].known &&
            strcmp(s->rank[r].seen.head.host, s->lead->seen.head.host) != 0)
            return true;
    return false;
}

/* What matters most is there first; the rest of the line is the operation's and the
 * bar's. */
static struct columns choose_columns(const struct cadre_top_snapshot *s, int screen)
{
    static const enum column order[COLUMNS] = {RANK,   PHASE, HOST, FOR,
                                               MEMORY, BAR,   OP,   SINCE};
    const bool hosts = has_several_hosts(s);
    struct columns c = {.scale_s = cadre_top_longest_step(s)};
    int left = screen + GAP;
    for (int k = 0; k < COLUMNS; k++) {
        const int width = width_of(s, order[k]);
        if ((order[k] == HOST && !hosts) || (order[k] == SINCE && c.width[OP] == 0) ||
            (order[k] != RANK && order[k] != PHASE && width + GAP > left))
            continue;
        c.width[order[k]] = width;
        left -= width + GAP;
    }
    if (left > 0 && c.width[OP] > 0) {
        const int more = left < MOST_OP - LEAST_OP ? left : MOST_OP - LEAST_OP;
        const int bar = left / 3 > left - more ? left / 3 : left - more;
        c.width[OP] += left - bar;
        left = bar;
    }
    if (left > 0 && c.width[BAR] > 0)
        c.width[BAR] += left;
    return c;
}

static void put_heads(struct cadre_top_line *line, const struct columns *c)
{
    const char *gap = "";
    cadre_top_line_colour(line, CADRE_TOP_FAINT);
    for (int k = 0; k < COLUMNS; k++) {
        if (c->width[k] == 0)
            continue;
        cadre_top_line_put(line, gap, (int)strlen(gap));
        cadre_top_line_put(line, kinds[k].head, c->width[k]);
        gap = "  ";
    }
    cadre_top_line_colour(line, CADRE_TOP_PLAIN);
    cadre_top_line_end(line);
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

/* ---- rows ---- */

static bool is_bad(const struct cadre_top_rank *rank)
{
    return !rank->known || rank->died || rank->seen.state == CADRE_RANK_FAILED;
}

/* What the rank waits for, where its column does not say that. */
static void put_wait(struct cadre_top_line *line, const struct cadre_rank_seen *seen,
                     const struct columns *c)
{
    char op[160], seconds[16], text[224];
    put_op(seen, op, sizeof op);
    if (!seen->has_pending || !(seen->pending.age_s >= LONG_S) ||
        (c->width[SINCE] > 0 && (int)strlen(op) <= c->width[OP]))
        return;
    cadre_top_put_seconds(seen->pending.age_s, seconds, sizeof seconds);
    snprintf(text, sizeof text, "pending for %s: %s", seconds, op);
    cadre_top_line_words(line, c->width[RANK] + GAP, text);
}

static void put_known(struct cadre_top_line *line, const struct cadre_top_snapshot *s,
                      int r, const struct columns *c)
{
    const struct cadre_top_rank *rank = &s->rank[r];
    const struct cadre_rank_page_step *step = cadre_top_last_step(rank);
    char text[160];
    for (int k = HOST; k < BAR; k++) {
        if (c->width[k] == 0)
            continue;
        put_cell(s, r, (enum column)k, text, sizeof text);
        cadre_top_line_put(line, "", GAP);
        cadre_top_line_put(line, text, c->width[k]);
    }
    cadre_top_line_put(line, "", GAP);
    cadre_top_line_colour(line, CADRE_TOP_PLAIN);
    if (step && c->scale_s > 0)
        put_bar(line, step, c->scale_s, c->width[BAR]);
    cadre_top_line_end(line);
    put_wait(line, &rank->seen, c);
}

static void put_rank(struct cadre_top_line *line, const struct cadre_top_snapshot *s,
                     int r, const struct columns *c)
{
    const struct cadre_top_rank *rank = &s->rank[r];
    char text[16 + sizeof rank->why];
    put_cell(s, r, RANK, text, sizeof text);
    if (is_bad(rank))
        cadre_top_line_colour(line, CADRE_TOP_RED);
    else if (r == s->slowest)
        cadre_top_line_colour(line, CADRE_TOP_YELLOW);
    cadre_top_line_put(line, text, c->width[RANK]);
    if (rank->known) {
        put_known(line, s, r, c);
        return;
    }
    snprintf(text, sizeof text, "unknown: %s", rank->why);
    cadre_top_line_words(line, c->width[RANK] + GAP, text);
    cadre_top_line_colour(line, CADRE_TOP_PLAIN);
}

/* Lines of a rank's row, with those below it. */
static int lines_of(const struct cadre_top_line *line,
                    const struct cadre_top_snapshot *s, int r, const struct columns *c)
{
    const struct cadre_top_look look = {.columns = line->look->columns};
    struct cadre_text text = {0};
    struct cadre_top_line tried = {.look = &look, .out = &text};
    put_rank(&tried, s, r, c);
    line->out->failed = line->out->failed || text.failed;
    cadre_text_fini(&text);
    return tried.lines;
}

/* Ranks whose rows fit `most` lines: those that died or failed first. Returns how many
 * do not. */
static int choose_ranks(const struct cadre_top_line *line,
                        const struct cadre_top_snapshot *s, const struct columns *c,
                        int most, bool *shown)
{
    int used = 0, out = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int r = 0; r < s->n; r++) {
            if (is_bad(&s->rank[r]) != (pass == 0))
                continue;
            const int lines = most > 0 && out == 0 ? lines_of(line, s, r, c) : 0;
            shown[r] = out == 0 && (most == 0 || used + lines <= most);
            used += lines;
            out += !shown[r];
        }
    return out;
}

void cadre_top_frame_rows(const struct cadre_top_snapshot *s,
                          struct cadre_top_line *line, int below)
{
    const struct columns c = choose_columns(s, line->look->columns);
    bool *shown = cadre_calloc((size_t)s->n, sizeof *shown);
    char more[64];
    line->out->failed = line->out->failed || !shown;
    if (!shown)
        return;
    put_heads(line, &c);
    const int rows = line->look->rows, space = rows - line->lines - below;
    int out = choose_ranks(line, s, &c, rows == 0 ? 0 : space > 1 ? space : 1, shown);
    if (out > 0) /* that is said in a line */
        out = choose_ranks(line, s, &c, space > 2 ? space - 1 : 1, shown);
    for (int pass = 0; pass < 2; pass++)
        for (int r = 0; r < s->n; r++)
            if (shown[r] && (out > 0 ? is_bad(&s->rank[r]) == (pass == 0) : pass == 0))
                put_rank(line, s, r, &c);
    if (out > 0) {
        snprintf(more, sizeof more, "and %d more ranks: a higher terminal, or --once",
                 out);
        cadre_top_line_words(line, 0, more);
    }
    free(shown);
}
