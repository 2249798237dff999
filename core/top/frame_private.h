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
};

void cadre_top_line_colour(struct cadre_top_line *line, enum cadre_top_colour colour);
/* `text` in exactly `width` columns, cut or with blanks; CADRE_TOP_ANY: as it is. What
 * does not fit the line is cut. */
void cadre_top_line_put(struct cadre_top_line *line, const char *text, int width);
void cadre_top_line_printf(struct cadre_top_line *line, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
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

/* "830 us", "1.2 s", "5 min"; "?" for NaN. */
void cadre_top_put_seconds(double s, char *out, size_t size);

/* "backward 3", "collective", "died: evaluating", "ended". */
void cadre_top_put_phase(const struct cadre_top_rank *rank, char *out, size_t size);

/* The passes of the last step, a line a rank, where there is a schedule. */
void cadre_top_frame_stages(const struct cadre_top_snapshot *snapshot,
                            struct cadre_top_line *line);

#endif
