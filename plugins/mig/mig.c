/* SPDX-License-Identifier: Apache-2.0 */
/* mig: places ranks on isolated parts of a machine, the MIG instances of GPUs or sets
 * of CPU cores. The plugin chooses where a rank runs before it starts, and takes no
 * part in the step. In mode average the core adds ddp to the stack, over the axis of
 * the instances, which sums the gradients of the replicas; in mode independent each
 * instance is an independent run. */
#include "plugins/mig/mig.h"

#include <stdlib.h>
#include <string.h>

#include "plugins/mig/command.h"

static const struct cadre_service services[] = {
    CADRE_SERVICE(mesh, MESH, size),
    {NULL, 0, 0},
};

static cadre_status read_options(struct cadre_self *self,
                                 const struct cadre_values *values)
{
    const void *h = values->h;
    self->averages = strcmp(values->str(h, "mode"), "average") == 0;
    self->profile = values->str(h, "profile");
    self->instances = values->str(h, "instances");
    const char *mps = values->str(h, "mps");
    char why[256];
    self->pin = values->i64(h, "pin") != 0;
    self->share = values->i64(h, "share") != 0;
    self->mps = strcmp(mps, "yes") == 0  ? MIG_MPS_YES
                : strcmp(mps, "no") == 0 ? MIG_MPS_NO
                                         : MIG_MPS_ANY;
    if (!mig_sizes_read(values->str(h, "sizes"), &self->sizes, why, sizeof why))
        return self->host->fail(self->ctx, CADRE_E_INVALID, why);
    if (self->averages && *values->str(h, "sweep"))
        return cadre_refuse(self->host, CADRE_E_INVALID,
                            "mig.sweep = %.200s gives instances different options, "
                            "but mig.mode = average makes them one run: set mig.mode "
                            "= independent, or leave mig.sweep out",
                            values->str(h, "sweep"));
    return CADRE_OK;
}

static void destroy(struct cadre_self *self, const struct cadre_end *end)
{
    (void)end;
    free(self);
}

static cadre_status create(const struct cadre_create *in, struct cadre_self **out)
{
    struct cadre_self *self;
    CADRE_TRY(cadre_self_create(in->host, services, sizeof *self, &self));
    self->host = in->host;
    self->ctx = in->host->ctx;
    cadre_status rc = read_options(self, in->values);
    if (rc == CADRE_OK)
        *out = self;
    else
        free(self);
    return rc;
}

/* Ranks get micro-batches in proportion to the size of their part of the machine. */
static cadre_status map_batch(struct cadre_self *self, const struct cadre_plan *plan)
{
    uint64_t first[MIG_MAX_SIZES + 1];
    if (self->sizes.n < 2)
        return CADRE_OK;
    if (!mig_sizes_divide(&self->sizes, plan->microbatches, first))
        return cadre_refuse(self->host, CADRE_E_INVALID,
                            "train.global_batch / train.micro_batch makes %llu "
                            "micro-batches, expected at least one for each of the %u "
                            "parts of mig.sizes",
                            (unsigned long long)plan->microbatches, self->sizes.n);
    return plan->microbatch_map(plan->h, CADRE_MICROBATCHES_RANGES, first);
}

/* In mode average ddp splits the batch, not this plugin. */
static cadre_status plan(struct cadre_self *self, const struct cadre_plan *plan)
{
    const struct cadre_axis *axis = self->mesh->axis(self->ctx, NULL);
    self->size = (uint32_t)self->mesh->size(axis);
    self->index = (uint32_t)self->mesh->rank(axis);
    if (self->sizes.n > 0 && self->sizes.n != self->size)
        return cadre_refuse(self->host, CADRE_E_INVALID,
                            "mig.sizes has %u sizes, but strategy.stack has %u parts "
                            "along '%s'; make them agree",
                            self->sizes.n, self->size, plan->axis);
    return self->averages
               ? map_batch(self, plan)
               : plan->use_axis(plan->h, plan->axis, CADRE_BATCH_INDEPENDENT);
}

static cadre_status bind(struct cadre_self *self, const struct cadre_bind *in)
{
    (void)self, (void)in;
    return CADRE_OK;
}

static cadre_status sync(struct cadre_self *self, const struct cadre_sync *in)
{
    (void)self, (void)in;
    return CADRE_OK;
}

/* ---- descriptor ---- */

static const struct cadre_option options[] = {
    CADRE_OPTION(.type = CADRE_OPTION_ENUM, .key = "mode", .def = "average",
                 .choices = "average, independent",
                 .help = "average: one run on all; independent: a run on each"),
    CADRE_OPTION(.type = CADRE_OPTION_STR, .key = "profile", .def = "",
                 .help = "use MIG instances of this profile only: 1g or 1g.18gb"),
    CADRE_OPTION(.type = CADRE_OPTION_STR, .key = "instances", .def = "",
                 .help = "use these MIG instances: UUIDs or GPU:INDEX; else the first "
                         "found"),
    CADRE_OPTION(.type = CADRE_OPTION_STR, .key = "sizes", .def = "",
                 .help = "size of each part, as 3 1: compute slices, or shares of "
                         "the cores"),
    CADRE_OPTION(.type = CADRE_OPTION_STR, .key = "sweep", .def = "",
                 .help = "independent: values for each instance, as optim.lr: 1e-3 "
                         "3e-4"),
    CADRE_OPTION(.type = CADRE_OPTION_BOOL, .key = "pin", .def = "yes",
                 .help = "no: ranks share the whole device or all cores, to compare "
                         "with"),
    CADRE_OPTION(.type = CADRE_OPTION_BOOL, .key = "share", .def = "no",
                 .help = "allow several ranks on one MIG instance"),
    CADRE_OPTION(.type = CADRE_OPTION_ENUM, .key = "mps", .def = "any",
                 .choices = "any, yes, no",
                 .help = "CUDA MPS: as it is; yes: needs its daemon; no: time-slicing"),
};

static const struct cadre_strategy_ops ops = {
    .struct_size = sizeof ops,
    .create = create,
    .plan = plan,
    .place = mig_place,
    .bind = bind,
    .sync = sync,
    .destroy = destroy,
};

CADRE_PLUGIN(.role = CADRE_ROLE_PLACEMENT, .id = "org.cadre.mig", .version = "0.2.0",
             .summary =
                 "replicas on MIG instances or core sets, averaged or each a run",
             .axis = "mig", CADRE_OPTIONS(options), .services = services, .ops = &ops,
             .command = mig_command)
