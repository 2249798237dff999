/* SPDX-License-Identifier: Apache-2.0 */
/* ddp: data-parallel replicas. Every rank along the axis "dp" holds the whole model and
 * sees its own micro-batches; the gradients are summed over the ranks once per
 * optimizer step. They are summed in buckets, pieces of memory over several gradients,
 * taken in the reverse order of the model because that is the order in which backward
 * finishes them: while it works on the lower layers, the buckets of the upper ones
 * travel.
 *
 * The one rule that keeps ranks from waiting for each other for ever: buckets are
 * posted in the order of their numbers on every rank, a finished bucket waits for those
 * before it, and what no gradient came for is posted at sync(GRADS). Source: Li et al.,
 * PyTorch Distributed, VLDB 2020, section 3.2. */
#include <stdlib.h>
#include <string.h>

#include <cadre/helpers.h>

/* Gradients of entries first..last in one piece. */
struct bucket {
    struct cadre_buf grad;
    cadre_param_id first, last;
    uint32_t waiting; /* entries whose FINAL has not come in this step */
    cadre_event ready; /* the latest that came with them */
    cadre_event done; /* once posted */
};

#define NO_BUCKET UINT32_MAX

struct entry {
    uint32_t bucket; /* NO_BUCKET: not on this rank */
    uint32_t final; /* came in this step */
};

struct cadre_self {
    const struct cadre_host *host;
    const struct cadre_mesh_svc *mesh;
    const struct cadre_comm_svc *comm;
    const struct cadre_model_svc *model;
    const struct cadre_param_svc *param;
    uint64_t bucket_bytes;
    int overlap;
    struct cadre_axis *axis;
    struct bucket *bucket;
    struct entry *entry;
    uint32_t n_buckets, n_entries;
    uint32_t posted, joined; /* of this step's buckets: those before these */
    int open; /* a step began and sync(GRADS) has not come */
};

/* Static because a communicator may name an operation after the instance has gone. */
#define TEN(t)                                                                         \
    "ddp bucket " #t "0", "ddp bucket " #t "1", "ddp bucket " #t "2",                  \
        "ddp bucket " #t "3", "ddp bucket " #t "4", "ddp bucket " #t "5",              \
        "ddp bucket " #t "6", "ddp bucket " #t "7", "ddp bucket " #t "8",              \
        "ddp bucket " #t "9"
#define N_LABELS 100u
static const char *const labels[N_LABELS + 1] = {
    TEN(),
    TEN(1),
    TEN(2),
    TEN(3),
    TEN(4),
    TEN(5),
    TEN(6),
    TEN(7),
    TEN(8),
    TEN(9),
    "ddp bucket 100 or later",
};

/* ---- set-up ---- */

static const void *fetch(const struct cadre_host *host, const char *id,
                         cadre_status *rc)
{
    const void *table = NULL;
    if (*rc == CADRE_OK)
        *rc = cadre_need(host, id, &table);
    return table;
}

static cadre_status fetch_services(struct cadre_self *self)
{
    const struct cadre_host *host = self->host;
    cadre_status rc = CADRE_OK;
    self->mesh = fetch(host, CADRE_SERVICE_MESH, &rc);
    self->comm = fetch(host, CADRE_SERVICE_COMM, &rc);
    self->model = fetch(host, CADRE_SERVICE_MODEL, &rc);
    self->param = fetch(host, CADRE_SERVICE_PARAM, &rc);
    if (rc)
        return rc;
    if (!CADRE_HAS(self->mesh, size) || !CADRE_HAS(self->comm, join) ||
        !CADRE_HAS(self->comm, all_reduce) || !CADRE_HAS(self->model, param) ||
        !CADRE_HAS(self->param, grad_span) || !CADRE_HAS(self->param, grad))
        return cadre_refuse(host, CADRE_E_UNSUPPORTED,
                            "the host's mesh, comm, model or param service lacks a "
                            "function that ddp needs");
    return CADRE_OK;
}

