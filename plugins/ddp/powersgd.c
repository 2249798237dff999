/* SPDX-License-Identifier: Apache-2.0 */
/* A gradient matrix is sent as two low-rank factors. With M (n, m) a gradient plus its
 * residual, on each rank, and Q (m, k) the same on all:
 *     P = sum over ranks of M Q, made orthonormal;  Q = sum over ranks of M^T P
 * and the summed gradient is P Q^T: one step of the power method for the best
 * approximation of rank k of the sum, which gets better from step to step as Q is kept.
 * Both sums are linear in M, so all_reduce does them and all ranks have the same bits.
 * Each rank keeps the residual M - P (M^T P)^T, with its own M. Vectors, and matrices
 * that two factors would not make smaller, are sent whole with P. `left` holds the P
 * and the vectors, `right` the Q. Source: Vogels, Karimireddy & Jaggi, PowerSGD,
 * NeurIPS 2019, algorithms 1 and 2. */
#include <stdlib.h>

#include "plugins/ddp/ddp.h"

/* Rows, columns and rank of an entry; k is 0 where it is sent whole. */
static void shape_of(const struct cadre_self *self, const struct cadre_param_info *info,
                     struct ddp_entry *entry)
{
    uint64_t n = info->local[0];
    entry->k = 0;
    if (info->ndim < 2 || n == 0)
        return;
    uint64_t m = info->count / n, k = self->rank;
    k = k < n ? k : n;
    k = k < m ? k : m;
    entry->rows = n;
    entry->columns = m;
    if (k * (n + m) < n * m)
        entry->k = k;
}

/* Elements of its part of left and right. */
static uint64_t left_count(const struct ddp_entry *entry, uint64_t count)
{
    return entry->k ? entry->rows * entry->k : count;
}

static uint64_t right_count(const struct ddp_entry *entry)
{
    return entry->columns * entry->k;
}

static void need(const struct cadre_self *self, struct ddp_need *out)
{
    for (uint32_t i = 0; i < self->n_entries; i++) {
        const struct cadre_param_info *info = &self->entry[i].info;
        struct ddp_entry entry = {0};
        uint64_t element = cadre_dtype_size(info->grad_dtype);
        shape_of(self, info, &entry);
        uint64_t left = left_count(&entry, info->count), right = right_count(&entry);
        if (entry.k)
            out->residuals += ddp_round_up(info->count, DDP_BLOCK) * element;
        out->payloads += (left + right) * element;
        out->scratch = right * element > out->scratch ? right * element : out->scratch;
    }
}

static struct cadre_buf left_of(const struct ddp_bucket *bucket,
                                const struct ddp_entry *entry)
{
    return cadre_buf_slice(&bucket->left, entry->left_at,
                           left_count(entry, entry->grad.count));
}

static struct cadre_buf right_of(const struct ddp_bucket *bucket,
                                 const struct ddp_entry *entry)
{
    return cadre_buf_slice(&bucket->right, entry->right_at, right_count(entry));
}

/* ---- set-up ---- */

/* The first Q: normal random numbers that depend on the parameter's name alone. */
static cadre_status fill_right(struct cadre_self *self, const struct ddp_bucket *bucket,
                               const struct ddp_entry *entry)
{
    struct cadre_buf q = right_of(bucket, entry);
    char name[192];
    if (q.count == 0)
        return CADRE_OK;
    snprintf(name, sizeof name, "powersgd %s", entry->info.name);
    void *host = malloc(cadre_buf_bytes(&q));
    if (!host)
        return cadre_refuse(self->host, CADRE_E_RESOURCE, "no memory for powersgd");
    for (uint64_t i = 0; i < q.count; i++) {
        double value = self->rng->normal(self->ctx, name, i);
        if (q.dtype == CADRE_F64)
            ((double *)host)[i] = value;
        else
            ((float *)host)[i] = (float)value;
    }
    cadre_status rc =
        self->ops->to_device(self->ctx, q.data, host, cadre_buf_bytes(&q));
    free(host);
    return rc;
}

static cadre_status bind(struct cadre_self *self, struct ddp_bucket *bucket)
{
    uint64_t left = 0, right = 0, most = 0;
    for (uint32_t i = bucket->first; i <= bucket->last; i++) {
        struct ddp_entry *entry = &self->entry[i];
        shape_of(self, &entry->info, entry);
        entry->left_at = left;
        entry->right_at = right;
        left += left_count(entry, entry->grad.count);
        right += right_count(entry);
        most = right_count(entry) > most ? right_count(entry) : most;
    }
    uint32_t dtype = bucket->grad.dtype;
    CADRE_TRY(ddp_residual_bind(self, bucket));
    CADRE_TRY(ddp_take(self, dtype, left, "payloads", &bucket->left));
    CADRE_TRY(ddp_take(self, dtype, right, "payloads", &bucket->right));
    CADRE_TRY(ddp_scratch_reserve(self, most * cadre_dtype_size(dtype)));
    for (uint32_t i = bucket->first; i <= bucket->last; i++)
        CADRE_TRY(fill_right(self, bucket, &self->entry[i]));
    return CADRE_OK;
}

/* ---- one step ---- */

