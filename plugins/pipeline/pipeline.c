/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline: partitions the model's units into chunks over the ranks of its axis, and
 * orders the passes of each rank's micro-batches through them. schedule.c makes the
 * order as a list, this file runs it, wire.c sends activations and gradients between
 * chunks, and partition.c partitions the model. */
#include <stdlib.h>
#include <string.h>

#include <cadre/helpers.h>

#include "plugins/pipeline/partition.h"
#include "plugins/pipeline/schedule.h"
#include "plugins/pipeline/wire.h"

struct cadre_self {
    const struct cadre_host *host;
    const struct cadre_mesh_svc *mesh;
    const struct cadre_model_svc *model;
    uint32_t schedule; /* PIPELINE_GPIPE, ... */
    uint32_t chunks; /* the option; 0: by the schedule */
    const char *balance;
    uint32_t dtype;
    uint64_t count; /* elements of an activation */
    uint32_t *first; /* unit where each chunk begins, and the end */
    struct pipeline_list list;
    struct pipeline_wire wire;
    /* of a step of forward passes alone, from the first one on; in the same buffers */
    struct pipeline_list forward_list;
    struct pipeline_wire forward_wire;
};

static const char schedules[] =
    "gpipe, 1f1b, interleaved, zb-h1, breadth-first, zb-v, dualpipev";

/* By PIPELINE_*: name, and the chunks that are taken. */
static const struct {
    const char *name;
    uint32_t least, most;
    const char *expected;
} taken[PIPELINE_SCHEDULES] = {
    {"gpipe", 1, 1, "1, or schedule = interleaved"},
    {"1f1b", 1, 1, "1, or schedule = interleaved"},
    {"interleaved", 2, CADRE_MAX_CHUNKS, "2 or more, or schedule = 1f1b"},
    {"zb-h1", 1, 1, "1, or schedule = interleaved"},
    {"breadth-first", 2, CADRE_MAX_CHUNKS, "2 or more, or schedule = gpipe"},
    {"zb-v", 2, 2, "2"},
    {"dualpipev", 2, 2, "2"},
};

/* ---- set-up ---- */

static const struct cadre_service services[] = {
    CADRE_SERVICE(mesh, MESH, size),
    CADRE_SERVICE(model, MODEL, unit_seconds),
    CADRE_SERVICE(wire.comm, COMM, stream_wait),
    CADRE_SERVICE(wire.mem, MEM, alloc),
    CADRE_SERVICE(wire.stream, STREAM, record),
    {NULL, 0, 0},
};

static void release(struct cadre_self *self)
{
    pipeline_wire_fini(&self->wire);
    pipeline_wire_fini(&self->forward_wire);
    pipeline_list_fini(&self->list);
    pipeline_list_fini(&self->forward_list);
    free(self->first);
    free(self);
}

static void destroy(struct cadre_self *self, const struct cadre_end *end)
{
    (void)end;
    release(self);
}

static cadre_status read_options(struct cadre_self *self,
                                 const struct cadre_values *values)
{
    const char *schedule = values->str(values->h, "schedule");
    self->balance = values->str(values->h, "balance");
    self->chunks = (uint32_t)values->i64(values->h, "chunks");
    while (self->schedule < PIPELINE_SCHEDULES &&
           strcmp(schedule, taken[self->schedule].name) != 0)
        self->schedule++;
    if (self->schedule == PIPELINE_SCHEDULES)
        return cadre_refuse(self->host, CADRE_E_INVALID,
                            "pipeline.schedule: expected %s, found '%.64s'", schedules,
                            schedule);
    const uint32_t least = taken[self->schedule].least;
    if (self->chunks == 0)
        self->chunks = least;
    if (self->chunks < least || self->chunks > taken[self->schedule].most)
        return cadre_refuse(
            self->host, CADRE_E_INVALID,
            "pipeline.chunks = %u with pipeline.schedule = %s: expected "
            "%s",
            self->chunks, schedule, taken[self->schedule].expected);
    return CADRE_OK;
}

static cadre_status create(const struct cadre_create *in, struct cadre_self **out)
{
    struct cadre_self *self;
    CADRE_TRY(cadre_self_create(in->host, services, sizeof *self, &self));
    self->host = self->wire.host = in->host;
    cadre_status rc = read_options(self, in->values);
    if (rc == CADRE_OK)
        *out = self;
    else
        release(self);
    return rc;
}

/* ---- plan ---- */

/* Measured seconds of every unit; returns 0 where there are none. */
static int read_seconds(const struct cadre_self *self, uint32_t n_units, double *cost)
{
    int known = 1;
    for (uint32_t u = 0; u < n_units; u++) {
        cost[u] = self->model->unit_seconds(self->host->ctx, u);
        known = known && cost[u] > 0;
    }
    return known;
}

