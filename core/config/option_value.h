/* SPDX-License-Identifier: Apache-2.0 */
/* One option's text, read strictly. */
#ifndef CADRE_CONFIG_OPTION_VALUE_H
#define CADRE_CONFIG_OPTION_VALUE_H

#include "core/base/memory.h"
#include "core/config/options.h"

/* Entry i of a table whose entries are `stride` bytes apart: one that was built for
 * another minor of the ABI has shorter or longer ones. */
struct cadre_option cadre_option_at(const struct cadre_option *table, size_t i,
                                    size_t stride);

/* Read `text` as an option of a section says: BOOL yes, no, true, false, on, off, 1, 0;
 * I64 and F64 decimal and finite, without leading zeros; BYTES 4096, 64k, 25M, 1G, 2T,
 * powers of 1024. *out is written on success and borrows `text`. The error text is
 * "section.key: expected ..., found '...'". Errors: CADRE_E_INVALID. [any thread] */
cadre_status cadre_option_parse(const char *section, const struct cadre_option *option,
                                const char *text, struct cadre_option_value *out,
                                struct cadre_error *err);

/* Append what a value may be: "a whole number from 1 to 64", "one of fp32, fp64". */
void cadre_option_describe(const struct cadre_option *option, struct cadre_text *out);

#endif