/* c (m, n) = op(a) op(b) + beta c, all dense: the strides follow from the shapes. */
static cadre_status multiply(struct cadre_self *self, struct cadre_gemm_args gemm)
{
    gemm.struct_size = sizeof gemm;
    gemm.lda = gemm.ta ? gemm.m : gemm.k;
    gemm.ldb = gemm.tb ? gemm.k : gemm.n;
    gemm.ldc = gemm.n;
    return self->ops->gemm(self->ctx, &gemm);
}

/* P = M Q */
static cadre_status project(struct cadre_self *self, const struct ddp_entry *entry,
                            const struct cadre_buf *p, const struct cadre_buf *q)
{
    return multiply(self, (struct cadre_gemm_args){
                              .dtype = p->dtype,
                              .m = (int64_t)entry->rows,
                              .n = (int64_t)entry->k,
                              .k = (int64_t)entry->columns,
                              .a = entry->residual.data,
                              .b = q->data,
                              .c = p->data,
                          });
}

/* Q = M^T P */
static cadre_status project_back(struct cadre_self *self, const struct ddp_entry *entry,
                                 const struct cadre_buf *p, const struct cadre_buf *q)
{
    return multiply(self, (struct cadre_gemm_args){
                              .dtype = p->dtype,
                              .m = (int64_t)entry->columns,
                              .n = (int64_t)entry->k,
                              .k = (int64_t)entry->rows,
                              .a = entry->residual.data,
                              .b = p->data,
                              .c = q->data,
                              .ta = 1,
                          });
}

/* out = beta * out + P Q^T */
static cadre_status expand(struct cadre_self *self, const struct ddp_entry *entry,
                           const struct cadre_buf *p, const struct cadre_buf *q,
                           const struct cadre_buf *out, uint32_t beta)
{
    return multiply(self, (struct cadre_gemm_args){
                              .dtype = p->dtype,
                              .m = (int64_t)entry->rows,
                              .n = (int64_t)entry->columns,
                              .k = (int64_t)entry->k,
                              .a = p->data,
                              .b = q->data,
                              .c = out->data,
                              .tb = 1,
                              .beta = beta,
                          });
}

/* Sum a payload over the ranks, in place. */
static cadre_status sum(struct cadre_self *self, struct ddp_bucket *bucket,
                        const struct cadre_buf *payload, cadre_event after)
{
    struct cadre_post post = ddp_post(bucket, after);
    CADRE_TRY(self->comm->all_reduce(self->axis, payload, payload, CADRE_SUM, &post));
    bucket->done = post.done;
    return CADRE_OK;
}

static cadre_status send(struct cadre_self *self, struct ddp_bucket *bucket)
{
    cadre_event after = 0;
    CADRE_TRY(self->stream->wait(self->ctx, bucket->ready));
    CADRE_TRY(ddp_residual_add(self, bucket));
    for (uint32_t i = bucket->first; i <= bucket->last; i++) {
        const struct ddp_entry *entry = &self->entry[i];
        struct cadre_buf p = left_of(bucket, entry), q = right_of(bucket, entry);
        CADRE_TRY(entry->k ? project(self, entry, &p, &q)
                           : ddp_copy(self, &p, &entry->grad));
    }
    CADRE_TRY(ddp_computed(self, &after));
    return sum(self, bucket, &bucket->left, after);
}

/* The rank's own factor, and the residual of M. */
static cadre_status factor(struct cadre_self *self, const struct ddp_bucket *bucket,
                           const struct ddp_entry *entry)
{
    struct cadre_buf p = left_of(bucket, entry), q = right_of(bucket, entry);
    struct cadre_buf minus = ddp_scratch(self, q.dtype, 0, q.count);
    CADRE_TRY(self->ops->orthonormalize(self->ctx, &p, entry->k));
    CADRE_TRY(project_back(self, entry, &p, &q));
    CADRE_TRY(ddp_copy(self, &minus, &q));
    CADRE_TRY(self->ops->scale(self->ctx, &minus, -1));
    return expand(self, entry, &p, &minus, &entry->residual, 1);
}

static cadre_status second_exchange(struct cadre_self *self, struct ddp_bucket *bucket)
{
    cadre_event after = 0;
    CADRE_TRY(self->comm->stream_wait(self->axis, bucket->done));
    for (uint32_t i = bucket->first; i <= bucket->last; i++) {
        const struct ddp_entry *entry = &self->entry[i];
        struct cadre_buf p = left_of(bucket, entry);
        CADRE_TRY(entry->k ? factor(self, bucket, entry)
                           : ddp_copy(self, &entry->grad, &p));
    }
    if (bucket->right.count == 0)
        return CADRE_OK;
    CADRE_TRY(ddp_computed(self, &after));
    return sum(self, bucket, &bucket->right, after);
}

static cadre_status finish(struct cadre_self *self, struct ddp_bucket *bucket)
{
    CADRE_TRY(self->comm->stream_wait(self->axis, bucket->done));
    for (uint32_t i = bucket->first; i <= bucket->last; i++) {
        const struct ddp_entry *entry = &self->entry[i];
        struct cadre_buf p = left_of(bucket, entry), q = right_of(bucket, entry);
        if (entry->k)
            CADRE_TRY(expand(self, entry, &p, &q, &entry->grad, 0));
    }
    return CADRE_OK;
}

const struct ddp_mode ddp_mode_powersgd = {
    .name = "powersgd:",
    .block = DDP_BLOCK,
    .keeps = DDP_KEEPS_RIGHT,
    .need = need,
    .bind = bind,
    .send = send,
    .second_exchange = second_exchange,
    .finish = finish,
};
