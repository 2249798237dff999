/* SPDX-License-Identifier: Apache-2.0 */
/* zero: data-parallel ranks that share what would be equal on all. Every rank along the
 * axis "dp" sees its own micro-batches and owns one part of the optimizer states (stage
 * 1), of the gradients too (2), of the parameters too (3). A part is a flat range of
 * each parameter, whole units of the global norm, so that sizes need not divide.
 * Source: Rajbhandari et al., ZeRO, SC20. */
#include <stdlib.h>
#include <string.h>

#include "plugins/zero/zero.h"

static cadre_status fetch_services(struct cadre_self *self)
{
    const struct cadre_host *host = self->host;
    cadre_status rc = CADRE_OK;
    self->mesh = cadre_fetch(host, CADRE_SERVICE_MESH, &rc);
    self->comm = cadre_fetch(host, CADRE_SERVICE_COMM, &rc);
    self->model = cadre_fetch(host, CADRE_SERVICE_MODEL, &rc);
    self->param = cadre_fetch(host, CADRE_SERVICE_PARAM, &rc);
    self->mem = cadre_fetch(host, CADRE_SERVICE_MEM, &rc);
    if (rc)
        return rc;
    if (!CADRE_HAS(self->mesh, size) || !CADRE_HAS(self->comm, join) ||
        !CADRE_HAS(self->model, param) || !CADRE_HAS(self->param, add_leaf) ||
        !CADRE_HAS(self->mem, free))
        return cadre_refuse(host, CADRE_E_UNSUPPORTED,
                            "the host's mesh, comm, model, param or mem service lacks "
                            "a function that zero needs");
    return CADRE_OK;
}

static cadre_status read_options(struct cadre_self *self,
                                 const struct cadre_values *values)
{
    const void *h = values->h;
    self->stage = values->i64(h, "stage");
    self->prefetch = values->i64(h, "prefetch");
    self->bucket_bytes = (uint64_t)(values->f64(h, "bucket_mb") * 1024.0 * 1024.0);
    self->overlap = values->i64(h, "overlap") != 0;
    self->each = strcmp(values->str(h, "reduce"), "microbatch") == 0;
    self->space = strcmp(values->str(h, "offload"), "optimizer") == 0
                      ? CADRE_SPACE_HOST
                      : CADRE_SPACE_DEVICE;
    if (self->each && self->stage == 1)
        return cadre_refuse(self->host, CADRE_E_INVALID,
                            "zero.reduce = microbatch with zero.stage = 1, where "
                            "gradients stay whole on every rank and nothing is saved; "
                            "set zero.reduce = step, or zero.stage to 2 or 3");
    return CADRE_OK;
}

static void destroy(struct cadre_self *self)
{
    cadre_zero_uncut(self);
    free(self->values.spare);
    free(self->grads.spare);
    free(self->parts.spare);
    free(self);
}

static cadre_status create(const struct cadre_host *host,
                           const struct cadre_values *values, struct cadre_self **out)
{
    struct cadre_self *self = calloc(1, sizeof *self);
    if (!self)
        return cadre_refuse(host, CADRE_E_RESOURCE, "no memory for the instance");
    self->host = host;
    self->values.tag = "gathered parameters";
    self->grads.tag = "gradient buckets";
    self->parts.tag = "reduced gradients";
    cadre_status rc = fetch_services(self);
    if (!rc)
        rc = read_options(self, values);
    if (rc) {
        destroy(self);
        return rc;
    }
    *out = self;
    return CADRE_OK;
}

/* ---- plan ---- */

