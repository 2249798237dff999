/* SPDX-License-Identifier: Apache-2.0 */
/* hsdp: a replica axis around another data strategy. The ranks of a group, along "dp",
 * reduce their gradients as ddp or zero does; hsdp then sums over the groups, along
 * "rep", what each rank has of them. Under zero that is its shard alone, so the links
 * between groups carry 1/R of the bytes (R ranks a group). Without a lower level hsdp
 * sums the gradients of backward, as ddp does.
 *
 * Gradients that lie side by side are summed in buckets, in place. A bucket is posted
 * when the lower level has reported its last gradient; all ranks along the axis run the
 * same units in the same order, so all post the buckets in the same order.
 * Source: Zhao et al., PyTorch FSDP, VLDB 2023, section 3.2.2 (HYBRID_SHARD). */
#include <cadre/helpers.h>

/* The consecutive entries whose sums are contiguous in the core's storage. */
struct bucket {
    struct cadre_buf sum; /* of all of them, with the padding between them */
    cadre_param_id first, last;
    uint32_t entries, waiting; /* waiting: not reported by the lower level yet */
    cadre_event ready, done;
};

#define NO_BUCKET UINT32_MAX

/* A gradient. `part`: what this rank has of it and updates; count 0: nothing. */
struct entry {
    struct cadre_buf part;
    struct cadre_buf grad; /* as the lower level passed it in this step */
    uint32_t bucket;
};

struct cadre_self {
    const struct cadre_host *host;
    const struct cadre_mesh_svc *mesh;
    const struct cadre_comm_svc *comm;
    const struct cadre_model_svc *model;
    const struct cadre_param_svc *param;
    int64_t level;
    uint64_t bucket_bytes;
    int overlap, exact;
    struct cadre_axis *axis;
    int32_t ranks;
    uint32_t n_entries, n_buckets;
    struct entry *entry;
    struct bucket *bucket;
    int open; /* a step began and sync(GRADS) has not come */
};

static const struct cadre_service services[] = {
    CADRE_SERVICE(mesh, MESH, size),
    CADRE_SERVICE(comm, COMM, stream_wait),
    CADRE_SERVICE(model, MODEL, param),
    CADRE_SERVICE(param, PARAM, reduced),
    {NULL, 0, 0},
};

static cadre_status create(const struct cadre_create *c, struct cadre_self **out)
{
    struct cadre_self *self;
    CADRE_TRY(cadre_self_create(c->host, services, sizeof *self, &self));
    self->host = c->host;
    self->level = c->values->i64(c->values->h, "level");
    self->bucket_bytes =
        (uint64_t)(c->values->f64(c->values->h, "bucket_mb") * 1024.0 * 1024.0);
    self->overlap = c->values->i64(c->values->h, "overlap") != 0;
    *out = self;
    return CADRE_OK;
}

static void destroy(struct cadre_self *self, const struct cadre_end *end)
{
    (void)end;
    free(self->entry);
    free(self->bucket);
    free(self);
}

static cadre_status plan(struct cadre_self *self, const struct cadre_plan *plan)
{
    self->axis = self->mesh->axis(self->host->ctx, NULL);
    self->ranks = self->mesh->size(self->axis);
    self->exact = plan->exact != 0;
    CADRE_TRY(plan->use_axis(plan->h, plan->axis, CADRE_BATCH_SPLIT));
    return plan->reduces(plan->h, plan->axis, (uint32_t)self->level);
}

/* ---- buckets ---- */

/* The range of a gradient that this rank updates: its OPT range, of a tied entry that
 * of the owner. Where another stage has the owner, the whole is passed on to it. */
static cadre_status find_updated(struct cadre_self *self,
                                 const struct cadre_param_info *info, cadre_param_id id,
                                 uint64_t *begin, uint64_t *count)
{
    struct cadre_param_info owner = *info;
    if (info->tied_to >= 0) {
        id = (cadre_param_id)info->tied_to;
        CADRE_TRY(cadre_param_get(self->host, self->model, id, &owner));
    }
    *begin = 0;
    *count = info->count;
    if (!owner.present)
        return CADRE_OK;
    return self->param->range(self->host->ctx, id, CADRE_KIND_OPT, begin, count);
}

/* What this rank has of a gradient and updates. Under zero that is its shard, whether
 * the rest of the gradient is stored (stage 1, where the rest is not summed) or not. */
