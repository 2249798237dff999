/* SPDX-License-Identifier: Apache-2.0 */
#include "core/model/lora.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/rng.h"
#include "core/model/planes.h"

/* ---- the table ---- */

static bool is_target(const struct cadre_model_config *config, uint32_t row)
{
    return config->lora.rank > 0 && row < 32 && (config->lora.targets >> row & 1);
}

/* Where the weight of a row of the form's table is among a block's parameters. */
static uint32_t place_of(const struct cadre_model_config *config, uint32_t row)
{
    return config->arch == CADRE_ARCH_LLAMA ? cadre_llama_place(config, row) : row;
}

uint32_t cadre_lora_params(const struct cadre_model_config *config)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < 32; i++)
        n += is_target(config, i) ? 2 : 0;
    return n;
}

/* Is a weight stored (in, out)? */
static bool is_conv1d(const struct cadre_model *model)
{
    return model->config.arch == CADRE_ARCH_GPT2;
}

static struct cadre_param *append(struct cadre_model *model, uint32_t weight,
                                  const char *which, uint64_t rows, uint64_t columns)
{
    const struct cadre_param *of = &model->params[weight];
    struct cadre_param *param = &model->params[model->n_params++];
    char name[sizeof of->name];
    const int stem = (int)(strlen(of->name) - strlen(".weight"));
    *param = (struct cadre_param){
        .shape = {.ndim = 2, .dim = {rows, columns}},
        .unit = of->unit,
        .tied_to = -1,
        .decay = true,
        .split = CADRE_SHARD_NONE,
        .split_dim = -1,
        .expert = -1,
        .adapter = -1,
        .adapts = (int32_t)weight,
        .init = CADRE_INIT_ZERO,
    };
    memcpy(name, of->name, sizeof name);
    snprintf(param->name, sizeof param->name, CADRE_LORA_PREFIX "%.*s.lora_%s.weight",
             stem, name, which);
    return param;
}

/* Cut dimension `dim` in the way of the weight. */
static void cut(struct cadre_param *param, int dim, uint32_t split, int tp_size)
{
    param->local = param->shape;
    param->split = split;
    param->split_dim = split == CADRE_SHARD_NONE ? -1 : dim;
    if (split != CADRE_SHARD_NONE)
        param->local.dim[dim] /= (uint64_t)tp_size;
}

void cadre_lora_append(struct cadre_model *model, uint32_t unit)
{
    const uint32_t n = cadre_lora_params(&model->config);
    const uint32_t first = cadre_model_first_param(model, unit);
    const uint64_t rank = (uint64_t)model->config.lora.rank;
    for (uint32_t i = 0; n > 0 && i < 32; i++) {
        if (!is_target(&model->config, i))
            continue;
        const uint32_t at = first + place_of(&model->config, i);
        struct cadre_param *weight = &model->params[at];
        const bool flip = is_conv1d(model), rows = weight->split == CADRE_SHARD_ROW;
        const uint64_t in = weight->shape.dim[!flip], out = weight->shape.dim[flip];
        weight->adapter = (int32_t)model->n_params;
        struct cadre_param *a = append(model, at, "A", rank, in);
        struct cadre_param *b = append(model, at, "B", out, rank);
        cut(a, 1, rows ? weight->split : CADRE_SHARD_NONE, model->tp_size);
        cut(b, 0, rows ? CADRE_SHARD_NONE : weight->split, model->tp_size);
        /* in parts they are completed in every micro-batch */
        a->partial = model->tp_size > 1 && model->parts == 0 && !rows;
        b->partial = model->tp_size > 1 && model->parts == 0 && rows;
        /* kaiming-uniform with a = sqrt(5) (PEFT): within 1 / sqrt(in) */
        a->init = CADRE_INIT_UNIFORM;
        a->init_std = 1 / sqrt(3.0 * (double)in);
    }
}

