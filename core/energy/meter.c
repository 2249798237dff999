/* SPDX-License-Identifier: Apache-2.0 */
#include "core/energy/meter.h"

#include <stdio.h>
#include <string.h>

#define EVERY_S 1.0 /* between two readings while steps run */

void cadre_meter_open(struct cadre_meter *meter, const char *powercap, const char *pci,
                      double now_s)
{
    memset(meter, 0, sizeof *meter);
    cadre_powercap_open(&meter->packages, powercap, now_s);
    meter->has_gpu = pci != NULL;
    if (pci) {
        snprintf(meter->pci, sizeof meter->pci, "%s", pci);
        cadre_gpu_counter_open(&meter->gpu, pci);
    }
    meter->last_s = now_s;
}

void cadre_meter_read(struct cadre_meter *meter, double now_s)
{
    meter->seconds[meter->part] += now_s - meter->last_s;
    meter->package_j[meter->part] += cadre_powercap_read(&meter->packages, now_s);
    if (meter->has_gpu)
        meter->gpu_j[meter->part] += cadre_gpu_counter_read(&meter->gpu);
    meter->last_s = now_s;
}

void cadre_meter_enter(struct cadre_meter *meter, enum cadre_meter_part part,
                       double now_s)
{
    if (part == meter->part)
        return;
    cadre_meter_read(meter, now_s);
    meter->part = part;
}

void cadre_meter_step(struct cadre_meter *meter, double now_s)
{
    meter->steps += meter->part == CADRE_METER_STEPS;
    if (now_s - meter->last_s >= EVERY_S)
        cadre_meter_read(meter, now_s);
}

void cadre_meter_close(struct cadre_meter *meter)
{
    cadre_gpu_counter_close(&meter->gpu);
}