static cadre_status find_part(struct cadre_self *self, cadre_param_id id,
                              struct cadre_buf *part)
{
    struct cadre_ctx *ctx = self->host->ctx;
    struct cadre_param_info info;
    struct cadre_buf stored;
    uint64_t begin, count, from, n;
    memset(part, 0, sizeof *part);
    CADRE_TRY(cadre_param_get(self->host, self->model, id, &info));
    if (!info.present || info.frozen)
        return CADRE_OK;
    CADRE_TRY(find_updated(self, &info, id, &from, &n));
    CADRE_TRY(self->param->range(ctx, id, CADRE_KIND_GRAD, &begin, &count));
    CADRE_TRY(self->param->shard(ctx, id, CADRE_KIND_GRAD, &stored));
    if (!stored.data && count == info.count)
        CADRE_TRY(self->param->grad(ctx, id, &stored));
    uint64_t end = from + n < begin + count ? from + n : begin + count;
    from = from > begin ? from : begin;
    if (!stored.data || from >= end)
        return CADRE_OK;
    *part = cadre_buf_slice(&stored, from - begin, end - from);
    return CADRE_OK;
}

/* Does `next` begin where `buf` and its padding to 64 bytes end? */
static int follows(const struct cadre_buf *buf, const struct cadre_buf *next)
{
    uint64_t bytes = (cadre_buf_bytes(buf) + 63) / 64 * 64;
    return next->dtype == buf->dtype && (char *)next->data == (char *)buf->data + bytes;
}

/* Entries are added in ascending order. */
static void add_entry(struct cadre_self *self, cadre_param_id id)
{
    struct entry *entry = &self->entry[id];
    struct bucket *bucket = &self->bucket[self->n_buckets];
    const struct cadre_buf *part = &entry->part;
    entry->bucket = NO_BUCKET;
    if (part->count == 0)
        return;
    if (self->n_buckets > 0) {
        struct bucket *before = bucket - 1;
        uint64_t bytes = (uint64_t)((char *)part->data - (char *)before->sum.data) +
                         cadre_buf_bytes(part);
        if (follows(&self->entry[before->last].part, part) &&
            bytes <= self->bucket_bytes)
            bucket = before;
    }
    if (bucket->entries++ == 0) {
        self->n_buckets++;
        bucket->first = id;
        bucket->sum = *part;
    }
    bucket->last = id;
    bucket->sum.count = (uint64_t)((char *)part->data - (char *)bucket->sum.data) /
                            cadre_dtype_size(part->dtype) +
                        part->count;
    entry->bucket = self->n_buckets - 1;
}

static cadre_status bind(struct cadre_self *self, const struct cadre_bind *at)
{
    (void)at;
    if (self->ranks <= 1)
        return CADRE_OK;
    self->n_entries = self->model->n_params(self->host->ctx);
    self->entry = calloc(self->n_entries + 1u, sizeof *self->entry);
    self->bucket = calloc(self->n_entries + 1u, sizeof *self->bucket);
    if (!self->entry || !self->bucket)
        return cadre_refuse(self->host, CADRE_E_RESOURCE, "no memory for %u entries",
                            self->n_entries);
    for (cadre_param_id id = 0; id < self->n_entries; id++) {
        CADRE_TRY(find_part(self, id, &self->entry[id].part));
        add_entry(self, id);
    }
    return CADRE_OK;
}

/* ---- a step ---- */

static cadre_status post_sum(struct cadre_self *self, const struct cadre_buf *sum,
                             cadre_event ready, cadre_event *done)
{
    struct cadre_post post =
        cadre_post("hsdp gradients over groups", CADRE_TRAFFIC_GRAD, ready);
    CADRE_TRY(self->comm->all_reduce(self->axis, sum, sum, CADRE_SUM, &post));
    *done = post.done;
    return CADRE_OK;
}

static cadre_status post_bucket(struct cadre_self *self, struct bucket *bucket)
{
    CADRE_TRY(post_sum(self, &bucket->sum, bucket->ready, &bucket->done));
    for (cadre_param_id id = bucket->first; id <= bucket->last; id++)
        if (self->entry[id].bucket == (uint32_t)(bucket - self->bucket))
            CADRE_TRY(self->param->reduced(self->host->ctx, id, &self->entry[id].grad,
                                           bucket->done));
    return CADRE_OK;
}

static cadre_status step(struct cadre_self *self, const struct cadre_step *at,
                         const struct cadre_next *next)
{
    for (uint32_t b = 0; b < self->n_buckets; b++) {
        self->bucket[b].waiting = self->bucket[b].entries;
        self->bucket[b].ready = self->bucket[b].done = 0;
    }
    self->open = 1;
    return next->run(next->h, at);
}

