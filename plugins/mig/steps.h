/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that change the MIG layout of a GPU, each done completely or not at all. */
#ifndef MIG_STEPS_H
#define MIG_STEPS_H

#include "plugins/mig/gpu.h"

/* Make an instance, or destroy one that is there. */
struct mig_step {
    bool create;
    uint32_t profile; /* of the GPU's list */
    struct mig_span at;
    nvml_gi handle; /* of the GPU instance while it exists */
};

/* A refusal by NVML: the function, the code, and what remains of the step because
 * undoing it was refused too ("": nothing). */
struct mig_refusal {
    const char *function;
    int code;
    const char *remains;
};

/* "create 1g.18gb with a compute instance of all of it, memory slice 6"; out. */
const char *mig_step_text(const struct mig_gpu *gpu, const struct mig_step *step,
                          char *out, size_t bytes);

/* Do it. Creating makes a GPU instance at its place and one compute instance of all of
 * it; destroying takes the compute instances first. false: *why says what was refused,
 * and the step has been undone. [main] */
bool mig_step_do(const struct mig_library *library, const struct mig_gpu *gpu,
                 struct mig_step *step, struct mig_refusal *why);

/* Undo a step that was done, as mig_step_do. An instance that was destroyed is created
 * again, with another UUID. */
bool mig_step_undo(const struct mig_library *library, const struct mig_gpu *gpu,
                   struct mig_step *step, struct mig_refusal *why);

#endif
