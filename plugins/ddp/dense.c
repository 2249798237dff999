/* SPDX-License-Identifier: Apache-2.0 */
/* Every element is sent in fewer bits: bf16, fp16, int8, onebit. A communicator cannot
 * add codes, so a sum takes two exchanges. Each rank gets one slice of the bucket from
 * all others (all_to_all), decodes them, adds them in the order of ranks in the
 * gradients' own type, and sends the sum, encoded again, to all (all_gather). That
 * is 2 (R-1)/R codes an element, as an all_reduce has, where an all_gather of whole
 * buckets would take R-1. All ranks decode the same codes: the same bits.
 *
 * int8 and onebit round twice and keep both errors: the sender's of its gradient, and
 * the adder's of the sum, each on the rank that made it. `left` is what a rank sends,
 * then the sums; `right` is what it receives. Sources: Dettmers, 8-bit Approximations
 * for Parallelism in Deep Learning, ICLR 2016; the second error: Tang et al.,
 * DoubleSqueeze, ICML 2019. */
#include "plugins/ddp/ddp.h"

/* The bytes of n elements on the wire; whole blocks where there are scales. */
static uint64_t code_bytes(uint32_t wire, uint64_t n)
{
    if (wire == CADRE_U8)
        return ddp_signs_bytes(n);
    return wire == CADRE_I8 ? n + n / DDP_BLOCK * 4 : 2 * n;
}

/* What is divided into slices: the residuals, which include the gradients, or the
 * gradients. */
static const struct cadre_buf *whole_of(const struct ddp_bucket *bucket)
{
    return bucket->residual.count ? &bucket->residual : &bucket->grad;
}

static struct cadre_buf slice_of(const struct ddp_bucket *bucket,
                                 const struct cadre_buf *whole, uint32_t rank)
{
    uint64_t begin = rank * bucket->slice, n = whole->count;
    begin = begin < n ? begin : n;
    return cadre_buf_slice(whole, begin,
                           n - begin < bucket->slice ? n - begin : bucket->slice);
}

/* All bytes of a slice's codes in `codes`. */
static struct cadre_buf signs_of(const struct ddp_bucket *bucket,
                                 const struct cadre_buf *codes, uint32_t rank)
{
    return ddp_view(codes, rank * bucket->slice_bytes, CADRE_U8, bucket->slice_bytes);
}

/* The codes of rank's slice in `codes`, and of int8 the scales behind them. */
static struct cadre_buf codes_of(const struct cadre_self *self,
                                 const struct ddp_bucket *bucket,
                                 const struct cadre_buf *codes, uint32_t rank,
                                 uint64_t count)
{
    return ddp_view(codes, rank * bucket->slice_bytes, self->mode->wire, count);
}

static struct cadre_buf scales_of(const struct ddp_bucket *bucket,
                                  const struct cadre_buf *codes, uint32_t rank,
                                  uint64_t count)
{
    return ddp_view(codes, rank * bucket->slice_bytes + bucket->slice, CADRE_F32,
                    ddp_round_up(count, DDP_BLOCK) / DDP_BLOCK);
}

/* x, slice `rank`, into its place among what is sent. */
static cadre_status encode(struct cadre_self *self, const struct ddp_bucket *bucket,
                           const struct cadre_buf *x, uint32_t rank)
{
    struct cadre_buf q = codes_of(self, bucket, &bucket->left, rank, x->count);
    struct cadre_buf signs = signs_of(bucket, &bucket->left, rank);
    if (x->count == 0)
        return CADRE_OK;
    if (self->mode->wire == CADRE_U8)
        return ddp_signs_encode(self, bucket, x, rank * bucket->slice, &signs);
    if (self->mode->wire != CADRE_I8)
        return self->ops->cast(self->ctx, &q, x);
    struct cadre_buf scales = scales_of(bucket, &bucket->left, rank, x->count);
    return self->ops->quantize(self->ctx, x, DDP_BLOCK, &q, &scales);
}

