/* SPDX-License-Identifier: Apache-2.0 */
/* The module's one exported symbol. */
#include "config.h"
#include "core/base/module.h"
#include "core/device/cuda/cuda.h"
#include "core/device/module.h"

static const struct cadre_device_module device_module = {
    .ops_bytes = sizeof(struct cadre_device_ops),
    .open = cadre_cuda_open,
    .count = cadre_cuda_find,
    .describe = cadre_cuda_describe,
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