static cadre_status check_compress(const struct cadre_host *host, const char *compress)
{
    static const char *const later[] = {"bf16", "fp16", "int8", "topk:", "powersgd:"};
    if (!strcmp(compress, "none"))
        return CADRE_OK;
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        if (!strncmp(compress, later[i], strlen(later[i])))
            return cadre_refuse(host, CADRE_E_INVALID,
                                "ddp.compress = %.64s is not built yet: use none",
                                compress);
    return cadre_refuse(host, CADRE_E_INVALID,
                        "ddp.compress: expected none, found '%.64s'", compress);
}

static void destroy(struct cadre_self *self)
{
    free(self->bucket);
    free(self->entry);
    free(self);
}

static cadre_status create(const struct cadre_host *host,
                           const struct cadre_values *values, struct cadre_self **out)
{
    cadre_status rc = check_compress(host, values->str(values->h, "compress"));
    if (rc)
        return rc;
    struct cadre_self *self = calloc(1, sizeof *self);
    if (!self)
        return cadre_refuse(host, CADRE_E_RESOURCE, "no memory for the instance");
    self->host = host;
    self->bucket_bytes =
        (uint64_t)(values->f64(values->h, "bucket_mb") * 1024.0 * 1024.0);
    self->overlap = values->i64(values->h, "overlap") != 0;
    rc = fetch_services(self);
    if (rc) {
        destroy(self);
        return rc;
    }
    *out = self;
    return CADRE_OK;
}

/* Nothing is allocated that the plan should know of: gradients are summed in place. */
static cadre_status plan(struct cadre_self *self, const struct cadre_plan *plan)
{
    cadre_status rc = plan->use_axis(plan->h, "dp", CADRE_BATCH_SPLIT);
    if (!rc)
        rc = plan->claim(plan->h, "grad.reduce", "dp", 0);
    if (!rc)
        rc = plan->leaves(plan->h, CADRE_LEAVES_BLOCK);
    return rc;
}

/* ---- buckets ---- */

static cadre_status is_present(struct cadre_self *self, cadre_param_id id, int *present)
{
    struct cadre_param_info info = {.struct_size = sizeof info};
    cadre_status rc = self->model->param(self->host->ctx, id, &info);
    *present = !rc && info.present;
    return rc;
}

static uint64_t bytes_of(const struct cadre_buf *buf)
{
    return buf->count * cadre_dtype_size(buf->dtype);
}

/* A bucket that ends with entry `last`, grown downwards while its gradients lie in one
 * piece of at most bucket_bytes. One gradient is never cut. */
static cadre_status fill_bucket(struct cadre_self *self, struct bucket *bucket,
                                cadre_param_id last)
{
    struct cadre_ctx *ctx = self->host->ctx;
    struct cadre_buf *grad = &bucket->grad;
    int present = 1;
    *bucket = (struct bucket){.first = last, .last = last};
    *grad = (struct cadre_buf){.struct_size = sizeof *grad};
    cadre_status rc = self->param->grad_span(ctx, last, last, grad);
    if (rc == CADRE_E_UNSUPPORTED)
        rc = self->param->grad(ctx, last, grad);
    if (!rc && !grad->data)
        rc = cadre_refuse(self->host, CADRE_E_UNSUPPORTED,
                          "gradient entry %u has no storage of its own", last);
    while (!rc && bucket->first > 0) {
        struct cadre_buf wider = {.struct_size = sizeof wider};
        rc = is_present(self, bucket->first - 1, &present);
        if (rc || !present ||
            self->param->grad_span(ctx, bucket->first - 1, last, &wider) ||
            bytes_of(&wider) > self->bucket_bytes)
            break;
        *grad = wider;
        bucket->first--;
    }
    return rc;
}

static cadre_status fill_buckets(struct cadre_self *self)
{
    cadre_param_id id = self->n_entries;
    while (id > 0) {
        int present = 0;
        cadre_status rc = is_present(self, --id, &present);
        if (rc)
            return rc;
        self->entry[id].bucket = NO_BUCKET;
        if (!present)
            continue;
        struct bucket *bucket = &self->bucket[self->n_buckets];
        rc = fill_bucket(self, bucket, id);
        if (rc)
            return rc;
        for (id = bucket->first; id <= bucket->last; id++)
            self->entry[id].bucket = self->n_buckets;
        id = bucket->first;
        self->n_buckets++;
    }
    return CADRE_OK;
}

