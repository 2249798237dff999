/* SPDX-License-Identifier: Apache-2.0 */
/* mig: replicas on parts of a machine that do not disturb each other, the MIG instances
 * of GPUs or sets of CPU cores. The plugin says where a rank runs before it starts, and
 * in mode average sums the gradients of the replicas. In mode independent the core runs
 * each instance as a run of its own, and nothing is left to do here. */
#include "plugins/mig/mig.h"

#include <stdlib.h>
#include <string.h>

#include "plugins/mig/command.h"

static const struct cadre_service services[] = {
    CADRE_SERVICE(mesh, MESH, size),
    CADRE_SERVICE(comm, COMM, join),
    CADRE_SERVICE(model, MODEL, param),
    CADRE_SERVICE(param, PARAM, grad_span),
    {NULL, 0, 0},
};

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
    struct cadre_self *self;
    CADRE_CHECK(cadre_self_create(host, services, sizeof *self, &self));
    self->host = host;
    self->ctx = host->ctx;
    cadre_status rc = read_options(self, values);
    if (rc == CADRE_OK)
        *out = self;
    else
        destroy(self);
    return rc;
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

static const struct cadre_option options[] = {
    CADRE_OPTION(.type = CADRE_OPTION_ENUM, .key = "mode", .def = "average",
                 .choices = "average, independent",
                 .help = "one run on all instances, or a run on each"),
    CADRE_OPTION(.type = CADRE_OPTION_STR, .key = "profile", .def = "",
                 .help = "MIG instances of this profile alone, as 1g or 1g.18gb"),
    CADRE_OPTION(.type = CADRE_OPTION_STR, .key = "instances", .def = "",
                 .help = "these MIG instances: UUIDs or GPU:INDEX; else the first "
                         "found"),
    CADRE_OPTION(.type = CADRE_OPTION_STR, .key = "sweep", .def = "",
                 .help = "independent: values for each instance, as optim.lr: 1e-3 "
                         "3e-4"),
    CADRE_OPTION(.type = CADRE_OPTION_BOOL, .key = "pin", .def = "yes",
                 .help = "no: ranks share the whole device or all cores, to compare "
                         "with"),
    CADRE_OPTION(.type = CADRE_OPTION_BOOL, .key = "share", .def = "no",
                 .help = "allow several ranks on one MIG instance"),
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

CADRE_PLUGIN(.role = CADRE_ROLE_DATA, .id = "org.cadre.mig", .version = "0.1.0",
             .summary =
                 "replicas on MIG instances or core sets, averaged or each a run",
             .axis = "mig", CADRE_OPTIONS(options), .services = services, .ops = &ops,
             .command = mig_command)
