/* SPDX-License-Identifier: Apache-2.0 */
/* Joules of a rank's machine and of its GPU over a training, told apart into training
 * steps and all else. Counters are read where the part changes, and between steps when
 * the last reading is older than a second; there is no thread. Every rank has a meter;
 * counters of a machine that several ranks read are the same and are counted once
 * (core/run/energy.h). [the rank's thread] */
#ifndef CADRE_ENERGY_METER_H
#define CADRE_ENERGY_METER_H

#include "core/energy/gpu_counter.h"
#include "core/energy/powercap.h"

enum cadre_meter_part {
    CADRE_METER_OTHER, /* set-up, evaluation, checkpoints, warm-up of a benchmark */
    CADRE_METER_STEPS,
    CADRE_METER_PARTS,
};

struct cadre_meter {
    struct cadre_powercap packages;
    struct cadre_gpu_counter gpu;
    bool has_gpu;
    char pci[32]; /* its address, "" for none or unknown */
    enum cadre_meter_part part; /* the present one */
    double last_s; /* the last reading */
    int64_t steps; /* in the part of that name */
    double seconds[CADRE_METER_PARTS];
    double package_j[CADRE_METER_PARTS], gpu_j[CADRE_METER_PARTS]; /* NaN: not known */
};

/* Open the counters; `pci` is the address of the rank's GPU ("": not known), NULL: it
 * has none. powercap: as root
 * of cadre_powercap_open. now_s: cadre_now_s, as in all calls. The part is OTHER. The
 * caller ends it by close. */
void cadre_meter_open(struct cadre_meter *meter, const char *powercap, const char *pci,
                      double now_s);

/* From now on `part` runs. Work before must have ended. */
void cadre_meter_enter(struct cadre_meter *meter, enum cadre_meter_part part,
                       double now_s);

/* A step ended: it counts where the part is STEPS. */
void cadre_meter_step(struct cadre_meter *meter, double now_s);

/* Read the counters now: what was used until now is in the sums. */
void cadre_meter_read(struct cadre_meter *meter, double now_s);

/* Accepts a zeroed one. */
void cadre_meter_close(struct cadre_meter *meter);

#endif
