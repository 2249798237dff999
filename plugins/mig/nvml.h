/* SPDX-License-Identifier: Apache-2.0 */
/* The part of NVML that MIG needs, declared by hand after its stable C ABI: structs and
 * constants as in NVIDIA's nvml.h 13.3, whose names are in the comments. The library is
 * the driver's, libnvidia-ml.so.1, found at run time; a driver too old for a function
 * leaves its pointer NULL, so functions are called through NVML_CALL. */
#ifndef MIG_NVML_H
#define MIG_NVML_H

#include <stdbool.h>

typedef struct nvml_device *nvml_device; /* nvmlDevice_t */
typedef struct nvml_gi *nvml_gi; /* nvmlGpuInstance_t */
typedef struct nvml_ci *nvml_ci; /* nvmlComputeInstance_t */

/* nvmlReturn_t */
#define NVML_OK 0
#define NVML_INVALID_ARGUMENT 2
#define NVML_NOT_SUPPORTED 3
#define NVML_NO_PERMISSION 4
#define NVML_NOT_FOUND 6
#define NVML_INSUFFICIENT_SIZE 7
#define NVML_DRIVER_NOT_LOADED 9
#define NVML_FUNCTION_NOT_FOUND 13
#define NVML_RESET_REQUIRED 16
#define NVML_IN_USE 19
#define NVML_INSUFFICIENT_RESOURCES 23

#define NVML_TEXT_BYTES 96u /* of names and UUIDs */
#define NVML_GI_PROFILES 32u /* more than any driver has */
#define NVML_CI_PROFILES 8u

struct nvml_memory { /* nvmlMemory_t, bytes */
    unsigned long long total, free, used;
};
struct nvml_attributes { /* nvmlDeviceAttributes_t, of a MIG device */
    unsigned sms, copy_engines, decoders, encoders, jpegs, ofas, gi_slices, ci_slices;
    unsigned long long memory_mib;
};
struct nvml_placement { /* nvmlGpuInstancePlacement_t, memory slices */
    unsigned start, size;
};
struct nvml_gi_profile { /* nvmlGpuInstanceProfileInfo_t */
    unsigned id, p2p, slices, instances, sms, copy_engines, decoders, encoders, jpegs,
        ofas;
    unsigned long long memory_mib;
};
struct nvml_gi_profile_named { /* nvmlGpuInstanceProfileInfo_v2_t */
    unsigned version, id, p2p, slices, instances, sms, copy_engines, decoders, encoders,
        jpegs, ofas;
    unsigned long long memory_mib;
    char name[NVML_TEXT_BYTES];
};
#define NVML_GI_PROFILE_NAMED                                                          \
    ((unsigned)sizeof(struct nvml_gi_profile_named) | 2u << 24)
struct nvml_ci_profile { /* nvmlComputeInstanceProfileInfo_t */
    unsigned id, slices, instances, sms, copy_engines, decoders, encoders, jpegs, ofas;
};
struct nvml_gi_info { /* nvmlGpuInstanceInfo_t */
    nvml_device device;
    unsigned id, profile_id;
    struct nvml_placement placement;
};
struct nvml_process { /* nvmlProcessInfo_t, which _v2 and _v3 of its functions fill */
    unsigned pid;
    unsigned long long memory;
    unsigned gi, ci;
};

