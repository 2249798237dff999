/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks do in the tests, the same as threads and as processes. Each case checks
 * its own results against sequential references, prints the first difference on stderr
 * and returns CADRE_E_DIFFERS. */
#ifndef CADRE_TESTS_COMM_CASES_H
#define CADRE_TESTS_COMM_CASES_H

#include "core/comm/launch.h"

/* A case by name, NULL for none. `arg` is a NUL-terminated seed or parameter. */
cadre_rank_main comm_case(const char *name);

#endif