cadre_status cadre_lora_check(const struct cadre_model_config *config,
                              struct cadre_error *err)
{
    const struct cadre_lora_config *lora = &config->lora;
    if (lora->rank == 0)
        return CADRE_OK;
    if (lora->rank < 0 || lora->targets == 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "tune.rank = %lld of no target, expected at least 1 of one",
                          (long long)lora->rank);
    if (config->experts > 0 || config->classes > 0)
        return cadre_fail(
            err, CADRE_E_UNSUPPORTED,
            "tune.method = lora with %s, expected a plain MLP and the language-model "
            "head: %s; use tune.method = full",
            config->experts > 0 ? "model.experts" : "model.head = classify",
            config->experts > 0 ? "experts have no adapters"
                                : "a new head would stay frozen");
    if (config->exact_parts > 1 && lora->dropout > 0)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "tune.dropout = %g with run.exact_parts = %lld, expected 0: "
                          "gradients behind its mask are not summed in parts; set "
                          "tune.dropout to 0, or run.exact_parts to 1",
                          lora->dropout, (long long)config->exact_parts);
    return CADRE_OK;
}

/* ---- buffers ---- */

/* Of one adapter, rows (N, parts * rank): those of each part beside each other. */
struct buffers {
    void *u; /* scale * dropout(x) A^T; saved */
    void *du; /* its gradient times scale, that of x A^T; between INPUT and WEIGHT */
    int64_t u_parts, du_parts; /* 1: it is no sum over tensor ranks */
};

/* Of the adapter whose weight is that row of the form's table. */
static struct buffers carve_one(struct cadre_carver *carver, uint32_t row)
{
    const struct cadre_unit *u = carver->unit;
    const struct cadre_model *model = u->model;
    const uint32_t weight = u->first + place_of(&model->config, row);
    const bool rows = model->params[weight].split == CADRE_SHARD_ROW;
    const int64_t parts = model->parts > 0 ? model->parts : 1;
    const int64_t count = u->N * model->config.lora.rank;
    struct buffers b = {.u_parts = rows ? parts : 1, .du_parts = rows ? 1 : parts};
    b.u = cadre_carve(carver, CADRE_UNIT_SAVED, count * b.u_parts);
    b.du = cadre_carve(carver, CADRE_UNIT_GRAD_OUTPUTS, count * b.du_parts);
    return b;
}

/* A product's input under dropout, or the gradient of that; scratch. */
static void *carve_work(struct cadre_carver *carver)
{
    const struct cadre_unit *u = carver->unit;
    const int64_t most = u->A > u->F ? u->A : u->F;
    if (u->model->config.lora.rank == 0 || u->model->config.lora.dropout == 0)
        return NULL;
    return cadre_carve(carver, CADRE_UNIT_SCRATCH, u->N * (most > u->C ? most : u->C));
}

/* The gradient of what is not cut, which has the model's channels, in each part. */
static void *carve_planes(struct cadre_carver *carver)
{
    const struct cadre_unit *u = carver->unit;
    if (u->model->config.lora.rank == 0 || u->model->parts == 0)
        return NULL;
    return cadre_carve_wide(
        carver, CADRE_UNIT_SCRATCH,
        cadre_planes_room(u->model->parts, u->model->config.lora.rank * u->C));
}

void cadre_lora_carve(struct cadre_carver *carver)
{
    carve_work(carver);
    carve_planes(carver);
    for (uint32_t i = 0; i < 32; i++)
        if (is_target(&carver->unit->model->config, i))
            carve_one(carver, i);
}

/* One adapter of a unit, with what its product needs. */
struct adapter {
    uint32_t A, B; /* indices of parameters */
    const void *a, *b;
    struct buffers buffers;
    void *work, *planes;
    int64_t rank;
};

static struct adapter adapter_of(const struct cadre_unit *unit,
                                 const struct cadre_linear *linear)
{
    const struct cadre_model *model = unit->model;
    const uint32_t A = (uint32_t)model->params[unit->first + linear->weight].adapter;
    struct cadre_carver carver = {.unit = unit};
    struct adapter at = {
        .A = A,
        .B = A + 1,
        .a = cadre_unit_param(unit, A - unit->first),
        .b = cadre_unit_param(unit, A + 1 - unit->first),
        .rank = model->config.lora.rank,
    };
    at.work = carve_work(&carver);
    at.planes = carve_planes(&carver);
    for (uint32_t i = 0; i < 32; i++)
        if (is_target(&model->config, i) &&
            place_of(&model->config, i) <= linear->weight)
            at.buffers = carve_one(&carver, i);
    return at;
}

