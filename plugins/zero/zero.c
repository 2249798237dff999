/* SPDX-License-Identifier: Apache-2.0 */
/* zero: sharded data parallelism. Every rank along its axis sees its own micro-batches
 * and owns one shard of the optimizer states (stage 1), of the gradients
 * too (2), of the parameters too (3). A shard is a flat range of each parameter, in
 * multiples of range_unit; sizes need not divide by the number of ranks.
 * Source: Rajbhandari et al., ZeRO, SC20. */
#include <stdlib.h>
#include <string.h>

#include "plugins/zero/zero.h"

static const struct cadre_service services[] = {
    CADRE_SERVICE(mesh, MESH, size),    CADRE_SERVICE(comm, COMM, stream_wait),
    CADRE_SERVICE(model, MODEL, param), CADRE_SERVICE(param, PARAM, reduced),
    CADRE_SERVICE(mem, MEM, free),      {NULL, 0, 0},
};

/* Services that secondary shards and codes need. */
static const struct cadre_service services_to_keep_or_code[] = {
    CADRE_SERVICE(ops, OPS, dequantize),
    CADRE_SERVICE(stream, STREAM, wait),
    {NULL, 0, 0},
};

static int is(const struct cadre_values *values, const char *key, const char *text)
{
    return strcmp(values->str(values->h, key), text) == 0;
}

static cadre_status read_options(struct cadre_self *self,
                                 const struct cadre_values *values)
{
    const void *h = values->h;
    self->stage = values->i64(h, "stage");
    self->prefetch = values->i64(h, "prefetch");
    self->bucket_bytes = (uint64_t)(values->f64(h, "bucket_mb") * 1024.0 * 1024.0);
    self->overlap = values->i64(h, "overlap") != 0;
    self->level = (uint32_t)values->i64(h, "level");
    self->each = is(values, "reduce", "microbatch");
    self->space =
        is(values, "offload", "optimizer") ? CADRE_SPACE_HOST : CADRE_SPACE_DEVICE;
    self->node = (uint32_t)values->i64(h, "node");
    self->by_levels = values->i64(h, "two_levels") != 0;
    self->secondary = is(values, "secondary", "node");
    self->coded_values = is(values, "quantize_gathers", "int8");
    self->coded_grads = is(values, "quantize_gradients", "int8");
    if (self->each && self->stage == 1)
        return cadre_refuse(self->host, CADRE_E_INVALID,
                            "zero.reduce = microbatch with zero.stage = 1, where "
                            "gradients stay whole on every rank and nothing is saved; "
                            "set zero.reduce = step, or zero.stage to 2 or 3");
    CADRE_TRY(cadre_zero_nodes_check(self));
    return self->secondary || self->coded_values || self->coded_grads
               ? cadre_services_take(self->host, services_to_keep_or_code, self)
               : CADRE_OK;
}

static void release(struct cadre_self *self)
{
    cadre_zero_release_partition(self);
    free(self->values.spare);
    free(self->grads.spare);
    free(self->parts.spare);
    free(self->codes.spare);
    free(self->inside_off);
    free(self);
}

static void destroy(struct cadre_self *self, const struct cadre_end *end)
{
    (void)end;
    release(self);
}

static cadre_status create(const struct cadre_create *in, struct cadre_self **out)
{
    struct cadre_self *self;
    CADRE_TRY(cadre_self_create(in->host, services, sizeof *self, &self));
    self->host = in->host;
    self->values.tag = "gathered parameters";
    self->grads.tag = "gradient buckets";
    self->parts.tag = "reduced gradients";
    self->codes.tag = "quantized gradients";
    cadre_status rc = read_options(self, in->values);
    if (rc == CADRE_OK)
        *out = self;
    else
        release(self);
    return rc;
}

/* ---- plan ---- */

/* Sums of a step are taken under every map that gives them whole; in exact mode only
 * BLOCK does. In stage 3 ranks gather together for every pass, so all run as many. */
static cadre_status choose_map(struct cadre_self *self, const struct cadre_plan *plan)
{
    if (self->each && self->ranks > 1)
        return plan->microbatch_map(plan->h, CADRE_MICROBATCHES_CYCLIC, NULL);
    if (!plan->exact && self->stage < 3)
        return CADRE_OK;
    return plan->microbatch_map(plan->h, CADRE_MICROBATCHES_BLOCK, NULL);
}

static cadre_status claim(struct cadre_self *self, const struct cadre_plan *plan)
{
    CADRE_TRY(plan->use_axis(plan->h, plan->axis, CADRE_BATCH_SPLIT));
    CADRE_TRY(plan->reduces(plan->h, plan->axis, self->level));
    CADRE_TRY(plan->claim(plan->h, "opt.shard", plan->axis, 0));
    if (self->stage == 3)
        CADRE_TRY(plan->claim(plan->h, "param.place", plan->axis, 0));
    return choose_map(self, plan);
}

