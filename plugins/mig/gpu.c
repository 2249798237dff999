/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/mig/gpu.h"

#include <stdio.h>
#include <string.h>

#include "plugins/mig/instances.h"

uint64_t mig_span_bits(struct mig_span span)
{
    uint64_t bits = span.size >= 64 ? UINT64_MAX : (UINT64_C(1) << span.size) - 1;
    return span.start >= 64 ? 0 : bits << span.start;
}

const char *mig_span_text(struct mig_span span, char *out, size_t bytes)
{
    if (span.size == 1)
        snprintf(out, bytes, "memory slice %u", span.start);
    else
        snprintf(out, bytes, "memory slices %u-%u", span.start,
                 span.start + span.size - 1);
    return out;
}

uint64_t mig_gpu_taken(const struct mig_gpu *gpu)
{
    uint64_t taken = 0;
    for (uint32_t i = 0; i < gpu->n_taken; i++)
        taken |= mig_span_bits(gpu->taken[i].at);
    return taken;
}

uint32_t mig_gpu_count(const struct mig_library *library)
{
    unsigned count = 0;
    if (!library->handle || library->nvml.count(&count) != NVML_OK)
        return 0;
    return count;
}

/* The name of a profile in NVIDIA's tools, for drivers that do not report it: the share
 * of memory in eighths, rounded up, of the whole in GB. `index` is NVML's constant. */
static void make_name(struct mig_profile *profile, unsigned index, uint64_t memory)
{
    uint64_t gib = UINT64_C(1) << 30, whole = (memory + gib - 1) / gib;
    uint64_t eighths = memory ? (profile->memory * 8 + memory - 1) / memory : 8;
    const char *extra = index == 7 || index == 8     ? "+me"
                        : index >= 10 && index <= 12 ? "+gfx"
                        : index == 13 || index == 14 ? "-me"
                        : index == 15 || index == 16 ? "+me.all"
                                                     : "";
    snprintf(profile->name, sizeof profile->name, "%ug.%ugb%s", profile->slices,
             (unsigned)((eighths * whole + 4) / 8), extra);
}

static bool look_at_profile(const struct mig_nvml *nvml, const struct mig_gpu *gpu,
                            unsigned index, struct mig_profile *out)
{
    struct nvml_gi_profile_named named = {.version = NVML_GI_PROFILE_NAMED};
    struct nvml_gi_profile plain = {0};
    memset(out, 0, sizeof *out);
    if (NVML_CALL(nvml, gi_profile, gpu->device, index, &plain) != NVML_OK)
        return false;
    out->id = plain.id;
    out->slices = plain.slices;
    out->instances = plain.instances;
    out->sms = plain.sms;
    out->memory = plain.memory_mib << 20;
    int code = NVML_CALL(nvml, gi_profile_named, gpu->device, index, &named);
    named.name[sizeof named.name - 1] = 0;
    if (code == NVML_OK && named.name[0])
        snprintf(out->name, sizeof out->name, "%.63s", mig_profile_name(named.name));
    else
        make_name(out, index, gpu->memory);
    return true;
}

/* Note the first refusal of an NVML function. */
static void note(struct mig_gpu *gpu, int code, const char *function)
{
    if (code != NVML_OK && !gpu->reason[0])
        snprintf(gpu->reason, sizeof gpu->reason, "%s: %s", function,
                 mig_nvml_text(code));
}

static void sort_places(struct mig_profile *p)
{
    for (uint32_t i = 1; i < p->n_places; i++)
        for (uint32_t j = i; j && p->place[j].start < p->place[j - 1].start; j--) {
            struct mig_span swap = p->place[j];
            p->place[j] = p->place[j - 1];
            p->place[j - 1] = swap;
        }
}

