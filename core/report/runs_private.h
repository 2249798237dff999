/* SPDX-License-Identifier: Apache-2.0 */
/* What the forms of a report on runs share. */
#ifndef CADRE_REPORT_RUNS_PRIVATE_H
#define CADRE_REPORT_RUNS_PRIVATE_H

#include "core/report/runs.h"

enum { CADRE_RUNS_COLUMNS = 10, CADRE_RUNS_CELL = 256 };

/* The table's columns; the last two are "state" and "machine". */
extern const char *const cadre_runs_heads[CADRE_RUNS_COLUMNS];
bool cadre_runs_is_text(int column);

/* A row of it; "-" is what is not known. */
void cadre_runs_cells(const struct cadre_runs *runs, size_t i,
                      char cells[CADRE_RUNS_COLUMNS][CADRE_RUNS_CELL]);

/* An option of a run, "-" where its file has none. */
const char *cadre_runs_option(const struct cadre_runs *runs, size_t i, const char *key);

/* Of metrics.jsonl, else of the summary; NaN: unknown. */
double cadre_runs_last_loss(const struct cadre_run_data *run);
double cadre_runs_valid_loss(const struct cadre_run_data *run);

#endif
