/* SPDX-License-Identifier: Apache-2.0 */
/* The module's one exported symbol. */
#include "config.h"
#include "core/base/module.h"
#include "core/comm/mpi/internal.h"

static const struct cadre_comm_module comm_module = {
    .ops_bytes = sizeof(struct cadre_comm_ops),
    .version = cadre_mpi_version,
    .make_id = cadre_mpi_make_id,
    .open = cadre_mpi_open,
    .describe = cadre_mpi_describe,
};

static const struct cadre_module this_module = {
    .struct_size = sizeof this_module,
    .abi = CADRE_MODULE_ABI,
    .build = CADRE_MODULE_BUILD,
    .kind = "comm",
    .table_size = sizeof comm_module,
    .table = &comm_module,
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
