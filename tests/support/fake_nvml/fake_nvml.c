/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of libnvidia-ml.so.1 that Cadre calls, over a machine described by
 * words. Names and arguments are NVIDIA's. It refuses what a driver would refuse. */
#include "tests/support/fake_nvml/fake_nvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))
#define SHOW(ours, theirs, arguments) API int theirs arguments;
NVML_FUNCTIONS(SHOW)
SHOW(by_pci, nvmlDeviceGetHandleByPciBusId_v2, (const char *, nvml_device *))
SHOW(energy, nvmlDeviceGetTotalEnergyConsumption, (nvml_device, unsigned long long *))

/* What the library shows; one process, one machine, as with the driver's. */
static struct fake_machine machine;

static struct fake_gpu *gpu_of(nvml_device d)
{
    return &machine.gpu[d->gpu];
}

static const struct fake_profile *by_id(const struct fake_gpu *gpu, unsigned id)
{
    for (int p = 0; p < FAKE_PROFILES; p++)
        if (gpu->layout->profile[p].name && gpu->layout->profile[p].id == id)
            return &gpu->layout->profile[p];
    return NULL;
}

/* Queries that need an administrator, on a GPU with MIG on. */
static int check_admin(const struct fake_gpu *gpu)
{
    return gpu->nomig || !gpu->on ? NVML_NOT_SUPPORTED
           : gpu->noperm          ? NVML_NO_PERMISSION
                                  : NVML_OK;
}

int nvmlInit_v2(void)
{
    const char *fault = getenv("CADRE_FAKE_NVML_FAULT");
    const char *code = fault ? strstr(fault, "init=") : NULL;
    fake_machine_read(&machine);
    return code ? atoi(code + 5) : NVML_OK;
}

int nvmlShutdown(void)
{
    return NVML_OK;
}

int nvmlSystemGetDriverVersion(char *out, unsigned bytes)
{
    snprintf(out, bytes, "580.00");
    return NVML_OK;
}

int nvmlDeviceGetCount_v2(unsigned *n)
{
    *n = (unsigned)machine.n;
    return NVML_OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned i, nvml_device *out)
{
    if (i >= (unsigned)machine.n)
        return NVML_INVALID_ARGUMENT;
    *out = &machine.gpu[i].device;
    return NVML_OK;
}

/* GPU n is at 0000:0N:00.0, counted from 1, as on the stand-in of CUDA. */
int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, nvml_device *out)
{
    unsigned domain, bus;
    if (sscanf(pci, "%x:%x:", &domain, &bus) != 2)
        return NVML_INVALID_ARGUMENT;
    if (bus == 0 || bus > (unsigned)machine.n)
        return NVML_NOT_FOUND;
    *out = &machine.gpu[bus - 1].device;
    return NVML_OK;
}

#ifndef FAKE_OLD
int nvmlDeviceGetTotalEnergyConsumption(nvml_device d, unsigned long long *mj)
{
    const char *path = getenv("CADRE_FAKE_NVML_ENERGY");
    FILE *file = path ? fopen(path, "r") : NULL;
    int found = 0;
    for (int g = 0; file && g <= d->gpu; g++)
        found = fscanf(file, "%llu", mj);
    if (file)
        fclose(file);
    return found == 1 ? NVML_OK : NVML_NOT_SUPPORTED;
}
#endif

int nvmlDeviceGetName(nvml_device d, char *out, unsigned bytes)
{
    const struct fake_gpu *gpu = gpu_of(d);
    if (d->slot < 0)
        snprintf(out, bytes, "%s", gpu->layout->name);
    else
        snprintf(out, bytes, "%s MIG %s", gpu->layout->name,
                 gpu->gi[d->slot].profile->name);
    return NVML_OK;
}

int nvmlDeviceGetUUID(nvml_device d, char *out, unsigned bytes)
{
    if (d->slot < 0)
        snprintf(out, bytes, "GPU-%08d-0000-4000-8000-000000000000", d->gpu);
    else
        snprintf(out, bytes, "MIG-%08d-0000-5000-8000-%010u%02d", d->gpu,
                 gpu_of(d)->gi[d->slot].profile->id, d->slot);
    return NVML_OK;
}

