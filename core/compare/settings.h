/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of a comparison: kept in its folder, and compared with an existing run.
 */
#ifndef CADRE_COMPARE_SETTINGS_H
#define CADRE_COMPARE_SETTINGS_H

#include <stdbool.h>

#include "core/config/options.h"

/* In the comparison's folder: what it was started with, so that it can be again. */
#define CADRE_COMPARISON_INI "comparison.ini"

/* Write OUT/comparison.ini from options as loaded, with absolute paths. [main]
 * Errors: CADRE_E_IO, CADRE_E_RESOURCE, those of cadre_resolved_paths. */
cadre_status cadre_settings_write(const struct cadre_options *options, const char *out,
                                  struct cadre_error *err);

/* Compare DIR/config.ini with `options` (resolved) in all that decides what is trained
 * and how: model, data, train and optim, the strategy with its options, seed, exact
 * mode and the link. Left out are file paths, what a launcher decides, train.steps (a
 * resumed run has its own) and, for a perturbation, the option that perturbs it. A
 * folder without the file passes. [main]
 * Errors: CADRE_E_INVALID with the key and both values, or for the folder of a
 * benchmark; CADRE_E_IO. */
cadre_status cadre_settings_check(const char *dir, const struct cadre_options *options,
                                  bool perturbed, struct cadre_error *err);

#endif
