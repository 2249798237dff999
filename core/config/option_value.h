/* SPDX-License-Identifier: Apache-2.0 */
/* One option's text, read strictly. */
#ifndef CADRE_CONFIG_OPTION_VALUE_H
#define CADRE_CONFIG_OPTION_VALUE_H

#include "core/base/memory.h"
#include "core/config/options.h"

union cadre_option_parsed {
    bool b;
    int64_t i; /* I64, BYTES */
    double f;
};

/* Read `text` as spec says. *out is written on success (left alone for STR and ENUM).
 * The error text is "section.key: expected ..., found '...'". Errors: CADRE_E_INVALID.
 * [any thread] */
cadre_status cadre_option_parse(const struct cadre_option_spec *spec, const char *text,
                                union cadre_option_parsed *out,
                                struct cadre_error *err);

/* Append what a value may be: "a whole number from 1 to 64", "one of fp32, fp64". */
void cadre_option_describe(const struct cadre_option_spec *spec,
                           struct cadre_text *out);

#endif