int nvmlDeviceGetMemoryInfo(nvml_device d, struct nvml_memory *out)
{
    const struct fake_gpu *gpu = gpu_of(d);
    out->total =
        (d->slot < 0 ? gpu->layout->memory_mib : gpu->gi[d->slot].profile->memory_mib)
        << 20;
    out->used = 1 << 20;
    out->free = out->total - out->used;
    return NVML_OK;
}

int nvmlDeviceGetMigMode(nvml_device d, unsigned *now, unsigned *pending)
{
    if (gpu_of(d)->nomig)
        return NVML_NOT_SUPPORTED;
    *now = (unsigned)gpu_of(d)->on;
    *pending = (unsigned)(gpu_of(d)->on || gpu_of(d)->pending);
    return NVML_OK;
}

int nvmlDeviceSetMigMode(nvml_device d, unsigned mode, int *activation)
{
    struct fake_gpu *gpu = gpu_of(d);
    if (gpu->nomig || gpu->noperm)
        return gpu->nomig ? NVML_NOT_SUPPORTED : NVML_NO_PERMISSION;
    if (gpu->busy || fake_gpu_taken(gpu))
        return NVML_IN_USE;
    *activation = gpu->reset ? NVML_RESET_REQUIRED : NVML_OK;
    gpu->pending = gpu->reset && mode;
    if (!gpu->reset)
        gpu->on = (int)mode;
    fake_machine_write(&machine);
    return NVML_OK;
}

int nvmlDeviceGetMaxMigDeviceCount(nvml_device d, unsigned *n)
{
    *n = gpu_of(d)->nomig ? 0 : 7;
    return NVML_OK;
}

/* Slots with a compute instance in order; with holes the k-th has number 2k + 1. */
int nvmlDeviceGetMigDeviceHandleByIndex(nvml_device d, unsigned i, nvml_device *out)
{
    struct fake_gpu *gpu = gpu_of(d);
    unsigned k = 0;
    if (gpu->nomig || !gpu->on)
        return NVML_NOT_SUPPORTED;
    if (gpu->sealed || i >= 7)
        return gpu->sealed ? NVML_NO_PERMISSION : NVML_INVALID_ARGUMENT;
    for (int s = 0; s < FAKE_SLOTS; s++) {
        if (!gpu->gi[s].profile || !gpu->ci[s].made)
            continue;
        if ((gpu->holes ? (2 * k + 1) % 7 : k) == i) {
            *out = &gpu->mig[s];
            return NVML_OK;
        }
        k++;
    }
    return NVML_NOT_FOUND;
}

int nvmlDeviceGetAttributes_v2(nvml_device d, struct nvml_attributes *out)
{
    if (d->slot < 0)
        return NVML_NOT_SUPPORTED;
    const struct fake_profile *p = gpu_of(d)->gi[d->slot].profile;
    *out = (struct nvml_attributes){
        .sms = p->sms,
        .copy_engines = p->slices,
        .gi_slices = p->slices,
        .ci_slices = p->slices,
        .memory_mib = p->memory_mib,
    };
    return NVML_OK;
}

int nvmlDeviceGetGpuInstanceId(nvml_device d, unsigned *id)
{
    *id = (unsigned)d->slot + 1;
    return d->slot < 0 ? NVML_NOT_SUPPORTED : NVML_OK;
}

int nvmlDeviceGetComputeInstanceId(nvml_device d, unsigned *id)
{
    *id = 0;
    return d->slot < 0 ? NVML_NOT_SUPPORTED : NVML_OK;
}

int nvmlDeviceGetGpuInstanceProfileInfo(nvml_device d, unsigned index,
                                        struct nvml_gi_profile *out)
{
    const struct fake_gpu *gpu = gpu_of(d);
    if (gpu->nomig || !gpu->on)
        return NVML_NOT_SUPPORTED;
    for (int i = 0; i < FAKE_PROFILES; i++) {
        const struct fake_profile *p = &gpu->layout->profile[i];
        if (!p->name || p->index != index)
            continue;
        *out = (struct nvml_gi_profile){
            .id = p->id,
            .slices = p->slices,
            .instances = p->instances,
            .sms = p->sms,
            .copy_engines = p->slices,
            .jpegs = p->media,
            .ofas = p->media,
            .memory_mib = p->memory_mib,
        };
        return NVML_OK;
    }
    return index < 17 ? NVML_NOT_SUPPORTED : NVML_INVALID_ARGUMENT;
}