/* Codes round, which is another training by design. */
static cadre_status claim_codes(struct cadre_self *self, const struct cadre_plan *plan)
{
    if (self->ranks <= 1 || (!self->coded_values && !self->coded_grads))
        return CADRE_OK;
    if (plan->exact)
        return cadre_refuse(self->host, CADRE_E_INVALID,
                            "zero.quantize_%s = int8 rounds what is sent, which "
                            "run.exact = yes forbids: use none or run.exact = no",
                            self->coded_values ? "gathers" : "gradients");
    if (self->coded_values)
        CADRE_TRY(plan->claim(plan->h, "wire.codec", plan->axis, 0));
    return plan->by_design(plan->h, "quantize_gathers=none, quantize_gradients=none");
}

static cadre_status place(struct cadre_self *self, const struct cadre_plan *plan,
                          cadre_param_id id)
{
    const struct zero_entry *entry = &self->entry[id];
    const int trained = !entry->info.frozen;
    uint64_t begin = cadre_zero_begin(self, id, self->slot);
    uint64_t count = cadre_zero_begin(self, id, self->slot + 1) - begin;
    if (trained && self->stage >= 2 && self->ranks > 1)
        CADRE_TRY(plan->place_range(plan->h, id, CADRE_KIND_GRAD, begin, count,
                                    CADRE_SPACE_DEVICE));
    if (entry->info.tied_to >= 0)
        return CADRE_OK;
    if (self->stage == 3 && self->ranks > 1)
        CADRE_TRY(plan->place_range(plan->h, id, CADRE_KIND_PARAM, begin, count,
                                    CADRE_SPACE_DEVICE));
    return trained ? plan->place_range(plan->h, id, CADRE_KIND_OPT, begin, count,
                                       self->space)
                   : CADRE_OK;
}

static cadre_status tell_memory(struct cadre_self *self, const struct cadre_plan *plan)
{
    uint64_t n = plan->rank_microbatches;
    struct zero_pool *const pools[] = {&self->values, &self->grads, &self->parts,
                                       &self->codes};
    const struct {
        uint64_t bytes;
        const char *tag;
    } kept[] = {{cadre_zero_secondary_bytes(self), "secondary shards"},
                {cadre_zero_codes_bytes(self), "codes"},
                {cadre_zero_scratch_bytes(self), "dequantized shard"}};
    self->values.budget = self->stage == 3 ? cadre_zero_values_bytes(self) : 0;
    self->grads.budget = self->stage >= 2 ? cadre_zero_grads_bytes(self, n, 0) : 0;
    self->parts.budget = self->each ? cadre_zero_grads_bytes(self, n, 1) : 0;
    self->codes.budget = cadre_zero_quantized_bytes(self);
    for (size_t i = 0; i < sizeof pools / sizeof *pools; i++)
        if (pools[i]->budget > 0)
            CADRE_TRY(plan->memory(plan->h, CADRE_SPACE_DEVICE, pools[i]->budget,
                                   pools[i]->tag));
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (kept[i].bytes > 0)
            CADRE_TRY(
                plan->memory(plan->h, CADRE_SPACE_DEVICE, kept[i].bytes, kept[i].tag));
    return CADRE_OK;
}

static cadre_status plan(struct cadre_self *self, const struct cadre_plan *plan)
{
    self->axis = self->mesh->axis(self->host->ctx, NULL);
    self->ranks = (uint32_t)self->mesh->size(self->axis);
    self->me = (uint32_t)self->mesh->rank(self->axis);
    self->n_units = plan->n_units;
    CADRE_TRY(claim(self, plan));
    CADRE_TRY(claim_codes(self, plan));
    CADRE_TRY(cadre_zero_nodes_plan(self, plan));
    self->slot = cadre_zero_slot(self);
    CADRE_TRY(cadre_zero_partition(self, plan->range_unit));
    for (cadre_param_id i = 0; i < self->n_entries; i++)
        CADRE_TRY(place(self, plan, i));
    return self->ranks > 1 ? tell_memory(self, plan) : CADRE_OK;
}

static cadre_status bind(struct cadre_self *self, const struct cadre_bind *in)
{
    (void)in;
    if (self->ranks <= 1)
        return CADRE_OK;
    CADRE_TRY(cadre_zero_values_bind(self));
    CADRE_TRY(cadre_zero_secondary_bind(self));
    CADRE_TRY(cadre_zero_scratch_bind(self));
    return cadre_zero_grads_bind(self);
}

/* ---- a step ---- */

static cadre_status step(struct cadre_self *self, const struct cadre_step *step,
                         const struct cadre_next *next)
{
    if (self->ranks > 1 && !(step->flags & CADRE_STEP_FORWARD))
        cadre_zero_grads_begin_step(self);
    return next->run(next->h, step);
}

