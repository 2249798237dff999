/* SPDX-License-Identifier: Apache-2.0 */
/* Building blocks of blocks and head: products, norms, packed attention, and
 * redistribution of partial results over the tensor axis. */
#include "core/model/layer.h"

#include <assert.h>

#include "core/model/lora.h"
#include "core/model/qat.h"

const void *cadre_unit_param(const struct cadre_unit *unit, uint32_t position)
{
    const struct cadre_param *param = &unit->model->params[unit->first + position];
    assert(param->data && "an op ran while a parameter it reads was detached");
    return param->data;
}

void *cadre_unit_at(const struct cadre_unit *unit, const void *buffer, int64_t count)
{
    return (unsigned char *)buffer + (size_t)count * unit->element;
}

static uint32_t split_of(const struct cadre_unit *unit,
                         const struct cadre_linear *linear)
{
    return unit->model->params[unit->first + linear->weight].split;
}

bool cadre_linear_is_row_split(const struct cadre_unit *unit,
                               const struct cadre_linear *linear)
{
    return split_of(unit, linear) == CADRE_SHARD_ROW;
}

static cadre_status product_fwd(const struct cadre_unit *unit,
                                const struct cadre_linear *linear, const void *x,
                                void *y, enum cadre_epilogue epilogue, void *aux)
{
    struct cadre_gemm_term terms[2];
    struct cadre_gemm gemm = {
        .dtype = unit->dtype,
        .m = linear->rows,
        .n = linear->out,
        .k = linear->in,
        .a = x,
        .lda = linear->ldx,
        .ldb = linear->conv1d ? linear->out : linear->in,
        .tb = !linear->conv1d,
        .c = y,
        .ldc = linear->ldy,
        .epilogue = epilogue,
        .aux = aux,
        .parts = cadre_linear_is_row_split(unit, linear) ? unit->model->parts : 0,
    };
    if (epilogue != CADRE_EPILOGUE_NONE)
        gemm.bias = cadre_unit_param(unit, (uint32_t)linear->bias);
    CADRE_TRY(cadre_qat_weight(unit, linear, 0, &gemm.b));
    CADRE_TRY(cadre_qat_range(unit, linear, x));
    CADRE_TRY(cadre_qat_input(unit, linear, x, &gemm.a));
    if (cadre_lora_is_term(unit, linear)) {
        terms[0] = (struct cadre_gemm_term){.a = gemm.a,
                                            .b = gemm.b,
                                            .lda = gemm.lda,
                                            .ldb = gemm.ldb,
                                            .k = gemm.k,
                                            .tb = gemm.tb};
        CADRE_TRY(cadre_lora_fwd_term(unit, linear, x, &terms[1]));
        gemm.terms = terms;
        gemm.n_terms = 2;
        gemm.k += terms[1].k;
    }
    return unit->ops->gemm(unit->device, &gemm);
}

/* Of a weight with an adapter, GELU follows the sum of both products; a bias is added
 * to the weight's own, as without an adapter. */
cadre_status cadre_linear_fwd(const struct cadre_unit *unit,
                              const struct cadre_linear *linear, const void *x, void *y,
                              enum cadre_epilogue epilogue, void *aux)
{
    const bool gelu = epilogue == CADRE_EPILOGUE_BIAS_GELU;
    if (!cadre_lora_adapts(unit, linear) || cadre_lora_is_term(unit, linear))
        return product_fwd(unit, linear, x, y, epilogue, aux);
    CADRE_TRY(
        product_fwd(unit, linear, x, y, gelu ? CADRE_EPILOGUE_NONE : epilogue, NULL));
    return cadre_lora_fwd(unit, linear, x, y, gelu ? epilogue : CADRE_EPILOGUE_NONE,
                          aux);
}

static struct cadre_gemm input_product(const struct cadre_unit *unit,
                                       const struct cadre_linear *linear,
                                       const void *dy, void *dx)
{
    return (struct cadre_gemm){
        .dtype = unit->dtype,
        .m = linear->rows,
        .n = linear->in,
        .k = linear->out,
        .a = dy,
        .lda = linear->ldy,
        .b = cadre_unit_param(unit, linear->weight),
        .ldb = linear->conv1d ? linear->out : linear->in,
        .tb = linear->conv1d,
        .c = dx,
        .ldc = linear->ldx,
    };
}

/* Is the inner dimension of dy W^T what tensor parallelism cuts? */
static bool is_cut(uint32_t split)
{
    return split == CADRE_SHARD_COLUMN || split == CADRE_SHARD_QKV ||
           split == CADRE_SHARD_VOCAB;
}