int nvmlDeviceGetGpuInstances(nvml_device d, unsigned id, nvml_gi *out, unsigned *n)
{
    struct fake_gpu *gpu = gpu_of(d);
    int code = check_admin(gpu);
    *n = 0;
    for (int s = 0; code == NVML_OK && s < FAKE_SLOTS; s++)
        if (gpu->gi[s].profile && gpu->gi[s].profile->id == id)
            out[(*n)++] = &gpu->gi[s];
    return code;
}

int nvmlGpuInstanceGetInfo(nvml_gi gi, struct nvml_gi_info *out)
{
    if (!gi->profile)
        return NVML_NOT_FOUND;
    *out = (struct nvml_gi_info){
        .device = &machine.gpu[gi->gpu].device,
        .id = (unsigned)gi->slot + 1,
        .profile_id = gi->profile->id,
        .placement = {(unsigned)gi->slot, gi->profile->size},
    };
    return NVML_OK;
}

int nvmlGpuInstanceDestroy(nvml_gi gi)
{
    struct fake_gpu *gpu = &machine.gpu[gi->gpu];
    int code = check_admin(gpu);
    if (code != NVML_OK)
        return code;
    if (fake_machine_fails(&machine, 2) || gpu->busy || gpu->ci[gi->slot].made)
        return NVML_IN_USE;
    gi->profile = NULL;
    fake_machine_write(&machine);
    return NVML_OK;
}

/* Compute profiles: index and id are one. */
static const unsigned compute_slices[] = {1, 2, 3, 4, 7};

int nvmlGpuInstanceGetComputeInstanceProfileInfo(nvml_gi gi, unsigned index,
                                                 unsigned engine,
                                                 struct nvml_ci_profile *out)
{
    if (index >= 5 || engine || compute_slices[index] > gi->profile->slices)
        return index < 8 && !engine ? NVML_NOT_SUPPORTED : NVML_INVALID_ARGUMENT;
    *out = (struct nvml_ci_profile){
        .id = index,
        .slices = compute_slices[index],
        .instances = gi->profile->slices / compute_slices[index],
        .sms = gi->profile->sms * compute_slices[index] / gi->profile->slices,
    };
    return NVML_OK;
}

int nvmlGpuInstanceGetComputeInstances(nvml_gi gi, unsigned id, nvml_ci *out,
                                       unsigned *n)
{
    struct nvml_ci *ci = &machine.gpu[gi->gpu].ci[gi->slot];
    *n = 0;
    if (ci->made && compute_slices[id] == gi->profile->slices)
        out[(*n)++] = ci;
    return check_admin(&machine.gpu[gi->gpu]);
}

int nvmlGpuInstanceCreateComputeInstance(nvml_gi gi, unsigned id, nvml_ci *out)
{
    struct nvml_ci *ci = &machine.gpu[gi->gpu].ci[gi->slot];
    int code = check_admin(&machine.gpu[gi->gpu]);
    if (code != NVML_OK)
        return code;
    if (fake_machine_fails(&machine, 1) || ci->made ||
        compute_slices[id] != gi->profile->slices)
        return NVML_INSUFFICIENT_RESOURCES;
    ci->made = 1;
    *out = ci;
    fake_machine_write(&machine);
    return NVML_OK;
}

int nvmlComputeInstanceDestroy(nvml_ci ci)
{
    if (fake_machine_fails(&machine, 3) || machine.gpu[ci->gpu].busy)
        return NVML_IN_USE;
    ci->made = 0;
    fake_machine_write(&machine);
    return NVML_OK;
}

int nvmlDeviceGetGpuInstanceRemainingCapacity(nvml_device d, unsigned id, unsigned *out)
{
    const struct fake_gpu *gpu = gpu_of(d);
    const struct fake_profile *p = by_id(gpu, id);
    unsigned taken = fake_gpu_taken(gpu), slices = fake_gpu_slices(gpu), n = 0;
    if (check_admin(gpu) != NVML_OK || !p)
        return p ? check_admin(gpu) : NVML_NOT_SUPPORTED;
    for (unsigned i = 0; i < p->n_starts; i++) {
        unsigned bits = ((1u << p->size) - 1) << p->starts[i];
        if (taken & bits || slices + p->slices > 7 || n == p->instances)
            continue;
        taken |= bits;
        slices += p->slices;
        n++;
    }
    *out = n;
    return NVML_OK;
}

