/* SPDX-License-Identifier: Apache-2.0 */
/* A tree like /sys/class/powercap. A failure ends the test. */
#ifndef CADRE_TESTS_FAKE_POWERCAP_H
#define CADRE_TESTS_FAKE_POWERCAP_H

#include <stdint.h>

/* Write ROOT/ZONE/NAME, as in ("intel-rapl:0", "energy_uj", "12"). */
void fake_powercap_file(const char *root, const char *zone, const char *name,
                        const char *text);

/* A zone with all its files: its kind ("package-0", "core", "psys"), its counter, the
 * counter's largest value, and a power limit in uW, 0 for no such file. */
void fake_powercap_zone(const char *root, const char *zone, const char *kind,
                        uint64_t energy_uj, uint64_t range_uj, uint64_t limit_uw);

/* Set the counter of a zone. */
void fake_powercap_count(const char *root, const char *zone, uint64_t energy_uj);

#endif