static cadre_status partition_by_cost(struct cadre_self *self, uint32_t n_units,
                                      uint32_t pieces, int measured)
{
    double *cost = calloc(n_units, sizeof *cost);
    int failed = !cost;
    if (cost && !(measured && read_seconds(self, n_units, cost)))
        for (uint32_t u = 0; u < n_units; u++)
            cost[u] = self->model->unit_cost(self->host->ctx, u);
    if (cost)
        failed = pipeline_partition_even(cost, n_units, pieces, self->first);
    free(cost);
    return failed ? cadre_refuse(self->host, CADRE_E_RESOURCE, "no memory for costs")
                  : CADRE_OK;
}

static cadre_status partition_by_counts(struct cadre_self *self, uint32_t n_units,
                                        uint32_t pieces)
{
    uint64_t sum;
    uint32_t n;
    int rc = pipeline_partition_counts(self->balance, n_units, pieces, self->first,
                                       &sum, &n);
    if (rc < 0)
        return cadre_refuse(
            self->host, CADRE_E_INVALID,
            "pipeline.balance: expected counted, measured, or the number of units "
            "of each chunk as in '3 2 2 3', found '%.64s'",
            self->balance);
    if (rc > 0)
        return cadre_refuse(self->host, CADRE_E_INVALID,
                            "pipeline.balance = %.64s is %u chunks of %llu units, "
                            "expected %u chunks (%s) of "
                            "%u units (embedding, model.layers = %u, head)",
                            self->balance, n, (unsigned long long)sum, pieces,
                            pieces == 1 ? "a single stage is one chunk"
                                        : "strategy.stack x pipeline.chunks",
                            n_units, n_units - 2);
    return CADRE_OK;
}

static cadre_status cut(struct cadre_self *self, uint32_t n_units)
{
    const struct pipeline_shape *shape = &self->wire.shape;
    uint32_t pieces = shape->stages * shape->chunks;
    if (pieces > n_units)
        return cadre_refuse(
            self->host, CADRE_E_UNSUPPORTED,
            "strategy.stack has %u stages and pipeline.chunks is %u: %u chunks, but "
            "the model has %u units (embedding, model.layers = %u, head); use fewer "
            "stages or chunks, or more layers",
            shape->stages, shape->chunks, pieces, n_units, n_units - 2);
    free(self->first);
    self->first = calloc((size_t)pieces + 1, sizeof *self->first);
    if (!self->first)
        return cadre_refuse(self->host, CADRE_E_RESOURCE, "no memory for %u chunks",
                            pieces);
    int measured = !strcmp(self->balance, "measured");
    if (measured || !strcmp(self->balance, "counted"))
        return partition_by_cost(self, n_units, pieces, measured);
    return partition_by_counts(self, n_units, pieces);
}

/* Most block activations kept at once over all chunks: the chunks do not peak together.
 * All units but the first and the last are blocks. */
static uint32_t live_blocks(const struct cadre_self *self, uint32_t n_units)
{
    const struct pipeline_shape *shape = &self->wire.shape;
    uint32_t live = 0, most = 0;
    for (uint32_t i = 0; i < self->list.n; i++) {
        const struct pipeline_action *action = &self->list.action[i];
        uint32_t piece = pipeline_part(shape, self->wire.rank, action->chunk);
        uint32_t blocks = self->first[piece + 1] - self->first[piece] - (piece == 0) -
                          (self->first[piece + 1] == n_units);
        if (action->kind == PIPELINE_FORWARD)
            live += blocks;
        else if (action->kind != PIPELINE_INPUT)
            live -= blocks;
        most = live > most ? live : most;
    }
    return most;
}

static cadre_status plan_chunks(struct cadre_self *self, const struct cadre_plan *plan)
{
    const struct pipeline_shape *shape = &self->wire.shape;
    uint32_t flags = pipeline_splits(shape->schedule) ? CADRE_LIVE_SPLIT : 0;
    for (uint32_t c = 0; c < shape->chunks; c++) {
        uint32_t piece = pipeline_part(shape, self->wire.rank, c);
        CADRE_TRY(plan->chunk(plan->h, self->first[piece], self->first[piece + 1],
                              pipeline_list_live(&self->list, c), flags));
    }
    if (shape->chunks > 1 &&
        plan->struct_size > offsetof(struct cadre_plan, live_blocks))
        return plan->live_blocks(plan->h, live_blocks(self, plan->n_units));
    return CADRE_OK;
}

