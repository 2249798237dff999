/* SPDX-License-Identifier: Apache-2.0 */
/* What differs between independent runs: "optim.lr: 1e-3 3e-4, optim.beta2:
 * 0.95 0.99", the k-th value of each to instance k. A key with its values is as in
 * compare.vary (key_values.h). */
#ifndef CADRE_SWEEP_SWEEP_VALUES_H
#define CADRE_SWEEP_SWEEP_VALUES_H

#include <stddef.h>

#include "core/config/options.h"

struct cadre_sweep_values {
    char *name; /* of the option it comes from, "mig.sweep"; owned as all texts */
    size_t n, instances;
    char **key; /* (n) "section.key" */
    char **value; /* (n, instances) */
};

/* Parse `text`, which may be empty. Only keys of model, train and optim, run.seed, and
 * those of sections in `more` (NULL-terminated) may differ. *out is ended by fini, also
 * on failure. Errors: CADRE_E_INVALID naming the option, the part
 * and what was expected. */
cadre_status cadre_sweep_values_parse(const char *name, const char *text,
                                      size_t instances, const char *const *more,
                                      struct cadre_sweep_values *out,
                                      struct cadre_error *err);
void cadre_sweep_values_fini(struct cadre_sweep_values *sweep);

/* Set the values of instance k. Their source is the sweep's name, so errors of resolve
 * name it. Errors: as cadre_options_set. */
cadre_status cadre_sweep_values_apply(const struct cadre_sweep_values *sweep, size_t k,
                                      struct cadre_options *options,
                                      struct cadre_error *err);

#endif