static void look_at_places(const struct mig_nvml *nvml, struct mig_gpu *gpu,
                           struct mig_profile *p)
{
    static const char function[] = "nvmlDeviceGetGpuInstancePossiblePlacements_v2";
    struct nvml_placement found[MIG_MAX_PLACES] = {{0}};
    unsigned n = 0, remaining = 0;
    int code = NVML_CALL(nvml, gi_placements, gpu->device, p->id, NULL, &n);
    if (code == NVML_OK && n > MIG_MAX_PLACES)
        code = NVML_INSUFFICIENT_SIZE;
    if (code == NVML_OK && n)
        code = NVML_CALL(nvml, gi_placements, gpu->device, p->id, found, &n);
    note(gpu, code, function);
    for (unsigned i = 0; code == NVML_OK && i < n && i < MIG_MAX_PLACES; i++) {
        struct mig_span at = {found[i].start, found[i].size};
        if (at.size == 0 || at.size > MIG_MAX_SLICES ||
            at.start > MIG_MAX_SLICES - at.size)
            continue;
        p->place[p->n_places++] = at;
        if (at.start + at.size > gpu->end)
            gpu->end = at.start + at.size;
    }
    sort_places(p);
    code = NVML_CALL(nvml, gi_remaining, gpu->device, p->id, &remaining);
    note(gpu, code, "nvmlDeviceGetGpuInstanceRemainingCapacity");
    p->remaining = remaining;
}

static void look_at_taken(const struct mig_nvml *nvml, struct mig_gpu *gpu,
                          uint32_t profile)
{
    nvml_gi found[MIG_MAX_SLICES] = {0};
    unsigned n = 0;
    if (gpu->profile[profile].instances > MIG_MAX_SLICES)
        return;
    int code = NVML_CALL(nvml, gis, gpu->device, gpu->profile[profile].id, found, &n);
    note(gpu, code, "nvmlDeviceGetGpuInstances");
    for (unsigned i = 0; code == NVML_OK && i < n && gpu->n_taken < MIG_MAX_SLICES;
         i++) {
        struct nvml_gi_info info = {0};
        code = NVML_CALL(nvml, gi_info, found[i], &info);
        note(gpu, code, "nvmlGpuInstanceGetInfo");
        if (code == NVML_OK)
            gpu->taken[gpu->n_taken++] = (struct mig_taken){
                .profile = profile,
                .id = info.id,
                .at = {info.placement.start, info.placement.size},
                .handle = found[i],
            };
    }
}

static bool may_turn_on(const struct mig_nvml *nvml, nvml_device gpu)
{
    unsigned now = 1, pending = 1;
    return NVML_CALL(nvml, mig_mode, gpu, &now, &pending) == NVML_OK && !now &&
           !pending;
}

void mig_gpu_look(const struct mig_library *library, uint32_t index,
                  struct mig_gpu *out)
{
    const struct mig_nvml *nvml = &library->nvml;
    struct nvml_memory memory = {0};
    const char *why;
    memset(out, 0, sizeof *out);
    out->index = index;
    int code = nvml->by_index(index, &out->device);
    if (code != NVML_OK) {
        snprintf(out->mode, sizeof out->mode, "%s", mig_nvml_text(code));
        note(out, code, "nvmlDeviceGetHandleByIndex_v2");
        return;
    }
    nvml->name(out->device, out->name, sizeof out->name);
    nvml->uuid(out->device, out->uuid, sizeof out->uuid);
    if (NVML_CALL(nvml, memory, out->device, &memory) == NVML_OK)
        out->memory = memory.total;
    out->on = mig_is_on(library, out->device, &why);
    snprintf(out->mode, sizeof out->mode, "%s", why);
    out->may_turn_on = !out->on && may_turn_on(nvml, out->device);
    for (unsigned i = 0; out->on && i < NVML_GI_PROFILES; i++)
        if (look_at_profile(nvml, out, i, &out->profile[out->n_profiles])) {
            struct mig_profile *p = &out->profile[out->n_profiles++];
            out->slices = p->slices > out->slices ? p->slices : out->slices;
            look_at_places(nvml, out, p);
            look_at_taken(nvml, out, out->n_profiles - 1);
        }
    if (out->on && !out->n_profiles)
        snprintf(out->reason, sizeof out->reason, "NVML reports no profile");
}