static cadre_status check_microbatches(const struct cadre_self *self,
                                       uint64_t microbatches)
{
    const uint32_t stages = self->wire.shape.stages;
    if (microbatches > UINT32_MAX / 256)
        return cadre_refuse(self->host, CADRE_E_UNSUPPORTED,
                            "train.global_batch / train.micro_batch makes %llu "
                            "micro-batches on each rank, expected at most %u",
                            (unsigned long long)microbatches, UINT32_MAX / 256);
    if (self->schedule == PIPELINE_DUALPIPEV && stages > 1 && microbatches < 2 * stages)
        return cadre_refuse(
            self->host, CADRE_E_UNSUPPORTED,
            "pipeline.schedule = dualpipev with %u stages: %llu micro-batches on each "
            "rank, expected at least %u, two for each stage; raise train.global_batch, "
            "lower train.micro_batch, or use zb-v",
            stages, (unsigned long long)microbatches, 2 * stages);
    return CADRE_OK;
}

static cadre_status plan(struct cadre_self *self, const struct cadre_plan *plan)
{
    struct pipeline_wire *wire = &self->wire;
    uint64_t microbatches = plan->microbatches; /* of an older host: an upper bound */
    if (plan->struct_size > offsetof(struct cadre_plan, rank_microbatches))
        microbatches = plan->rank_microbatches;
    wire->axis = self->mesh->axis(self->host->ctx, NULL);
    wire->rank = (uint32_t)self->mesh->rank(wire->axis);
    wire->shape = (struct pipeline_shape){
        .schedule = self->schedule,
        .stages = (uint32_t)self->mesh->size(wire->axis),
        .chunks = self->chunks,
        .microbatches = (uint32_t)microbatches,
    };
    if (wire->shape.stages == 1)
        wire->shape.chunks = 1; /* the whole model, whatever the schedule */
    self->dtype = plan->dtype;
    self->count = CADRE_HAS(self->model, boundary_count)
                      ? self->model->boundary_count(self->host->ctx)
                      : plan->batch * plan->time * plan->channels;
    CADRE_TRY(plan->use_axis(plan->h, plan->axis, CADRE_BATCH_SAME));
    CADRE_TRY(plan->claim(plan->h, "schedule.order", plan->axis, 0));
    CADRE_TRY(check_microbatches(self, microbatches));
    CADRE_TRY(cut(self, plan->n_units));
    pipeline_list_fini(&self->list);
    if (pipeline_list_init(&self->list, &wire->shape, wire->rank))
        return cadre_refuse(self->host, CADRE_E_RESOURCE,
                            "no memory for the schedule of %llu micro-batches",
                            (unsigned long long)microbatches);
    CADRE_TRY(pipeline_wire_init(wire, &self->list));
    CADRE_TRY(plan_chunks(self, plan));
    uint32_t buffers = pipeline_wire_buffers(wire);
    if (buffers == 0)
        return CADRE_OK;
    return plan->memory(plan->h, CADRE_SPACE_DEVICE,
                        buffers * self->count * cadre_dtype_size(self->dtype),
                        PIPELINE_BUFFER_TAG);
}

/* Log the partition in the form that `balance` takes, to keep a measured one. */
static void log_cuts(const struct cadre_self *self)
{
    const struct pipeline_shape *shape = &self->wire.shape;
    char text[512] = "units of each chunk:";
    size_t n = strlen(text);
    for (uint32_t i = 0; i < shape->stages * shape->chunks && n < sizeof text; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, " %u",
                              self->first[i + 1] - self->first[i]);
    self->host->log(self->host->ctx, 3, text);
}

static cadre_status bind(struct cadre_self *self, const struct cadre_bind *in)
{
    (void)in;
    if (self->wire.rank == 0)
        log_cuts(self);
    return pipeline_wire_bind(&self->wire, self->dtype, self->count);
}

/* ---- one step ---- */

/* The unit that the i-th action of a list starts with, -1 past the end. */
static int32_t starts_with(const struct cadre_self *self,
                           const struct pipeline_list *list, uint32_t i)
{
    if (i >= list->n)
        return -1;
    const struct pipeline_action *action = &list->action[i];
    uint32_t piece = pipeline_part(&self->wire.shape, self->wire.rank, action->chunk);
    return action->kind == PIPELINE_FORWARD ? (int32_t)self->first[piece]
                                            : (int32_t)self->first[piece + 1] - 1;
}

