/* SPDX-License-Identifier: Apache-2.0 */
/* Core sets: equal, disjoint sets of CPUs, in place of MIG instances. */
#ifndef CADRE_PLUGINS_MIG_CORESETS_H
#define CADRE_PLUGINS_MIG_CORESETS_H

#include <stdint.h>

/* [any] The core of each of n CPUs: out[i] is one number for all hardware threads of a
 * core, and cores of one package are adjacent. `sys` is /sys/devices/system/cpu. A CPU
 * that it does not describe is a core of its own. */
void mig_coresets_read(const char *sys, const uint32_t *cpu, uint32_t n, uint64_t *out);

/* [any] Writes set `index` of `sets` sets of n CPUs (ascending; core from
 * mig_coresets_read) to out (n). All sets have one size and are contiguous in the order
 * of cores. A core is not divided if there are enough cores with equally many CPUs; the
 * rest belongs to no set. Returns the number of CPUs in the set; 0: there are more sets
 * than CPUs, or no memory. */
uint32_t mig_coresets_partition(const uint32_t *cpu, const uint64_t *core, uint32_t n,
                                uint32_t sets, uint32_t index, uint32_t *out);

/* [any] "0-3,8" of n CPUs into out of `size` bytes, truncated if too long. */
void mig_coresets_print(const uint32_t *cpu, uint32_t n, char *out, uint32_t size);

#endif
