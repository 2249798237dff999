/* SPDX-License-Identifier: Apache-2.0 */
/* The cells of a report's table, the same texts in every form. [any thread] */
#ifndef CADRE_COMPARE_REPORT_CELLS_H
#define CADRE_COMPARE_REPORT_CELLS_H

#include "core/compare/report/figure.h"
#include "core/compare/verdict/comparison.h"

enum cadre_cell {
    CADRE_CELL_RUN,
    CADRE_CELL_STRATEGY,
    CADRE_CELL_RANKS,
    CADRE_CELL_TIME,
    CADRE_CELL_TOKENS,
    CADRE_CELL_SPEEDUP,
    CADRE_CELL_VERDICT,
    CADRE_CELL_EFFICIENCY,
    CADRE_CELL_OVERHEAD,
    CADRE_CELL_BUBBLE,
    CADRE_CELL_EXPOSED,
    CADRE_CELL_CONTROL, /* what the run differs by from itself */
    CADRE_CELL_JOULES, /* a token */
    CADRE_CELL_MFU,
    CADRE_CELL_PRICE, /* of a million tokens */
    CADRE_CELL_LOSS,
    CADRE_CELL_VALID, /* validation loss */
    CADRE_CELL_EQUALITY,
    CADRE_CELL_FAIR,
    CADRE_CELLS,
};

struct cadre_cells {
    char of[CADRE_CELLS][CADRE_FIGURE_CHARS];
};

/* The texts of a run. `brief`: for a narrow screen, with the interval of the speedup
 * alone. Figures of an implausible run end in " !", and "-" is one that is not there.
 */
void cadre_cells_fill(const struct cadre_comparison *comparison, size_t run, bool brief,
                      struct cadre_cells *cells);

/* "time/step" and so on. Static. */
const char *cadre_cells_head(enum cadre_cell cell);

/* May the column be left out: figures that no run has? */
bool cadre_cells_is_empty(const struct cadre_comparison *comparison,
                          enum cadre_cell cell);

/* Is it a text, which stands at the left of its column? */
bool cadre_cells_is_text(enum cadre_cell cell);

/* "no difference", "faster", "slower", "not ranked", "failed", "baseline". Static. */
const char *cadre_cells_verdict(const struct cadre_comparison *comparison, size_t run);

/* May the verdict on a run's speed be shown as proven: faster or slower, and nothing
 * casts doubt on it? */
bool cadre_cells_is_shown(const struct cadre_compared_run *run);

#endif
