/* SPDX-License-Identifier: Apache-2.0 */
/* Heartbeats in place of text, for `cadre generate`: what a model of data.format = wfdb
 * and data.task = foundation continues, and how it is printed. */
#ifndef CADRE_CLI_GENERATE_ECG_H
#define CADRE_CLI_GENERATE_ECG_H

#include <stddef.h>

#include "core/run/spec.h"

/* The first half of the validation window that `prompt` numbers from 0 (NULL, "": the
 * first one), with room for `more` tokens behind it. `spec` has its data open. The
 * caller frees *ids. Errors: CADRE_E_INVALID no such window, CADRE_E_RESOURCE. */
cadre_status cadre_generate_ecg_prompt(const struct cadre_spec *spec,
                                       const char *prompt, size_t more, int32_t **ids,
                                       size_t *n, struct cadre_error *err);

/* Print a token as a line: millivolts, the middle of its level. Errors: CADRE_E_IO. */
cadre_status cadre_generate_ecg_put(const struct cadre_spec *spec, int32_t token,
                                    struct cadre_error *err);

#endif
