/* SPDX-License-Identifier: Apache-2.0 */
/* Of each gradient the k = ceil(R n) elements of largest magnitude are sent with their
 * indices; the rest is kept for later. All ranks get all of them (all_gather) and add
 * them in the order of ranks: the same bits. `left` holds what every rank sends, one
 * after the other: values of all entries, then indices. A gradient with NaN or infinity
 * has that among its largest, so it arrives. Sources: Lin et al., Deep Gradient
 * Compression, ICLR 2018; Stich et al., NeurIPS 2018. */
#include "plugins/ddp/ddp.h"

static uint64_t k_of(const struct cadre_self *self, uint64_t count)
{
    uint64_t k = (uint64_t)(self->ratio * (double)count);
    if ((double)k < self->ratio * (double)count)
        k++;
    return k < count ? k : count;
}

/* Bytes that a rank sends of k elements: their values and indices. */
static uint64_t sent_bytes(uint64_t k, uint64_t element)
{
    return ddp_round_up(k * (element + 4), 8);
}

static void need(const struct cadre_self *self, struct ddp_need *out)
{
    for (uint32_t i = 0; i < self->n_entries; i++) {
        const struct cadre_param_info *info = &self->entry[i].info;
        uint64_t element = cadre_dtype_size(info->grad_dtype);
        out->residuals += ddp_round_up(info->count, DDP_BLOCK) * element;
        out->payloads += self->ranks * sent_bytes(k_of(self, info->count), element);
    }
}

static cadre_status bind(struct cadre_self *self, struct ddp_bucket *bucket)
{
    uint64_t element = cadre_dtype_size(bucket->grad.dtype), k = 0;
    for (uint32_t i = bucket->first; i <= bucket->last; i++) {
        struct ddp_entry *entry = &self->entry[i];
        if (entry->grad.count > INT32_MAX)
            return cadre_refuse(self->host, CADRE_E_UNSUPPORTED,
                                "gradient entry %u has %llu elements: topk takes at "
                                "most %d",
                                entry->id, (unsigned long long)entry->grad.count,
                                INT32_MAX);
        entry->k = k_of(self, entry->grad.count);
        entry->left_at = k;
        k += entry->k;
    }
    bucket->slice = k;
    bucket->slice_bytes = sent_bytes(k, element);
    CADRE_TRY(ddp_residual_bind(self, bucket));
    return ddp_take(self, CADRE_U8, self->ranks * bucket->slice_bytes, "payloads",
                    &bucket->left);
}

static struct cadre_buf values_of(const struct ddp_bucket *bucket,
                                  const struct ddp_entry *entry, uint32_t rank)
{
    uint64_t at = rank * bucket->slice_bytes +
                  entry->left_at * cadre_dtype_size(bucket->grad.dtype);
    return ddp_view(&bucket->left, at, bucket->grad.dtype, entry->k);
}

static struct cadre_buf places_of(const struct ddp_bucket *bucket,
                                  const struct ddp_entry *entry, uint32_t rank)
{
    uint64_t at = rank * bucket->slice_bytes +
                  bucket->slice * cadre_dtype_size(bucket->grad.dtype) +
                  entry->left_at * 4;
    return ddp_view(&bucket->left, at, CADRE_I32, entry->k);
}

static cadre_status send(struct cadre_self *self, struct ddp_bucket *bucket)
{
    CADRE_TRY(self->stream->wait(self->ctx, bucket->ready));
    CADRE_TRY(ddp_residual_add(self, bucket));
    for (uint32_t i = bucket->first; i <= bucket->last; i++) {
        const struct ddp_entry *entry = &self->entry[i];
        struct cadre_buf values = values_of(bucket, entry, self->index);
        struct cadre_buf places = places_of(bucket, entry, self->index);
        CADRE_TRY(self->ops->topk(self->ctx, &entry->residual, &values, &places));
        CADRE_TRY(
            self->ops->scatter_add(self->ctx, &entry->residual, &values, &places, -1));
    }
    return ddp_gather(self, bucket);
}

static cadre_status finish(struct cadre_self *self, struct ddp_bucket *bucket)
{
    CADRE_TRY(self->comm->stream_wait(self->axis, bucket->done));
    for (uint32_t i = bucket->first; i <= bucket->last; i++) {
        const struct ddp_entry *entry = &self->entry[i];
        CADRE_TRY(self->ops->zero(self->ctx, entry->grad.data,
                                  cadre_buf_bytes(&entry->grad)));
        for (uint32_t r = 0; r < self->ranks; r++) {
            struct cadre_buf values = values_of(bucket, entry, r);
            struct cadre_buf places = places_of(bucket, entry, r);
            CADRE_TRY(
                self->ops->scatter_add(self->ctx, &entry->grad, &values, &places, 1));
        }
    }
    return CADRE_OK;
}

const struct ddp_mode ddp_mode_topk = {
    .name = "topk:",
    .block = DDP_BLOCK,
    .keeps = DDP_KEEPS_RESIDUAL,
    .need = need,
    .bind = bind,
    .send = send,
    .finish = finish,
};