/* The gradient of one micro-batch: its buffer is the lower level's, which takes it back
 * when this call returns. */
static cadre_status sum_now(struct cadre_self *self, struct cadre_grad_ev *ev)
{
    cadre_event done = ev->ready;
    if (ev->grad->count > 0) {
        CADRE_TRY(post_sum(self, ev->grad, ev->ready, &done));
        CADRE_TRY(self->comm->stream_wait(self->axis, done));
    }
    ev->ready = done;
    return self->param->reduced(self->host->ctx, ev->param, ev->grad, done);
}

static int holds(const struct cadre_buf *grad, const struct cadre_buf *part)
{
    const char *begin = grad->data, *at = part->data;
    return grad->dtype == part->dtype && at >= begin &&
           at + cadre_buf_bytes(part) <= begin + cadre_buf_bytes(grad);
}

static cadre_status check_grad(const struct cadre_self *self,
                               const struct cadre_grad_ev *ev)
{
    if (self->exact && ev->map == CADRE_MICROBATCHES_RANGES)
        return cadre_refuse(self->host, CADRE_E_UNSUPPORTED,
                            "ranks run unequal numbers of micro-batches, whose exact "
                            "sum hsdp cannot make; set run.exact = no");
    const struct entry *entry = &self->entry[ev->param];
    if (entry->part.count == 0 || holds(ev->grad, &entry->part))
        return CADRE_OK;
    return cadre_refuse(self->host, CADRE_E_UNSUPPORTED,
                        "the gradient of entry %u is sharded, but no lower level has "
                        "reduced it; set hsdp.level above that of the strategy that "
                        "shards it",
                        ev->param);
}

static cadre_status on_grad(struct cadre_self *self, struct cadre_grad_ev *ev)
{
    if (self->ranks <= 1)
        return CADRE_OK;
    if (ev->map == CADRE_MICROBATCHES_CYCLIC)
        return sum_now(self, ev);
    if (!(ev->flags & CADRE_GRAD_FINAL))
        return CADRE_OK;
    CADRE_TRY(check_grad(self, ev));
    struct entry *entry = &self->entry[ev->param];
    entry->grad = *ev->grad;
    if (entry->bucket == NO_BUCKET) /* another rank of the group has all of it */
        return self->param->reduced(self->host->ctx, ev->param, ev->grad, ev->ready);
    struct bucket *bucket = &self->bucket[entry->bucket];
    if (bucket->waiting == 0)
        return cadre_refuse(self->host, CADRE_E_INTERNAL,
                            "a gradient of entry %u came after its last one",
                            ev->param);
    /* a lower level reports from one ordered queue: the last event is the latest */
    if (ev->ready)
        bucket->ready = ev->ready;
    if (--bucket->waiting > 0 || !self->overlap)
        return CADRE_OK;
    CADRE_TRY(post_bucket(self, bucket));
    ev->ready = bucket->done;
    return CADRE_OK;
}

static cadre_status sync(struct cadre_self *self, const struct cadre_sync *at)
{
    if (at->what != CADRE_SYNC_GRADS || !self->open)
        return CADRE_OK;
    self->open = 0;
    for (uint32_t b = 0; !self->overlap && b < self->n_buckets; b++)
        if (self->bucket[b].waiting == 0)
            CADRE_TRY(post_bucket(self, &self->bucket[b]));
    for (uint32_t b = 0; b < self->n_buckets; b++)
        CADRE_TRY(self->comm->stream_wait(self->axis, self->bucket[b].done));
    return CADRE_OK;
}

/* ---- descriptor ---- */

static const struct cadre_option options[] = {
    CADRE_OPTION(.type = CADRE_OPTION_I64, .key = "level", .def = "16", .max = 254,
                 .help = "place among strategies that reduce: lower levels first"),
    CADRE_OPTION(.type = CADRE_OPTION_F64, .key = "bucket_mb", .def = "25",
                 .min = 0.001, .max = 65536,
                 .help = "size of a gradient bucket in MiB"),
    CADRE_OPTION(.type = CADRE_OPTION_BOOL, .key = "overlap", .def = "yes",
                 .help = "reduce gradients while backward runs"),
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

CADRE_PLUGIN(.role = CADRE_ROLE_DATA, .id = "org.cadre.hsdp", .version = "0.2.0",
             .summary =
                 "groups of data ranks that hold the same, gradients summed over "
                 "the groups",
             .axis = "rep", CADRE_OPTIONS(options), .services = services, .ops = &ops)