/* Each rank has its part of the queries, of the keys and of the values. */
static void append_terms(const struct cadre_unit *unit, const struct cadre_gemm *gemm,
                         bool packed, struct cadre_gemm *sum,
                         struct cadre_gemm_term terms[CADRE_GEMM_TERMS])
{
    const int64_t n = packed ? 3 : 1, k = gemm->k / n;
    for (int64_t i = 0; i < n; i++)
        terms[sum->n_terms++] = (struct cadre_gemm_term){
            .a = cadre_unit_at(unit, gemm->a, i * k),
            .b = cadre_unit_at(unit, gemm->b, gemm->tb ? i * k : i * k * gemm->ldb),
            .lda = gemm->lda,
            .ldb = gemm->ldb,
            .k = k,
            .tb = gemm->tb};
    sum->k += gemm->k;
}

static cadre_status sum_in_parts(const struct cadre_unit *unit,
                                 const struct cadre_linear *const linear[],
                                 const void *const dy[], int n, void *dx)
{
    struct cadre_gemm_term terms[CADRE_GEMM_TERMS];
    struct cadre_gemm sum = input_product(unit, linear[0], dy[0], dx);
    sum.parts = unit->model->parts;
    sum.terms = terms;
    sum.k = 0;
    for (int64_t i = 0, at = 0; i < n; at += linear[i]->in * linear[i]->out, i++) {
        struct cadre_gemm gemm = input_product(unit, linear[i], dy[i], dx);
        CADRE_TRY(cadre_qat_weight(unit, linear[i], at, &gemm.b));
        append_terms(unit, &gemm, split_of(unit, linear[i]) == CADRE_SHARD_QKV, &sum,
                     terms);
        if (!cadre_lora_adapts(unit, linear[i]))
            continue;
        struct cadre_gemm_term *adapter = &terms[sum.n_terms++];
        CADRE_TRY(cadre_lora_bwd_term(unit, linear[i], dy[i], adapter));
        sum.k += adapter->k;
    }
    return unit->ops->gemm(unit->device, &sum);
}

/* dx = beta * dx + dy W^T, clipped nowhere. */
static cadre_status add_input(const struct cadre_unit *unit,
                              const struct cadre_linear *linear, const void *dy,
                              void *dx, int beta)
{
    struct cadre_gemm gemm = input_product(unit, linear, dy, dx);
    gemm.beta = beta;
    CADRE_TRY(cadre_qat_weight(unit, linear, 0, &gemm.b));
    CADRE_TRY(unit->ops->gemm(unit->device, &gemm));
    return cadre_lora_adapts(unit, linear)
               ? cadre_lora_bwd_input(unit, linear, dy, dx, NULL)
               : CADRE_OK;
}

cadre_status cadre_linear_bwd_inputs(const struct cadre_unit *unit,
                                     const struct cadre_linear *const linear[],
                                     const void *const dy[], int n, void *dx)
{
    if (unit->model->parts > 0 && is_cut(split_of(unit, linear[0])))
        return sum_in_parts(unit, linear, dy, n, dx);
    for (int i = 0; i < n; i++)
        CADRE_TRY(add_input(unit, linear[i], dy[i], dx, i > 0));
    return CADRE_OK;
}

cadre_status cadre_linear_bwd_input(const struct cadre_unit *unit,
                                    const struct cadre_linear *linear, const void *dy,
                                    void *dx, int beta)
{
    CADRE_TRY(add_input(unit, linear, dy, dx, beta));
    return cadre_linear_is_row_split(unit, linear)
               ? cadre_qat_clip_input(unit, linear, dx)
               : CADRE_OK;
}

cadre_status cadre_linear_bwd_gelu(const struct cadre_unit *unit,
                                   const struct cadre_linear *linear, const void *dy,
                                   const void *pre, void *dpre)
{
    struct cadre_gemm gemm = input_product(unit, linear, dy, dpre);
    if (cadre_lora_adapts(unit, linear)) {
        CADRE_TRY(unit->ops->gemm(unit->device, &gemm));
        return cadre_lora_bwd_input(unit, linear, dy, dpre, pre);
    }
    if (cadre_qat_quantises(unit)) {
        CADRE_TRY(cadre_linear_bwd_input(unit, linear, dy, dpre, 0));
        return unit->ops->gelu_bwd(unit->device, unit->dtype, pre, dpre, dpre,
                                   linear->rows * linear->in);
    }
    gemm.epilogue = CADRE_EPILOGUE_GELU_BWD;
    gemm.aux = (void *)(uintptr_t)pre; /* only read */
    return unit->ops->gemm(unit->device, &gemm);
}

