/* SPDX-License-Identifier: Apache-2.0 */
/* Whoever changes training by design names a setting under which it must not. Each such
 * run is trained once more with it, for a few steps, beside `single` with the same
 * options of the core, and a comparison of its own judges them: limits are measured for
 * that setting. Its folder is OUT/equal/NAME. */
#ifndef CADRE_COMPARE_EQUAL_H
#define CADRE_COMPARE_EQUAL_H

#include "core/compare/verdict/comparison.h"
#include "core/launch/supervise.h"

/* Fill `setting` of the runs that need one. compare.equal = no of the first run leaves
 * all out. A comparison that cannot be made is no error: `why` says so. [main, watch
 * open, no other threads] Errors: CADRE_E_STOPPED, CADRE_E_RESOURCE, CADRE_E_IO. */
cadre_status cadre_equal_settings(struct cadre_comparison *comparison, const char *out,
                                  const struct cadre_supervise_watch *watch,
                                  struct cadre_error *err);

/* The assignments of a setting, "a.b=1, c.d=2", as arguments "--set", "a.b=1", ...
 * behind argv[n]; `text` is its copy, which they point into. There is room for as many
 * as cadre_equal_most says. Returns the new n. */
size_t cadre_equal_arguments(char *text, char **argv, size_t n);
size_t cadre_equal_most(const char *text);

#endif
