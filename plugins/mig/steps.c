/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/mig/steps.h"

#include <stdio.h>

static bool refused(struct mig_refusal *why, const char *function, int code)
{
    if (code == NVML_OK)
        return false;
    *why = (struct mig_refusal){function, code, ""};
    return true;
}

const char *mig_step_text(const struct mig_gpu *gpu, const struct mig_step *step,
                          char *out, size_t bytes)
{
    char where[64];
    snprintf(out, bytes, "%s %s%s, %s", step->create ? "create" : "destroy",
             gpu->profile[step->profile].name,
             step->create ? " with a compute instance of all of it"
                          : " and its compute instances",
             mig_span_text(step->at, where, sizeof where));
    return out;
}

/* The compute profile of a whole GPU instance. */
static bool find_whole(const struct mig_nvml *nvml, nvml_gi gi, uint32_t slices,
                       unsigned *id)
{
    for (unsigned i = 0; i < NVML_CI_PROFILES; i++) {
        struct nvml_ci_profile p = {0};
        if (NVML_CALL(nvml, ci_profile, gi, i, 0, &p) == NVML_OK &&
            p.slices == slices) {
            *id = p.id;
            return true;
        }
    }
    return false;
}

static bool create_compute(const struct mig_nvml *nvml, const struct mig_gpu *gpu,
                           const struct mig_step *step, struct mig_refusal *why)
{
    unsigned id = 0;
    nvml_ci ci = NULL;
    if (!find_whole(nvml, step->handle, gpu->profile[step->profile].slices, &id))
        return !refused(why, "nvmlGpuInstanceGetComputeInstanceProfileInfo",
                        NVML_NOT_FOUND);
    return !refused(why, "nvmlGpuInstanceCreateComputeInstance",
                    NVML_CALL(nvml, create_ci, step->handle, id, &ci));
}

static bool create(const struct mig_nvml *nvml, const struct mig_gpu *gpu,
                   struct mig_step *step, struct mig_refusal *why)
{
    const struct nvml_placement at = {step->at.start, step->at.size};
    int code = NVML_CALL(nvml, create_gi, gpu->device, gpu->profile[step->profile].id,
                         &at, &step->handle);
    if (refused(why, "nvmlDeviceCreateGpuInstanceWithPlacement", code))
        return false;
    if (create_compute(nvml, gpu, step, why))
        return true;
    if (NVML_CALL(nvml, destroy_gi, step->handle) != NVML_OK)
        why->remains = "a GPU instance without a compute instance stays there";
    return false;
}

/* *n: how many are gone. */
static bool destroy_compute(const struct mig_nvml *nvml, const struct mig_step *step,
                            uint32_t *n, struct mig_refusal *why)
{
    *n = 0;
    for (unsigned i = 0; i < NVML_CI_PROFILES; i++) {
        struct nvml_ci_profile p = {0};
        nvml_ci found[MIG_MAX_SLICES] = {0};
        unsigned count = 0;
        if (NVML_CALL(nvml, ci_profile, step->handle, i, 0, &p) != NVML_OK ||
            p.instances > MIG_MAX_SLICES)
            continue;
        int code = NVML_CALL(nvml, cis, step->handle, p.id, found, &count);
        if (refused(why, "nvmlGpuInstanceGetComputeInstances", code))
            return false;
        for (unsigned k = 0; k < count; k++, (*n)++)
            if (refused(why, "nvmlComputeInstanceDestroy",
                        NVML_CALL(nvml, destroy_ci, found[k])))
                return false;
    }
    return true;
}

static bool destroy(const struct mig_nvml *nvml, const struct mig_gpu *gpu,
                    const struct mig_step *step, struct mig_refusal *why)
{
    struct mig_refusal ignored;
    uint32_t gone = 0;
    bool done = destroy_compute(nvml, step, &gone, why);
    if (done && !refused(why, "nvmlGpuInstanceDestroy",
                         NVML_CALL(nvml, destroy_gi, step->handle)))
        return true;
    if (gone > 1 || (gone == 1 && !done))
        why->remains = "some of its compute instances are gone";
    else if (gone == 1 && !create_compute(nvml, gpu, step, &ignored))
        why->remains = "its compute instance is gone";
    return false;
}

bool mig_step_do(const struct mig_library *library, const struct mig_gpu *gpu,
                 struct mig_step *step, struct mig_refusal *why)
{
    return step->create ? create(&library->nvml, gpu, step, why)
                        : destroy(&library->nvml, gpu, step, why);
}

bool mig_step_undo(const struct mig_library *library, const struct mig_gpu *gpu,
                   struct mig_step *step, struct mig_refusal *why)
{
    return step->create ? destroy(&library->nvml, gpu, step, why)
                        : create(&library->nvml, gpu, step, why);
}
