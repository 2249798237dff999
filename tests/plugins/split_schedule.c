/* SPDX-License-Identifier: Apache-2.0 */
/* A minimal schedule that uses every call of the ABI for schedules: two chunks on every
 * rank, all forwards, then all INPUT backwards, then all WEIGHT backwards. `fault`
 * breaks a rule; `measured` partitions by measured costs. */
#include <stdlib.h>
#include <string.h>

#include <cadre/helpers.h>

#define CHUNKS 2
#define MAX_MICROBATCHES 64

struct cadre_self {
    const struct cadre_host *host;
    const struct cadre_mesh_svc *mesh;
    const struct cadre_comm_svc *comm;
    const struct cadre_model_svc *model;
    const struct cadre_mem_svc *mem;
    const char *fault;
    int measured;
    struct cadre_axis *axis;
    int32_t rank, ranks;
    uint32_t microbatches, dtype;
    uint64_t count; /* of an activation */
    /* what a chunk sends to its neighbour, by chunk and micro-batch */
    struct cadre_buf out[CHUNKS][MAX_MICROBATCHES];
    cadre_event sent[CHUNKS][MAX_MICROBATCHES];
    struct cadre_buf in;
};

static void destroy(struct cadre_self *self, const struct cadre_end *end)
{
    (void)end;
    free(self);
}

static const struct cadre_service services[] = {
    CADRE_SERVICE(mesh, MESH, size),
    CADRE_SERVICE(comm, COMM, stream_wait),
    CADRE_SERVICE(model, MODEL, unit_seconds),
    CADRE_SERVICE(mem, MEM, alloc),
    {NULL, 0, 0},
};

static cadre_status create(const struct cadre_create *in, struct cadre_self **out)
{
    const struct cadre_values *values = in->values;
    struct cadre_self *self;
    CADRE_TRY(cadre_self_create(in->host, services, sizeof *self, &self));
    self->host = in->host;
    self->fault = values->str(values->h, "fault");
    self->measured = values->i64(values->h, "measured") != 0;
    *out = self;
    return CADRE_OK;
}

static int is(const struct cadre_self *self, const char *fault)
{
    return strcmp(self->fault, fault) == 0;
}

/* What a unit costs: measured where the core has done so, else counted. */
static double cost(const struct cadre_self *self, uint32_t unit)
{
    double seconds = self->model->unit_seconds(self->host->ctx, unit);
    return seconds > 0 ? seconds : self->model->unit_cost(self->host->ctx, unit);
}

/* First unit of a chunk: the costs before it reach the chunk's share of the whole, and
 * every chunk keeps a unit. */
static uint32_t border(const struct cadre_self *self, uint32_t n_units, uint32_t piece,
                       uint32_t pieces)
{
    double whole = 0, before = 0;
    uint32_t u = 0;
    if (!self->measured)
        return n_units * piece / pieces;
    for (uint32_t i = 0; i < n_units; i++)
        whole += cost(self, i);
    while (u < n_units && before < whole * piece / pieces)
        before += cost(self, u++);
    u = u < piece ? piece : u;
    return u > n_units - (pieces - piece) ? n_units - (pieces - piece) : u;
}

static cadre_status plan(struct cadre_self *self, const struct cadre_plan *plan)
{
    self->axis = self->mesh->axis(self->host->ctx, NULL);
    self->rank = self->mesh->rank(self->axis);
    self->ranks = self->mesh->size(self->axis);
    self->microbatches = (uint32_t)plan->microbatches;
    self->dtype = plan->dtype;
    self->count = plan->batch * plan->time * plan->channels;
    CADRE_TRY(plan->use_axis(plan->h, plan->axis, CADRE_BATCH_SAME));
    CADRE_TRY(plan->claim(plan->h, "schedule.order", plan->axis, 0));
    uint32_t pieces = (uint32_t)self->ranks * CHUNKS;
    if (plan->n_units < pieces || self->microbatches > MAX_MICROBATCHES)
        return cadre_refuse(self->host, CADRE_E_UNSUPPORTED, "too small a model");
    for (uint32_t c = 0; c < CHUNKS; c++) {
        uint32_t piece = c * (uint32_t)self->ranks + (uint32_t)self->rank;
        uint32_t begin = border(self, plan->n_units, piece, pieces);
        uint32_t end = border(self, plan->n_units, piece + 1, pieces);
        if (is(self, "overlap") && piece == 0)
            end++;
        CADRE_TRY(
            plan->chunk(plan->h, begin, end, self->microbatches, CADRE_LIVE_SPLIT));
    }
    return plan->memory(plan->h, CADRE_SPACE_DEVICE,
                        (1 + CHUNKS * (uint64_t)self->microbatches) * self->count *
                            cadre_dtype_size(self->dtype),
                        "edges");
}

static cadre_status make(struct cadre_self *self, struct cadre_buf *buf)
{
    *buf = cadre_buf_of(NULL, self->count, self->dtype, CADRE_SPACE_DEVICE);
    buf->data = self->mem->alloc(self->host->ctx, CADRE_SPACE_DEVICE,
                                 cadre_buf_bytes(buf), "edges");
    return buf->data ? CADRE_OK : CADRE_E_RESOURCE;
}

