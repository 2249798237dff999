/* SPDX-License-Identifier: Apache-2.0 */
/* The GPT-2 block (Radford et al. 2019), pre-norm:
 *   x1 = x + proj(attention(qkv(ln1(x))));  y = x1 + out(gelu(fc(ln2(x1)))).
 * Under tensor parallelism qkv and fc are sharded by columns, proj and out by rows
 * (Shoeybi et al. 2019); their biases are added once, after the redistribution. Where
 * rows are sharded, norms and sums work on the own rows. The norms' outputs are
 * gathered before qkv and fc, and again for their weight gradients; in backward the
 * gradients of proj's and out's outputs are gathered (Korthikanti et al. 2022).
 * With experts, those of experts.h replace fc and out. */
#include "core/model/experts.h"
#include "core/model/segments.h"

static struct cadre_block block_of(struct cadre_carver *carver,
                                   struct cadre_experts *experts)
{
    *experts = cadre_experts_carve(carver);
    return cadre_block_carve(carver, false, carver->unit->A);
}

static void carve(struct cadre_carver *carver)
{
    struct cadre_experts experts;
    block_of(carver, &experts);
}

static struct cadre_block buffers_of(const struct cadre_unit *u,
                                     struct cadre_experts *experts)
{
    struct cadre_carver carver = {.unit = u};
    return block_of(&carver, experts);
}

static struct cadre_linear linear(const struct cadre_unit *u, uint32_t weight,
                                  int64_t in, int64_t out)
{
    return (struct cadre_linear){
        .weight = weight,
        .bias = (int32_t)weight + 1,
        .conv1d = true,
        .rows = u->N,
        .in = in,
        .out = out,
        .ldx = in,
        .ldy = out,
    };
}

static struct cadre_linear qkv_of(const struct cadre_unit *u)
{
    return linear(u, GPT2_QKV_W, u->C, u->Q);
}

static struct cadre_linear proj_of(const struct cadre_unit *u,
                                   const struct cadre_block *b)
{
    struct cadre_linear proj = linear(u, GPT2_PROJ_W, u->A, u->C);
    proj.x = b->attn;
    return proj;
}

static struct cadre_linear fc_of(const struct cadre_unit *u)
{
    return linear(u, GPT2_FC_W, u->C, u->F);
}

static struct cadre_linear out_of(const struct cadre_unit *u,
                                  const struct cadre_block *b)
{
    struct cadre_linear out = linear(u, GPT2_OUT_W, u->F, u->C);
    out.x = b->act;
    return out;
}

/* y = x1 + the MLP of norm2. */
static cadre_status mlp_forward(const struct cadre_unit *u, const struct cadre_block *b,
                                const struct cadre_experts *experts, void *y)
{
    struct cadre_linear fc = fc_of(u), out = out_of(u, b);
    const void *in;
    if (u->model->config.experts > 0) {
        CADRE_TRY(cadre_experts_forward(u, experts, b, y));
        return u->ops->add(u->device, u->dtype, y, NULL, b->x1, y, u->R, u->C);
    }
    CADRE_TRY(cadre_gather(u, CADRE_POINT_MLP_IN, false, b->norm2, b->whole, &in));
    CADRE_TRY(cadre_linear_fwd(u, &fc, in, b->act, CADRE_EPILOGUE_BIAS_GELU, b->gate));
    CADRE_TRY(
        cadre_block_row_split(u, &out, CADRE_POINT_MLP_OUT, b->act, b->partial, y));
    return u->ops->add(u->device, u->dtype, y, cadre_unit_param(u, (uint32_t)out.bias),
                       b->x1, y, u->R, u->C);
}

static cadre_status forward(const struct cadre_unit *u, const void *x, void *y)
{
    struct cadre_experts experts;
    struct cadre_block b = buffers_of(u, &experts);
    struct cadre_linear qkv = qkv_of(u), proj = proj_of(u, &b);
    struct cadre_attention att = cadre_block_attention(u, &b, false);
    const void *in;

    CADRE_TRY(cadre_norm_layer_fwd(u, GPT2_LN1_W, x, b.norm1, b.stats1));
    CADRE_TRY(cadre_gather(u, CADRE_POINT_ATTN_IN, false, b.norm1, b.whole, &in));
    CADRE_TRY(cadre_linear_fwd(u, &qkv, in, b.qkv, CADRE_EPILOGUE_BIAS, NULL));
    CADRE_TRY(cadre_keys_gather(u, b.qkv, &b.keys));
    CADRE_TRY(cadre_segments_attention(u, &att, false));
    CADRE_TRY(
        cadre_block_row_split(u, &proj, CADRE_POINT_ATTN_OUT, b.attn, b.partial, b.x1));

    CADRE_TRY(
        cadre_norm_layer_add(u, GPT2_LN2_W, proj.bias, x, b.x1, b.norm2, b.stats2));
    return mlp_forward(u, &b, &experts, y);
}