/* x, slice `slice`, from place `rank` of what was sent or received. */
static cadre_status decode(struct cadre_self *self, const struct ddp_bucket *bucket,
                           const struct cadre_buf *codes, uint32_t rank, uint32_t slice,
                           const struct cadre_buf *x)
{
    struct cadre_buf q = codes_of(self, bucket, codes, rank, x->count);
    struct cadre_buf signs = signs_of(bucket, codes, rank);
    if (x->count == 0)
        return CADRE_OK;
    if (self->mode->wire == CADRE_U8)
        return ddp_signs_decode(self, bucket, &signs, slice * bucket->slice, x);
    if (self->mode->wire != CADRE_I8)
        return self->ops->cast(self->ctx, x, &q);
    struct cadre_buf scales = scales_of(bucket, codes, rank, x->count);
    return self->ops->dequantize(self->ctx, &q, &scales, DDP_BLOCK, x);
}

/* ---- set-up ---- */

/* Elements of a slice: whole blocks. */
static uint64_t slice_count(const struct cadre_self *self, uint64_t n)
{
    return ddp_round_up((n + self->ranks - 1) / self->ranks, self->mode->block);
}

/* Elements in whole blocks of the largest bucket that may end with an entry. */
static uint64_t most_before(const struct cadre_self *self, uint32_t last)
{
    uint64_t bytes = 0, n = 0;
    for (uint32_t i = last + 1; i-- > 0;) {
        const struct cadre_param_info *info = &self->entry[i].info;
        bytes += info->count * cadre_dtype_size(info->grad_dtype);
        if (i < last && bytes > self->bucket_bytes)
            break;
        n += ddp_round_up(info->count, self->mode->block);
    }
    return n;
}

/* Signs are made on the host, of a slice at a time. */
static uint64_t staging_bytes(const struct cadre_self *self, uint64_t slice,
                              uint64_t element)
{
    return self->mode->wire == CADRE_U8 ? slice * element + code_bytes(CADRE_U8, slice)
                                        : 0;
}

static void need(const struct cadre_self *self, struct ddp_need *out)
{
    for (uint32_t i = 0; i < self->n_entries; i++) {
        const struct cadre_param_info *info = &self->entry[i].info;
        uint64_t n = ddp_round_up(info->count, self->mode->block);
        uint64_t element = cadre_dtype_size(info->grad_dtype);
        uint64_t slice = slice_count(self, most_before(self, i));
        uint64_t most = slice * self->ranks * element;
        uint64_t staging = staging_bytes(self, slice, element);
        out->residuals += self->mode->keeps ? n * element : 0;
        out->payloads +=
            2 * self->ranks * code_bytes(self->mode->wire, slice_count(self, n));
        out->scratch = most > out->scratch ? most : out->scratch;
        out->staging = staging > out->staging ? staging : out->staging;
    }
}

static cadre_status bind(struct cadre_self *self, struct ddp_bucket *bucket)
{
    for (uint32_t i = bucket->first; i <= bucket->last; i++)
        self->entry[i].k = self->entry[i].grad.count;
    if (self->mode->keeps)
        CADRE_TRY(ddp_residual_bind(self, bucket));
    bucket->slice = slice_count(self, whole_of(bucket)->count);
    bucket->slice_bytes = code_bytes(self->mode->wire, bucket->slice);
    uint64_t bytes = bucket->slice_bytes * self->ranks;
    CADRE_TRY(ddp_take(self, CADRE_U8, bytes, "payloads", &bucket->left));
    CADRE_TRY(ddp_take(self, CADRE_U8, bytes, "payloads", &bucket->right));
    CADRE_TRY(
        ddp_staging_reserve(self, staging_bytes(self, bucket->slice,
                                                cadre_dtype_size(bucket->grad.dtype))));
    return ddp_scratch_reserve(self, bucket->slice * self->ranks *
                                         cadre_dtype_size(bucket->grad.dtype));
}

/* ---- one step ---- */

