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
    .identify = cadre_cuda_identify,
};

CADRE_MODULE_DEFINE("device", device_module);
