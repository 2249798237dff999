/* SPDX-License-Identifier: Apache-2.0 */
/* The second moment, whole or as the product of its row and column means, and the
 * update that is clipped by its root mean square (Shazeer & Stern 2018, algorithms 4
 * and 5). */
#include <math.h>

#include "plugins/adafactor/adafactor.h"

static struct cadre_buf view(const struct cadre_self *self, void *data, uint64_t count)
{
    return cadre_buf_of(data, count, self->dtype, CADRE_SPACE_DEVICE);
}

/* The decay rises to 1: the moment of the first step is its gradient's alone. */
static double decay_at(const struct cadre_self *self, uint64_t step)
{
    return 1 - pow((double)step, -self->decay);
}

/* moment = decay * moment + (1 - decay) * (by * x + eps) */
static cadre_status blend(const struct cadre_self *self, double decay, double by,
                          const struct cadre_buf *x, const struct cadre_buf *moment)
{
    const struct cadre_buf ones = view(self, self->ones, x->count);
    CADRE_TRY(self->ops->axpby(self->ctx, (1 - decay) * by, x, decay, moment));
    return self->ops->axpby(self->ctx, (1 - decay) * self->eps, &ones, 1, moment);
}

/* out = factor / sqrt(moment) */
static cadre_status invert(const struct cadre_self *self,
                           const struct cadre_buf *moment, const struct cadre_buf *out,
                           double factor)
{
    CADRE_TRY(
        self->ops->copy(self->ctx, out->data, moment->data, cadre_buf_bytes(moment)));
    CADRE_TRY(self->ops->rsqrt(self->ctx, out, 0));
    return self->ops->scale(self->ctx, out, factor);
}

/* Divide by max(1, RMS / clip). */
static cadre_status clip(const struct cadre_self *self, const struct cadre_buf *x)
{
    double squares = 0;
    CADRE_TRY(self->ops->dot(self->ctx, x, x, &squares));
    const double over = sqrt(squares / (double)x->count) / self->clip;
    return over > 1 ? self->ops->scale(self->ctx, x, 1 / over) : CADRE_OK;
}

/* c (m, n) = a (m, k) * b (k, n) */
static cadre_status multiply(const struct cadre_self *self, const void *a,
                             const void *b, void *c, const uint64_t size[3])
{
    struct cadre_gemm_args args;
    memset(&args, 0, sizeof args);
    args.struct_size = sizeof args;
    args.dtype = self->dtype;
    args.m = (int64_t)size[0];
    args.n = (int64_t)size[1];
    args.k = (int64_t)size[2];
    args.a = a;
    args.lda = args.k;
    args.b = b;
    args.ldb = args.n;
    args.c = c;
    args.ldc = args.n;
    return self->ops->gemm(self->ctx, &args);
}

cadre_status adafactor_matrix(struct cadre_self *self, const struct cadre_update_ev *ev)
{
    const struct cadre_ops_svc *ops = self->ops;
    const uint64_t n = ev->rows, m = ev->columns;
    const double decay = decay_at(self, ev->step);
    const struct cadre_buf *g = &ev->grad;
    const struct cadre_buf *rows = &ev->state[ADAFACTOR_ROWS];
    const struct cadre_buf *columns = &ev->state[ADAFACTOR_COLUMNS];
    const struct cadre_buf full = view(self, self->scratch, n * m);
    const struct cadre_buf row = view(self, self->row, n);
    const struct cadre_buf column = view(self, self->column, m);
    const struct cadre_buf ones = view(self, self->ones, n);
    double sum = 0;
    CADRE_TRY(ops->mul(self->ctx, &full, g, g));
    CADRE_TRY(
        multiply(self, full.data, self->ones, row.data, (const uint64_t[]){n, 1, m}));
    CADRE_TRY(multiply(self, self->ones, full.data, column.data,
                       (const uint64_t[]){1, m, n}));
    CADRE_TRY(blend(self, decay, 1 / (double)m, &row, rows));
    CADRE_TRY(blend(self, decay, 1 / (double)n, &column, columns));
    CADRE_TRY(ops->dot(self->ctx, rows, &ones, &sum));
    CADRE_TRY(invert(self, rows, &row, sqrt(sum / (double)n)));
    CADRE_TRY(invert(self, columns, &column, 1));
    CADRE_TRY(
        multiply(self, row.data, column.data, full.data, (const uint64_t[]){n, m, 1}));
    CADRE_TRY(ops->mul(self->ctx, g, g, &full));
    return clip(self, g);
}

cadre_status adafactor_vector(struct cadre_self *self, const struct cadre_update_ev *ev)
{
    const struct cadre_buf *g = &ev->grad;
    const struct cadre_buf scratch = view(self, self->scratch, g->count);
    CADRE_TRY(self->ops->mul(self->ctx, &scratch, g, g));
    CADRE_TRY(blend(self, decay_at(self, ev->step), 1, &scratch, &ev->state[0]));
    CADRE_TRY(invert(self, &ev->state[0], &scratch, 1));
    CADRE_TRY(self->ops->mul(self->ctx, g, g, &scratch));
    return clip(self, g);
}