static cadre_status claim(struct cadre_self *self, const struct cadre_plan *plan)
{
    cadre_status rc = plan->use_axis(plan->h, "dp", CADRE_BATCH_SPLIT);
    if (!rc)
        rc = plan->claim(plan->h, "grad.reduce", "dp", 0);
    if (!rc)
        rc = plan->claim(plan->h, "opt.shard", "dp", 0);
    if (!rc && self->stage == 3)
        rc = plan->claim(plan->h, "param.place", "dp", 0);
    if (!rc)
        rc = plan->leaves(plan->h, self->each && self->ranks > 1 ? CADRE_LEAVES_CYCLIC
                                                                 : CADRE_LEAVES_BLOCK);
    return rc;
}

static cadre_status place(struct cadre_self *self, const struct cadre_plan *plan,
                          cadre_param_id id)
{
    const struct zero_entry *entry = &self->entry[id];
    uint64_t begin = cadre_zero_begin(self, id, self->me);
    uint64_t count = cadre_zero_begin(self, id, self->me + 1) - begin;
    cadre_status rc = CADRE_OK;
    if (self->stage >= 2 && self->ranks > 1)
        rc = plan->place_range(plan->h, id, CADRE_KIND_GRAD, begin, count,
                               CADRE_SPACE_DEVICE);
    if (!rc && self->stage == 3 && self->ranks > 1 && entry->info.tied_to < 0)
        rc = plan->place_range(plan->h, id, CADRE_KIND_PARAM, begin, count,
                               CADRE_SPACE_DEVICE);
    if (!rc && entry->info.tied_to < 0)
        rc = plan->place_range(plan->h, id, CADRE_KIND_OPT, begin, count, self->space);
    return rc;
}

static cadre_status tell_memory(struct cadre_self *self, const struct cadre_plan *plan)
{
    uint64_t n = plan->microbatches / self->ranks;
    struct zero_pool *const pools[] = {&self->values, &self->grads, &self->parts};
    cadre_status rc = CADRE_OK;
    self->values.budget = self->stage == 3 ? cadre_zero_values_bytes(self) : 0;
    self->grads.budget = self->stage >= 2 ? cadre_zero_grads_bytes(self, n, 0) : 0;
    self->parts.budget = self->each ? cadre_zero_grads_bytes(self, n, 1) : 0;
    for (size_t i = 0; !rc && i < sizeof pools / sizeof *pools; i++)
        if (pools[i]->budget > 0)
            rc = plan->memory(plan->h, CADRE_SPACE_DEVICE, pools[i]->budget,
                              pools[i]->tag);
    return rc;
}

static cadre_status plan(struct cadre_self *self, const struct cadre_plan *plan)
{
    self->axis = self->mesh->axis(self->host->ctx, "dp");
    self->ranks = (uint32_t)self->mesh->size(self->axis);
    self->me = (uint32_t)self->mesh->rank(self->axis);
    self->n_units = plan->n_units;
    cadre_status rc = claim(self, plan);
    if (!rc)
        rc = cadre_zero_cut(self, plan->range_unit);
    for (cadre_param_id i = 0; !rc && i < self->n_entries; i++)
        rc = place(self, plan, i);
    if (!rc && self->ranks > 1)
        rc = tell_memory(self, plan);
    return rc;
}

static cadre_status bind(struct cadre_self *self)
{
    if (self->ranks <= 1)
        return CADRE_OK;
    cadre_status rc = cadre_zero_values_bind(self);
    return rc ? rc : cadre_zero_grads_bind(self);
}

/* ---- at work ---- */

static cadre_status step(struct cadre_self *self, const struct cadre_step *step,
                         const struct cadre_next *next)
{
    if (self->ranks > 1)
        cadre_zero_grads_begin_step(self);
    return next->run(next->h, step);
}

static cadre_status on_block(struct cadre_self *self, const struct cadre_block_ev *ev)
{
    cadre_status rc = CADRE_OK;
    if (self->ranks <= 1 || (ev->flags & CADRE_EV_RECOMPUTE))
        return CADRE_OK;
    if (ev->kind == CADRE_BEFORE_FORWARD || ev->kind == CADRE_BEFORE_BACKWARD)
        rc = cadre_zero_values_use(self, ev->unit, ev->next_unit);
    else if (self->stage == 3)
        rc = cadre_zero_values_release(self, ev->unit, ev->next_unit);
    if (!rc && ev->kind == CADRE_BEFORE_BACKWARD && self->stage >= 2)
        rc = cadre_zero_grads_open(self, ev->unit);
    return rc;
}

