/* SPDX-License-Identifier: Apache-2.0 */
/* The results for people and for other programs. Each of them has the same checks, in
 * the order of the catalogue, and only those that were chosen. */
#ifndef CADRE_CHECK_REPORT_H
#define CADRE_CHECK_REPORT_H

#include <stdio.h>

#include "core/base/memory.h"
#include "core/check/result.h"

/* TAP 14, line by line as checks end: head, one for each check (number from 1), end.
 * What is unsupported or refused is a skip, what is waived a known failure. */
void cadre_tap_begin(FILE *file, size_t n);
void cadre_tap_put(FILE *file, size_t number, const struct cadre_check_results *results,
                   const struct cadre_check_result *result);
void cadre_tap_end(FILE *file, const struct cadre_check_results *results);

/* Whole documents, at the end of `out`. */
void cadre_check_results_json(const struct cadre_check_results *results,
                              struct cadre_text *out);
void cadre_check_results_junit(const struct cadre_check_results *results,
                               struct cadre_text *out);
void cadre_check_results_html(const struct cadre_check_results *results,
                              struct cadre_text *out);

/* Write a document to `path`. Errors: CADRE_E_IO, CADRE_E_RESOURCE. */
cadre_status cadre_check_results_write(
    const struct cadre_check_results *results,
    void (*document)(const struct cadre_check_results *, struct cadre_text *),
    const char *path, struct cadre_error *err);

/* Text as XML has it: markup escaped, control bytes but line breaks left out, U+FFFD
 * for what is no UTF-8. */
void cadre_xml_put(struct cadre_text *out, const char *text);

#endif
