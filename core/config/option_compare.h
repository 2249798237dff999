/* SPDX-License-Identifier: Apache-2.0 */
/* Options of two runs beside each other. [any thread] */
#ifndef CADRE_CONFIG_OPTION_COMPARE_H
#define CADRE_CONFIG_OPTION_COMPARE_H

#include <stdbool.h>

/* The same text or the same number, such as 0.001 and 1e-3. Not yes and on, which are
 * rarely mixed. */
bool cadre_option_same(const char *a, const char *b);

/* Does the key decide how training is distributed, and not what is trained? Sections
 * that are not the core's are plugins'. */
bool cadre_option_is_layout(const char *section, const char *key);

#endif
