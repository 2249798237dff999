/* SPDX-License-Identifier: Apache-2.0 */
/* The strategy mig: a rank for each MIG instance, or core set. */
#include <cadre/helpers.h>

#include "plugins/mig/command.h"

static cadre_status create(const struct cadre_host *host,
                           const struct cadre_values *values, struct cadre_self **out)
{
    (void)values;
    *out = NULL;
    return cadre_refuse(host, CADRE_E_UNSUPPORTED, "the strategy mig is not built yet");
}

static cadre_status plan(struct cadre_self *self, const struct cadre_plan *p)
{
    (void)self;
    (void)p;
    return CADRE_E_UNSUPPORTED;
}

static cadre_status bind(struct cadre_self *self)
{
    (void)self;
    return CADRE_E_UNSUPPORTED;
}

static cadre_status sync(struct cadre_self *self, uint32_t what)
{
    (void)self;
    (void)what;
    return CADRE_E_UNSUPPORTED;
}

static void destroy(struct cadre_self *self)
{
    (void)self;
}

static const struct cadre_strategy_ops ops = {
    .struct_size = sizeof ops,
    .create = create,
    .plan = plan,
    .bind = bind,
    .sync = sync,
    .destroy = destroy,
};

static const struct cadre_plugin plugin = {
    .magic = CADRE_MAGIC,
    .struct_size = sizeof plugin,
    .abi_major = CADRE_ABI_MAJOR,
    .abi_minor = CADRE_ABI_MINOR,
    .min_host_minor = 1,
    .role = CADRE_ROLE_PLACEMENT,
    .id = "org.cadre.mig",
    .version = "0.1.0",
    .summary = "a rank for each MIG instance or core set",
    .build = "",
    .axis = "mig",
    .ops = &ops,
    .command = mig_command,
};

CADRE_EXPORT const struct cadre_plugin *CADRE_ENTRY(void)
{
    return &plugin;
}