/* Ours, the library's, arguments; all return an int. */
/* clang-format off */
#define NVML_FUNCTIONS(F)                                                              \
    F(init, nvmlInit_v2, (void))                                                       \
    F(shutdown, nvmlShutdown, (void))                                                  \
    F(driver_version, nvmlSystemGetDriverVersion, (char *, unsigned))                  \
    F(count, nvmlDeviceGetCount_v2, (unsigned *))                                      \
    F(by_index, nvmlDeviceGetHandleByIndex_v2, (unsigned, nvml_device *))              \
    F(name, nvmlDeviceGetName, (nvml_device, char *, unsigned))                        \
    F(uuid, nvmlDeviceGetUUID, (nvml_device, char *, unsigned))                        \
    F(memory, nvmlDeviceGetMemoryInfo, (nvml_device, struct nvml_memory *))            \
    F(mig_mode, nvmlDeviceGetMigMode, (nvml_device, unsigned *, unsigned *))           \
    F(set_mig_mode, nvmlDeviceSetMigMode, (nvml_device, unsigned, int *))              \
    F(max_mig, nvmlDeviceGetMaxMigDeviceCount, (nvml_device, unsigned *))              \
    F(mig_by_index, nvmlDeviceGetMigDeviceHandleByIndex,                               \
      (nvml_device, unsigned, nvml_device *))                                          \
    F(attributes, nvmlDeviceGetAttributes_v2, (nvml_device, struct nvml_attributes *)) \
    F(gi_id, nvmlDeviceGetGpuInstanceId, (nvml_device, unsigned *))                    \
    F(ci_id, nvmlDeviceGetComputeInstanceId, (nvml_device, unsigned *))                \
    F(gi_profile, nvmlDeviceGetGpuInstanceProfileInfo,                                 \
      (nvml_device, unsigned, struct nvml_gi_profile *))                               \
    F(gi_profile_named, nvmlDeviceGetGpuInstanceProfileInfoV,                          \
      (nvml_device, unsigned, struct nvml_gi_profile_named *))                         \
    F(gi_remaining, nvmlDeviceGetGpuInstanceRemainingCapacity,                         \
      (nvml_device, unsigned, unsigned *))                                             \
    F(gi_placements, nvmlDeviceGetGpuInstancePossiblePlacements_v2,                    \
      (nvml_device, unsigned, struct nvml_placement *, unsigned *))                    \
    F(gis, nvmlDeviceGetGpuInstances,                                                  \
      (nvml_device, unsigned, nvml_gi *, unsigned *))                                  \
    F(gi_info, nvmlGpuInstanceGetInfo, (nvml_gi, struct nvml_gi_info *))               \
    F(create_gi, nvmlDeviceCreateGpuInstanceWithPlacement,                             \
      (nvml_device, unsigned, const struct nvml_placement *, nvml_gi *))               \
    F(destroy_gi, nvmlGpuInstanceDestroy, (nvml_gi))                                   \
    F(ci_profile, nvmlGpuInstanceGetComputeInstanceProfileInfo,                        \
      (nvml_gi, unsigned, unsigned, struct nvml_ci_profile *))                         \
    F(cis, nvmlGpuInstanceGetComputeInstances,                                         \
      (nvml_gi, unsigned, nvml_ci *, unsigned *))                                      \
    F(create_ci, nvmlGpuInstanceCreateComputeInstance, (nvml_gi, unsigned, nvml_ci *)) \
    F(destroy_ci, nvmlComputeInstanceDestroy, (nvml_ci))                               \
    F(compute_v3, nvmlDeviceGetComputeRunningProcesses_v3,                             \
      (nvml_device, unsigned *, struct nvml_process *))                                \
    F(compute_v2, nvmlDeviceGetComputeRunningProcesses_v2,                             \
      (nvml_device, unsigned *, struct nvml_process *))                                \
    F(graphics_v3, nvmlDeviceGetGraphicsRunningProcesses_v3,                           \
      (nvml_device, unsigned *, struct nvml_process *))                                \
    F(graphics_v2, nvmlDeviceGetGraphicsRunningProcesses_v2,                           \
      (nvml_device, unsigned *, struct nvml_process *))
/* clang-format on */

struct mig_nvml {
#define NVML_POINTER(ours, theirs, arguments) int(*ours) arguments;
    NVML_FUNCTIONS(NVML_POINTER)
#undef NVML_POINTER
};

/* The return code of a function of the table; NVML_FUNCTION_NOT_FOUND where the driver
 * lacks it. */
#define NVML_CALL(nvml, function, ...)                                                 \
    ((nvml)->function ? (nvml)->function(__VA_ARGS__) : NVML_FUNCTION_NOT_FOUND)

/* The opened and initialised library, or why there is none. */
struct mig_library {
    void *handle; /* NULL: not open */
    struct mig_nvml nvml;
    char driver[NVML_TEXT_BYTES]; /* its version, "" where unknown */
    char reason[512]; /* "" where open */
};

/* Open libnvidia-ml.so.1, or the file that CADRE_NVML names, and call nvmlInit_v2.
 * Always fills *out; without a driver `reason` says why in one line. [main] */
void mig_library_open(struct mig_library *out);

/* nvmlShutdown and dlclose; harmless where it is not open. [main] */
void mig_library_close(struct mig_library *library);

/* [any] The meaning of a return code, static text. */
const char *mig_nvml_text(int code);

#endif