static cadre_status on_block(struct cadre_self *self, const struct cadre_block_ev *ev)
{
    if (self->ranks <= 1 || (ev->flags & CADRE_EV_RECOMPUTE))
        return CADRE_OK;
    if (ev->kind == CADRE_BEFORE_FORWARD || ev->kind == CADRE_BEFORE_BACKWARD)
        CADRE_TRY(cadre_zero_values_use(self, ev->unit, ev->next_unit));
    else if (self->stage == 3)
        CADRE_TRY(cadre_zero_values_release(self, ev->unit, ev->next_unit));
    if (ev->kind == CADRE_BEFORE_BACKWARD && self->stage >= 2)
        return cadre_zero_grads_open(self, ev->unit);
    return CADRE_OK;
}

static cadre_status on_grad(struct cadre_self *self, struct cadre_grad_ev *ev)
{
    return self->ranks > 1 ? cadre_zero_grads_take(self, ev) : CADRE_OK;
}

static cadre_status sync(struct cadre_self *self, const struct cadre_sync *in)
{
    const uint32_t what = in->what;
    if (self->ranks <= 1)
        return CADRE_OK;
    if (what == CADRE_SYNC_PARAMS && self->stage < 3)
        return cadre_zero_all_gather_updated(self);
    if (what == CADRE_SYNC_PARAMS)
        cadre_zero_secondary_forget(self);
    if (what != CADRE_SYNC_GRADS && what != CADRE_SYNC_DRAIN)
        return CADRE_OK;
    CADRE_TRY(what == CADRE_SYNC_GRADS ? cadre_zero_grads_settle(self)
                                       : cadre_zero_grads_join(self));
    /* prefetched parameters are stale after the update */
    return cadre_zero_values_settle(self);
}

/* ---- descriptor ---- */

static const struct cadre_option options[] = {
    CADRE_OPTION(.type = CADRE_OPTION_I64, .key = "stage", .def = "1", .min = 1,
                 .max = 3,
                 .help = "what is sharded over data ranks: 1 optimizer states, 2 "
                         "gradients too, 3 all"),
    CADRE_OPTION(.type = CADRE_OPTION_F64, .key = "bucket_mb", .def = "25",
                 .min = 0.001, .max = 65536,
                 .help = "size of a gradient or parameter bucket in MiB"),
    CADRE_OPTION(.type = CADRE_OPTION_BOOL, .key = "overlap", .def = "yes",
                 .help = "send gradients and updated parameters while units run"),
    CADRE_OPTION(.type = CADRE_OPTION_I64, .key = "prefetch", .def = "1", .max = 1024,
                 .help = "stage 3: units whose parameters are prefetched"),
    CADRE_OPTION(.type = CADRE_OPTION_ENUM, .key = "reduce", .def = "step",
                 .choices = "step, microbatch",
                 .help = "stages 2, 3: reduce gradients once a step or every "
                         "micro-batch"),
    CADRE_OPTION(.type = CADRE_OPTION_ENUM, .key = "offload", .def = "none",
                 .choices = "none, optimizer", .help = "states kept in host memory"),
    CADRE_OPTION(.type = CADRE_OPTION_I64, .key = "level", .def = "0", .max = 254,
                 .help = "position among the reducers of a stack, inner first"),
    CADRE_OPTION(.type = CADRE_OPTION_I64, .key = "node", .def = "0", .max = 1024,
                 .help = "adjacent ranks of the axis that make a node; 0: all"),
    CADRE_OPTION(.type = CADRE_OPTION_BOOL, .key = "two_levels", .def = "no",
                 .help = "reduce gradients inside nodes, then between them; gather "
                         "parameters the other way"),
    CADRE_OPTION(.type = CADRE_OPTION_ENUM, .key = "secondary", .def = "none",
                 .choices = "none, node",
                 .help = "stage 3: a node keeps gathered parameters sharded over its "
                         "ranks"),
    CADRE_OPTION(.type = CADRE_OPTION_ENUM, .key = "quantize_gathers", .def = "none",
                 .choices = "none, int8",
                 .help = "stage 3: gathered parameters are sent in blocks of int8"),
    CADRE_OPTION(.type = CADRE_OPTION_ENUM, .key = "quantize_gradients", .def = "none",
                 .choices = "none, int8",
                 .help = "gradients are reduced by exchanges of blocks of int8"),
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
    .wire_bytes = cadre_zero_wire_bytes,
    .wire = cadre_zero_wire,
};

CADRE_PLUGIN(.role = CADRE_ROLE_DATA, .id = "org.cadre.zero", .version = "0.2.0",
             .summary = "data-parallel ranks that shard states, gradients and "
                        "parameters",
             .axis = "dp", CADRE_OPTIONS(options), .services = services, .ops = &ops)
