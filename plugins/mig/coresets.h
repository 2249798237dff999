/* SPDX-License-Identifier: Apache-2.0 */
/* Core sets: disjoint sets of CPUs, in place of MIG instances. */
#ifndef CADRE_PLUGINS_MIG_CORESETS_H
#define CADRE_PLUGINS_MIG_CORESETS_H

#include <stdint.h>

/* [any] The core of each of n CPUs: out[i] is one number for all hardware threads of a
 * core, and cores of one package are adjacent. `sys` is /sys/devices/system/cpu. A CPU
 * that it does not describe is a core of its own. */
void mig_coresets_read(const char *sys, const uint32_t *cpu, uint32_t n, uint64_t *out);

/* [any] Writes set `index` of `sets` sets of n CPUs (ascending; core from
 * mig_coresets_read) to out (n). Sets are contiguous in the order of cores, and their
 * numbers of CPUs are as `size` (sets, each at least 1; NULL: all alike). A core is not
 * divided if there are enough cores with equally many CPUs; the rest belongs to no set.
 * Returns the number of CPUs in the set; 0: the sum of the sizes is more than there are
 * CPUs, or no memory. */
uint32_t mig_coresets_partition(const uint32_t *cpu, const uint64_t *core, uint32_t n,
                                uint32_t sets, const uint32_t *size, uint32_t index,
                                uint32_t *out);

/* [any] "0-3,8" of n CPUs into out of `size` bytes, truncated if too long. */
void mig_coresets_print(const uint32_t *cpu, uint32_t n, char *out, uint32_t size);

#endif
