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
    void *max, *sum, *picked; /* sum and picked are one (2, rows) buffer */
    void *partial, *whole; /* scratch */
    void *local_max, *local_sum;
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

/* Start of `picked`, after the sums of `rows` rows. */
static void *second_plane(const struct cadre_unit *u, const void *sum, int64_t rows)
{
    return (unsigned char *)sum + (size_t)rows * u->wide;
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
        .sum = cadre_carve_wide(carver, CADRE_UNIT_SAVED, rows * 2),
        .partial = cadre_carve(carver, CADRE_UNIT_SCRATCH, u->N * u->C),
        .whole = cadre_carve(carver, CADRE_UNIT_SCRATCH, u->N * u->C),
        .local_max = cadre_carve_wide(carver, CADRE_UNIT_SCRATCH, rows),
        .local_sum = cadre_carve_wide(carver, CADRE_UNIT_SCRATCH, rows * 2),
    };
    if (b.sum)
        b.picked = second_plane(u, b.sum, rows);
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
        .bias = -1,
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
        .loss_rows = u->pass->loss_rows,
        .seed = u->pass->loss_seed,
    };
}

/* Turn each rank's maximum, sum and picked logit into those of the whole vocabulary. */
static cadre_status split_statistics(const struct cadre_unit *u,
                                     const struct buffers *b)
{
    struct cadre_xent xent = xent_of(u, b);
    xent.max = b->local_max;
    xent.sum = b->local_sum;
    xent.picked = second_plane(u, b->local_sum, u->N);
    CADRE_TRY(u->ops->xent_fwd(u->device, &xent));
    CADRE_TRY(cadre_complete(u, CADRE_POINT_LOSS_MAX, false, b->local_max, b->max, 1));
    xent.old_max = b->local_max;
    xent.max = b->max;
    CADRE_TRY(u->ops->xent_rescale(u->device, &xent));
    return cadre_complete(u, CADRE_POINT_LOSS_SUM, false, b->local_sum, b->sum, 2);
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
    CADRE_TRY(cadre_linear_fwd(u, &projection, scored_rows(u, in), b.logits,
                               CADRE_EPILOGUE_NONE, NULL));
    if (u->pass->redistribute && !is_classifier(u))
        CADRE_TRY(split_statistics(u, &b));
    else
        CADRE_TRY(u->ops->xent_fwd(u->device, &xent));
    return u->ops->xent_loss(u->device, &xent);
}

static cadre_status backward_input(const struct cadre_unit *u, const void *x,
                                   const void *dy, void *dx)
{
    struct buffers b = buffers_of(u);
    struct cadre_linear projection = projection_of(u);
    struct cadre_xent xent = xent_of(u, &b);
    bool whole = is_classifier(u);
    void *partial = whole ? b.whole : cadre_partial(u, b.partial, b.whole);
    (void)dy;
    CADRE_TRY(u->ops->xent_bwd(u->device, &xent));
    if (whole)
        CADRE_TRY(u->ops->zero(u->device, b.whole, (size_t)(u->N * u->C) * u->element));
    CADRE_TRY(
        cadre_linear_bwd_input(u, &projection, b.logits, scored_rows(u, partial), 0));
    if (!whole)
        CADRE_TRY(cadre_complete(u, CADRE_POINT_HEAD_IN, true, partial, b.whole, u->C));
    return cadre_norm_layer_bwd(u, 0, x, b.stats,
                                whole ? cadre_own_rows(u, b.whole) : b.whole, NULL, dx);
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
