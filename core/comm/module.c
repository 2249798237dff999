/* SPDX-License-Identifier: Apache-2.0 */
#include "core/comm/module.h"

#include "core/base/module.h"
#include "core/comm/backend.h"

static cadre_status open_module(const char *name, const struct cadre_comm_module **out,
                                struct cadre_error *err)
{
    const struct cadre_comm_module *module;
    struct cadre_text version = {0};
    const void *table = NULL;
    cadre_status rc =
        cadre_module_open(name, "comm", sizeof(struct cadre_comm_module), &table, err);
    module = table;
    if (rc == CADRE_OK && module->backend_bytes != sizeof(struct cadre_comm_backend))
        rc = cadre_fail(
            err, CADRE_E_UNSUPPORTED,
            "the module %s.so is from another build: expected a table of %zu "
            "bytes, found %u; install it with the program",
            name, sizeof(struct cadre_comm_backend), module->backend_bytes);
    if (rc == CADRE_OK)
        rc = module->version(&version, err);
    cadre_text_fini(&version);
    if (rc == CADRE_OK)
        *out = module;
    return rc;
}

static void describe(const char *name, struct cadre_text *out)
{
    const struct cadre_comm_module *module;
    struct cadre_error err = {0};
    if (open_module(name, &module, &err) == CADRE_OK)
        module->describe(out);
    else
        cadre_text_printf(out, "no: %s\n", err.text);
}

cadre_status cadre_comm_module_nccl(const struct cadre_comm_module **out,
                                    struct cadre_error *err)
{
    return open_module("comm_nccl", out, err);
}

void cadre_comm_describe_nccl(struct cadre_text *out)
{
    describe("comm_nccl", out);
}

cadre_status cadre_comm_module_mpi(const struct cadre_comm_module **out,
                                   struct cadre_error *err)
{
    return open_module("comm_mpi", out, err);
}

void cadre_comm_describe_mpi(struct cadre_text *out)
{
    describe("comm_mpi", out);
}
