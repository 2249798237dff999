/* SPDX-License-Identifier: Apache-2.0 */
/* Reduction of gradients in int8: a rank quantizes the other ranks' shards of a bucket,
 * an all-to-all exchanges them, and each rank dequantizes what it got of its shard and
 * adds it to its own in the gradients' type, in the order of ranks. With nodes that is
 * done in two hops, each of which rounds once: inside a node a rank sums, of all
 * shards, those of the ranks that have its place in their nodes; these are then
 * exchanged between the nodes. So a node's sum leaves it, and not each rank's gradient.
 *
 * All slices of an all-to-all are as long as the longest. Sums are made in the bucket
 * itself, so its gradients stay until the last hop is done.
 * Source: Wang et al., ZeRO++, 2023, section 3.3 (qgZ). */
#include "plugins/zero/zero.h"

/* Shards that one rank of a hop's axis gets. */
static uint32_t n_shards(const struct cadre_self *self, uint32_t hop)
{
    return self->n_hops == 2 && hop == 0 ? self->hop[1].size : 1;
}

/* The k-th of them: which rank of the axis owns it. */
static uint32_t owner_of(const struct cadre_self *self, uint32_t hop, uint32_t to,
                         uint32_t k)
{
    if (self->n_hops == 1)
        return to;
    const uint32_t place = hop == 0 ? to : self->hop[0].me;
    return (hop == 0 ? k : to) * self->hop[0].size + place;
}

static uint64_t shard_count(const struct zero_bucket *bucket, uint32_t owner)
{
    return bucket->off[owner + 1] - bucket->off[owner];
}

static struct cadre_buf shard_of(const struct zero_bucket *bucket, uint32_t owner)
{
    return cadre_buf_slice(&bucket->grad, bucket->off[owner],
                           shard_count(bucket, owner));
}

/* Bytes of the longest slice of a hop. */
static uint64_t slice_bytes(const struct cadre_self *self,
                            const struct zero_bucket *bucket, uint32_t hop)
{
    uint64_t most = 0;
    for (uint32_t to = 0; to < self->hop[hop].size; to++) {
        uint64_t bytes = 0;
        for (uint32_t k = 0; k < n_shards(self, hop); k++)
            bytes +=
                cadre_zero_code_bytes(shard_count(bucket, owner_of(self, hop, to, k)));
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Bytes that a rank sends in a hop, its own slice included: half of its buffer. */
static uint64_t half_bytes(const struct cadre_self *self,
                           const struct zero_bucket *bucket)
{
    uint64_t most = 0;
    for (uint32_t hop = 0; hop < self->n_hops; hop++) {
        uint64_t bytes = self->hop[hop].size * slice_bytes(self, bucket, hop);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* ---- memory ---- */

/* Two buckets are in flight at once at most. */
uint64_t cadre_zero_quantized_bytes(const struct cadre_self *self)
{
    uint64_t first = 0, second = 0;
    for (uint32_t b = 0; self->coded_grads && b < self->n_buckets; b++) {
        uint64_t bytes = 2 * half_bytes(self, &self->bucket[b]);
        if (bytes > first) {
            second = first;
            first = bytes;
        } else if (bytes > second) {
            second = bytes;
        }
    }
    return self->overlap ? first + second : first;
}

/* ---- a hop ---- */

static char *slice_at(const struct cadre_self *self, const struct zero_bucket *bucket,
                      uint32_t rank, int received)
{
    return (char *)bucket->codes.data + (received ? bucket->codes.count / 2 : 0) +
           rank * slice_bytes(self, bucket, bucket->hop);
}

/* Quantize every slice but this rank's own, and post the exchange. */
static cadre_status post_hop(struct cadre_self *self, struct zero_bucket *bucket)
{
    const struct zero_hop *hop = &self->hop[bucket->hop];
    const uint64_t bytes = hop->size * slice_bytes(self, bucket, bucket->hop);
    struct cadre_post post =
        cadre_post("zero quantized gradients", CADRE_TRAFFIC_GRAD, 0);
    for (uint32_t to = 0; to < hop->size; to++) {
        char *at = slice_at(self, bucket, to, 0);
        for (uint32_t k = 0; to != hop->me && k < n_shards(self, bucket->hop); k++) {
            struct cadre_buf x = shard_of(bucket, owner_of(self, bucket->hop, to, k));
            CADRE_TRY(cadre_zero_encode(self, &x, at));
            at += cadre_zero_code_bytes(x.count);
        }
    }
    struct cadre_buf in = cadre_buf_slice(&bucket->codes, 0, bytes);
    struct cadre_buf out =
        cadre_buf_slice(&bucket->codes, bucket->codes.count / 2, bytes);
    CADRE_TRY(self->comm->all_to_all(hop->axis, &in, &out, &post));
    bucket->done = post.done;
    return CADRE_OK;
}

/* Wait for the exchange, and add what came to this rank's shards, in the order of
 * ranks. */
static cadre_status add_up(struct cadre_self *self, struct zero_bucket *bucket)
{
    const struct zero_hop *hop = &self->hop[bucket->hop];
    CADRE_TRY(self->comm->stream_wait(hop->axis, bucket->done));
    for (uint32_t from = 0; from < hop->size; from++) {
        char *at = slice_at(self, bucket, from, 1);
        for (uint32_t k = 0; from != hop->me && k < n_shards(self, bucket->hop); k++) {
            struct cadre_buf x =
                shard_of(bucket, owner_of(self, bucket->hop, hop->me, k));
            struct cadre_buf part =
                cadre_buf_of(self->scratch, x.count, x.dtype, x.space);
            CADRE_TRY(cadre_zero_decode(self, at, &part));
            if (x.count > 0)
                CADRE_TRY(self->ops->add(self->host->ctx, &x, &x, &part));
            at += cadre_zero_code_bytes(x.count);
        }
    }
    bucket->hop++;
    return CADRE_OK;
}

/* ---- a bucket ---- */

cadre_status cadre_zero_quantized_send(struct cadre_self *self,
                                       struct zero_bucket *bucket)
{
    CADRE_TRY(cadre_zero_buffer_take(self, &self->codes, 2 * half_bytes(self, bucket),
                                     CADRE_U8, &bucket->codes));
    CADRE_TRY(self->stream->wait(self->host->ctx, bucket->ready));
    bucket->hop = 0;
    return post_hop(self, bucket);
}

cadre_status cadre_zero_quantized_advance(struct cadre_self *self,
                                          struct zero_bucket *bucket)
{
    if (bucket->hop + 1 >= self->n_hops)
        return CADRE_OK;
    CADRE_TRY(add_up(self, bucket));
    return post_hop(self, bucket);
}

cadre_status cadre_zero_quantized_finish(struct cadre_self *self,
                                         struct zero_bucket *bucket)
{
    CADRE_TRY(cadre_zero_quantized_advance(self, bucket));
    CADRE_TRY(add_up(self, bucket));
    cadre_zero_buffer_give(self, &self->codes, &bucket->codes, bucket->pooled);
    struct cadre_buf sum = shard_of(bucket, self->me);
    if (sum.count > 0 && sum.data != bucket->mine.data)
        CADRE_TRY(self->ops->copy(self->host->ctx, bucket->mine.data, sum.data,
                                  cadre_buf_bytes(&sum)));
    return self->stream->record(self->host->ctx, &bucket->done);
}
