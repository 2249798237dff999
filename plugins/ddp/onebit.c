/* SPDX-License-Identifier: Apache-2.0 */
/* onebit:W, which makes AdamW into 1-bit Adam: W steps sum gradients as they are; from
 * then on the second moments are held, and what is summed are the first moments,
 *     m_r = beta1 / R * m + (1 - beta1) * g_r         of rank r of R
 * whose sum is AdamW's next one. They are sent as dense.c sends: each block of elements
 * as one sign an element and the mean magnitude, with both errors kept. The core takes
 * the sum as the first moment. With the second moments held an update is linear in the
 * first, so that what an error leaves out of one step comes in a later one; Adam's own
 * update is not, which is why gradients cannot be sent so.
 * Sources: Tang et al., 1-bit Adam, ICML 2021, algorithm 1; the mean magnitude, which
 * loses least: Karimireddy et al., Error Feedback Fixes SignSGD, ICML 2019. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/ddp/ddp.h"

/* ---- what it needs ---- */

static cadre_status refuse_entry(const struct cadre_self *self,
                                 const struct ddp_entry *entry, const char *why)
{
    return cadre_refuse(self->host, CADRE_E_UNSUPPORTED,
                        "ddp.compress = onebit and '%s', %s; use another ddp.compress",
                        entry->info.name, why);
}

cadre_status ddp_onebit_plan(struct cadre_self *self, const struct cadre_plan *plan)
{
    (void)plan;
    CADRE_TRY(self->param->moments(self->ctx, 0, &self->decay));
    for (uint32_t i = 0; i < self->n_entries; i++) {
        const struct ddp_entry *entry = &self->entry[i];
        uint64_t begin = 0, count = 0;
        CADRE_TRY(
            self->param->range(self->ctx, entry->id, CADRE_KIND_OPT, &begin, &count));
        if (entry->info.tied_to < 0 && count < entry->info.count)
            return refuse_entry(self, entry,
                                "of whose moments a rank holds a range only "
                                "(zero in strategy.stack)");
        if (entry->info.partial)
            return refuse_entry(self, entry,
                                "whose gradient is summed over tensor ranks afterwards "
                                "(tensor.sequence_parallel)");
        if (entry->info.expert >= 0)
            return refuse_entry(self, entry,
                                "an expert, whose gradients have another order on each "
                                "rank");
    }
    return CADRE_OK;
}

/* ---- a step ---- */

cadre_status ddp_onebit_begin(struct cadre_self *self, uint64_t step,
                              const struct ddp_mode **now)
{
    if (self->held == 0 && step <= self->warmup) {
        *now = &ddp_mode_none;
        return CADRE_OK;
    }
    if (self->held == 0)
        self->held = step - 1;
    return self->param->moments(self->ctx, self->held, &self->decay);
}

/* A tied entry has no moment of its own: its owner's counts for the sum of both. */
cadre_status ddp_onebit_prepare(struct cadre_self *self, struct ddp_bucket *bucket)
{
    for (uint32_t i = bucket->first; self->decay > 0 && i <= bucket->last; i++) {
        const struct ddp_entry *entry = &self->entry[i];
        struct cadre_buf moment;
        if (entry->info.tied_to >= 0) {
            CADRE_TRY(self->ops->scale(self->ctx, &entry->grad, 1 - self->decay));
            continue;
        }
        CADRE_TRY(self->param->shard(self->ctx, entry->id, CADRE_KIND_OPT, &moment));
        if (!moment.data || moment.count != entry->grad.count)
            return refuse_entry(self, entry, "whose first moment is not here");
        CADRE_TRY(self->ops->axpby(self->ctx, self->decay / self->ranks, &moment,
                                   1 - self->decay, &entry->grad));
    }
    return CADRE_OK;
}

/* Of a checkpoint that has none, the second moments are as old as the checkpoint. */
cadre_status ddp_onebit_state(struct cadre_self *self,
                              const struct cadre_state_sink *sink)
{
    return sink->blob(sink->h, "held", 1, CADRE_BLOB_REPLICATED, &self->held,
                      sizeof self->held);
}

/* ---- signs, on the host ---- */

enum { SIGN_BYTES = DDP_SIGNS / 8 };

uint64_t ddp_signs_bytes(uint64_t n)
{
    return n / DDP_SIGNS * (SIGN_BYTES + sizeof(float));
}