static cadre_status bind(struct cadre_self *self)
{
    self->axis = self->mesh->axis(self->host->ctx, "dp");
    if (self->mesh->size(self->axis) <= 1)
        return CADRE_OK;
    self->n_entries = self->model->n_params(self->host->ctx);
    self->bucket = calloc(self->n_entries + 1u, sizeof *self->bucket);
    self->entry = calloc(self->n_entries + 1u, sizeof *self->entry);
    if (!self->bucket || !self->entry)
        return cadre_refuse(self->host, CADRE_E_RESOURCE, "no memory for %u entries",
                            self->n_entries);
    return fill_buckets(self);
}

/* ---- one step ---- */

static cadre_status post_next(struct cadre_self *self)
{
    struct bucket *bucket = &self->bucket[self->posted];
    const char *label = labels[self->posted < N_LABELS ? self->posted : N_LABELS];
    cadre_status rc =
        self->comm->all_reduce(self->axis, label, &bucket->grad, &bucket->grad,
                               CADRE_SUM, bucket->ready, &bucket->done);
    self->posted += rc == CADRE_OK;
    return rc;
}

static cadre_status step(struct cadre_self *self, const struct cadre_step *step,
                         const struct cadre_next *next)
{
    for (uint32_t i = 0; i < self->n_buckets; i++) {
        self->bucket[i].waiting = self->bucket[i].last - self->bucket[i].first + 1;
        self->bucket[i].ready = 0;
    }
    for (uint32_t i = 0; i < self->n_entries; i++)
        self->entry[i].final = 0;
    self->posted = self->joined = 0;
    self->open = 1;
    return next->run(next->h, step);
}

/* Contributions before FINAL are the core's to add up: under accumulation only the sum
 * travels. */
static cadre_status on_grad(struct cadre_self *self, struct cadre_grad_ev *ev)
{
    cadre_status rc = CADRE_OK;
    if (self->n_buckets == 0)
        return CADRE_OK;
    if (ev->param >= self->n_entries || self->entry[ev->param].bucket == NO_BUCKET ||
        self->entry[ev->param].final || !self->open)
        return cadre_refuse(self->host, CADRE_E_INTERNAL,
                            "a gradient of entry %u came %s", ev->param,
                            ev->param < self->n_entries && self->entry[ev->param].final
                                ? "after its last one"
                                : "where none was expected");
    if (!(ev->flags & CADRE_GRAD_FINAL))
        return CADRE_OK;
    struct entry *entry = &self->entry[ev->param];
    struct bucket *bucket = &self->bucket[entry->bucket];
    entry->final = 1;
    bucket->waiting--;
    if (ev->ready)
        bucket->ready = ev->ready;
    while (!rc && self->overlap && self->posted < self->n_buckets &&
           self->bucket[self->posted].waiting == 0)
        rc = post_next(self);
    if (!rc && self->posted > entry->bucket)
        ev->ready = bucket->done;
    return rc;
}

static cadre_status join_posted(struct cadre_self *self)
{
    cadre_status rc = CADRE_OK;
    while (!rc && self->joined < self->posted)
        rc = self->comm->join(self->axis, self->bucket[self->joined++].done);
    return rc;
}

static cadre_status sync(struct cadre_self *self, uint32_t what)
{
    cadre_status rc = CADRE_OK;
    if (what == CADRE_SYNC_QUIESCE)
        return join_posted(self);
    if (what != CADRE_SYNC_GRADS || !self->open)
        return CADRE_OK;
    while (!rc && self->posted < self->n_buckets)
        rc = post_next(self);
    if (!rc)
        rc = join_posted(self);
    self->open = 0;
    return rc;
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
        .help = "compression of gradients on the wire: none",
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
    .step = step,
    .sync = sync,
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
