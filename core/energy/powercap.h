/* SPDX-License-Identifier: Apache-2.0 */
/* Energy of the processors' packages: the counters (RAPL) that Linux shows as
 * /sys/class/powercap/intel-rapl:N, also on AMD. Only packages are read: a subdomain
 * (intel-rapl:N:M: core, uncore) is a part of its package, psys contains the packages,
 * and intel-rapl-mmio:N is another way to the same counter. Memory (dram) is left out,
 * since few machines have its counter.
 *
 * A counter begins again at 0 after max_energy_range_uj. That is noticed as long as it
 * happens at most once between two readings: where the package could have gone round
 * once at twice its power limit, the energy in between is not known. [one thread] */
#ifndef CADRE_ENERGY_POWERCAP_H
#define CADRE_ENERGY_POWERCAP_H

#include <stdint.h>

enum { CADRE_POWERCAP_PACKAGES = 32, CADRE_POWERCAP_WHY = 256 };

struct cadre_powercap_package {
    int zone; /* N of intel-rapl:N */
    uint64_t range_uj; /* the largest value of the counter */
    uint64_t last_uj; /* at the last reading */
    double limit_w; /* a power that it never has for long */
};

struct cadre_powercap {
    char root[512];
    int n; /* 0: no counter can be read */
    struct cadre_powercap_package package[CADRE_POWERCAP_PACKAGES];
    double last_s; /* the last reading */
    char why[CADRE_POWERCAP_WHY]; /* of the first energy that is not known, else "" */
};

/* Find the packages and read their counters for the first time. root: the folder in the
 * place of /sys/class/powercap; NULL: that which CADRE_POWERCAP names, else it. now_s:
 * the clock, as in the next function. Where one of the packages cannot be read, none
 * is: n is 0 and `why` says what and why in one line. */
void cadre_powercap_open(struct cadre_powercap *powercap, const char *root,
                         double now_s);

/* Joules of all packages since the last reading; NaN where not known, and `why` has the
 * first reason. */
double cadre_powercap_read(struct cadre_powercap *powercap, double now_s);

#endif