/* b->whole = the gradient of norm2 from b->dy. */
static cadre_status mlp_backward_input(const struct cadre_unit *u,
                                       const struct cadre_block *b,
                                       const struct cadre_experts *experts)
{
    struct cadre_linear fc = fc_of(u), out = out_of(u, b);
    const struct cadre_linear *in[] = {&fc};
    const void *dy[] = {b->dgate};
    void *partial = cadre_partial(u, b->partial, b->whole);
    if (u->model->config.experts > 0)
        return cadre_experts_backward_input(u, experts, b, b->whole);
    CADRE_TRY(cadre_linear_bwd_gelu(u, &out, b->dy, b->gate, b->dgate));
    CADRE_TRY(cadre_linear_bwd_inputs(u, in, dy, 1, partial));
    return cadre_block_complete(u, CADRE_POINT_MLP_IN, partial, b->norm2, b->whole);
}

static cadre_status backward_input(const struct cadre_unit *u, const void *x,
                                   const void *dy, void *dx)
{
    struct cadre_experts experts;
    struct cadre_block b = buffers_of(u, &experts);
    struct cadre_linear qkv = qkv_of(u), proj = proj_of(u, &b);
    struct cadre_attention att = cadre_block_attention(u, &b, true);
    const struct cadre_linear *in[] = {&qkv};
    const void *dqkv[] = {b.dqkv};
    void *partial = cadre_partial(u, b.partial, b.whole);
    void *dx1 = u->model->rows_sharded ? dx : b.dx1;
    const void *all;

    CADRE_TRY(cadre_gather_copy(u, CADRE_POINT_MLP_OUT, dy, b.dy));
    CADRE_TRY(mlp_backward_input(u, &b, &experts));
    const struct cadre_norm_bwd norm2 = {
        b.x1, b.stats2, b.whole, cadre_own_rows(u, b.dy), dx1, b.norm_parts};
    CADRE_TRY(cadre_norm_layer_bwd(u, GPT2_LN2_W, &norm2));
    CADRE_TRY(cadre_gather(u, CADRE_POINT_ATTN_OUT, true, dx1, b.dx1, &all));

    CADRE_TRY(cadre_linear_bwd_input(u, &proj, b.dx1, b.wide, 0));
    CADRE_TRY(cadre_segments_attention(u, &att, true));
    CADRE_TRY(cadre_keys_scatter(u, b.dqkv, &b.keys));
    CADRE_TRY(cadre_linear_bwd_inputs(u, in, dqkv, 1, partial));
    CADRE_TRY(cadre_block_complete(u, CADRE_POINT_ATTN_IN, partial, b.norm1, b.whole));
    const struct cadre_norm_bwd norm1 = {
        x, b.stats1, b.whole, cadre_own_rows(u, b.dx1), dx, b.norm_parts};
    return cadre_norm_layer_bwd(u, GPT2_LN1_W, &norm1);
}

static cadre_status mlp_backward_weight(const struct cadre_unit *u,
                                        const struct cadre_block *b,
                                        const struct cadre_experts *experts)
{
    struct cadre_linear fc = fc_of(u), out = out_of(u, b);
    const void *in;
    if (u->model->config.experts > 0)
        return cadre_experts_backward_weight(u, experts, b);
    CADRE_TRY(cadre_linear_bwd_weight(u, &out, b->act, b->dy));
    CADRE_TRY(cadre_gather(u, CADRE_POINT_MLP_IN, true, b->norm2, b->whole, &in));
    return cadre_linear_bwd_weight(u, &fc, in, b->dgate);
}

static cadre_status backward_weight(const struct cadre_unit *u, const void *x)
{
    struct cadre_experts experts;
    struct cadre_block b = buffers_of(u, &experts);
    struct cadre_linear qkv = qkv_of(u), proj = proj_of(u, &b);
    const void *in;
    (void)x;
    CADRE_TRY(mlp_backward_weight(u, &b, &experts));
    CADRE_TRY(cadre_linear_bwd_weight(u, &proj, b.attn, b.dx1));
    CADRE_TRY(cadre_gather(u, CADRE_POINT_ATTN_IN, true, b.norm1, b.whole, &in));
    return cadre_linear_bwd_weight(u, &qkv, in, b.dqkv);
}

const struct cadre_unit_kind cadre_gpt2_unit = {
    .carve = carve,
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};