static struct cadre_gemm weight_product(const struct cadre_unit *unit,
                                        const struct cadre_linear *linear,
                                        const void *x, const void *dy)
{
    return (struct cadre_gemm){
        .dtype = unit->dtype,
        .wide = true,
        .m = linear->conv1d ? linear->in : linear->out,
        .n = linear->conv1d ? linear->out : linear->in,
        .k = linear->rows,
        .a = linear->conv1d ? x : dy,
        .lda = linear->conv1d ? linear->ldx : linear->ldy,
        .ta = true,
        .b = linear->conv1d ? dy : x,
        .ldb = linear->conv1d ? linear->ldy : linear->ldx,
        .ldc = linear->conv1d ? linear->out : linear->in,
    };
}

cadre_status cadre_linear_add_weight(const struct cadre_unit *unit,
                                     const struct cadre_linear *linear, const void *x,
                                     const void *dy, void *dst, int beta)
{
    struct cadre_gemm gemm = weight_product(unit, linear, x, dy);
    gemm.c = dst;
    gemm.beta = beta;
    return unit->ops->gemm(unit->device, &gemm);
}

static bool is_frozen(const struct cadre_pass *pass, uint32_t param)
{
    return pass->is_frozen && pass->is_frozen(pass->hook_arg, param);
}

bool cadre_param_is_frozen(const struct cadre_unit *unit, uint32_t position)
{
    return is_frozen(unit->pass, unit->first + position);
}

bool cadre_linear_is_frozen(const struct cadre_unit *unit,
                            const struct cadre_linear *linear)
{
    return is_frozen(unit->pass, unit->first + linear->weight) &&
           (linear->bias < 0 ||
            is_frozen(unit->pass, unit->first + (uint32_t)linear->bias));
}

/* Where the gradients of a weight and its bias go, and the one beta with which both are
 * computed: that of a trained one, since what goes where a frozen one's gradient does
 * is never read. */
static cadre_status begin_pair(const struct cadre_pass *pass, uint32_t weight,
                               uint32_t bias, void **dw, void **db, int *beta)
{
    int own;
    CADRE_TRY(pass->grad_begin(pass->hook_arg, weight, dw, beta));
    CADRE_TRY(pass->grad_begin(pass->hook_arg, bias, db, &own));
    if (is_frozen(pass, weight))
        *beta = own;
    assert(own == *beta || is_frozen(pass, bias));
    return CADRE_OK;
}

cadre_status cadre_linear_bwd_weight(const struct cadre_unit *unit,
                                     const struct cadre_linear *linear, const void *x,
                                     const void *dy)
{
    const struct cadre_pass *pass = unit->pass;
    const uint32_t weight = unit->first + linear->weight;
    const uint32_t bias = unit->first + (uint32_t)linear->bias;
    struct cadre_gemm gemm = weight_product(unit, linear, x, dy);
    if (cadre_lora_adapts(unit, linear))
        CADRE_TRY(cadre_lora_bwd_weight(unit, linear, x, dy));
    if (cadre_linear_is_frozen(unit, linear))
        return CADRE_OK;
    CADRE_TRY(cadre_qat_input(unit, linear, x, linear->conv1d ? &gemm.a : &gemm.b));
    if (linear->bias >= 0) {
        assert(linear->ldy == linear->out);
        CADRE_TRY(begin_pair(pass, weight, bias, &gemm.c, &gemm.sums, &gemm.beta));
        gemm.epilogue = linear->conv1d ? CADRE_EPILOGUE_SUM_B : CADRE_EPILOGUE_SUM_A;
    } else {
        CADRE_TRY(pass->grad_begin(pass->hook_arg, weight, &gemm.c, &gemm.beta));
    }
    CADRE_TRY(unit->ops->gemm(unit->device, &gemm));
    CADRE_TRY(cadre_qat_clip_weight(unit, linear, gemm.c));
    CADRE_TRY(pass->grad_end(pass->hook_arg, weight));
    if (linear->bias >= 0)
        CADRE_TRY(pass->grad_end(pass->hook_arg, bias));
    return CADRE_OK;
}

static struct cadre_norm norm_of(const struct cadre_unit *unit, uint32_t weight)
{
    bool layer = unit->model->config.arch == CADRE_ARCH_GPT2;
    return (struct cadre_norm){
        .dtype = unit->dtype,
        .rows = unit->R,
        .channels = unit->C,
        .layer = layer,
        .eps = unit->model->config.norm_eps,
        .w = cadre_unit_param(unit, weight),
        .b = layer ? cadre_unit_param(unit, weight + 1) : NULL,
    };
}

