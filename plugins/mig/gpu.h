/* SPDX-License-Identifier: Apache-2.0 */
/* The MIG layout of a GPU by NVML: profiles, their possible places, what is taken. */
#ifndef MIG_GPU_H
#define MIG_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plugins/mig/nvml.h"

#define MIG_MAX_PROFILES NVML_GI_PROFILES
#define MIG_MAX_PLACES 32u
#define MIG_MAX_SLICES 64u /* memory slices; boards have 8 */

/* Memory slices [start, start + size). */
struct mig_span {
    uint32_t start, size;
};

/* A GPU instance profile. Nothing of it is derived from the name. */
struct mig_profile {
    char name[64]; /* "1g.18gb", "1g.18gb+me" */
    uint32_t id; /* for NVML's other functions */
    uint32_t slices; /* of compute */
    uint32_t instances; /* at most on an empty GPU */
    uint32_t remaining; /* more of them that fit now */
    uint32_t sms; /* multiprocessors */
    uint64_t memory; /* bytes */
    uint32_t n_places; /* possible places, taken or not, ascending */
    struct mig_span place[MIG_MAX_PLACES];
};

/* A GPU instance that exists. */
struct mig_taken {
    uint32_t profile; /* of the GPU's list */
    uint32_t id;
    struct mig_span at;
    nvml_gi handle;
};

struct mig_gpu {
    nvml_device device;
    uint32_t index;
    char name[NVML_TEXT_BYTES], uuid[NVML_TEXT_BYTES];
    uint64_t memory; /* bytes, 0: unknown */
    bool on; /* MIG mode */
    bool may_turn_on; /* MIG is off, and no reset is due */
    char mode[64]; /* if not on: the reason */
    uint32_t n_profiles;
    struct mig_profile profile[MIG_MAX_PROFILES];
    /* Why places and taken slices are not known, "" where they are; most drivers report
     * them only to an administrator. */
    char reason[256];
    uint32_t n_taken;
    struct mig_taken taken[MIG_MAX_SLICES];
    uint32_t slices; /* compute slices in all: those of the largest profile */
    uint32_t end; /* memory slices in all: where the last place ends */
};

/* GPUs that the driver shows; 0 where the library is not open. [main] */
uint32_t mig_gpu_count(const struct mig_library *library);

/* [main] Fill *out for GPU `index` of an open library; what NVML refuses is noted in
 * it. Changes nothing. */
void mig_gpu_look(const struct mig_library *library, uint32_t index,
                  struct mig_gpu *out);

/* Bits of the memory slices of a span, and of all that is taken. */
uint64_t mig_span_bits(struct mig_span span);
uint64_t mig_gpu_taken(const struct mig_gpu *gpu);

/* "memory slice 6", "memory slices 0-3" into out; returns out. */
const char *mig_span_text(struct mig_span span, char *out, size_t bytes);

#endif