bool cadre_lora_adapts(const struct cadre_unit *unit, const struct cadre_linear *linear)
{
    return !unit->pass->without_adapters &&
           unit->model->params[unit->first + linear->weight].adapter >= 0;
}

bool cadre_lora_is_term(const struct cadre_unit *unit,
                        const struct cadre_linear *linear)
{
    return cadre_lora_adapts(unit, linear) && unit->model->parts > 0 &&
           cadre_linear_is_row_split(unit, linear);
}

static bool drops(const struct cadre_unit *unit)
{
    return unit->pass->training && unit->model->config.lora.dropout > 0;
}

/* work = dropout(x); work may be x. */
static cadre_status drop(const struct cadre_unit *unit,
                         const struct cadre_linear *linear, const struct adapter *at,
                         const void *x, void *work)
{
    const struct cadre_model *model = unit->model;
    const struct cadre_param *A = &model->params[at->A];
    const struct cadre_dropout dropout = {
        .key = cadre_rng_key(model->config.lora.seed, A->name),
        .part = model->config.lora.dropout,
        .dtype = unit->dtype,
        .first = unit->pass->sample,
        .batch = unit->B,
        .time = unit->T,
        .position = unit->position,
        .length = unit->K,
        .columns = linear->in,
        .column = A->split == CADRE_SHARD_NONE ? 0 : model->tp_rank * linear->in,
        .width = (int64_t)A->shape.dim[1],
        .x = x,
        .out = work,
    };
    assert(linear->ldx == linear->in);
    return unit->ops->dropout(unit->device, &dropout);
}

/* ---- products ---- */

static cadre_status scale(const struct cadre_unit *unit, void *x, int64_t rank)
{
    return unit->ops->scale(unit->device, unit->dtype, x, unit->N * rank,
                            unit->model->config.lora.scale);
}

cadre_status cadre_lora_fwd(const struct cadre_unit *unit,
                            const struct cadre_linear *linear, const void *x, void *y,
                            enum cadre_epilogue epilogue, void *aux)
{
    const struct adapter at = adapter_of(unit, linear);
    if (drops(unit)) {
        CADRE_TRY(drop(unit, linear, &at, x, at.work));
        x = at.work;
    }
    const struct cadre_gemm down = {
        .dtype = unit->dtype,
        .m = linear->rows,
        .n = at.rank,
        .k = linear->in,
        .a = x,
        .lda = linear->ldx,
        .b = at.a,
        .ldb = linear->in,
        .tb = true,
        .c = at.buffers.u,
        .ldc = at.rank,
    };
    struct cadre_gemm up = {
        .dtype = unit->dtype,
        .m = linear->rows,
        .n = linear->out,
        .k = at.rank,
        .a = at.buffers.u,
        .lda = at.rank,
        .b = at.b,
        .ldb = at.rank,
        .tb = true,
        .c = y,
        .ldc = linear->ldy,
        .beta = 1,
        .epilogue = epilogue,
        .aux = aux,
    };
    if (epilogue != CADRE_EPILOGUE_NONE)
        up.bias = cadre_unit_param(unit, (uint32_t)linear->bias);
    CADRE_TRY(unit->ops->gemm(unit->device, &down));
    CADRE_TRY(scale(unit, at.buffers.u, at.rank));
    return unit->ops->gemm(unit->device, &up);
}

/* dx += dropout(du A): the mask is that of forward. */
static cadre_status add_dropped(const struct cadre_unit *unit,
                                const struct cadre_linear *linear,
                                const struct adapter *at, struct cadre_gemm *gemm,
                                void *dx, const void *pre)
{
    gemm->c = at->work;
    gemm->beta = 0;
    CADRE_TRY(unit->ops->gemm(unit->device, gemm));
    CADRE_TRY(drop(unit, linear, at, at->work, at->work));
    CADRE_TRY(unit->ops->add(unit->device, unit->dtype, dx, NULL, at->work, dx,
                             linear->rows, linear->in));
    if (!pre)
        return CADRE_OK;
    return unit->ops->gelu_bwd(unit->device, unit->dtype, pre, dx, dx,
                               linear->rows * linear->in);
}

