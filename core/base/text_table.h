/* SPDX-License-Identifier: Apache-2.0 */
/* A table for a terminal: columns as wide as their widest cell, two blanks between
 * them. What does not fit the screen is left out, or stands below. */
#ifndef CADRE_BASE_TEXT_TABLE_H
#define CADRE_BASE_TEXT_TABLE_H

#include <stdio.h>

#include "core/base/memory.h"

struct cadre_text_table {
    size_t columns;
    const bool *is_text; /* (columns) aligned to the left, others to the right; borrowed
                          */
    const size_t *spare; /* (n_spare) columns that may be left out, the first of them
                            first; borrowed */
    size_t n_spare;
    bool wraps; /* columns that do not fit stand below, beside the first one again; none
                   is left out */
    bool rule; /* a line under the heads */
    char **cell; /* (n) row after row, the heads first; owned */
    size_t n, room;
    bool failed; /* a cell was lost for want of memory */
};

/* Add the next cell, in the order of reading; `text` is copied. [any thread] */
void cadre_text_table_add(struct cadre_text_table *table, const char *text);
void cadre_text_table_addf(struct cadre_text_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Add a whole row, such as the heads: `text` has table->columns. [any thread] */
void cadre_text_table_add_row(struct cadre_text_table *table, const char *const *text);

/* Append the table in lines of `screen` characters, if leaving out spare columns, or
 * wrapping, makes that possible; characters are counted as UTF-8. The heads of what was
 * left out are appended to `left_out`: "memory, ranks". Sets out->failed as the
 * table's. [any thread] */
void cadre_text_table_print(const struct cadre_text_table *table, int screen,
                            struct cadre_text *out, struct cadre_text *left_out);

/* The same to a file: at the width of the terminal that it is, else as wide as it gets.
 * False: there was no memory for it. Whether it was written, the file itself knows. */
bool cadre_text_table_write(const struct cadre_text_table *table, FILE *to);

/* Accepts a table without cells, and leaves one. */
void cadre_text_table_fini(struct cadre_text_table *table);

#endif