static cadre_status send(struct cadre_self *self, struct ddp_bucket *bucket)
{
    const struct cadre_buf *whole = whole_of(bucket);
    struct cadre_buf sent = ddp_scratch(self, whole->dtype, 0, whole->count);
    cadre_event after = 0;
    CADRE_TRY(self->stream->wait(self->ctx, bucket->ready));
    if (self->mode->prepare)
        CADRE_TRY(self->mode->prepare(self, bucket));
    CADRE_TRY(ddp_residual_add(self, bucket));
    for (uint32_t r = 0; r < self->ranks; r++) {
        struct cadre_buf x = slice_of(bucket, whole, r);
        CADRE_TRY(encode(self, bucket, &x, r));
        x = slice_of(bucket, &sent, r);
        if (self->mode->keeps)
            CADRE_TRY(decode(self, bucket, &bucket->left, r, r, &x));
    }
    if (self->mode->keeps)
        CADRE_TRY(ddp_subtract(self, whole, &sent));
    CADRE_TRY(ddp_computed(self, &after));
    struct cadre_post post = ddp_post(bucket, after);
    CADRE_TRY(self->comm->all_to_all(self->axis, &bucket->left, &bucket->right, &post));
    bucket->done = post.done;
    return CADRE_OK;
}

/* Add this rank's slice of all ranks. Its encoded sum then replaces what it sent; the
 * rounding error of the sum stays on this rank. */
static cadre_status add_up(struct cadre_self *self, struct ddp_bucket *bucket)
{
    const struct cadre_buf *whole = whole_of(bucket);
    struct cadre_buf mine = slice_of(bucket, whole, self->index);
    struct cadre_buf sum = ddp_scratch(self, whole->dtype, 0, mine.count);
    struct cadre_buf next = ddp_scratch(self, whole->dtype, bucket->slice, mine.count);
    CADRE_TRY(decode(self, bucket, &bucket->right, 0, self->index, &sum));
    for (uint32_t r = 1; r < self->ranks; r++) {
        CADRE_TRY(decode(self, bucket, &bucket->right, r, self->index, &next));
        CADRE_TRY(self->ops->add(self->ctx, &sum, &sum, &next));
    }
    CADRE_TRY(encode(self, bucket, &sum, self->index));
    if (!self->mode->keeps)
        return CADRE_OK;
    CADRE_TRY(decode(self, bucket, &bucket->left, self->index, self->index, &next));
    CADRE_TRY(ddp_subtract(self, &sum, &next));
    return self->ops->add(self->ctx, &mine, &mine, &sum);
}

static cadre_status second_exchange(struct cadre_self *self, struct ddp_bucket *bucket)
{
    CADRE_TRY(self->comm->stream_wait(self->axis, bucket->done));
    CADRE_TRY(add_up(self, bucket));
    return ddp_gather(self, bucket);
}

static cadre_status finish(struct cadre_self *self, struct ddp_bucket *bucket)
{
    struct cadre_buf sum = bucket->grad;
    if (self->mode->keeps)
        sum = ddp_scratch(self, sum.dtype, 0, bucket->residual.count);
    CADRE_TRY(self->comm->stream_wait(self->axis, bucket->done));
    for (uint32_t r = 0; r < self->ranks; r++) {
        struct cadre_buf x = slice_of(bucket, &sum, r);
        CADRE_TRY(decode(self, bucket, &bucket->left, r, r, &x));
    }
    for (uint32_t i = bucket->first; self->mode->keeps && i <= bucket->last; i++) {
        const struct ddp_entry *entry = &self->entry[i];
        struct cadre_buf x = cadre_buf_slice(&sum, entry->at, entry->grad.count);
        CADRE_TRY(ddp_copy(self, &entry->grad, &x));
    }
    return CADRE_OK;
}

#define DENSE(mode_name, mode_wire, mode_block, mode_keeps)                            \
    .name = (mode_name), .wire = (mode_wire), .block = (mode_block),                   \
    .keeps = (mode_keeps), .need = need, .bind = bind, .send = send,                   \
    .second_exchange = second_exchange, .finish = finish
const struct ddp_mode ddp_mode_bf16 = {DENSE("bf16", CADRE_BF16, DDP_BLOCK, 0)};
const struct ddp_mode ddp_mode_fp16 = {DENSE("fp16", CADRE_F16, DDP_BLOCK, 0)};
const struct ddp_mode ddp_mode_int8 = {
    DENSE("int8", CADRE_I8, DDP_BLOCK, DDP_KEEPS_RESIDUAL)};
const struct ddp_mode ddp_mode_onebit = {
    DENSE("onebit:", CADRE_U8, DDP_SIGNS, DDP_KEEPS_RESIDUAL),
    .begin = ddp_onebit_begin, .prepare = ddp_onebit_prepare};