cadre_status cadre_lora_bwd_input(const struct cadre_unit *unit,
                                  const struct cadre_linear *linear, const void *dy,
                                  void *dx, const void *pre)
{
    const struct adapter at = adapter_of(unit, linear);
    const struct cadre_gemm up = {
        .dtype = unit->dtype,
        .m = linear->rows,
        .n = at.rank,
        .k = linear->out,
        .a = dy,
        .lda = linear->ldy,
        .b = at.b,
        .ldb = at.rank,
        .c = at.buffers.du,
        .ldc = at.rank,
    };
    struct cadre_gemm down = {
        .dtype = unit->dtype,
        .m = linear->rows,
        .n = linear->in,
        .k = at.rank,
        .a = at.buffers.du,
        .lda = at.rank,
        .b = at.a,
        .ldb = linear->in,
        .c = dx,
        .ldc = linear->ldx,
        .beta = 1,
    };
    CADRE_TRY(unit->ops->gemm(unit->device, &up));
    CADRE_TRY(scale(unit, at.buffers.du, at.rank));
    if (drops(unit))
        return add_dropped(unit, linear, &at, &down, dx, pre);
    if (pre) {
        down.epilogue = CADRE_EPILOGUE_GELU_BWD;
        down.aux = (void *)(uintptr_t)pre; /* only read */
    }
    return unit->ops->gemm(unit->device, &down);
}

/* ---- products in parts ---- */

cadre_status cadre_lora_fwd_term(const struct cadre_unit *unit,
                                 const struct cadre_linear *linear, const void *x,
                                 struct cadre_gemm_term *term)
{
    const struct adapter at = adapter_of(unit, linear);
    const int64_t parts = at.buffers.u_parts, k = linear->in / parts;
    for (int64_t i = 0; i < parts; i++) {
        const struct cadre_gemm down = {
            .dtype = unit->dtype,
            .m = linear->rows,
            .n = at.rank,
            .k = k,
            .a = cadre_unit_at(unit, x, i * k),
            .lda = linear->ldx,
            .b = cadre_unit_at(unit, at.a, i * k),
            .ldb = linear->in,
            .tb = true,
            .c = cadre_unit_at(unit, at.buffers.u, i * at.rank),
            .ldc = parts * at.rank,
        };
        CADRE_TRY(unit->ops->gemm(unit->device, &down));
    }
    *term = (struct cadre_gemm_term){.a = at.buffers.u,
                                     .b = at.b,
                                     .lda = parts * at.rank,
                                     .ldb = at.rank,
                                     .k = parts * at.rank,
                                     .tb = true,
                                     .same_b = true};
    return scale(unit, at.buffers.u, parts * at.rank);
}

/* c (N, rank) = dy B over part i of each of the rows' `pieces`: q, k and v. */
static cadre_status up_part(const struct cadre_unit *unit,
                            const struct cadre_linear *linear, const void *dy,
                            const struct adapter *at, int64_t pieces, int64_t i)
{
    enum { MOST = 3 };
    const int64_t parts = at->buffers.du_parts, piece = linear->out / pieces;
    struct cadre_gemm_term terms[MOST] = {0};
    assert(pieces <= MOST);
    for (int64_t j = 0; j < pieces; j++) {
        const int64_t first = j * piece + i * (piece / parts);
        terms[j] =
            (struct cadre_gemm_term){.a = cadre_unit_at(unit, dy, first),
                                     .b = cadre_unit_at(unit, at->b, first * at->rank),
                                     .lda = linear->ldy,
                                     .ldb = at->rank,
                                     .k = piece / parts};
    }
    const struct cadre_gemm up = {
        .dtype = unit->dtype,
        .m = linear->rows,
        .n = at->rank,
        .k = linear->out / parts,
        .c = cadre_unit_at(unit, at->buffers.du, i * at->rank),
        .ldc = parts * at->rank,
        .terms = terms,
        .n_terms = pieces,
    };
    return unit->ops->gemm(unit->device, &up);
}

