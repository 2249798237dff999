/* SPDX-License-Identifier: Apache-2.0 */
/* ddp: data-parallel replicas. Every rank along the axis "dp" holds the whole model and
 * sees its own micro-batches; the gradients are summed over the ranks once per
 * optimizer step. They are summed in buckets, pieces of memory over several gradients,
 * taken in the reverse order of the model because that is the order in which backward
 * finishes them: while it works on the lower layers, the buckets of the upper ones
 * travel, whole or compressed. */
#include <stdlib.h>

#include "plugins/ddp/ddp.h"

/* ---- set-up ---- */

static cadre_status fetch_services(struct cadre_self *self)
{
    const struct cadre_host *host = self->host;
    cadre_status rc = CADRE_OK;
    self->mesh = cadre_fetch(host, CADRE_SERVICE_MESH, &rc);
    self->comm = cadre_fetch(host, CADRE_SERVICE_COMM, &rc);
    self->model = cadre_fetch(host, CADRE_SERVICE_MODEL, &rc);
    self->param = cadre_fetch(host, CADRE_SERVICE_PARAM, &rc);
    if (self->mode != &ddp_mode_none) {
        self->mem = cadre_fetch(host, CADRE_SERVICE_MEM, &rc);
        self->stream = cadre_fetch(host, CADRE_SERVICE_STREAM, &rc);
        self->ops = cadre_fetch(host, CADRE_SERVICE_OPS, &rc);
        self->rng = cadre_fetch(host, CADRE_SERVICE_RNG, &rc);
    }
    if (rc)
        return rc;
    if (!CADRE_HAS(self->mesh, size) || !CADRE_HAS(self->comm, join) ||
        !CADRE_HAS(self->comm, all_reduce) || !CADRE_HAS(self->model, param) ||
        !CADRE_HAS(self->param, grad_span) || !CADRE_HAS(self->param, grad) ||
        (self->ops && !CADRE_HAS(self->ops, to_host)))
        return cadre_refuse(host, CADRE_E_UNSUPPORTED,
                            "the host's mesh, comm, model, param or ops service lacks "
                            "a function that ddp needs");
    return CADRE_OK;
}

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
    struct cadre_self *self = calloc(1, sizeof *self);
    if (!self)
        return cadre_refuse(host, CADRE_E_RESOURCE, "no memory for the instance");
    self->host = host;
    self->ctx = host->ctx;
    self->bucket_bytes =
        (uint64_t)(values->f64(values->h, "bucket_mb") * 1024.0 * 1024.0);
    self->overlap = values->i64(values->h, "overlap") != 0;
    cadre_status rc = ddp_mode_parse(self, values->str(values->h, "compress"));
    if (!rc)
        rc = fetch_services(self);
    if (rc) {
        destroy(self);
        return rc;
    }
    *out = self;
    return CADRE_OK;
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
    cadre_status rc = plan->use_axis(plan->h, "dp", CADRE_BATCH_SPLIT);
    if (!rc)
        rc = plan->claim(plan->h, "grad.reduce", "dp", 0);
    if (!rc)
        rc = plan->leaves(plan->h, CADRE_LEAVES_BLOCK);
    if (!rc && self->mode != &ddp_mode_none)
        rc = plan->claim(plan->h, "train.changed", NULL, CADRE_CLAIM_SHARED);
    if (!rc)
        rc = ddp_mode_plan(self, plan);
    return rc;
}

static cadre_status bind(struct cadre_self *self)
{
    self->axis = self->mesh->axis(self->ctx, "dp");
    self->ranks = (uint32_t)self->mesh->size(self->axis);
    self->index = (uint32_t)self->mesh->rank(self->axis);
    if (self->ranks <= 1)
        return CADRE_OK;
    cadre_status rc = ddp_buckets_make(self);
    return rc ? rc : ddp_mode_bind(self);
}

/* ---- descriptor ---- */

static const struct cadre_option options[] = {
    {
        .struct_size = sizeof(struct cadre_option),
        .type = CADRE_OPTION_F64,
        .key = "bucket_mb",
        .def = "25",
        .help = "MiB of gradients that travel together",
        .min = 0.001,
        .max = 65536,
    },
    {
        .struct_size = sizeof(struct cadre_option),
        .type = CADRE_OPTION_BOOL,
        .key = "overlap",
        .def = "yes",
        .help = "sum gradients while backward runs",
    },
    {
        .struct_size = sizeof(struct cadre_option),
        .type = CADRE_OPTION_STR,
        .key = "compress",
        .def = "none",
        .help = "gradients on the wire: none, bf16, fp16, int8, topk:R, powersgd:K",
    },
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
    .bind = bind,
    .step = ddp_step,
    .sync = ddp_sync,
    .on_grad = ddp_on_grad,
    .state = ddp_state,
    .destroy = destroy,
};

static const struct cadre_plugin descriptor = {
    .magic = CADRE_MAGIC,
    .struct_size = sizeof descriptor,
    .abi_major = CADRE_ABI_MAJOR,
    .abi_minor = CADRE_ABI_MINOR,
    .min_host_minor = 1,
    .role = CADRE_ROLE_DATA,
    .id = "org.cadre.ddp",
    .version = "0.1.0",
    .summary = "data-parallel replicas, gradients summed in buckets during backward",
    .build = "",
    .axis = "dp",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .option_stride = sizeof *options,
    .services = services,
    .ops = &ops,
};

const struct cadre_plugin *CADRE_ENTRY(void)
{
    return &descriptor;
}