cadre_status cadre_norm_layer_fwd(const struct cadre_unit *unit, uint32_t weight,
                                  const void *x, void *y, void *stats)
{
    struct cadre_norm norm = norm_of(unit, weight);
    norm.x = x;
    norm.y = y;
    norm.stats = stats;
    return unit->ops->norm_fwd(unit->device, &norm);
}

cadre_status cadre_norm_layer_add(const struct cadre_unit *unit, uint32_t weight,
                                  int32_t bias, const void *residual, void *sum,
                                  void *y, void *stats)
{
    struct cadre_norm norm = norm_of(unit, weight);
    norm.a = sum;
    norm.bias = bias < 0 ? NULL : cadre_unit_param(unit, (uint32_t)bias);
    norm.b_sum = residual;
    norm.sum = sum;
    norm.y = y;
    norm.stats = stats;
    return unit->ops->norm_fwd(unit->device, &norm);
}

cadre_status cadre_norm_layer_bwd(const struct cadre_unit *unit, uint32_t weight,
                                  const struct cadre_norm_bwd *in)
{
    const struct cadre_pass *pass = unit->pass;
    struct cadre_norm norm = norm_of(unit, weight);
    uint32_t param = unit->first + weight;
    norm.x = in->x;
    norm.stats = (void *)(uintptr_t)in->stats; /* only read */
    norm.dy = in->dy;
    norm.residual = in->residual;
    norm.dx = in->dx;
    if (norm.layer)
        CADRE_TRY(begin_pair(pass, param, param + 1, &norm.dw, &norm.db, &norm.beta));
    else
        CADRE_TRY(pass->grad_begin(pass->hook_arg, param, &norm.dw, &norm.beta));
    CADRE_TRY(unit->model->parts > 0 ? cadre_norm_parts_bwd(unit, &norm, in->parts)
                                     : unit->ops->norm_bwd(unit->device, &norm));
    CADRE_TRY(pass->grad_end(pass->hook_arg, param));
    if (norm.layer)
        CADRE_TRY(pass->grad_end(pass->hook_arg, param + 1));
    return CADRE_OK;
}

struct cadre_attention cadre_packed_attention(const struct cadre_unit *unit,
                                              const void *qkv, void *out, void *lse)
{
    return (struct cadre_attention){
        .dtype = unit->dtype,
        .batch = unit->B,
        .time = unit->T,
        .heads = unit->H,
        .kv_heads = unit->G,
        .head_size = unit->D,
        .full = unit->model->config.image.patch > 0,
        .q = qkv,
        .k = cadre_unit_at(unit, qkv, unit->A),
        .v = cadre_unit_at(unit, qkv, unit->A + unit->G * unit->D),
        .ldq = unit->Q,
        .ldk = unit->Q,
        .ldv = unit->Q,
        .ldo = unit->A,
        .out = out,
        .lse = lse,
    };
}

void *cadre_partial(const struct cadre_unit *unit, void *spare, void *whole)
{
    return unit->pass->redistribute ? spare : whole;
}

cadre_status cadre_complete(const struct cadre_unit *unit, uint32_t point,
                            bool backward, const void *partial, void *whole,
                            int64_t channels)
{
    const struct cadre_pass *pass = unit->pass;
    bool loss = point == CADRE_POINT_LOSS_MAX || point == CADRE_POINT_LOSS_SUM;
    if (!pass->redistribute)
        return CADRE_OK;
    return pass->redistribute(pass->hook_arg, point, backward,
                              unit->model->rows_sharded && !loss
                                  ? CADRE_REDISTRIBUTE_REDUCE_SCATTER
                                  : CADRE_REDISTRIBUTE_ALL_REDUCE,
                              partial, whole, unit->N, channels);
}

cadre_status cadre_gather(const struct cadre_unit *unit, uint32_t point, bool backward,
                          const void *own, void *spare, const void **all)
{
    const struct cadre_pass *pass = unit->pass;
    *all = unit->model->rows_sharded ? spare : own;
    if (!unit->model->rows_sharded)
        return CADRE_OK;
    return pass->redistribute(pass->hook_arg, point, backward,
                              CADRE_REDISTRIBUTE_ALL_GATHER, own, spare, unit->N,
                              unit->C);
}

cadre_status cadre_gather_copy(const struct cadre_unit *unit, uint32_t point,
                               const void *own, void *all)
{
    const void *gathered;
    if (unit->model->rows_sharded)
        return cadre_gather(unit, point, true, own, all, &gathered);
    return unit->ops->copy(unit->device, all, own,
                           (size_t)(unit->N * unit->C) * unit->element);
}

void *cadre_own_rows(const struct cadre_unit *unit, const void *all)
{
    return cadre_unit_at(unit, all, unit->begin * unit->C);
}
