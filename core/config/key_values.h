/* SPDX-License-Identifier: Apache-2.0 */
/* One key of a sweep and its values: "optim.lr: 1e-3 3e-4". compare.vary multiplies
 * such keys, a plugin's sweep (`mig.sweep`) gives the k-th value to instance k. */
#ifndef CADRE_CONFIG_KEY_VALUES_H
#define CADRE_CONFIG_KEY_VALUES_H

#include <stddef.h>

#include "core/base/error.h"

/* Owned texts. */
struct cadre_key_values {
    char *key; /* "section.key", as it was written */
    char **value;
    size_t n; /* values; may be 0 */
};

/* Parse `text`. Values are divided by '|' if there is one, else by blanks, so that a
 * value with blanks needs a '|' in front or behind. name: the option that it comes
 * from. *out is ended by fini, also on failure. [any thread] Errors: CADRE_E_INVALID
 * for a text without section.key: and for nothing between two '|'; CADRE_E_RESOURCE. */
cadre_status cadre_key_values_parse(const char *name, const char *text,
                                    struct cadre_key_values *out,
                                    struct cadre_error *err);

/* Accepts a zeroed one. */
void cadre_key_values_fini(struct cadre_key_values *values);

#endif
