/* SPDX-License-Identifier: Apache-2.0 */
/* mig: replicas on parts of a machine that do not disturb each other, the MIG instances
 * of GPUs or sets of CPU cores. The plugin says where a rank runs before it starts, and
 * in mode average sums the gradients of the replicas. In mode independent the core runs
 * each instance as a run of its own, and nothing is left to do here. */
#include "plugins/mig/mig.h"

#include <stdlib.h>
#include <string.h>

#include "plugins/mig/command.h"

static cadre_status fetch_services(struct cadre_self *self)
{
    const struct cadre_host *host = self->host;
    cadre_status rc = CADRE_OK;
    self->mesh = cadre_fetch(host, CADRE_SERVICE_MESH, &rc);
    self->comm = cadre_fetch(host, CADRE_SERVICE_COMM, &rc);
    self->model = cadre_fetch(host, CADRE_SERVICE_MODEL, &rc);
    self->param = cadre_fetch(host, CADRE_SERVICE_PARAM, &rc);
    if (rc)
        return rc;
    if (!CADRE_HAS(self->mesh, size) || !CADRE_HAS(self->comm, join) ||
        !CADRE_HAS(self->comm, all_reduce) || !CADRE_HAS(self->model, param) ||
        !CADRE_HAS(self->param, grad_span) || !CADRE_HAS(self->param, grad))
        return cadre_refuse(host, CADRE_E_UNSUPPORTED,
                            "the host's mesh, comm, model or param service lacks a "
                            "function that mig needs");
    return CADRE_OK;
}

static cadre_status read_options(struct cadre_self *self,
                                 const struct cadre_values *values)
{
    const void *h = values->h;
    self->averages = strcmp(values->str(h, "mode"), "average") == 0;
    self->profile = values->str(h, "profile");
    self->instances = values->str(h, "instances");
    self->pin = values->i64(h, "pin") != 0;
    self->share = values->i64(h, "share") != 0;
    if (self->averages && *values->str(h, "sweep"))
        return cadre_refuse(self->host, CADRE_E_INVALID,
                            "mig.sweep = %.200s gives instances different options, "
                            "but mig.mode = average makes them one run: set mig.mode "
                            "= independent, or leave mig.sweep out",
                            values->str(h, "sweep"));
    return CADRE_OK;
}

static void destroy(struct cadre_self *self)
{
    mig_average_release(self);
    free(self);
}

static cadre_status create(const struct cadre_host *host,
                           const struct cadre_values *values, struct cadre_self **out)
{
    struct cadre_self *self = calloc(1, sizeof *self);
    if (!self)
        return cadre_refuse(host, CADRE_E_RESOURCE, "no memory for the instance");
    self->host = host;
    self->ctx = host->ctx;
    cadre_status rc = read_options(self, values);
    if (!rc)
        rc = fetch_services(self);
    if (rc) {
        destroy(self);
        return rc;
    }
    *out = self;
    return CADRE_OK;
}

/* Who sums gradients over replicas claims it for "dp", whatever the axis: ddp and zero
 * would sum those of one instance alone, and not the same way. */
static cadre_status plan(struct cadre_self *self, const struct cadre_plan *plan)
{
    self->axis = self->mesh->axis(self->ctx, "mig");
    self->size = (uint32_t)self->mesh->size(self->axis);
    self->index = (uint32_t)self->mesh->rank(self->axis);
    if (!self->averages)
        return plan->use_axis(plan->h, "mig", CADRE_BATCH_APART);
    cadre_status rc = plan->use_axis(plan->h, "mig", CADRE_BATCH_SPLIT);
    if (!rc)
        rc = plan->claim(plan->h, "grad.reduce", "dp", 0);
    if (!rc)
        rc = plan->leaves(plan->h, CADRE_LEAVES_BLOCK);
    return rc;
}

static cadre_status place(struct cadre_self *self, const struct cadre_place *place)
{
    return mig_place(self, place);
}

static cadre_status bind(struct cadre_self *self)
{
    return mig_average_bind(self);
}

/* ---- descriptor ---- */

#define OPTION(key_, type_, def_, choices_, help_)                                     \
    {                                                                                  \
        .struct_size = sizeof(struct cadre_option), .type = (type_), .key = (key_),    \
        .def = (def_), .choices = (choices_), .help = (help_),                         \
    }

static const struct cadre_option options[] = {
    OPTION("mode", CADRE_OPTION_ENUM, "average", "average, independent",
           "one run on all instances, or a run on each"),
    OPTION("profile", CADRE_OPTION_STR, "", NULL,
           "MIG instances of this profile alone, as 1g or 1g.18gb"),
    OPTION("instances", CADRE_OPTION_STR, "", NULL,
           "these MIG instances: UUIDs or GPU:INDEX; else the first found"),
    OPTION("sweep", CADRE_OPTION_STR, "", NULL,
           "independent: values for each instance, as optim.lr: 1e-3 3e-4"),
    OPTION("pin", CADRE_OPTION_BOOL, "yes", NULL,
           "no: ranks share the whole device or all cores, to compare with"),
    OPTION("share", CADRE_OPTION_BOOL, "no", NULL,
           "allow several ranks on one MIG instance"),
};

static const char *const services[] = {
    CADRE_SERVICE_MESH,
    CADRE_SERVICE_COMM,
    CADRE_SERVICE_MODEL,
    CADRE_SERVICE_PARAM,
    NULL,
};

static const struct cadre_strategy_ops ops = {
    .struct_size = sizeof ops,
    .create = create,
    .plan = plan,
    .place = place,
    .bind = bind,
    .step = mig_average_step,
    .sync = mig_average_sync,
    .on_grad = mig_average_on_grad,
    .destroy = destroy,
};

static const struct cadre_plugin descriptor = {
    .magic = CADRE_MAGIC,
    .struct_size = sizeof descriptor,
    .abi_major = CADRE_ABI_MAJOR,
    .abi_minor = CADRE_ABI_MINOR,
    .min_host_minor = 1,
    /* as ddp: its sums come before tensor's of what the ranks' rows leave open */
    .role = CADRE_ROLE_DATA,
    .id = "org.cadre.mig",
    .version = "0.1.0",
    .summary = "replicas on MIG instances or core sets, averaged or each a run",
    .build = "",
    .axis = "mig",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .option_stride = sizeof *options,
    .services = services,
    .ops = &ops,
    .command = mig_command,
};

const struct cadre_plugin *CADRE_ENTRY(void)
{
    return &descriptor;
}
