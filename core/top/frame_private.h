/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that draw a frame share. */
#ifndef CADRE_TOP_FRAME_PRIVATE_H
#define CADRE_TOP_FRAME_PRIVATE_H

#include "core/top/frame.h"

/* A width: as much as the line has. */
#define CADRE_TOP_ANY 100000

enum cadre_top_colour {
    CADRE_TOP_PLAIN,
    CADRE_TOP_BOLD,
    CADRE_TOP_FAINT,
    CADRE_TOP_RED,
    CADRE_TOP_GREEN,
    CADRE_TOP_YELLOW,
    CADRE_TOP_BLUE,
    CADRE_TOP_MAGENTA,
    CADRE_TOP_CYAN,
};

/* The line being drawn. */
struct cadre_top_line {
    const struct cadre_top_look *look;
    struct cadre_text *out;
    int at; /* columns used */
    int lines; /* ended */
    bool full; /* the frame has no further line: nothing more is drawn */
};

/* ---- frame_line.c ---- */

void cadre_top_line_colour(struct cadre_top_line *line, enum cadre_top_colour colour);
/* `text` in exactly `width` columns, with blanks or cut, which "..." shows;
 * CADRE_TOP_ANY: as much of it as the line takes. */
void cadre_top_line_put(struct cadre_top_line *line, const char *text, int width);
/* `text` behind two blanks, or in the next line where this one has no room for it. */
void cadre_top_line_item(struct cadre_top_line *line, const char *text);
/* All of `text` in as many lines as it takes, each indented; the first one begins where
 * the line is, if that is before the indent. Ends the last one. */
void cadre_top_line_words(struct cadre_top_line *line, int indent, const char *text);
/* False where the frame has no further line. */
bool cadre_top_line_end(struct cadre_top_line *line);

/* Parts of a step's time, in the order of a bar. */
#define CADRE_TOP_KINDS 7
struct cadre_top_kind {
    const char *name;
    char letter;
    enum cadre_top_colour colour;
};
extern const struct cadre_top_kind cadre_top_kinds[CADRE_TOP_KINDS];

/* ---- frame.c ---- */

/* "830 us", "1.2 s", "5 min"; "?" for NaN. */
void cadre_top_put_seconds(double s, char *out, size_t size);

/* "backward 3", "collective", "died: evaluating", "ended". */
void cadre_top_put_phase(const struct cadre_top_rank *rank, char *out, size_t size);

/* ---- frame_rows.c, frame_stages.c ---- */

/* The longest of the ranks' last steps in seconds, 0: there is none. */
double cadre_top_longest_step(const struct cadre_top_snapshot *snapshot);

/* The heads and a row a rank; `below`: lines to leave to what follows. */
void cadre_top_frame_rows(const struct cadre_top_snapshot *snapshot,
                          struct cadre_top_line *line, int below);

/* The passes of the last step, a line a rank, where there is a schedule. */
void cadre_top_frame_stages(const struct cadre_top_snapshot *snapshot,
                            struct cadre_top_line *line);

#endif
