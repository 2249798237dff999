/* SPDX-License-Identifier: Apache-2.0 */
/* ddp: data-parallel replicas. Every rank along its axis holds the whole model and sees
 * its own micro-batches; the gradients are summed over the ranks once per
 * optimizer step. They are summed in buckets of several gradients, in the reverse order
 * of the model because backward finishes them in that order: while backward runs the
 * lower layers, the buckets of the upper layers are reduced, whole or compressed. */
#include <stdlib.h>

#include "plugins/ddp/ddp.h"

#define MAX_LEVEL 254u

static const struct cadre_service services[] = {
    CADRE_SERVICE(mesh, MESH, size),
    CADRE_SERVICE(comm, COMM, stream_wait),
    CADRE_SERVICE(model, MODEL, param),
    CADRE_SERVICE(param, PARAM, reduced),
    {NULL, 0, 0},
};

/* Services that only compression needs. */
static const struct cadre_service services_to_compress[] = {
    CADRE_SERVICE(mem, MEM, free),
    CADRE_SERVICE(stream, STREAM, wait),
    CADRE_SERVICE(ops, OPS, to_host),
    CADRE_SERVICE(rng, RNG, normal),
    {NULL, 0, 0},
};

/* What the moments of the optimizer need. */
static const struct cadre_service services_for_moments[] = {
    CADRE_SERVICE(param, PARAM, moments),
    {NULL, 0, 0},
};

/* Services that sums in several nodes of the reduction tree need. */
static const struct cadre_service services_for_nodes[] = {
    CADRE_SERVICE(mem, MEM, free),
    CADRE_SERVICE(stream, STREAM, wait),
    CADRE_SERVICE(ops, OPS, zero),
    CADRE_SERVICE(tree, TREE, sum),
    {NULL, 0, 0},
};

static void release(struct cadre_self *self)
{
    ddp_mode_release(self);
    free(self->bucket);
    free(self->entry);
    free(self->place);
    free(self);
}

static void destroy(struct cadre_self *self, const struct cadre_end *end)
{
    (void)end;
    release(self);
}

/* Moments are not to be summed again: nobody reduces after them. */
static cadre_status take_moments(struct cadre_self *self)
{
    CADRE_TRY(cadre_services_take(self->host, services_for_moments, self));
    if (self->level > 0)
        return cadre_refuse(self->host, CADRE_E_INVALID,
                            "ddp.level = %u with ddp.compress = onebit, which reduces "
                            "last; leave ddp.level out",
                            self->level);
    self->level = MAX_LEVEL;
    return CADRE_OK;
}

static cadre_status create(const struct cadre_create *in, struct cadre_self **out)
{
    const struct cadre_host *host = in->host;
    const struct cadre_values *values = in->values;
    struct cadre_self *self;
    cadre_status rc;
    CADRE_TRY(cadre_self_create(host, services, sizeof *self, &self));
    self->host = host;
    self->ctx = host->ctx;
    self->bucket_bytes =
        (uint64_t)(values->f64(values->h, "bucket_mb") * 1024.0 * 1024.0);
    self->overlap = values->i64(values->h, "overlap") != 0;
    self->level = (uint32_t)values->i64(values->h, "level");
    self->node = (uint32_t)values->i64(values->h, "node");
    CADRE_TRY_OR(ddp_mode_parse(self, values->str(values->h, "compress")), fail);
    if (self->mode == &ddp_mode_onebit)
        CADRE_TRY_OR(take_moments(self), fail);
    if (self->mode != &ddp_mode_none)
        CADRE_TRY_OR(cadre_services_take(host, services_to_compress, self), fail);
    *out = self;
    return CADRE_OK;
fail:
    release(self);
    return rc;
}

/* In exact mode the sum of a rank's micro-batches may be several nodes of the tree. */
static cadre_status choose_mode(struct cadre_self *self)
{
    uint64_t nodes = 0;
    CADRE_TRY(cadre_services_take(self->host, services_for_nodes, self));
    for (uint32_t r = 0; r < self->ranks; r++)
        nodes += self->tree->n_nodes(self->axis, (int32_t)r);
    self->mode = nodes > 0 ? &ddp_mode_nodes : &ddp_mode_none;
    return CADRE_OK;
}

