/* SPDX-License-Identifier: Apache-2.0 */
/* Text for people: as wide as their terminal. */
#ifndef CADRE_BASE_TERMINAL_H
#define CADRE_BASE_TERMINAL_H

#include <stdio.h>

#include "core/base/memory.h"

/* COLUMNS of the environment where it is a number from 20 to 500, else the columns of
 * the terminal that `fd` is, else 80. */
int cadre_terminal_columns(int fd);

/* Where lines to `fd` are broken: at the columns of the terminal that it is, else
 * nowhere (0), as scripts read a line. */
int cadre_terminal_break(int fd);

/* Append `text` in lines of at most `columns` characters (0: any number), broken at
 * blanks; a word that is longer stands on a line of its own. The first line begins with
 * `first`, the others are indented by `indent` blanks. Characters are counted as UTF-8.
 * A "\n" in the text begins a new line. */
void cadre_terminal_wrap(struct cadre_text *out, const char *first, int indent,
                         const char *text, int columns);

/* Write `text` to a file: wrapped where that is a terminal, else as one line. False: it
 * could not be written. */
bool cadre_terminal_write(FILE *to, const char *first, int indent, const char *text);

/* The same of a formatted text without a beginning of its own. */
bool cadre_terminal_printf(FILE *to, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
