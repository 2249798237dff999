/* SPDX-License-Identifier: Apache-2.0 */
/* The last unit: final norm, projection, softmax cross-entropy. The language-model head
 * scores every row over the vocabulary, which tensor parallelism shards; a
 * classification head scores the last row of each sequence and is not sharded. Where
 * rows are sharded, the norm works on the own rows, and the projection gathers them.
 * Backward overwrites the logits with their gradient, so no second buffer of that size
 * exists. */
#include "core/model/head.h"
#include "core/model/layer.h"

struct buffers {
    void *norm, *stats, *logits; /* saved */
    /* sum, picked and, if the model has it, total are one (2 or 3, rows) buffer */
    void *max, *sum, *picked, *total;
    void *partial, *whole; /* scratch */
    void *local_max, *local_sum; /* of each part of the vocabulary, of own_parts */
    void *own_max, *norm_parts;
};

static bool is_classifier(const struct cadre_unit *u)
{
    return u->model->config.classes > 0;
}

static int64_t rows_of(const struct cadre_unit *u)
{
    return is_classifier(u) ? u->B : u->N;
}

static int64_t width_of(const struct cadre_unit *u)
{
    return is_classifier(u) ? u->model->config.classes : u->model->vocab;
}

/* Parts of this rank's vocabulary whose statistics are made apart. */
static int64_t own_parts(const struct cadre_unit *u)
{
    return u->model->parts > 1 && !is_classifier(u) ? u->model->parts : 1;
}

static int64_t planes(const struct cadre_unit *u)
{
    return u->model->config.logit_sums ? 3 : 2;
}

/* Those that are made in this pass. */
static int64_t used_planes(const struct cadre_unit *u)
{
    return u->pass->logit_rows ? 3 : 2;
}

/* Plane i of `rows` rows. */
static void *plane(const struct cadre_unit *u, const void *sum, int64_t rows, int i)
{
    return (unsigned char *)sum + (size_t)(i * rows) * u->wide;
}

static void *total_plane(const struct cadre_unit *u, const void *sum, int64_t rows)
{
    return u->pass->logit_rows ? plane(u, sum, rows, 2) : NULL;
}

static struct buffers carve_buffers(struct cadre_carver *carver)
{
    const struct cadre_unit *u = carver->unit;
    int64_t rows = rows_of(u);
    struct buffers b = {
        .norm = cadre_carve(carver, CADRE_UNIT_SAVED, u->R * u->C),
        .stats = cadre_carve_wide(carver, CADRE_UNIT_SAVED, u->R * 2),
        .logits = cadre_carve(carver, CADRE_UNIT_SAVED, rows * width_of(u)),
        .max = cadre_carve_wide(carver, CADRE_UNIT_SAVED, rows),
        .sum = cadre_carve_wide(carver, CADRE_UNIT_SAVED, rows * planes(u)),
        .partial = cadre_carve(carver, CADRE_UNIT_SCRATCH, u->N * u->C),
        .whole = cadre_carve(carver, CADRE_UNIT_SCRATCH, u->N * u->C),
        .local_max = cadre_carve_wide(carver, CADRE_UNIT_SCRATCH, own_parts(u) * rows),
        .local_sum = cadre_carve_wide(carver, CADRE_UNIT_SCRATCH,
                                      own_parts(u) * rows * planes(u)),
        .own_max = own_parts(u) > 1 ? cadre_carve_wide(carver, CADRE_UNIT_SCRATCH, rows)
                                    : NULL,
        .norm_parts = cadre_norm_parts_carve(carver),
    };
    if (b.sum) {
        b.picked = plane(u, b.sum, rows, 1);
        b.total = total_plane(u, b.sum, rows);
    }
    return b;
}

static void carve(struct cadre_carver *carver)
{
    carve_buffers(carver);
}

static struct buffers buffers_of(const struct cadre_unit *u)
{
    struct cadre_carver carver = {.unit = u};
    return carve_buffers(&carver);
}

/* The projection; a classifier's rows have a stride of T*C, from the last token on. */
static struct cadre_linear projection_of(const struct cadre_unit *u)
{
    return (struct cadre_linear){
        .weight = u->model->config.arch == CADRE_ARCH_GPT2 ? 2 : 1,
        .bias = u->model->config.image.patch > 0 ? 3 : -1,
        .rows = rows_of(u),
        .in = u->C,
        .out = width_of(u),
        .ldx = is_classifier(u) ? u->T * u->C : u->C,
        .ldy = width_of(u),
    };
}