static cadre_status check_compression(struct cadre_self *self,
                                      const struct cadre_plan *plan)
{
    if (plan->exact)
        return cadre_refuse(self->host, CADRE_E_INVALID,
                            "ddp.compress rounds or leaves out gradients, which "
                            "run.exact = yes forbids: use ddp.compress = none or "
                            "run.exact = no");
    if (plan->dtype == CADRE_F16 && self->mode->keeps)
        return cadre_refuse(
            self->host, CADRE_E_INVALID,
            "ddp.compress = int8, topk, powersgd and onebit keep errors for "
            "the next step, whose loss scale is another under "
            "train.precision = fp16: use ddp.compress = bf16, fp16 or "
            "none, or train.precision = bf16");
    return CADRE_OK;
}

/* No map of micro-batches is asked for: gradients are reduced as any map gives them. */
static cadre_status plan(struct cadre_self *self, const struct cadre_plan *plan)
{
    int compresses = self->mode != &ddp_mode_none && self->mode != &ddp_mode_nodes &&
                     self->mode != &ddp_mode_levels;
    if (compresses)
        CADRE_TRY(check_compression(self, plan));
    CADRE_TRY(plan->use_axis(plan->h, plan->axis, CADRE_BATCH_SPLIT));
    CADRE_TRY(plan->reduces(plan->h, plan->axis, self->level));
    self->axis = self->mesh->axis(self->ctx, NULL);
    self->ranks = (uint32_t)self->mesh->size(self->axis);
    self->index = (uint32_t)self->mesh->rank(self->axis);
    if (compresses)
        CADRE_TRY(plan->by_design(plan->h, self->mode == &ddp_mode_onebit
                                               ? "compress=onebit:1000000000"
                                               : "compress=none"));
    if (self->ranks <= 1)
        return CADRE_OK;
    self->exact = plan->exact;
    if (plan->exact)
        CADRE_TRY(choose_mode(self));
    CADRE_TRY(ddp_levels_plan(self, plan));
    CADRE_TRY(ddp_entries_list(self));
    if (self->mode == &ddp_mode_onebit)
        CADRE_TRY(ddp_onebit_plan(self, plan));
    return ddp_mode_plan(self, plan);
}

static cadre_status bind(struct cadre_self *self, const struct cadre_bind *in)
{
    (void)in;
    if (self->ranks <= 1)
        return CADRE_OK;
    CADRE_TRY(ddp_buckets_make(self));
    return ddp_mode_bind(self);
}

/* ---- descriptor ---- */

static const struct cadre_option options[] = {
    CADRE_OPTION(.type = CADRE_OPTION_F64, .key = "bucket_mb", .def = "25",
                 .min = 0.001, .max = 65536,
                 .help = "size of a gradient bucket in MiB"),
    CADRE_OPTION(.type = CADRE_OPTION_BOOL, .key = "overlap", .def = "yes",
                 .help = "reduce gradients while backward runs"),
    CADRE_OPTION(.type = CADRE_OPTION_STR, .key = "compress", .def = "none",
                 .help = "gradient compression: none, bf16, fp16, int8, topk:R, "
                         "powersgd:K, onebit:W"),
    CADRE_OPTION(.type = CADRE_OPTION_I64, .key = "level", .def = "0", .max = MAX_LEVEL,
                 .help = "position among the reducers of a stack, inner first"),
    CADRE_OPTION(.type = CADRE_OPTION_I64, .key = "node", .def = "0", .max = 1024,
                 .help = "adjacent ranks that make a node: gradients are summed inside "
                         "nodes, then between them; 0: over all at once"),
};

static const struct cadre_strategy_ops ops = {
    .struct_size = sizeof ops,
    .create = create,
    .plan = plan,
    .bind = bind,
    .step = ddp_step,
    .sync = ddp_sync,
    .on_grad = ddp_on_grad,
    .state = ddp_state,
    .destroy = destroy,
};

CADRE_PLUGIN(.role = CADRE_ROLE_DATA, .id = "org.cadre.ddp", .version = "0.2.0",
             .summary = "data-parallel replicas, gradients summed in buckets during "
                        "backward",
             .axis = "dp", CADRE_OPTIONS(options), .services = services, .ops = &ops)
