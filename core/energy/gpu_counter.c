/* SPDX-License-Identifier: Apache-2.0 */
#include "core/energy/gpu_counter.h"

#include <dlfcn.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"

/* nvmlReturn_t */
enum { NVML_OK = 0, NVML_NOT_SUPPORTED = 3, NVML_NO_PERMISSION = 4 };

/* By NVIDIA's stable C ABI (nvml.h 13.3); handles are pointers. */
struct cadre_nvml_functions {
    int (*init)(void);
    int (*shutdown)(void);
    int (*by_pci)(const char *, void **);
    int (*energy)(void *, unsigned long long *); /* mJ */
    int (*mig_mode)(void *, unsigned *, unsigned *); /* NULL in old drivers */
};

static void explain(struct cadre_gpu_counter *counter, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void explain(struct cadre_gpu_counter *counter, const char *format, ...)
{
    va_list ap;
    if (*counter->why)
        return;
    va_start(ap, format);
    vsnprintf(counter->why, sizeof counter->why, format, ap);
    va_end(ap);
}

static void explain_code(struct cadre_gpu_counter *counter, const char *function,
                         int code)
{
    explain(counter, "%s: %s (%d)", function,
            code == NVML_NOT_SUPPORTED   ? "this GPU has no such counter"
            : code == NVML_NO_PERMISSION ? "no permission"
                                         : "NVML refused",
            code);
}

static bool load(struct cadre_gpu_counter *counter)
{
    struct cadre_nvml_functions *nvml = counter->nvml;
    const struct {
        const char *name;
        void *to;
        bool optional;
    } all[] = {
        {"nvmlInit_v2", &nvml->init, false},
        {"nvmlShutdown", &nvml->shutdown, false},
        {"nvmlDeviceGetHandleByPciBusId_v2", &nvml->by_pci, false},
        {"nvmlDeviceGetTotalEnergyConsumption", &nvml->energy, false},
        {"nvmlDeviceGetMigMode", &nvml->mig_mode, true},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        void *symbol = dlsym(counter->library, all[i].name);
        memcpy(all[i].to, &symbol, sizeof symbol);
        if (symbol || all[i].optional)
            continue;
        explain(counter, "the driver's NVML has no %s", all[i].name);
        return false;
    }
    return true;
}

/* The GPU, and the first reading. */
static bool find(struct cadre_gpu_counter *counter, const char *pci)
{
    const struct cadre_nvml_functions *nvml = counter->nvml;
    unsigned now = 0, pending = 0;
    int code = nvml->by_pci(pci, &counter->gpu);
    if (code != NVML_OK) {
        explain_code(counter, "nvmlDeviceGetHandleByPciBusId_v2", code);
        return false;
    }
    if (nvml->mig_mode && nvml->mig_mode(counter->gpu, &now, &pending) == NVML_OK)
        counter->mig = now != 0;
    return !isnan(cadre_gpu_counter_read(counter));
}

void cadre_gpu_counter_open(struct cadre_gpu_counter *counter, const char *pci)
{
    const char *path = getenv("CADRE_NVML");
    *counter = (struct cadre_gpu_counter){0};
    if (!path || !*path)
        path = "libnvidia-ml.so.1";
    if (!*pci) {
        explain(counter, "the GPU's PCI address is not known");
        return;
    }
    counter->nvml = cadre_calloc(1, sizeof *counter->nvml);
    counter->library = counter->nvml ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!counter->library) {
        explain(counter, "the driver's library '%.160s' cannot be opened", path);
        cadre_gpu_counter_close(counter);
        return;
    }
    int code = -1;
    bool good = load(counter);
    if (good) {
        code = counter->nvml->init();
        if (code != NVML_OK)
            explain_code(counter, "nvmlInit_v2", code);
    }
    if (code == NVML_OK && find(counter, pci))
        return;
    if (code != NVML_OK) /* nothing to shut down */
        counter->nvml->shutdown = NULL;
    cadre_gpu_counter_close(counter);
}

double cadre_gpu_counter_read(struct cadre_gpu_counter *counter)
{
    unsigned long long now = 0;
    if (!counter->library)
        return NAN;
    int code = counter->nvml->energy(counter->gpu, &now);
    if (code != NVML_OK) {
        explain_code(counter, "nvmlDeviceGetTotalEnergyConsumption", code);
        return NAN;
    }
    const unsigned long long then = counter->last_mj;
    counter->last_mj = now;
    if (now < then) { /* the driver was loaded anew */
        explain(counter, "the GPU's energy counter went back");
        return NAN;
    }
    return 1e-3 * (double)(now - then);
}

void cadre_gpu_counter_close(struct cadre_gpu_counter *counter)
{
    if (counter->nvml && counter->nvml->shutdown)
        counter->nvml->shutdown();
    if (counter->library)
        dlclose(counter->library);
    free(counter->nvml);
    counter->library = NULL;
    counter->nvml = NULL;
}
