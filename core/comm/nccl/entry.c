/* SPDX-License-Identifier: Apache-2.0 */
/* The module's one exported symbol. */
#include "config.h"
#include "core/base/module.h"
#include "core/comm/nccl/private.h"

static const struct cadre_comm_module comm_module = {
    .backend_bytes = sizeof(struct cadre_comm_backend),
    .version = cadre_nccl_version,
    .make_id = cadre_nccl_make_id,
    .open = cadre_nccl_open,
    .describe = cadre_nccl_describe,
};

CADRE_MODULE_DEFINE("comm", comm_module);
