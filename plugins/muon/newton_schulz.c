/* SPDX-License-Identifier: Apache-2.0 */
/* Orthogonalization by a Newton-Schulz iteration of degree 5, which needs matrix
 * products alone. For X = U S V^T a step makes U p(S) V^T with p(s) = a s + b s^3 + c
 * s^5. The coefficients do not converge to 1 but drive every singular value from 0.003
 * or so up into [0.7, 1.2] within 5 steps, which is all that the update needs.
 * Source: Jordan et al., Muon, 2024. */
#include <math.h>

#include "plugins/muon/muon.h"

static const double a = 3.4445, b = -4.7750, c = 2.0315;

/* Below it a gradient counts as zero. */
#define LEAST_NORM 1e-7

/* c (m, n) = op(x) * op(y), contiguous */
struct product {
    uint64_t m, n, k;
    const void *x, *y;
    void *out;
    uint32_t tx, ty;
};

static cadre_status multiply(const struct cadre_self *self, const struct product *p)
{
    struct cadre_gemm_args args;
    memset(&args, 0, sizeof args);
    args.struct_size = sizeof args;
    args.dtype = self->dtype;
    args.m = (int64_t)p->m;
    args.n = (int64_t)p->n;
    args.k = (int64_t)p->k;
    args.a = p->x;
    args.lda = (int64_t)(p->tx ? p->m : p->k);
    args.ta = p->tx;
    args.b = p->y;
    args.ldb = (int64_t)(p->ty ? p->k : p->n);
    args.tb = p->ty;
    args.c = p->out;
    args.ldc = (int64_t)p->n;
    return self->ops->gemm(self->ctx, &args);
}

static struct cadre_buf view(const struct cadre_self *self, void *data, uint64_t count)
{
    return cadre_buf_of(data, count, self->dtype, CADRE_SPACE_DEVICE);
}

/* to = p(from), both (rows, columns). The products are on the smaller side. */
static cadre_status iterate(const struct cadre_self *self, const struct muon_weight *w,
                            void *from, void *to)
{
    const int wide = w->rows <= w->columns;
    const uint64_t side = wide ? w->rows : w->columns;
    const uint64_t other = wide ? w->columns : w->rows;
    const struct cadre_buf gram = view(self, self->square[0], side * side);
    const struct cadre_buf poly = view(self, self->square[1], side * side);
    const struct cadre_buf x = view(self, from, w->rows * w->columns);
    const struct cadre_buf y = view(self, to, w->rows * w->columns);
    /* gram = X X^T, or X^T X of a tall matrix */
    CADRE_TRY(multiply(self, &(struct product){.m = side,
                                               .n = side,
                                               .k = other,
                                               .x = from,
                                               .y = from,
                                               .out = gram.data,
                                               .tx = !wide,
                                               .ty = wide}));
    CADRE_TRY(multiply(self, &(struct product){.m = side,
                                               .n = side,
                                               .k = side,
                                               .x = gram.data,
                                               .y = gram.data,
                                               .out = poly.data}));
    CADRE_TRY(self->ops->axpby(self->ctx, b, &gram, c, &poly));
    CADRE_TRY(multiply(self, &(struct product){.m = w->rows,
                                               .n = w->columns,
                                               .k = side,
                                               .x = wide ? poly.data : from,
                                               .y = wide ? from : poly.data,
                                               .out = to}));
    return self->ops->axpby(self->ctx, a, &x, 1, &y);
}

/* The Frobenius norm bounds the largest singular value. */
static cadre_status normalize(const struct cadre_self *self, const struct cadre_buf *x)
{
    double squares = 0;
    CADRE_TRY(self->ops->dot(self->ctx, x, x, &squares));
    return self->ops->scale(self->ctx, x, 1 / (sqrt(squares) + LEAST_NORM));
}

cadre_status muon_orthogonalize(struct cadre_self *self, const struct muon_weight *w,
                                void *x)
{
    const uint64_t count = w->rows * w->columns;
    const uint64_t bytes = count * cadre_dtype_size(self->dtype);
    for (uint32_t part = 0; part < w->parts; part++) {
        char *own = (char *)x + part * bytes;
        void *from = own, *to = self->other;
        const struct cadre_buf buf = view(self, own, count);
        CADRE_TRY(normalize(self, &buf));
        for (uint32_t i = 0; i < self->steps; i++) {
            void *done = to;
            CADRE_TRY(iterate(self, w, from, to));
            to = from;
            from = done;
        }
        if (from != own)
            CADRE_TRY(self->ops->copy(self->ctx, own, from, bytes));
    }
    return CADRE_OK;
}