static void *scored_rows(const struct cadre_unit *u, const void *rows)
{
    return cadre_unit_at(u, rows, is_classifier(u) ? (u->T - 1) * u->C : 0);
}

static struct cadre_xent xent_of(const struct cadre_unit *u, const struct buffers *b)
{
    return (struct cadre_xent){
        .dtype = u->dtype,
        .rows = rows_of(u),
        .vocab = width_of(u),
        .begin = is_classifier(u) ? 0 : u->model->vocab_begin,
        .logits = b->logits,
        .targets = u->pass->targets,
        .max = b->max,
        .sum = b->sum,
        .picked = b->picked,
        .total = b->total,
        .loss_rows = u->pass->loss_rows,
        .logit_rows = u->pass->logit_rows,
        .seed = u->pass->loss_seed,
    };
}

/* Part i of own_parts: its classes and its statistics. */
static struct cadre_xent part_of(const struct cadre_unit *u, const struct buffers *b,
                                 int64_t i)
{
    struct cadre_xent xent = xent_of(u, b);
    const size_t size = (size_t)u->N * u->wide;
    xent.ld = xent.vocab;
    xent.vocab /= own_parts(u);
    xent.begin += i * xent.vocab;
    xent.logits = cadre_unit_at(u, b->logits, i * xent.vocab);
    xent.max = (unsigned char *)b->local_max + (size_t)i * size;
    xent.sum = (unsigned char *)b->local_sum + (size_t)(i * planes(u)) * size;
    xent.picked = plane(u, xent.sum, u->N, 1);
    xent.total = total_plane(u, xent.sum, u->N);
    return xent;
}

/* *max = the maximum over this rank's parts. */
static cadre_status own_maximum(const struct cadre_unit *u, const struct buffers *b,
                                const void **max)
{
    const uint32_t wide = cadre_dtype_wide(u->dtype);
    const struct cadre_xent first = part_of(u, b, 0);
    *max = first.max;
    for (int64_t i = 1; i < own_parts(u); i++) {
        const struct cadre_xent xent = part_of(u, b, i);
        CADRE_TRY(u->ops->maximum(u->device, wide, b->own_max, *max, xent.max, u->N));
        *max = b->own_max;
    }
    return CADRE_OK;
}

/* The first part's sums become those of all of this rank's, in the tree. */
static cadre_status add_parts(const struct cadre_unit *u, const struct buffers *b)
{
    const uint32_t wide = cadre_dtype_wide(u->dtype);
    const int64_t n = own_parts(u);
    for (int64_t step = 1; step < n; step *= 2)
        for (int64_t i = 0; i + step < n; i += 2 * step) {
            const struct cadre_xent left = part_of(u, b, i);
            const struct cadre_xent right = part_of(u, b, i + step);
            CADRE_TRY(u->ops->tree_add(u->device, wide, left.sum, left.sum, right.sum,
                                       used_planes(u) * u->N));
        }
    return CADRE_OK;
}

/* whole = partial of all tensor ranks; without a redistribution a copy. */
static cadre_status complete_rows(const struct cadre_unit *u, uint32_t point,
                                  const void *partial, void *whole, int64_t channels)
{
    if (u->pass->redistribute)
        return cadre_complete(u, point, false, partial, whole, channels);
    return u->ops->copy(u->device, whole, partial, (size_t)(u->N * channels) * u->wide);
}

/* Turn each part's maximum, sum and picked logit into those of the whole vocabulary. */
static cadre_status split_statistics(const struct cadre_unit *u,
                                     const struct buffers *b)
{
    const void *max = NULL;
    for (int64_t i = 0; i < own_parts(u); i++) {
        const struct cadre_xent xent = part_of(u, b, i);
        CADRE_TRY(u->ops->xent_fwd(u->device, &xent));
    }
    CADRE_TRY(own_maximum(u, b, &max));
    CADRE_TRY(complete_rows(u, CADRE_POINT_LOSS_MAX, max, b->max, 1));
    for (int64_t i = 0; i < own_parts(u); i++) {
        struct cadre_xent xent = part_of(u, b, i);
        xent.old_max = xent.max;
        xent.max = b->max;
        CADRE_TRY(u->ops->xent_rescale(u->device, &xent));
    }
    CADRE_TRY(add_parts(u, b));
    return complete_rows(u, CADRE_POINT_LOSS_SUM, b->local_sum, b->sum, used_planes(u));
}

