/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a simulated device: address space that is reserved and never committed, so
 * that any number of bytes can be asked for. It reads as zeros; what is written into it
 * takes real memory until it is released. [one thread at a time] */
#ifndef CADRE_SIMULATE_RESERVE_H
#define CADRE_SIMULATE_RESERVE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/error.h"

struct cadre_reserve;

/* Reserve `bytes` of address space. Errors: CADRE_E_RESOURCE where the system does not
 * give so much (ulimit -v, vm.overcommit_memory = 2). */
cadre_status cadre_reserve_open(size_t bytes, struct cadre_reserve **out,
                                struct cadre_error *err);
/* Accepts NULL; blocks that are left go with it. */
void cadre_reserve_close(struct cadre_reserve *reserve);

/* A block at the begin of a page; NULL where there is no room. The first that fits. */
void *cadre_reserve_alloc(struct cadre_reserve *reserve, size_t bytes);
/* Accepts NULL. */
void cadre_reserve_free(struct cadre_reserve *reserve, void *block);

/* Does the address lie in it? */
bool cadre_reserve_holds(const struct cadre_reserve *reserve, const void *address);

/* [from, from + bytes), which it holds, reads as zeros again. */
void cadre_reserve_clear(const struct cadre_reserve *reserve, void *from, size_t bytes);

/* [from, from + bytes) of any memory reads as zeros. Pages that do already are not
 * written: memory that nobody has written yet is not committed. */
void cadre_reserve_zero(void *from, size_t bytes);

#endif
