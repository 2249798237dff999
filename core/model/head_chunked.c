/* SPDX-License-Identifier: Apache-2.0 */
/* The language-model head in chunks of rows, so that logits of all rows never exist:
 * with a large vocabulary they take more memory than the rest of a unit. Forward keeps
 * the statistics of each row. Backward computes a chunk's logits again and overwrites
 * them with their gradient; from it come the rows of dx and the chunk's part of the
 * weight's gradient, which is accumulated over chunks in the wide dtype. Where WEIGHT
 * runs separately from INPUT, it computes them once more. The vocabulary is not sharded
 * here. */
#include "core/model/head.h"
#include "core/model/layer.h"

#define AUTO_BYTES (INT64_C(2) << 30) /* largest logits that are not chunked */
#define AUTO_ROWS 64 /* chunks of whole tiles */

struct buffers {
    void *norm, *stats, *max, *sum; /* saved; sum: (2, N), then what was picked */
    void *logits, *dnorm, *total; /* scratch; total: where the model has logit_sums */
};

int64_t cadre_model_head_rows(const struct cadre_model_config *config, int64_t rows,
                              int tp_size)
{
    int64_t row_bytes = config->vocab * (int64_t)cadre_dtype_bytes(config->dtype);
    int64_t most = config->head_rows;
    if (most == 0 && tp_size == 1 && config->exact_parts <= 1) {
        most = AUTO_BYTES / row_bytes;
        most -= most > AUTO_ROWS ? most % AUTO_ROWS : 0;
        most += most == 0;
    }
    return most < rows && config->classes == 0 ? most : 0;
}

bool cadre_head_is_chunked(const struct cadre_model *model)
{
    return model->config.head_rows > 0 && model->config.classes == 0;
}

/* Rows of a chunk; the last may have fewer. */
static int64_t chunk_rows(const struct cadre_unit *u)
{
    int64_t rows = u->model->config.head_rows;
    return rows < u->N ? rows : u->N;
}