/* Elements of the block at `at` that are a parameter's; *entry is its, or before it. */
static uint32_t filled(const struct cadre_self *self, uint32_t *entry, uint64_t at)
{
    const struct ddp_entry *e = &self->entry[*entry];
    while (at >= e->at + ddp_round_up(e->grad.count, DDP_SIGNS))
        e = &self->entry[++*entry];
    uint64_t left = e->at + e->grad.count - at;
    return left < DDP_SIGNS ? (uint32_t)left : DDP_SIGNS;
}

static void load(double x[DDP_SIGNS], const char *from, uint32_t dtype, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        x[i] = dtype == CADRE_F64 ? ((const double *)(const void *)from)[i]
                                  : (double)((const float *)(const void *)from)[i];
}

static void store(char *to, uint32_t dtype, const double x[DDP_SIGNS])
{
    for (uint32_t i = 0; i < DDP_SIGNS; i++)
        if (dtype == CADRE_F64)
            ((double *)(void *)to)[i] = x[i];
        else
            ((float *)(void *)to)[i] = (float)x[i];
}

/* The mean magnitude in four sums, whose order is fixed. */
static float scale_of(const double x[DDP_SIGNS], uint32_t n)
{
    double sum[4] = {0};
    for (uint32_t i = 0; i < n; i++)
        sum[i % 4] += fabs(x[i]);
    return (float)((sum[0] + sum[1] + (sum[2] + sum[3])) / n);
}

static void pack(const double x[DDP_SIGNS], uint32_t n, unsigned char *signs)
{
    memset(signs, 0, SIGN_BYTES);
    for (uint32_t i = 0; i < n; i++)
        signs[i / 8] |= (unsigned char)((x[i] < 0) << i % 8);
}

static void unpack(double x[DDP_SIGNS], uint32_t n, const unsigned char *signs,
                   float scale)
{
    for (uint32_t i = 0; i < n; i++)
        x[i] = signs[i / 8] >> i % 8 & 1 ? -(double)scale : (double)scale;
    memset(x + n, 0, (DDP_SIGNS - n) * sizeof *x);
}

cadre_status ddp_signs_encode(struct cadre_self *self, const struct ddp_bucket *bucket,
                              const struct cadre_buf *x, uint64_t begin,
                              const struct cadre_buf *codes)
{
    const uint64_t element = cadre_dtype_size(x->dtype);
    char *values = self->staging.data;
    unsigned char *signs = (unsigned char *)values + bucket->slice * element;
    unsigned char *scales = signs + bucket->slice / DDP_SIGNS * SIGN_BYTES;
    uint32_t entry = bucket->first;
    CADRE_TRY(self->ops->to_host(self->ctx, values, x->data, cadre_buf_bytes(x)));
    memset(signs, 0, codes->count);
    for (uint64_t b = 0; b < x->count / DDP_SIGNS; b++) {
        double block[DDP_SIGNS];
        const uint32_t n = filled(self, &entry, begin + b * DDP_SIGNS);
        load(block, values + b * DDP_SIGNS * element, x->dtype, n);
        const float scale = scale_of(block, n);
        pack(block, n, signs + b * SIGN_BYTES);
        memcpy(scales + b * sizeof scale, &scale, sizeof scale);
    }
    return self->ops->to_device(self->ctx, codes->data, signs, codes->count);
}

cadre_status ddp_signs_decode(struct cadre_self *self, const struct ddp_bucket *bucket,
                              const struct cadre_buf *codes, uint64_t begin,
                              const struct cadre_buf *x)
{
    const uint64_t element = cadre_dtype_size(x->dtype);
    char *values = self->staging.data;
    unsigned char *signs = (unsigned char *)values + bucket->slice * element;
    const unsigned char *scales = signs + bucket->slice / DDP_SIGNS * SIGN_BYTES;
    uint32_t entry = bucket->first;
    CADRE_TRY(self->ops->to_host(self->ctx, signs, codes->data, codes->count));
    for (uint64_t b = 0; b < x->count / DDP_SIGNS; b++) {
        double block[DDP_SIGNS];
        float scale;
        const uint32_t n = filled(self, &entry, begin + b * DDP_SIGNS);
        memcpy(&scale, scales + b * sizeof scale, sizeof scale);
        unpack(block, n, signs + b * SIGN_BYTES, scale);
        store(values + b * DDP_SIGNS * element, x->dtype, block);
    }
    return self->ops->to_device(self->ctx, x->data, values, cadre_buf_bytes(x));
}
