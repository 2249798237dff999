/* SPDX-License-Identifier: Apache-2.0 */
/* Runs beside each other as texts: for a terminal, as report.md and as report.csv. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/terminal.h"
#include "core/base/text_table.h"
#include "core/page/build.h"
#include "core/page/escape.h"
#include "core/report/runs_private.h"
#include "core/run/format.h"

/* ---- cells ---- */

const char *const cadre_runs_heads[CADRE_RUNS_COLUMNS] = {
    "run",       "strategy",        "ranks",  "time/step", "tokens/s",
    "last loss", "validation loss", "memory", "state",     "machine"};

bool cadre_runs_is_text(int column)
{
    return column <= 1 || column >= CADRE_RUNS_COLUMNS - 2;
}

static void put_loss(double loss, char *out)
{
    if (isfinite(loss))
        snprintf(out, CADRE_RUNS_CELL, "%.4f", loss);
    else
        snprintf(out, CADRE_RUNS_CELL, "-");
}

static void put_spread(const struct cadre_run_spread *spread, char *out)
{
    char median[32], low[32], high[32];
    cadre_format_seconds(spread->median, median, sizeof median);
    if (spread->n > 1)
        snprintf(out, CADRE_RUNS_CELL, "%s [%s, %s]", median,
                 cadre_format_seconds(spread->low, low, sizeof low),
                 cadre_format_seconds(spread->high, high, sizeof high));
    else
        snprintf(out, CADRE_RUNS_CELL, "%s", median);
}

double cadre_runs_last_loss(const struct cadre_run_data *run)
{
    return run->steps ? run->loss[run->steps - 1]
                      : cadre_run_data_number(run, "loss_last");
}

double cadre_runs_valid_loss(const struct cadre_run_data *run)
{
    return isfinite(run->last_valid) ? run->last_valid
                                     : cadre_run_data_number(run, "valid_loss");
}

void cadre_runs_cells(const struct cadre_runs *runs, size_t i,
                      char cells[CADRE_RUNS_COLUMNS][CADRE_RUNS_CELL])
{
    enum { SIZE = CADRE_RUNS_CELL };
    const struct cadre_run_data *run = runs->run[i];
    const char *stack = cadre_run_data_option(run, "strategy.stack");
    int k = 0;
    snprintf(cells[k++], SIZE, "%s", runs->name[i]);
    snprintf(cells[k++], SIZE, "%s", stack ? stack : "-");
    cadre_format_count(cadre_run_data_number(run, "ranks"), cells[k++], SIZE);
    put_spread(&run->step_s, cells[k++]);
    cadre_format_count(cadre_run_data_number(run, "tokens_per_s"), cells[k++], SIZE);
    put_loss(cadre_runs_last_loss(run), cells[k++]);
    put_loss(cadre_runs_valid_loss(run), cells[k++]);
    cadre_format_bytes(cadre_run_data_largest(run, "peak_bytes"), cells[k++], SIZE);
    cadre_run_data_state(run, cells[k++], SIZE);
    cadre_run_data_machine(run, cells[k], SIZE);
}

const char *cadre_runs_option(const struct cadre_runs *runs, size_t i, const char *key)
{
    const char *value = cadre_run_data_option(runs->run[i], key);
    return value ? value : "-";
}

/* ---- terminal ---- */

/* The last column, the machine, is in the notes where it matters. */
enum { SHOWN = CADRE_RUNS_COLUMNS - 1 };