static cadre_status bind(struct cadre_self *self, const struct cadre_bind *in)
{
    (void)in;
    CADRE_TRY(make(self, &self->in));
    for (uint32_t c = 0; c < CHUNKS; c++)
        for (uint32_t m = 0; m < self->microbatches; m++)
            CADRE_TRY(make(self, &self->out[c][m]));
    return CADRE_OK;
}

/* The activation (dir 1) or gradient (dir -1) for a chunk from the chunk before it. */
static cadre_status take(struct cadre_self *self, uint32_t chunk, uint32_t m, int dir,
                         const struct cadre_buf **in)
{
    int32_t from = self->rank - dir;
    int wraps = from < 0 || from == self->ranks;
    struct cadre_post post = cadre_post("edge", CADRE_TRAFFIC_ACTIVATION, 0);
    *in = &self->in;
    if (wraps && chunk == (dir > 0 ? 0 : CHUNKS - 1)) {
        *in = NULL;
        return CADRE_OK;
    }
    if (self->ranks == 1) {
        *in = &self->out[chunk - (uint32_t)dir][m];
        return CADRE_OK;
    }
    from = (from + self->ranks) % self->ranks;
    CADRE_TRY(self->comm->recv(self->axis, &self->in, from, &post));
    return self->comm->stream_wait(self->axis, post.done);
}

static cadre_status give(struct cadre_self *self, uint32_t chunk, uint32_t m, int dir)
{
    int32_t to = (self->rank + dir + self->ranks) % self->ranks;
    struct cadre_post post = cadre_post("edge", CADRE_TRAFFIC_ACTIVATION, 0);
    self->sent[chunk][m] = 0;
    if (self->ranks == 1)
        return CADRE_OK;
    CADRE_TRY(self->comm->send(self->axis, &self->out[chunk][m], to, &post));
    self->sent[chunk][m] = post.done;
    return CADRE_OK;
}

static cadre_status pass(struct cadre_self *self, uint32_t chunk, uint32_t m, int dir)
{
    int boundary_count = dir > 0 ? self->rank + 1 == self->ranks && chunk == CHUNKS - 1
                                 : self->rank == 0 && chunk == 0;
    struct cadre_pass_args args = {
        .struct_size = sizeof args,
        .chunk = chunk,
        .microbatch = m,
        .what = CADRE_PASS_INPUT,
        .next_unit = -1,
        .out = boundary_count ? NULL : &self->out[chunk][m],
    };
    CADRE_TRY(take(self, chunk, m, dir, &args.in));
    if (is(self, "edge"))
        args.in = args.out = NULL;
    CADRE_TRY(self->comm->stream_wait(self->axis, self->sent[chunk][m]));
    if (dir > 0)
        CADRE_TRY(self->model->forward(self->host->ctx, &args));
    else
        CADRE_TRY(self->model->backward(self->host->ctx, &args));
    return boundary_count ? CADRE_OK : give(self, chunk, m, dir);
}

static cadre_status weights(struct cadre_self *self, uint32_t chunk, uint32_t m)
{
    struct cadre_pass_args args = {
        .struct_size = sizeof args,
        .chunk = chunk,
        .microbatch = m,
        .what = CADRE_PASS_WEIGHT,
        .next_unit = -1,
    };
    return self->model->backward(self->host->ctx, &args);
}

/* Wait until what was sent has arrived. */
static cadre_status flush(struct cadre_self *self)
{
    for (uint32_t c = 0; c < CHUNKS; c++)
        for (uint32_t m = 0; m < self->microbatches; m++) {
            CADRE_TRY(self->comm->stream_wait(self->axis, self->sent[c][m]));
            self->sent[c][m] = 0;
        }
    return CADRE_OK;
}

static cadre_status step(struct cadre_self *self, const struct cadre_step *step,
                         const struct cadre_next *next)
{
    (void)next;
    uint32_t n = step->n_microbatches;
    for (uint32_t c = 0; c < CHUNKS; c++)
        for (uint32_t m = 0; m < n; m++)
            CADRE_TRY(pass(self, c, m, 1));
    if (step->flags & CADRE_STEP_FORWARD)
        return flush(self);
    for (uint32_t c = CHUNKS; c-- > 0;)
        for (uint32_t m = 0; m < n; m++)
            CADRE_TRY(pass(self, c, is(self, "order") ? n - 1 - m : m, -1));
    if (is(self, "skip"))
        n--;
    for (uint32_t c = 0; c < CHUNKS; c++)
        for (uint32_t m = 0; m < n; m++)
            CADRE_TRY(weights(self, c, m));
    return CADRE_OK;
}

static cadre_status sync(struct cadre_self *self, const struct cadre_sync *in)
{
    return in->what == CADRE_SYNC_GRADS ? flush(self) : CADRE_OK;
}

static const struct cadre_option options[] = {
    CADRE_OPTION(.type = CADRE_OPTION_ENUM, .key = "fault", .def = "none",
                 .choices = "none, overlap, edge, order, skip",
                 .help = "rule to break"),
    CADRE_OPTION(.type = CADRE_OPTION_BOOL, .key = "measured", .def = "no",
                 .help = "cut by measured costs"),
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

CADRE_PLUGIN(.role = CADRE_ROLE_SCHEDULE, .id = "org.cadre.test.split_schedule",
             .version = "0.1.0", .summary = "two chunks a rank, backward in two parts",
             .axis = "pp", CADRE_OPTIONS(options), .services = services, .ops = &ops)