static cadre_status forward(const struct cadre_unit *u, const void *x, void *y)
{
    struct buffers b = buffers_of(u);
    struct cadre_linear projection = projection_of(u);
    struct cadre_xent xent = xent_of(u, &b);
    const void *in;
    (void)y;
    CADRE_TRY(cadre_norm_layer_fwd(u, 0, x, b.norm, b.stats));
    CADRE_TRY(cadre_gather(u, CADRE_POINT_HEAD_IN, false, b.norm, b.whole, &in));
    CADRE_TRY(cadre_linear_fwd(
        u, &projection, scored_rows(u, in), b.logits,
        projection.bias < 0 ? CADRE_EPILOGUE_NONE : CADRE_EPILOGUE_BIAS, NULL));
    if ((u->pass->redistribute || own_parts(u) > 1) && !is_classifier(u))
        CADRE_TRY(split_statistics(u, &b));
    else
        CADRE_TRY(u->ops->xent_fwd(u->device, &xent));
    return u->ops->xent_loss(u->device, &xent);
}

/* As many rows at once as have one seed: those of a sequence. */
cadre_status cadre_head_xent_bwd(const struct cadre_unit *u,
                                 const struct cadre_xent *xent, int64_t begin)
{
    const double *seeds = u->pass->loss_seeds;
    int64_t n = 0;
    if (!seeds)
        return u->ops->xent_bwd(u->device, xent);
    for (int64_t row = 0; row < xent->rows; row += n) {
        const size_t wide = (size_t)row * u->wide;
        struct cadre_xent part = *xent;
        n = u->T - (begin + row) % u->T;
        n = n < xent->rows - row ? n : xent->rows - row;
        part.rows = n;
        part.logits = cadre_unit_at(u, xent->logits, row * xent->vocab);
        part.targets += row;
        part.max = (unsigned char *)xent->max + wide;
        part.sum = (unsigned char *)xent->sum + wide;
        part.seed = seeds[(begin + row) / u->T];
        CADRE_TRY(u->ops->xent_bwd(u->device, &part));
    }
    return CADRE_OK;
}

static cadre_status backward_input(const struct cadre_unit *u, const void *x,
                                   const void *dy, void *dx)
{
    struct buffers b = buffers_of(u);
    struct cadre_linear projection = projection_of(u);
    struct cadre_xent xent = xent_of(u, &b);
    bool whole = is_classifier(u);
    const struct cadre_linear *linear[] = {&projection};
    const void *dlogits[] = {b.logits};
    void *partial = whole ? b.whole : cadre_partial(u, b.partial, b.whole);
    (void)dy;
    CADRE_TRY(cadre_head_xent_bwd(u, &xent, 0));
    if (whole)
        CADRE_TRY(u->ops->zero(u->device, b.whole, (size_t)(u->N * u->C) * u->element));
    CADRE_TRY(cadre_linear_bwd_inputs(u, linear, dlogits, 1, scored_rows(u, partial)));
    if (!whole)
        CADRE_TRY(cadre_complete(u, CADRE_POINT_HEAD_IN, true, partial, b.whole, u->C));
    const struct cadre_norm_bwd norm = {.x = x,
                                        .stats = b.stats,
                                        .dy = whole ? cadre_own_rows(u, b.whole)
                                                    : b.whole,
                                        .dx = dx,
                                        .parts = b.norm_parts};
    return cadre_norm_layer_bwd(u, 0, &norm);
}

static cadre_status backward_weight(const struct cadre_unit *u, const void *x)
{
    struct buffers b = buffers_of(u);
    struct cadre_linear projection = projection_of(u);
    const void *in;
    (void)x;
    CADRE_TRY(cadre_gather(u, CADRE_POINT_HEAD_IN, true, b.norm, b.whole, &in));
    return cadre_linear_bwd_weight(u, &projection, scored_rows(u, in), b.logits);
}

cadre_status cadre_head_logits(const struct cadre_model *model,
                               const struct cadre_pass *pass, int64_t begin,
                               int64_t *rows, const void **out)
{
    struct cadre_unit u =
        cadre_unit_of(model, model->n_units - 1, pass->batch, pass->time, pass);
    if (cadre_head_is_chunked(model))
        return cadre_head_chunk_logits(&u, begin, rows, out);
    *rows = rows_of(&u) - begin;
    *out = cadre_unit_at(&u, buffers_of(&u).logits, begin * width_of(&u));
    return CADRE_OK;
}

const struct cadre_unit_kind cadre_head_unit = {
    .carve = carve,
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};