static cadre_status on_grad(struct cadre_self *self, struct cadre_grad_ev *ev)
{
    return self->ranks > 1 ? cadre_zero_grads_take(self, ev) : CADRE_OK;
}

static cadre_status sync(struct cadre_self *self, uint32_t what)
{
    cadre_status rc = CADRE_OK;
    if (self->ranks <= 1)
        return CADRE_OK;
    if (what == CADRE_SYNC_GRADS)
        rc = cadre_zero_grads_settle(self);
    if (what == CADRE_SYNC_PARAMS && self->stage < 3)
        return cadre_zero_values_spread(self);
    if (what == CADRE_SYNC_QUIESCE)
        rc = cadre_zero_grads_join(self);
    /* what was gathered ahead is old once the update has been made */
    if (!rc && (what == CADRE_SYNC_GRADS || what == CADRE_SYNC_QUIESCE))
        rc = cadre_zero_values_settle(self);
    return rc;
}

/* ---- descriptor ---- */

static const struct cadre_option options[] = {
    {
        .struct_size = sizeof(struct cadre_option),
        .type = CADRE_OPTION_I64,
        .key = "stage",
        .def = "1",
        .help = "what is shared out: 1 optimizer states, 2 gradients too, 3 all",
        .min = 1,
        .max = 3,
    },
    {
        .struct_size = sizeof(struct cadre_option),
        .type = CADRE_OPTION_F64,
        .key = "bucket_mb",
        .def = "25",
        .help = "MiB of gradients or parameters that travel together",
        .min = 0.001,
        .max = 65536,
    },
    {
        .struct_size = sizeof(struct cadre_option),
        .type = CADRE_OPTION_BOOL,
        .key = "overlap",
        .def = "yes",
        .help = "let gradients and updated parameters travel while units run",
    },
    {
        .struct_size = sizeof(struct cadre_option),
        .type = CADRE_OPTION_I64,
        .key = "prefetch",
        .def = "1",
        .help = "stage 3: units whose parameters are gathered ahead",
        .min = 0,
        .max = 1024,
    },
    {
        .struct_size = sizeof(struct cadre_option),
        .type = CADRE_OPTION_ENUM,
        .key = "reduce",
        .def = "step",
        .choices = "step, microbatch",
        .help = "stages 2, 3: gradients travel once a step or every micro-batch",
    },
    {
        .struct_size = sizeof(struct cadre_option),
        .type = CADRE_OPTION_ENUM,
        .key = "offload",
        .def = "none",
        .choices = "none, optimizer",
        .help = "what is kept in host memory",
    },
};

static const char *const services[] = {
    CADRE_SERVICE_MESH,  CADRE_SERVICE_COMM, CADRE_SERVICE_MODEL,
    CADRE_SERVICE_PARAM, CADRE_SERVICE_MEM,  NULL,
};

static const struct cadre_strategy_ops ops = {
    .struct_size = sizeof ops,
    .create = create,
    .plan = plan,
    .bind = bind,
    .step = step,
    .sync = sync,
    .on_block = on_block,
    .on_grad = on_grad,
    .destroy = destroy,
};

static const struct cadre_plugin descriptor = {
    .magic = CADRE_MAGIC,
    .struct_size = sizeof descriptor,
    .abi_major = CADRE_ABI_MAJOR,
    .abi_minor = CADRE_ABI_MINOR,
    .min_host_minor = 1,
    .role = CADRE_ROLE_DATA,
    .id = "org.cadre.zero",
    .version = "0.1.0",
    .summary = "data-parallel ranks that share out states, gradients and parameters",
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
