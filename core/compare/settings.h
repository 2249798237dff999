/* SPDX-License-Identifier: Apache-2.0 */
/* Was a run that is there made with the settings that a comparison has now? */
#ifndef CADRE_COMPARE_SETTINGS_H
#define CADRE_COMPARE_SETTINGS_H

#include <stdbool.h>

#include "core/config/options.h"

/* The same text, or the same number: 0.001 and 1e-3 are; so are yes and on, but those
 * two are rare enough to be spelt alike. */
bool cadre_settings_same(const char *a, const char *b);

/* Hold DIR/config.ini against `options` (resolved), in all that decides what is trained
 * and how: model, data, train and optim, the strategy with its options, seed, exact
 * mode and the link. Left out are places of files, what a launcher decides, train.steps
 * (a resumed run has its own) and, for a run that is rounded otherwise, what makes it
 * so. A folder without the file is not held against anything. [main]
 * Errors: CADRE_E_INVALID with the key and both values; CADRE_E_IO. */
cadre_status cadre_settings_check(const char *dir, const struct cadre_options *options,
                                  bool perturbed, struct cadre_error *err);

#endif