static struct buffers carve_buffers(struct cadre_carver *carver)
{
    const struct cadre_unit *u = carver->unit;
    struct buffers b = {
        .norm = cadre_carve(carver, CADRE_UNIT_SAVED, u->N * u->C),
        .stats = cadre_carve_wide(carver, CADRE_UNIT_SAVED, u->N * 2),
        .max = cadre_carve_wide(carver, CADRE_UNIT_SAVED, u->N),
        .sum = cadre_carve_wide(carver, CADRE_UNIT_SAVED, u->N * 2),
        .logits =
            cadre_carve(carver, CADRE_UNIT_SCRATCH, chunk_rows(u) * u->model->vocab),
        .dnorm = cadre_carve(carver, CADRE_UNIT_SCRATCH, u->N * u->C),
        .total = u->model->config.logit_sums
                     ? cadre_carve_wide(carver, CADRE_UNIT_SCRATCH, chunk_rows(u))
                     : NULL,
    };
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

/* Rows [begin, begin + rows) of the projection. */
struct chunk {
    int64_t begin, rows;
    struct cadre_linear projection;
};

static struct chunk chunk_at(const struct cadre_unit *u, int64_t begin)
{
    int64_t most = chunk_rows(u), rows = u->N - begin;
    rows = rows < most ? rows : most;
    return (struct chunk){
        .begin = begin,
        .rows = rows,
        .projection =
            {
                .weight = u->model->config.arch == CADRE_ARCH_GPT2 ? 2 : 1,
                .bias = -1,
                .rows = rows,
                .in = u->C,
                .out = u->model->vocab,
                .ldx = u->C,
                .ldy = u->model->vocab,
            },
    };
}

static void *row_of(const struct cadre_unit *u, const void *rows, int64_t row)
{
    return cadre_unit_at(u, rows, row * u->C);
}

static void *wide_at(const struct cadre_unit *u, void *buffer, int64_t count)
{
    return (unsigned char *)buffer + (size_t)count * u->wide;
}

static struct cadre_xent xent_of(const struct cadre_unit *u, const struct buffers *b,
                                 int64_t begin, int64_t rows)
{
    return (struct cadre_xent){
        .dtype = u->dtype,
        .rows = rows,
        .vocab = u->model->vocab,
        .logits = b->logits,
        .targets = u->pass->targets + begin,
        .max = wide_at(u, b->max, begin),
        .sum = wide_at(u, b->sum, begin),
        .picked = wide_at(u, b->sum, u->N + begin),
        .loss_rows = u->pass->loss_rows + begin,
        .seed = u->pass->loss_seed,
    };
}

static cadre_status score(const struct cadre_unit *u, const struct buffers *b,
                          const struct chunk *chunk)
{
    return cadre_linear_fwd(u, &chunk->projection, row_of(u, b->norm, chunk->begin),
                            b->logits, CADRE_EPILOGUE_NONE, NULL);
}

static cadre_status forward(const struct cadre_unit *u, const void *x, void *y)
{
    struct buffers b = buffers_of(u);
    struct chunk chunk;
    (void)y;
    CADRE_TRY(cadre_norm_layer_fwd(u, 0, x, b.norm, b.stats));
    for (int64_t row = 0; row < u->N; row += chunk.rows) {
        chunk = chunk_at(u, row);
        struct cadre_xent xent = xent_of(u, &b, row, chunk.rows);
        if (u->pass->logit_rows) {
            xent.total = b.total;
            xent.logit_rows = u->pass->logit_rows + row;
        }
        CADRE_TRY(score(u, &b, &chunk));
        CADRE_TRY(u->ops->xent_fwd(u->device, &xent));
        CADRE_TRY(u->ops->xent_loss(u->device, &xent));
    }
    return CADRE_OK;
}

/* Overwrite a chunk's logits with their gradient. */
static cadre_status dlogits(const struct cadre_unit *u, const struct buffers *b,
                            const struct chunk *chunk)
{
    struct cadre_xent xent = xent_of(u, b, chunk->begin, chunk->rows);
    cadre_status rc = score(u, b, chunk);
    return rc == CADRE_OK ? cadre_head_xent_bwd(u, &xent, chunk->begin) : rc;
}

/* Where the weight's gradient goes. */
struct target {
    uint32_t param;
    void *dst;
    int beta;
};

static cadre_status open_target(const struct cadre_unit *u, struct target *target)
{
    target->param = u->first + chunk_at(u, 0).projection.weight;
    return u->pass->grad_begin(u->pass->hook_arg, target->param, &target->dst,
                               &target->beta);
}

/* Add a chunk's part of the weight's gradient. */
static cadre_status add_part(const struct cadre_unit *u, const struct buffers *b,
                             const struct chunk *chunk, struct target *target)
{
    cadre_status rc =
        cadre_linear_add_weight(u, &chunk->projection, row_of(u, b->norm, chunk->begin),
                                b->logits, target->dst, target->beta);
    target->beta = 1;
    return rc;
}

static cadre_status backward_input(const struct cadre_unit *u, const void *x,
                                   const void *dy, void *dx)
{
    struct buffers b = buffers_of(u);
    struct target target = {0};
    struct chunk chunk = chunk_at(u, 0);
    const bool both = u->pass->both && !cadre_linear_is_frozen(u, &chunk.projection);
    (void)dy;
    if (both)
        CADRE_TRY(open_target(u, &target));
    for (int64_t row = 0; row < u->N; row += chunk.rows) {
        chunk = chunk_at(u, row);
        CADRE_TRY(dlogits(u, &b, &chunk));
        CADRE_TRY(cadre_linear_bwd_input(u, &chunk.projection, b.logits,
                                         row_of(u, b.dnorm, row), 0));
        if (both)
            CADRE_TRY(add_part(u, &b, &chunk, &target));
    }
    const struct cadre_norm_bwd norm = {
        .x = x, .stats = b.stats, .dy = b.dnorm, .dx = dx};
    return cadre_norm_layer_bwd(u, 0, &norm);
}

/* Under `both` INPUT has computed the gradient; only grad_end is called here, in the
 * order of the other gradients. */
static cadre_status backward_weight(const struct cadre_unit *u, const void *x)
{
    struct buffers b = buffers_of(u);
    struct chunk chunk = chunk_at(u, 0);
    struct target target = {.param = u->first + chunk.projection.weight};
    (void)x;
    if (cadre_linear_is_frozen(u, &chunk.projection))
        return CADRE_OK;
    if (!u->pass->both) {
        CADRE_TRY(open_target(u, &target));
        for (int64_t row = 0; row < u->N; row += chunk.rows) {
            chunk = chunk_at(u, row);
            CADRE_TRY(dlogits(u, &b, &chunk));
            CADRE_TRY(add_part(u, &b, &chunk, &target));
        }
    }
    return u->pass->grad_end(u->pass->hook_arg, target.param);
}

cadre_status cadre_head_chunk_logits(const struct cadre_unit *u, int64_t begin,
                                     int64_t *rows, const void **out)
{
    struct buffers b = buffers_of(u);
    struct chunk chunk = chunk_at(u, begin);
    cadre_status rc = score(u, &b, &chunk);
    *rows = chunk.rows;
    *out = b.logits;
    return rc;
}

const struct cadre_unit_kind cadre_head_chunked_unit = {
    .carve = carve,
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};
