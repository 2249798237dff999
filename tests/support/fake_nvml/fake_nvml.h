/* SPDX-License-Identifier: Apache-2.0 */
/* The machine that the stand-in of NVML shows. */
#ifndef FAKE_NVML_H
#define FAKE_NVML_H

#include "plugins/mig/nvml.h"
#include "tests/support/fake_nvml/layouts.h"

#define FAKE_GPUS 4
#define FAKE_SLOTS 8

/* A GPU instance from memory slice `slot` on, or a MIG device, or a compute instance:
 * NVML's three kinds of handles point to it. slot -1 is the GPU itself. */
struct nvml_device {
    int gpu, slot;
};
struct nvml_gi {
    int gpu, slot;
    const struct fake_profile *profile; /* NULL: nothing begins here */
};
struct nvml_ci {
    int gpu, slot, made;
};

struct fake_gpu {
    const struct fake_layout *layout;
    int on, pending, nomig, noperm, sealed, holes, busy, reset;
    struct nvml_device device, mig[FAKE_SLOTS];
    struct nvml_gi gi[FAKE_SLOTS];
    struct nvml_ci ci[FAKE_SLOTS];
};

struct fake_machine {
    int n;
    struct fake_gpu gpu[FAKE_GPUS];
    int calls[4]; /* of what CADRE_FAKE_NVML_FAULT counts */
};

/* Read the state's file, else CADRE_FAKE_NVML. Ends the program where it makes no
 * sense: a test is wrong. */
void fake_machine_read(struct fake_machine *machine);

/* Write the state's file, where there is one. */
void fake_machine_write(const struct fake_machine *machine);

/* Is this the call of that kind ("gi=", "ci=", "undo=", "gone=") that must fail? */
int fake_machine_fails(struct fake_machine *machine, int kind);

/* Bits of the memory slices that are taken on a GPU. */
unsigned fake_gpu_taken(const struct fake_gpu *gpu);

/* Compute slices that are taken on a GPU. */
unsigned fake_gpu_slices(const struct fake_gpu *gpu);

#endif