static cadre_status run_action(struct cadre_self *self, struct pipeline_wire *wire,
                               const struct pipeline_list *list, uint32_t i)
{
    static const uint32_t parts[] = {
        [PIPELINE_BACKWARD] = CADRE_PASS_BOTH,
        [PIPELINE_INPUT] = CADRE_PASS_INPUT,
        [PIPELINE_WEIGHT] = CADRE_PASS_WEIGHT,
    };
    const struct pipeline_action *action = &list->action[i];
    struct cadre_ctx *ctx = self->host->ctx;
    struct cadre_pass_args args = {
        .struct_size = sizeof args,
        .chunk = action->chunk,
        .microbatch = action->microbatch,
        .what = parts[action->kind],
        .next_unit = starts_with(self, list, i + 1),
    };
    CADRE_TRY(pipeline_wire_take(wire, action, &args.in));
    CADRE_TRY(pipeline_wire_room(wire, action, &args.out));
    CADRE_TRY(action->kind == PIPELINE_FORWARD ? self->model->forward(ctx, &args)
                                               : self->model->backward(ctx, &args));
    CADRE_TRY(pipeline_wire_give(wire, action));
    return pipeline_wire_release(wire, action);
}

static cadre_status run_list(struct cadre_self *self, struct pipeline_wire *wire,
                             const struct pipeline_list *list)
{
    CADRE_TRY(pipeline_wire_begin(wire));
    for (uint32_t i = 0; i < list->n; i++)
        CADRE_TRY(run_action(self, wire, list, i));
    return CADRE_OK;
}

/* The list and the tables of a step of `n` forward passes of each chunk. */
static cadre_status prepare_forward(struct cadre_self *self, uint32_t n)
{
    struct pipeline_wire *wire = &self->forward_wire;
    if (self->forward_list.action && wire->shape.microbatches == n)
        return CADRE_OK;
    wire->host = self->wire.host;
    wire->comm = self->wire.comm;
    wire->mem = self->wire.mem;
    wire->stream = self->wire.stream;
    wire->axis = self->wire.axis;
    wire->rank = self->wire.rank;
    wire->shape = self->wire.shape;
    wire->shape.microbatches = n;
    wire->shape.forward = 1;
    pipeline_list_fini(&self->forward_list);
    if (pipeline_list_init(&self->forward_list, &wire->shape, wire->rank))
        return cadre_refuse(self->host, CADRE_E_RESOURCE,
                            "no memory for the schedule of %u micro-batches", n);
    CADRE_TRY(pipeline_wire_init(wire, &self->forward_list));
    pipeline_wire_lend(&self->wire, wire);
    return CADRE_OK;
}

/* No sync(GRADS) follows, so the sends end here: the next step uses their buffers. */
static cadre_status run_forward(struct cadre_self *self, uint32_t n)
{
    CADRE_TRY(prepare_forward(self, n));
    CADRE_TRY(run_list(self, &self->forward_wire, &self->forward_list));
    return pipeline_wire_flush(&self->forward_wire);
}

static cadre_status step(struct cadre_self *self, const struct cadre_step *step,
                         const struct cadre_next *next)
{
    (void)next; /* a schedule is innermost */
    if (step->flags & CADRE_STEP_FORWARD)
        return run_forward(self, step->n_microbatches);
    if (step->n_microbatches != self->wire.shape.microbatches)
        return cadre_refuse(self->host, CADRE_E_INTERNAL,
                            "a step of %u micro-batches, expected %u as planned",
                            step->n_microbatches, self->wire.shape.microbatches);
    return run_list(self, &self->wire, &self->list);
}

/* The last sends may still run while the data strategies finish. */
static cadre_status sync(struct cadre_self *self, const struct cadre_sync *in)
{
    if (in->what == CADRE_SYNC_GRADS || in->what == CADRE_SYNC_DRAIN)
        return pipeline_wire_flush(&self->wire);
    return CADRE_OK;
}

/* ---- descriptor ---- */

static const struct cadre_option options[] = {
    CADRE_OPTION(.type = CADRE_OPTION_ENUM, .key = "schedule", .def = "1f1b",
                 .choices = schedules, .help = "order of forward and backward passes"),
    CADRE_OPTION(.type = CADRE_OPTION_I64, .key = "chunks", .def = "0",
                 .max = CADRE_MAX_CHUNKS,
                 .help = "chunks (virtual stages) on each rank; 0: as few as the "
                         "schedule takes"),
    CADRE_OPTION(.type = CADRE_OPTION_STR, .key = "balance", .def = "counted",
                 .help = "partition: counted, measured, or units of each chunk: 3 2 2 "
                         "3"),
};

static const struct cadre_strategy_ops ops = {
    .struct_size = sizeof ops,
    .create = create,
    .plan = plan,
    .bind = bind,
    .step = step,
    .sync = sync,
    .destroy = destroy,
};

CADRE_PLUGIN(.role = CADRE_ROLE_SCHEDULE, .id = "org.cadre.pipeline",
             .version = "0.2.0",
             .summary = "layers in stages: gpipe, 1f1b, interleaved, breadth-first and "
                        "zero-bubble schedules",
             .axis = "pp", CADRE_OPTIONS(options), .services = services, .ops = &ops)
