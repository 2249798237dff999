/* SPDX-License-Identifier: Apache-2.0 */
#include "core/model/lora.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/rng.h"

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
        a->partial = model->tp_size > 1 && !rows;
        b->partial = model->tp_size > 1 && rows;
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
    if (config->exact_parts > 1)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "run.exact_parts = %lld with tune.method = lora, expected 1: "
                          "the sums of adapters are not made in parts",
                          (long long)config->exact_parts);
    return CADRE_OK;
}

/* ---- buffers ---- */

/* Of one adapter, rows (N, rank). */
struct buffers {
    void *u; /* scale * dropout(x) A^T; saved */
    void *du; /* its gradient times scale, that of x A^T; between INPUT and WEIGHT */
};

static struct buffers carve_one(struct cadre_carver *carver)
{
    const int64_t count = carver->unit->N * carver->unit->model->config.lora.rank;
    struct buffers b;
    b.u = cadre_carve(carver, CADRE_UNIT_SAVED, count);
    b.du = cadre_carve(carver, CADRE_UNIT_GRAD_OUTPUTS, count);
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

void cadre_lora_carve(struct cadre_carver *carver)
{
    carve_work(carver);
    for (uint32_t i = 0; i < 32; i++)
        if (is_target(&carver->unit->model->config, i))
            carve_one(carver);
}

/* One adapter of a unit, with what its product needs. */
struct adapter {
    uint32_t A, B; /* indices of parameters */
    const void *a, *b;
    struct buffers buffers;
    void *work;
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
    for (uint32_t i = 0; i < 32; i++)
        if (is_target(&model->config, i) &&
            place_of(&model->config, i) <= linear->weight)
            at.buffers = carve_one(&carver);
    return at;
}

bool cadre_lora_adapts(const struct cadre_unit *unit, const struct cadre_linear *linear)
{
    return !unit->pass->without_adapters &&
           unit->model->params[unit->first + linear->weight].adapter >= 0;
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

/* Through the hooks of the pass: grad (m, n) = a^T b over the rows. */
static cadre_status add_gradient(const struct cadre_unit *unit, uint32_t param,
                                 struct cadre_gemm *gemm)
{
    const struct cadre_pass *pass = unit->pass;
    gemm->dtype = unit->dtype;
    gemm->wide = true;
    gemm->ta = true;
    gemm->ldc = gemm->n;
    CADRE_TRY(pass->grad_begin(pass->hook_arg, param, &gemm->c, &gemm->beta));
    CADRE_TRY(unit->ops->gemm(unit->device, gemm));
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
    struct cadre_gemm b = {
        .m = linear->out,
        .n = at.rank,
        .k = linear->rows,
        .a = dy,
        .lda = linear->ldy,
        .b = at.buffers.u,
        .ldb = at.rank,
    };
    struct cadre_gemm a = {
        .m = at.rank,
        .n = linear->in,
        .k = linear->rows,
        .a = at.buffers.du,
        .lda = at.rank,
        .b = x,
        .ldb = linear->ldx,
    };
    CADRE_TRY(add_gradient(unit, at.B, &b));
    return add_gradient(unit, at.A, &a);
}
