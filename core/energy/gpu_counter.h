/* SPDX-License-Identifier: Apache-2.0 */
/* The energy counter of one GPU: NVML's nvmlDeviceGetTotalEnergyConsumption, of the
 * whole board since its driver was loaded, which does not begin again. The library is
 * the driver's libnvidia-ml.so.1, or the file that CADRE_NVML names. On a GPU with MIG
 * it is the energy of the GPU, not of an instance: NVML has none of those. [one thread]
 */
#ifndef CADRE_ENERGY_GPU_COUNTER_H
#define CADRE_ENERGY_GPU_COUNTER_H

#include <stdbool.h>

enum { CADRE_GPU_COUNTER_WHY = 256 };

struct cadre_nvml_functions;

struct cadre_gpu_counter {
    void *library; /* NULL: none, and nothing is known */
    struct cadre_nvml_functions *nvml; /* owned */
    void *gpu; /* NVML's handle */
    unsigned long long last_mj; /* at the last reading */
    bool mig; /* MIG mode is on */
    char
        why[CADRE_GPU_COUNTER_WHY]; /* of the first energy that is not known, else "" */
};

/* Open the counter of the GPU at the PCI address `pci` ("0000:65:00.0"; "" is none) and
 * read it for the first time. The caller ends it by close in any case. */
void cadre_gpu_counter_open(struct cadre_gpu_counter *counter, const char *pci);

/* Joules since the last reading; NaN where not known, and `why` has the first reason.
 */
double cadre_gpu_counter_read(struct cadre_gpu_counter *counter);

/* Accepts a zeroed one. */
void cadre_gpu_counter_close(struct cadre_gpu_counter *counter);

#endif