/* The first of the two lists of processes that old drivers have. */
static int list_processes(nvml_device d, unsigned *n, struct nvml_process *out)
{
    unsigned room = *n;
    *n = gpu_of(d)->busy ? 1 : 0;
    if (room < *n)
        return NVML_INSUFFICIENT_SIZE;
    if (*n)
        *out = (struct nvml_process){.pid = 4242, .memory = 1 << 30};
    return NVML_OK;
}

int nvmlDeviceGetComputeRunningProcesses_v2(nvml_device d, unsigned *n,
                                            struct nvml_process *out)
{
    return list_processes(d, n, out);
}

int nvmlDeviceGetGraphicsRunningProcesses_v2(nvml_device d, unsigned *n,
                                             struct nvml_process *out)
{
    (void)d;
    (void)out;
    *n = 0;
    return NVML_OK;
}

#ifndef FAKE_OLD
int nvmlDeviceGetComputeRunningProcesses_v3(nvml_device d, unsigned *n,
                                            struct nvml_process *out)
{
    return list_processes(d, n, out);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(nvml_device d, unsigned *n,
                                             struct nvml_process *out)
{
    return nvmlDeviceGetGraphicsRunningProcesses_v2(d, n, out);
}

int nvmlDeviceGetGpuInstanceProfileInfoV(nvml_device d, unsigned index,
                                         struct nvml_gi_profile_named *out)
{
    struct nvml_gi_profile p = {0};
    if (out->version != NVML_GI_PROFILE_NAMED)
        return 25; /* NVML_ERROR_ARGUMENT_VERSION_MISMATCH */
    int code = nvmlDeviceGetGpuInstanceProfileInfo(d, index, &p);
    if (code != NVML_OK)
        return code;
    out->id = p.id;
    out->slices = p.slices;
    out->instances = p.instances;
    out->sms = p.sms;
    out->memory_mib = p.memory_mib;
    snprintf(out->name, sizeof out->name, "MIG %s", by_id(gpu_of(d), p.id)->name);
    return NVML_OK;
}

int nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvml_device d, unsigned id,
                                                  struct nvml_placement *out,
                                                  unsigned *n)
{
    const struct fake_gpu *gpu = gpu_of(d);
    const struct fake_profile *p = by_id(gpu, id);
    if (check_admin(gpu) != NVML_OK || !p)
        return p ? check_admin(gpu) : NVML_NOT_SUPPORTED;
    for (unsigned i = 0; out && i < p->n_starts; i++)
        out[i] = (struct nvml_placement){p->starts[i], p->size};
    *n = p->n_starts;
    return NVML_OK;
}

int nvmlDeviceCreateGpuInstanceWithPlacement(nvml_device d, unsigned id,
                                             const struct nvml_placement *at,
                                             nvml_gi *out)
{
    struct fake_gpu *gpu = gpu_of(d);
    const struct fake_profile *p = by_id(gpu, id);
    unsigned bits, same = 0, may_start = 0;
    if (check_admin(gpu) != NVML_OK || !p)
        return p ? check_admin(gpu) : NVML_NOT_SUPPORTED;
    for (unsigned i = 0; i < p->n_starts; i++)
        may_start |= p->starts[i] == at->start && p->size == at->size;
    for (int s = 0; s < FAKE_SLOTS; s++)
        same += gpu->gi[s].profile == p;
    bits = ((1u << p->size) - 1) << at->start;
    if (fake_machine_fails(&machine, 0) || fake_gpu_taken(gpu) & bits ||
        same == p->instances || fake_gpu_slices(gpu) + p->slices > 7)
        return NVML_INSUFFICIENT_RESOURCES;
    if (!may_start)
        return NVML_INVALID_ARGUMENT;
    gpu->gi[at->start].profile = p;
    *out = &gpu->gi[at->start];
    fake_machine_write(&machine);
    return NVML_OK;
}
#endif
