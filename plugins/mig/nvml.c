/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/mig/nvml.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *mig_nvml_text(int code)
{
    static const struct {
        int code;
        const char *text;
    } known[] = {
        {NVML_OK, "success"},
        {1, "not initialised"},
        {NVML_INVALID_ARGUMENT, "invalid argument"},
        {NVML_NOT_SUPPORTED, "not supported"},
        {NVML_NO_PERMISSION, "no permission"},
        {NVML_NOT_FOUND, "not found"},
        {NVML_INSUFFICIENT_SIZE, "insufficient size"},
        {NVML_DRIVER_NOT_LOADED, "the driver is not loaded"},
        {NVML_FUNCTION_NOT_FOUND, "this driver is too old for it"},
        {15, "the GPU is lost"},
        {NVML_RESET_REQUIRED, "the GPU must be reset"},
        {17, "the operating system refused"},
        {18, "library and driver are of different versions"},
        {NVML_IN_USE, "in use"},
        {20, "no memory"},
        {NVML_INSUFFICIENT_RESOURCES, "no room on the GPU"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].code == code)
            return known[i].text;
    return "unknown error";
}

static void load_functions(void *handle, struct mig_nvml *nvml)
{
    void *symbol;
#define NVML_LOAD(ours, theirs, arguments)                                             \
    symbol = dlsym(handle, #theirs);                                                   \
    memcpy(&nvml->ours, &symbol, sizeof symbol);
    NVML_FUNCTIONS(NVML_LOAD)
#undef NVML_LOAD
}

/* NULL, or a function without which nothing can be listed. */
static const char *find_missing(const struct mig_nvml *nvml)
{
    return !nvml->init       ? "nvmlInit_v2"
           : !nvml->count    ? "nvmlDeviceGetCount_v2"
           : !nvml->by_index ? "nvmlDeviceGetHandleByIndex_v2"
           : !nvml->name     ? "nvmlDeviceGetName"
           : !nvml->uuid     ? "nvmlDeviceGetUUID"
                             : NULL;
}

void mig_library_open(struct mig_library *out)
{
    const char *path = getenv("CADRE_NVML");
    memset(out, 0, sizeof *out);
    if (!path || !*path)
        path = "libnvidia-ml.so.1";
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        const char *why = dlerror();
        snprintf(out->reason, sizeof out->reason, "no NVIDIA driver: %s",
                 why ? why : path);
        return;
    }
    load_functions(handle, &out->nvml);
    const char *missing = find_missing(&out->nvml);
    int code = missing ? NVML_FUNCTION_NOT_FOUND : out->nvml.init();
    if (missing)
        snprintf(out->reason, sizeof out->reason, "'%s' has no function %s", path,
                 missing);
    else if (code != NVML_OK)
        snprintf(out->reason, sizeof out->reason, "no NVIDIA driver: nvmlInit_v2: %s",
                 mig_nvml_text(code));
    if (code != NVML_OK) {
        dlclose(handle);
        return;
    }
    out->handle = handle;
    if (NVML_CALL(&out->nvml, driver_version, out->driver, sizeof out->driver) !=
        NVML_OK)
        out->driver[0] = 0;
}

void mig_library_close(struct mig_library *library)
{
    if (!library->handle)
        return;
    if (library->nvml.shutdown)
        library->nvml.shutdown();
    dlclose(library->handle);
    library->handle = NULL;
}
