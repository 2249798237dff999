/* SPDX-License-Identifier: Apache-2.0 */
/* The machine that a comparison ran on. [any thread] */
#ifndef CADRE_COMPARE_VERDICT_MACHINE_H
#define CADRE_COMPARE_VERDICT_MACHINE_H

#include <stddef.h>

#include "core/base/memory.h"

/* The processor's name as the kernel gives it, "unknown" where it gives none; returns
 * out. */
const char *cadre_machine_cpu(char *out, size_t size);

/* Append what decides the bits of a result besides Cadre's own code: instruction set
 * and libraries, in one line without a break. */
void cadre_machine_libraries(struct cadre_text *out);

#endif
