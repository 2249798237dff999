/* SPDX-License-Identifier: Apache-2.0 */
/* The MIG instances of this machine, as NVML lists them. */
#ifndef MIG_INSTANCES_H
#define MIG_INSTANCES_H

#include <stdbool.h>
#include <stdint.h>

#include "plugins/mig/nvml.h"

#define MIG_MAX_INSTANCES 128u

/* What a process can run on: a compute instance within a GPU instance. */
struct mig_instance {
    char uuid[NVML_TEXT_BYTES]; /* "MIG-...", for CUDA_VISIBLE_DEVICES */
    char profile[64]; /* "1g.18gb"; "1c.3g.71gb" where it is a part of a GPU instance */
    char gpu_uuid[NVML_TEXT_BYTES]; /* "GPU-...", "" where unknown */
    uint32_t gpu; /* NVML's index of the GPU */
    uint32_t index; /* of the instance on its GPU, from 0 without holes */
    uint32_t gi, ci; /* ids of the GPU instance and of the compute instance */
    uint32_t sms; /* multiprocessors, 0: the driver does not say */
    uint32_t slices; /* of compute, 0: the driver does not say */
    uint64_t memory; /* bytes, 0: the driver does not say */
};

struct mig_list {
    uint32_t n;
    struct mig_instance item[MIG_MAX_INSTANCES];
    /* Where n is 0, why: no driver, no GPU, a driver or GPU without MIG, MIG is off,
     * nothing made yet, no permission. One line. */
    char reason[512];
};

/* [main] All instances, by GPU and then in NVML's order, with the sizes NVML reports.
 * Changes nothing. If the library is not open, its reason is copied. */
void mig_instances(const struct mig_library *library, struct mig_list *out);

/* The part of an NVML name after "MIG ", else all of it. Points into name. */
const char *mig_profile_name(const char *name);

/* Is MIG mode on? Else *why (static text) says: off, no MIG, or an error. */
bool mig_is_on(const struct mig_library *library, nvml_device gpu, const char **why);

#endif
