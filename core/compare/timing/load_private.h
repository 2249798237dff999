/* SPDX-License-Identifier: Apache-2.0 */
/* load.h with the machine's files below another folder, for its test. */
#ifndef CADRE_COMPARE_TIMING_LOAD_PRIVATE_H
#define CADRE_COMPARE_TIMING_LOAD_PRIVATE_H

#include "core/compare/timing/load.h"

/* As cadre_load_begin and cadre_load_end, reading `root`/proc and `root`/sys; "" is the
 * machine itself. [one thread] */
void cadre_load_begin_below(const char *root, struct cadre_load_counters *begin);
void cadre_load_end_below(const char *root, const struct cadre_load_counters *begin,
                          bool gpu, struct cadre_load *out);

#endif
