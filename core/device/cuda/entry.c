/* SPDX-License-Identifier: Apache-2.0 */
/* The module's one exported symbol. */
#include <cuda_runtime_api.h>

#include "config.h"
#include "core/base/module.h"
#include "core/device/module.h"

static cadre_status open_device(const struct cadre_device_config *config,
                                struct cadre_device **out, struct cadre_error *err)
{
    return cadre_fail(err, CADRE_E_UNSUPPORTED, "device.kind = cuda: no kernels yet");
}

static void describe(struct cadre_text *out)
{
    int version = 0;
    cudaRuntimeGetVersion(&version);
    cadre_text_printf(out, "CUDA runtime %d.%d\n", version / 1000, version / 10 % 100);
}

static const struct cadre_device_module device_module = {
    .ops_bytes = sizeof(struct cadre_device_ops),
    .open = open_device,
    .describe = describe,
};

static const struct cadre_module this_module = {
    .struct_size = sizeof this_module,
    .abi = CADRE_MODULE_ABI,
    .build = CADRE_MODULE_BUILD,
    .kind = "device",
    .table_size = sizeof device_module,
    .table = &device_module,
};

CADRE_MODULE_EXPORT const struct cadre_module *
CADRE_MODULE_ENTRY(const struct cadre_module_host *host);

CADRE_MODULE_EXPORT const struct cadre_module *
CADRE_MODULE_ENTRY(const struct cadre_module_host *host)
{
    if (host->struct_size == sizeof *host && host->abi == CADRE_MODULE_ABI)
        cadre_module_attach(host);
    return &this_module;
}