cadre_status cadre_lora_bwd_term(const struct cadre_unit *unit,
                                 const struct cadre_linear *linear, const void *dy,
                                 struct cadre_gemm_term *term)
{
    const struct adapter at = adapter_of(unit, linear);
    const int64_t parts = at.buffers.du_parts;
    const uint32_t split = unit->model->params[unit->first + linear->weight].split;
    const int64_t pieces = split == CADRE_SHARD_QKV ? 3 : 1;
    for (int64_t i = 0; i < parts; i++)
        CADRE_TRY(up_part(unit, linear, dy, &at, pieces, i));
    *term = (struct cadre_gemm_term){.a = at.buffers.du,
                                     .b = at.a,
                                     .lda = parts * at.rank,
                                     .ldb = linear->in,
                                     .k = parts * at.rank,
                                     .same_b = true};
    return scale(unit, at.buffers.du, parts * at.rank);
}

/* ---- gradients ---- */

/* Through the hooks of the pass: grad (m, n) = a^T b over the rows. */
static cadre_status add_gradient(const struct cadre_unit *unit, uint32_t param,
                                 struct cadre_gemm *gemm)
{
    const struct cadre_pass *pass = unit->pass;
    CADRE_TRY(pass->grad_begin(pass->hook_arg, param, &gemm->c, &gemm->beta));
    CADRE_TRY(unit->ops->gemm(unit->device, gemm));
    return pass->grad_end(pass->hook_arg, param);
}

/* The same as the sum of the products of all parts, of which each lies `rank` columns
 * after the other in *factor, a or b of the gemm. */
static cadre_status add_parts(const struct cadre_unit *unit, uint32_t param,
                              struct cadre_gemm *gemm, const void **factor,
                              const struct adapter *at)
{
    const struct cadre_pass *pass = unit->pass;
    const void *begin = *factor, *sum;
    const struct cadre_planes planes = {.data = at->planes,
                                        .n = unit->model->parts,
                                        .stride = gemm->m * gemm->n,
                                        .rows = gemm->m,
                                        .columns = gemm->n,
                                        .shared = unit->model->tp_size > 1};
    void *grad;
    int beta;
    CADRE_TRY(pass->grad_begin(pass->hook_arg, param, &grad, &beta));
    for (int64_t i = 0; i < planes.n; i++) {
        *factor = cadre_unit_at(unit, begin, i * at->rank);
        gemm->c = cadre_plane_at(unit, &planes, i);
        CADRE_TRY(unit->ops->gemm(unit->device, gemm));
    }
    CADRE_TRY(cadre_planes_sum(unit, &planes, &sum));
    CADRE_TRY(cadre_planes_give(unit, grad, sum, gemm->m * gemm->n, beta));
    return pass->grad_end(pass->hook_arg, param);
}

cadre_status cadre_lora_bwd_weight(const struct cadre_unit *unit,
                                   const struct cadre_linear *linear, const void *x,
                                   const void *dy)
{
    const struct adapter at = adapter_of(unit, linear);
    if (drops(unit)) {
        CADRE_TRY(drop(unit, linear, &at, x, at.work));
        x = at.work;
    }
    const struct buffers *own = &at.buffers;
    const bool in_parts = unit->model->parts > 0;
    const bool rows = cadre_linear_is_row_split(unit, linear);
    struct cadre_gemm b = {
        .dtype = unit->dtype,
        .wide = true,
        .m = linear->out,
        .n = at.rank,
        .k = linear->rows,
        .a = dy,
        .lda = linear->ldy,
        .ta = true,
        .b = own->u,
        .ldb = own->u_parts * at.rank,
        .ldc = at.rank,
    };
    struct cadre_gemm a = {
        .dtype = unit->dtype,
        .wide = true,
        .m = at.rank,
        .n = linear->in,
        .k = linear->rows,
        .a = own->du,
        .lda = own->du_parts * at.rank,
        .ta = true,
        .b = x,
        .ldb = linear->ldx,
        .ldc = linear->in,
    };
    CADRE_TRY(in_parts && rows ? add_parts(unit, at.B, &b, &b.b, &at)
                               : add_gradient(unit, at.B, &b));
    return in_parts && !rows ? add_parts(unit, at.A, &a, &a.a, &at)
                             : add_gradient(unit, at.A, &a);
}