/* Columns that do not fit are left out, and named in `words`. */
static void put_runs(const struct cadre_runs *runs, int columns, struct cadre_text *out,
                     struct cadre_text *words)
{
    static const size_t spare[] = {2, 7, 4, 6, 1, 5}; /* the first to go first */
    char cells[CADRE_RUNS_COLUMNS][CADRE_RUNS_CELL];
    bool is_text[SHOWN];
    struct cadre_text left_out = {0};
    struct cadre_text_table table = {.columns = SHOWN,
                                     .is_text = is_text,
                                     .spare = spare,
                                     .n_spare = sizeof spare / sizeof spare[0]};
    for (int k = 0; k < SHOWN; k++) {
        is_text[k] = cadre_runs_is_text(k);
        cadre_text_table_add(&table, cadre_runs_heads[k]);
    }
    for (size_t i = 0; i < runs->n; i++) {
        cadre_runs_cells(runs, i, cells);
        for (int k = 0; k < SHOWN; k++)
            cadre_text_table_add(&table, cells[k]);
    }
    cadre_text_table_print(&table, columns, out, &left_out);
    if (left_out.len)
        cadre_text_printf(words, "Left out for width: %s\n", cadre_text_str(&left_out));
    out->failed = out->failed || left_out.failed;
    cadre_text_fini(&left_out);
    cadre_text_table_fini(&table);
}

/* A row an option. No run is left out: its values are nowhere else on the screen. */
static void put_options(const struct cadre_runs *runs, int columns,
                        struct cadre_text *out)
{
    const struct cadre_options_diff *diff = &runs->diff;
    struct cadre_text_table table = {.columns = runs->n + 1, .wraps = true};
    struct cadre_text none = {0};
    bool *is_text = cadre_calloc(table.columns, sizeof *is_text);
    out->failed = out->failed || !is_text;
    if (diff->n == 0 || !is_text) {
        free(is_text);
        return;
    }
    memset(is_text, true, table.columns * sizeof *is_text);
    table.is_text = is_text;
    cadre_text_table_add(&table, "option");
    for (size_t i = 0; i < runs->n; i++)
        cadre_text_table_add(&table, runs->name[i]);
    for (size_t k = 0; k < diff->n; k++) {
        cadre_text_table_add(&table, diff->key[k]);
        for (size_t i = 0; i < runs->n; i++)
            cadre_text_table_add(&table, cadre_runs_option(runs, i, diff->key[k]));
    }
    cadre_text_table_print(&table, columns, out, &none);
    cadre_text_append(out, "\n", 1);
    cadre_text_table_fini(&table);
    free(is_text);
}

void cadre_runs_table(const struct cadre_runs *runs, int columns,
                      struct cadre_text *out)
{
    struct cadre_text words = {0};
    put_runs(runs, columns, out, &words);
    cadre_text_append(out, "\n", 1);
    put_options(runs, columns, out);
    cadre_text_printf(&words, "time/step: median of the steps after warm-up, in "
                              "brackets the middle half\n");
    cadre_runs_notes(runs, &words);
    if (runs->n > 1)
        cadre_text_printf(&words, CADRE_RUNS_NOT_RANKED "\n");
    if (words.len)
        words.data[--words.len] = '\0'; /* the last line is ended like the others */
    cadre_terminal_wrap(out, "", 0, cadre_text_str(&words), columns);
    out->failed = out->failed || words.failed;
    cadre_text_fini(&words);
}

/* ---- report.md ---- */

static void put_markdown(struct cadre_text *out, const char *text)
{
    cadre_text_append(out, " ", 1);
    cadre_escape_markdown(out, text);
    cadre_text_append(out, " |", 2);
}

static void put_list(struct cadre_text *out, char *lines)
{
    char *rest = NULL;
    for (char *line = lines ? strtok_r(lines, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest)) {
        cadre_text_append(out, "- ", 2);
        cadre_escape_markdown(out, line);
        cadre_text_append(out, "\n", 1);
    }
}

static void put_markdown_options(const struct cadre_runs *runs, struct cadre_text *out)
{
    if (runs->diff.n == 0)
        return;
    cadre_text_printf(out, "\n## What differs in the options\n\n| option |");
    for (size_t i = 0; i < runs->n; i++)
        put_markdown(out, runs->name[i]);
    cadre_text_printf(out, "\n| --- |");
    for (size_t i = 0; i < runs->n; i++)
        cadre_text_printf(out, " --- |");
    for (size_t k = 0; k < runs->diff.n; k++) {
        cadre_text_printf(out, "\n|");
        put_markdown(out, runs->diff.key[k]);
        for (size_t i = 0; i < runs->n; i++)
            put_markdown(out, cadre_runs_option(runs, i, runs->diff.key[k]));
    }
    cadre_text_append(out, "\n", 1);
}

