/* SPDX-License-Identifier: Apache-2.0 */
/* A table in a text: a line of column names, then rows, fields between commas (or, in a
 * .tsv, tabs), quotes around a field that has one. */
#ifndef CADRE_PLAN_CSV_H
#define CADRE_PLAN_CSV_H

#include <stddef.h>

#include "core/base/error.h"

struct cadre_csv {
    char *text; /* the fields' bytes */
    char **field; /* (rows + 1) x columns; the names first */
    int *line; /* of each row in the file */
    int *fields; /* that each row has there; `columns`, unless it is ragged */
    size_t columns, rows;
};

/* Lines that are empty or begin with # are left out, as is a byte order mark. *csv is
 * the caller's (fini), empty on failure. Errors: CADRE_E_INVALID with "file:line: ...",
 * also for a file that cannot be read; CADRE_E_RESOURCE. [any thread] */
cadre_status cadre_csv_load(struct cadre_csv *csv, const char *path, char separator,
                            struct cadre_error *err);

/* The same, but a row with another number of fields than the names is kept: what it
 * lacks is empty, what it has too much is left out, and `fields` says so. [any thread]
 */
cadre_status cadre_csv_load_ragged(struct cadre_csv *csv, const char *path,
                                   char separator, struct cadre_error *err);
void cadre_csv_fini(struct cadre_csv *csv);

/* The column with this name, -1 for none. */
int cadre_csv_column(const struct cadre_csv *csv, const char *name);

/* The field of a row; "" for column -1. */
const char *cadre_csv_at(const struct cadre_csv *csv, size_t row, int column);

#endif
