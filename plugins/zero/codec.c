/* SPDX-License-Identifier: Apache-2.0 */
/* Values in blocks of int8 with a scale each, and the codec of gathers that travel so:
 * every rank decodes what all have sent, its own shard too, so all run on the same
 * values. What a rank keeps and updates is not rounded.
 * Source: Wang et al., ZeRO++, 2023, section 3.1 (qwZ). */
#include "plugins/zero/zero.h"

/* Elements that share a scale. */
#define BLOCK ((uint64_t)CADRE_INT8_BLOCK)

static uint64_t n_scales(uint64_t n)
{
    return n / BLOCK + (n % BLOCK != 0);
}

/* To a multiple of 4, where the scales begin. */
static uint64_t n_codes(uint64_t n)
{
    return (n + 3) / 4 * 4;
}

uint64_t cadre_zero_code_bytes(uint64_t n)
{
    return n_codes(n) + 4 * n_scales(n);
}

static struct cadre_buf codes_at(void *at, uint64_t n)
{
    return cadre_buf_of(at, n, CADRE_I8, CADRE_SPACE_DEVICE);
}

static struct cadre_buf scales_at(void *at, uint64_t n)
{
    return cadre_buf_of((char *)at + n_codes(n), n_scales(n), CADRE_F32,
                        CADRE_SPACE_DEVICE);
}

/* The ops encode elements of 32 and 64 bits: those of 16 go by a copy in fp32. */
static int is_half(uint32_t dtype)
{
    return dtype == CADRE_BF16 || dtype == CADRE_F16;
}

static struct cadre_buf copy_of(const struct cadre_self *self,
                                const struct cadre_buf *x)
{
    return is_half(x->dtype)
               ? cadre_buf_of(self->scratch, x->count, CADRE_F32, CADRE_SPACE_DEVICE)
               : *x;
}

cadre_status cadre_zero_encode(struct cadre_self *self, const struct cadre_buf *x,
                               void *codes)
{
    struct cadre_buf q = codes_at(codes, x->count), s = scales_at(codes, x->count);
    struct cadre_buf copy = copy_of(self, x);
    if (x->count == 0)
        return CADRE_OK;
    if (copy.dtype != x->dtype)
        CADRE_TRY(self->ops->cast(self->host->ctx, &copy, x));
    return self->ops->quantize(self->host->ctx, &copy, BLOCK, &q, &s);
}

cadre_status cadre_zero_decode(struct cadre_self *self, void *codes,
                               const struct cadre_buf *x)
{
    struct cadre_buf q = codes_at(codes, x->count), s = scales_at(codes, x->count);
    struct cadre_buf copy = copy_of(self, x);
    if (x->count == 0)
        return CADRE_OK;
    CADRE_TRY(self->ops->dequantize(self->host->ctx, &q, &s, BLOCK, &copy));
    return copy.dtype == x->dtype ? CADRE_OK
                                  : self->ops->cast(self->host->ctx, x, &copy);
}

/* ---- the copy of a shard ---- */

static uint64_t longest_shard(const struct cadre_self *self, const uint64_t *off)
{
    uint64_t most = 0;
    for (uint32_t r = 0; r < self->ranks; r++)
        most = off[r + 1] - off[r] > most ? off[r + 1] - off[r] : most;
    return most;
}

uint64_t cadre_zero_scratch_bytes(const struct cadre_self *self)
{
    uint64_t most = 0;
    for (uint32_t b = 0; self->coded_grads && b < self->n_buckets; b++) {
        const struct zero_bucket *bucket = &self->bucket[b];
        uint64_t bytes = longest_shard(self, bucket->off) *
                         cadre_dtype_size(self->entry[bucket->first].info.grad_dtype);
        most = bytes > most ? bytes : most;
    }
    for (uint32_t b = 0; self->coded_values && b < self->n_blocks; b++) {
        const struct zero_block *block = &self->block[b];
        uint64_t bytes = longest_shard(self, block->off) * sizeof(float);
        if (block->held && is_half(self->entry[block->first].dtype))
            most = bytes > most ? bytes : most;
    }
    return most;
}

cadre_status cadre_zero_scratch_bind(struct cadre_self *self)
{
    const uint64_t bytes = cadre_zero_scratch_bytes(self);
    if (bytes == 0)
        return CADRE_OK;
    self->scratch = self->mem->alloc(self->host->ctx, CADRE_SPACE_DEVICE, bytes,
                                     "dequantized shard");
    if (self->scratch)
        return CADRE_OK;
    return cadre_refuse(self->host, CADRE_E_RESOURCE,
                        "no memory for %llu bytes of a dequantized shard",
                        (unsigned long long)bytes);
}

/* ---- gathers ---- */

/* Frozen parameters in another form travel in that. */
static int is_coded(const struct cadre_self *self, uint32_t kind, uint32_t dtype)
{
    return self->coded_values && kind == CADRE_TRAFFIC_PARAM &&
           (dtype == CADRE_F64 || dtype == CADRE_F32 || is_half(dtype));
}

uint64_t cadre_zero_wire_bytes(struct cadre_self *self, uint32_t kind, uint32_t dtype,
                               uint64_t n)
{
    return is_coded(self, kind, dtype) ? cadre_zero_code_bytes(n) : 0;
}

cadre_status cadre_zero_wire(struct cadre_self *self, const struct cadre_wire_ev *ev)
{
    return ev->encode ? cadre_zero_encode(self, ev->in, ev->out->data)
                      : cadre_zero_decode(self, ev->in->data, ev->out);
}

static uint64_t codes_of(struct cadre_self *self, const struct zero_block *block)
{
    uint64_t bytes = 0;
    for (uint32_t r = 0; r < self->ranks; r++)
        bytes += cadre_zero_wire_bytes(self, CADRE_TRAFFIC_PARAM,
                                       self->entry[block->first].dtype,
                                       block->off[r + 1] - block->off[r]);
    return bytes;
}

/* Does any of the n units from `unit` on need the block? */
static int one_needs(const struct cadre_self *self, uint32_t unit, uint32_t n,
                     uint32_t block)
{
    for (uint32_t u = unit; u < self->n_units && u - unit < n; u++)
        if (cadre_zero_needs(self, u, block))
            return 1;
    return 0;
}

/* A unit that runs is gathered and waited for before others are prefetched. */
uint64_t cadre_zero_codes_bytes(struct cadre_self *self)
{
    const uint32_t n = self->prefetch > 1 ? (uint32_t)self->prefetch : 1;
    uint64_t most = 0;
    for (uint32_t u = 0; self->coded_values && u < self->n_units; u++) {
        uint64_t bytes = 0;
        for (uint32_t b = 0; b < self->n_blocks; b++)
            if (one_needs(self, u, n, b))
                bytes += codes_of(self, &self->block[b]);
        most = bytes > most ? bytes : most;
    }
    return most;
}