void cadre_runs_markdown(const struct cadre_runs *runs, struct cadre_text *out)
{
    char cells[CADRE_RUNS_COLUMNS][CADRE_RUNS_CELL];
    struct cadre_text notes = {0};
    cadre_text_printf(out, "# Runs\n\n%s\n\n", cadre_page_build());
    cadre_escape_markdown_code(out, runs->command);
    cadre_text_append(out, "|", 1);
    for (int k = 0; k < CADRE_RUNS_COLUMNS; k++)
        cadre_text_printf(out, " %s |", cadre_runs_heads[k]);
    cadre_text_printf(out, "\n|");
    for (int k = 0; k < CADRE_RUNS_COLUMNS; k++)
        cadre_text_printf(out, "%s", cadre_runs_is_text(k) ? " --- |" : " ---: |");
    for (size_t i = 0; i < runs->n; i++) {
        cadre_runs_cells(runs, i, cells);
        cadre_text_printf(out, "\n|");
        for (int k = 0; k < CADRE_RUNS_COLUMNS; k++)
            put_markdown(out, cells[k]);
    }
    cadre_text_printf(out, "\n\nTime of a step: median of the steps after warm-up, in "
                           "brackets the middle half.\n");
    put_markdown_options(runs, out);
    cadre_text_printf(out, "\n## Notes\n\n");
    if (runs->n > 1)
        cadre_text_printf(out, "- " CADRE_RUNS_NOT_RANKED "\n");
    cadre_runs_notes(runs, &notes);
    put_list(out, notes.data);
    out->failed = out->failed || notes.failed;
    cadre_text_fini(&notes);
}

/* ---- report.csv ---- */

static void put_csv_number(struct cadre_text *out, double value)
{
    if (isfinite(value))
        cadre_text_printf(out, ",%.17g", value);
    else
        cadre_text_append(out, ",", 1);
}

static void put_csv_text(struct cadre_text *out, const char *text)
{
    cadre_text_append(out, ",", 1);
    cadre_escape_csv(out, text ? text : "");
}

static void put_csv_run(const struct cadre_runs *runs, size_t i, struct cadre_text *out)
{
    const struct cadre_run_data *run = runs->run[i];
    char text[256];
    const double numbers[] = {
        cadre_run_data_number(run, "ranks"),
        run->steps ? (double)run->last_step : (double)NAN,
        cadre_run_data_number(run, "tokens"),
        run->step_s.median,
        run->step_s.low,
        run->step_s.high,
        cadre_run_data_number(run, "tokens_per_s"),
        cadre_runs_last_loss(run),
        cadre_runs_valid_loss(run),
        run->best_valid,
        cadre_run_data_largest(run, "peak_bytes"),
        cadre_run_data_number(run, "params"),
    };
    cadre_escape_csv(out, runs->name[i]);
    put_csv_text(out, run->dir);
    put_csv_text(out, cadre_run_data_state(run, text, sizeof text));
    put_csv_text(out, cadre_run_data_option(run, "strategy.stack"));
    for (size_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++)
        put_csv_number(out, numbers[k]);
    put_csv_text(out, cadre_run_data_machine(run, text, sizeof text));
    for (size_t k = 0; k < runs->diff.n; k++)
        put_csv_text(out, cadre_run_data_option(run, runs->diff.key[k]));
    cadre_text_append(out, "\r\n", 2);
}

void cadre_runs_csv(const struct cadre_runs *runs, struct cadre_text *out)
{
    cadre_text_printf(
        out, "name,folder,state,stack,ranks,last_step,tokens,step_s,step_s_low,"
             "step_s_high,tokens_per_s,loss_last,valid_loss,valid_loss_best,"
             "peak_bytes,params,machine");
    for (size_t k = 0; k < runs->diff.n; k++)
        put_csv_text(out, runs->diff.key[k]);
    cadre_text_append(out, "\r\n", 2);
    for (size_t i = 0; i < runs->n; i++)
        put_csv_run(runs, i, out);
}
