/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of a hardware file, for what reads and what changes them. */
#ifndef CADRE_PLAN_HARDWARE_PRIVATE_H
#define CADRE_PLAN_HARDWARE_PRIVATE_H

#include <stddef.h>
#include <stdio.h>

#include "core/plan/hardware.h"

enum cadre_hardware_value {
    CADRE_HARDWARE_NUMBER,
    CADRE_HARDWARE_COUNT,
    CADRE_HARDWARE_SWITCH,
    CADRE_HARDWARE_ACCOUNTING,
    CADRE_HARDWARE_TEXT,
    CADRE_HARDWARE_ATTENTION,
    CADRE_HARDWARE_SAID, /* read elsewhere */
};

/* `least` < value <= `most`, or from `least` on where `closed`. */
struct cadre_hardware_key {
    const char *section, *key;
    enum cadre_hardware_value value;
    size_t field; /* in struct cadre_hardware */
    double least, most;
    bool closed, needed;
};

extern const struct cadre_hardware_key cadre_hardware_keys[];
extern const int cadre_hardware_keys_n;

#endif
