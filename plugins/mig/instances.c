/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/mig/instances.h"

#include <stdio.h>
#include <string.h>

/* Append a GPU's reason to the list's. */
static void note(struct mig_list *list, uint32_t gpu, const char *name, const char *why)
{
    size_t used = strlen(list->reason);
    snprintf(list->reason + used, sizeof list->reason - used, "%sGPU %u%s%s%s: %s",
             used ? "; " : "", gpu, *name ? " (" : "", name, *name ? ")" : "", why);
}

const char *mig_profile_name(const char *name)
{
    const char *mig = strstr(name, "MIG ");
    return mig ? mig + 4 : name;
}

bool mig_is_on(const struct mig_library *library, nvml_device gpu, const char **why)
{
    unsigned now = 0, pending = 0;
    int code = NVML_CALL(&library->nvml, mig_mode, gpu, &now, &pending);
    *why = code == NVML_NOT_SUPPORTED        ? "this GPU has no MIG"
           : code == NVML_FUNCTION_NOT_FOUND ? "this driver has no MIG"
           : code != NVML_OK                 ? mig_nvml_text(code)
           : now                             ? ""
           : pending                         ? "MIG is off until the GPU is reset"
                                             : "MIG is off";
    return code == NVML_OK && now;
}

static void describe(const struct mig_nvml *nvml, nvml_device mig,
                     struct mig_instance *out)
{
    char name[NVML_TEXT_BYTES] = "";
    struct nvml_attributes attributes = {0};
    struct nvml_memory memory = {0};
    unsigned id = 0;
    if (nvml->name(mig, name, sizeof name) == NVML_OK)
        snprintf(out->profile, sizeof out->profile, "%.63s", mig_profile_name(name));
    if (NVML_CALL(nvml, attributes, mig, &attributes) == NVML_OK) {
        out->sms = attributes.sms;
        out->slices = attributes.ci_slices;
        out->memory = attributes.memory_mib << 20;
    }
    if (NVML_CALL(nvml, memory, mig, &memory) == NVML_OK && memory.total)
        out->memory = memory.total;
    if (NVML_CALL(nvml, gi_id, mig, &id) == NVML_OK)
        out->gi = id;
    if (NVML_CALL(nvml, ci_id, mig, &id) == NVML_OK)
        out->ci = id;
}

/* Indices without an instance are holes that destroyed instances leave. */
static void list_gpu(const struct mig_nvml *nvml, uint32_t gpu, nvml_device device,
                     struct mig_list *out)
{
    unsigned max = 0;
    uint32_t found = 0;
    char name[NVML_TEXT_BYTES] = "";
    nvml->name(device, name, sizeof name);
    int failed = NVML_CALL(nvml, max_mig, device, &max);
    for (unsigned i = 0; i < max && out->n < MIG_MAX_INSTANCES; i++) {
        struct mig_instance *item = &out->item[out->n];
        nvml_device mig = NULL;
        memset(item, 0, sizeof *item);
        int code = NVML_CALL(nvml, mig_by_index, device, i, &mig);
        if (code == NVML_OK)
            code = nvml->uuid(mig, item->uuid, sizeof item->uuid);
        if (code != NVML_OK) {
            failed = code == NVML_NOT_FOUND ? failed : code;
            continue;
        }
        if (nvml->uuid(device, item->gpu_uuid, sizeof item->gpu_uuid) != NVML_OK)
            item->gpu_uuid[0] = '\0';
        item->gpu = gpu;
        item->index = found++;
        describe(nvml, mig, item);
        out->n++;
    }
    if (failed == NVML_NO_PERMISSION)
        note(out, gpu, name, "no permission to see its MIG instances");
    else if (failed != NVML_OK)
        note(out, gpu, name, mig_nvml_text(failed));
    else if (!found)
        note(out, gpu, name, "MIG is on, but there are no instances yet");
}

void mig_instances(const struct mig_library *library, struct mig_list *out)
{
    const struct mig_nvml *nvml = &library->nvml;
    unsigned count = 0;
    out->n = 0;
    snprintf(out->reason, sizeof out->reason, "%s", library->reason);
    if (!library->handle)
        return;
    int code = nvml->count(&count);
    if (code != NVML_OK || count == 0)
        snprintf(out->reason, sizeof out->reason, "the driver shows no GPU%s%s",
                 code == NVML_OK ? "" : ": ",
                 code == NVML_OK ? "" : mig_nvml_text(code));
    for (unsigned i = 0; i < count; i++) {
        nvml_device device = NULL;
        char name[NVML_TEXT_BYTES] = "";
        const char *why;
        code = nvml->by_index(i, &device);
        if (code != NVML_OK) {
            note(out, i, "", mig_nvml_text(code));
            continue;
        }
        nvml->name(device, name, sizeof name);
        if (mig_is_on(library, device, &why))
            list_gpu(nvml, i, device, out);
        else
            note(out, i, name, why);
    }
    if (out->n)
        out->reason[0] = 0;
}
