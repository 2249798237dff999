/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU in place of a GPU: equal, disjoint sets of CPUs. */
#ifndef CADRE_PLUGINS_MIG_CORESETS_H
#define CADRE_PLUGINS_MIG_CORESETS_H

#include <stdint.h>

/* Which core each of n CPUs is of: out[i] is one number for all threads of a core,
 * and cores of one package are neighbours. `sys` is /sys/devices/system/cpu. Where it
 * says nothing, every CPU is a core of its own. [any] */
void mig_coresets_read(const char *sys, const uint32_t *cpu, uint32_t n, uint64_t *out);

/* Set `index` of `sets` that n CPUs (ascending; core as mig_coresets_read gives) make,
 * into out (n). All sets have one size and follow each other in the order of cores; a
 * core is not cut where there are enough of them and all have equally many CPUs; what
 * is left over belongs to none. Returns the number of CPUs in the set, 0 where there
 * are more sets than CPUs, or no memory. [any] */
uint32_t mig_coresets_partition(const uint32_t *cpu, const uint64_t *core, uint32_t n,
                                uint32_t sets, uint32_t index, uint32_t *out);

/* "0-3,8" of n CPUs into out of `size` bytes, cut where it does not fit. [any] */
void mig_coresets_print(const uint32_t *cpu, uint32_t n, char *out, uint32_t size);

#endif
