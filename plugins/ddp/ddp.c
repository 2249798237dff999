/* SPDX-License-Identifier: Apache-2.0 */
/* ddp: data-parallel replicas. Every rank along the axis "dp" holds the whole model and
 * sees its own micro-batches; the gradients are summed over the ranks once per
 * optimizer step. They are summed in buckets of several gradients, in the reverse order
 * of the model because backward finishes them in that order: while backward runs the
 * lower layers, the buckets of the upper layers are reduced, whole or compressed. */
#include <stdlib.h>

#include "plugins/ddp/ddp.h"

static const struct cadre_service services[] = {
    CADRE_SERVICE(mesh, MESH, size),
    CADRE_SERVICE(comm, COMM, stream_wait),
    CADRE_SERVICE(model, MODEL, param),
    CADRE_SERVICE(param, PARAM, grad_span),
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

static void destroy(struct cadre_self *self)
{
    ddp_mode_release(self);
    free(self->bucket);
    free(self->entry);
    free(self);
}

static cadre_status create(const struct cadre_host *host,
                           const struct cadre_values *values, struct cadre_self **out)
{
    struct cadre_self *self;
    cadre_status rc;
    CADRE_TRY(cadre_self_create(host, services, sizeof *self, &self));
    self->host = host;
    self->ctx = host->ctx;
    self->bucket_bytes =
        (uint64_t)(values->f64(values->h, "bucket_mb") * 1024.0 * 1024.0);
    self->overlap = values->i64(values->h, "overlap") != 0;
    CADRE_TRY_OR(ddp_mode_parse(self, values->str(values->h, "compress")), fail);
    if (self->mode != &ddp_mode_none)
        CADRE_TRY_OR(cadre_services_take(host, services_to_compress, self), fail);
    *out = self;
    return CADRE_OK;
fail:
    destroy(self);
    return rc;
}

static cadre_status plan(struct cadre_self *self, const struct cadre_plan *plan)
{
    if (plan->exact && self->mode != &ddp_mode_none)
        return cadre_refuse(self->host, CADRE_E_INVALID,
                            "ddp.compress rounds or leaves out gradients, which "
                            "run.exact = yes forbids: use ddp.compress = none or "
                            "run.exact = no");
    if (plan->dtype == CADRE_F16 && self->mode->keeps)
        return cadre_refuse(self->host, CADRE_E_INVALID,
                            "ddp.compress = int8, topk and powersgd keep errors for "
                            "the next step, whose loss scale is another under "
                            "train.precision = fp16: use ddp.compress = bf16, fp16 or "
                            "none, or train.precision = bf16");
    CADRE_TRY(plan->use_axis(plan->h, "dp", CADRE_BATCH_SPLIT));
    CADRE_TRY(plan->claim(plan->h, "grad.reduce", "dp", 0));
    CADRE_TRY(plan->microbatch_map(plan->h, CADRE_MICROBATCHES_BLOCK));
    if (self->mode != &ddp_mode_none)
        CADRE_TRY(plan->claim(plan->h, "train.changed", NULL, CADRE_CLAIM_SHARED));
    return ddp_mode_plan(self, plan);
}

static cadre_status bind(struct cadre_self *self)
{
    self->axis = self->mesh->axis(self->ctx, "dp");
    self->ranks = (uint32_t)self->mesh->size(self->axis);
    self->index = (uint32_t)self->mesh->rank(self->axis);
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
                         "powersgd:K"),
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

CADRE_PLUGIN(.role = CADRE_ROLE_DATA, .id = "org.cadre.ddp", .version = "0.1.0",
             .summary = "data-parallel replicas, gradients summed in buckets during "
                        "backward",
             .axis = "dp", CADRE_OPTIONS(options), .services = services, .ops = &ops)
