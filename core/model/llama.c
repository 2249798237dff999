/* SPDX-License-Identifier: Apache-2.0 */
/* The Llama block (Touvron et al. 2023), pre-norm; q, k and v may have biases (Qwen 2)
 * or q and k norms of their heads (Qwen 3):
 *   x1 = x + o(attention(rope(q), rope(k), v));  y = x1 + down(silu(gate) * up).
 * q, k and v are one packed buffer, so attention reads them as in GPT-2; k and v may
 * have fewer heads than q (Ainslie et al. 2023). Sharded as in gpt2.c. `wide` holds the
 * gradient of act, later that of attn. */
#include "core/model/block.h"
#include "core/model/segments.h"

static struct cadre_block block_of(struct cadre_carver *carver)
{
    const struct cadre_unit *u = carver->unit;
    return cadre_block_carve(carver, true, u->A > u->F ? u->A : u->F);
}

static void carve(struct cadre_carver *carver)
{
    block_of(carver);
}

static struct cadre_block buffers_of(const struct cadre_unit *u)
{
    struct cadre_carver carver = {.unit = u};
    return block_of(&carver);
}

static uint32_t place(const struct cadre_unit *u, uint32_t row)
{
    return cadre_llama_place(&u->model->config, row);
}

static struct cadre_linear linear(const struct cadre_unit *u, uint32_t row, int64_t in,
                                  int64_t out)
{
    return (struct cadre_linear){
        .weight = place(u, row),
        .bias = -1,
        .rows = u->N,
        .in = in,
        .out = out,
        .ldx = in,
        .ldy = out,
    };
}

/* q, k and v: three products that write adjacent columns of the packed rows */
struct packed {
    struct cadre_linear linear;
    int64_t offset;
};

static void packed_of(const struct cadre_unit *u, struct packed qkv[3])
{
    int64_t KV = u->G * u->D;
    qkv[0] = (struct packed){linear(u, LLAMA_Q_W, u->C, u->A), 0};
    qkv[1] = (struct packed){linear(u, LLAMA_K_W, u->C, KV), u->A};
    qkv[2] = (struct packed){linear(u, LLAMA_V_W, u->C, KV), u->A + KV};
    for (int i = 0; i < 3; i++) {
        qkv[i].linear.ldy = u->Q;
        if (u->model->config.qkv_bias) /* the next parameter */
            qkv[i].linear.bias = (int32_t)qkv[i].linear.weight + 1;
    }
}

static struct cadre_linear o_of(const struct cadre_unit *u, const struct cadre_block *b)
{
    struct cadre_linear o = linear(u, LLAMA_O_W, u->A, u->C);
    o.x = b->attn;
    return o;
}

static struct cadre_linear gate_of(const struct cadre_unit *u)
{
    return linear(u, LLAMA_GATE_W, u->C, u->F);
}

static struct cadre_linear up_of(const struct cadre_unit *u)
{
    return linear(u, LLAMA_UP_W, u->C, u->F);
}

static struct cadre_linear down_of(const struct cadre_unit *u,
                                   const struct cadre_block *b)
{
    struct cadre_linear down = linear(u, LLAMA_DOWN_W, u->F, u->C);
    down.x = b->act;
    return down;
}

/* Rotate (or rotate back) the q and k parts of packed rows; they are adjacent heads. */
static cadre_status rope(const struct cadre_unit *u, void *qkv, bool inverse)
{
    return cadre_segments_rope(u, qkv, u->Q, u->H + u->G, inverse);
}

/* q, k and v of the rows `in`, before they turn. */
static cadre_status make_qkv(const struct cadre_unit *u, const struct cadre_block *b,
                             const void *in)
{
    const bool norm = u->model->config.qk_norm;
    void *const beside[3] = {b->head_norm.q, b->head_norm.k, NULL};
    struct packed qkv[3];
    packed_of(u, qkv);
    for (int i = 0; i < 3; i++) {
        struct cadre_linear product = qkv[i].linear;
        void *out = cadre_unit_at(u, b->qkv, qkv[i].offset);
        if (norm && beside[i]) {
            out = beside[i];
            product.ldy = product.out;
        }
        CADRE_TRY(cadre_linear_fwd(
            u, &product, in, out,
            product.bias < 0 ? CADRE_EPILOGUE_NONE : CADRE_EPILOGUE_BIAS, NULL));
    }
    return norm ? cadre_head_norm_fwd(u, &b->head_norm, b->qkv) : CADRE_OK;
}

/* A bias's gradient is that of rows without a gap: they are copied out first. */
static cadre_status qkv_backward_weight(const struct cadre_unit *u,
                                        const struct cadre_block *b, const void *in)
{
    struct packed qkv[3];
    packed_of(u, qkv);
    for (int i = 3; i-- > 0;) {
        struct cadre_linear product = qkv[i].linear;
        const void *dy = cadre_unit_at(u, b->dqkv, qkv[i].offset);
        if (product.bias >= 0 && !cadre_linear_is_frozen(u, &product)) {
            CADRE_TRY(u->ops->copy_rows(u->device, u->dtype, b->wide, product.out, dy,
                                        u->Q, u->N, product.out));
            product.ldy = product.out;
            dy = b->wide;
        }
        CADRE_TRY(cadre_linear_bwd_weight(u, &product, in, dy));
    }
    return CADRE_OK;
}

static cadre_status forward(const struct cadre_unit *u, const void *x, void *y)
{
    struct cadre_block b = buffers_of(u);
    struct cadre_linear o = o_of(u, &b), gate = gate_of(u), up = up_of(u),
                        down = down_of(u, &b);
    struct cadre_attention att = cadre_block_attention(u, &b, false);
    const void *in;

    CADRE_TRY(cadre_norm_layer_fwd(u, LLAMA_NORM1_W, x, b.norm1, b.stats1));
    CADRE_TRY(cadre_gather(u, CADRE_POINT_ATTN_IN, false, b.norm1, b.whole, &in));
    CADRE_TRY(make_qkv(u, &b, in));
    CADRE_TRY(rope(u, b.qkv, false));
    CADRE_TRY(cadre_keys_gather(u, b.qkv, &b.keys));
    CADRE_TRY(cadre_segments_attention(u, &att, false));
    CADRE_TRY(
        cadre_block_row_split(u, &o, CADRE_POINT_ATTN_OUT, b.attn, b.partial, b.x1));

    CADRE_TRY(cadre_norm_layer_add(u, place(u, LLAMA_NORM2_W), o.bias, x, b.x1, b.norm2,
                                   b.stats2));
    CADRE_TRY(cadre_gather(u, CADRE_POINT_MLP_IN, false, b.norm2, b.whole, &in));
    CADRE_TRY(cadre_linear_fwd(u, &gate, in, b.gate, CADRE_EPILOGUE_NONE, NULL));
    CADRE_TRY(cadre_linear_fwd(u, &up, in, b.up, CADRE_EPILOGUE_NONE, NULL));
    CADRE_TRY(
        u->ops->swiglu_fwd(u->device, u->dtype, b.gate, b.up, b.act, u->N * u->F));
    CADRE_TRY(
        cadre_block_row_split(u, &down, CADRE_POINT_MLP_OUT, b.act, b.partial, y));
    return u->ops->add(u->device, u->dtype, y, NULL, b.x1, y, u->R, u->C);
}

/* dx1 becomes the gradient of x1, own rows. */
static cadre_status mlp_backward(const struct cadre_unit *u,
                                 const struct cadre_block *b, void *dx1)
{
    struct cadre_linear gate = gate_of(u), up = up_of(u), down = down_of(u, b);
    const struct cadre_linear *in[] = {&gate, &up};
    const void *dy[] = {b->dgate, b->dup};
    void *partial = cadre_partial(u, b->partial, b->whole);
    CADRE_TRY(cadre_linear_bwd_input(u, &down, b->dy, b->wide, 0));
    CADRE_TRY(u->ops->swiglu_bwd(u->device, u->dtype, b->gate, b->up, b->wide, b->dgate,
                                 b->dup, u->N * u->F));
    CADRE_TRY(cadre_linear_bwd_inputs(u, in, dy, 2, partial));
    CADRE_TRY(cadre_block_complete(u, CADRE_POINT_MLP_IN, partial, b->norm2, b->whole));
    const struct cadre_norm_bwd norm2 = {
        b->x1, b->stats2, b->whole, cadre_own_rows(u, b->dy), dx1, b->norm_parts};
    return cadre_norm_layer_bwd(u, place(u, LLAMA_NORM2_W), &norm2);
}

static cadre_status backward_input(const struct cadre_unit *u, const void *x,
                                   const void *dy, void *dx)
{
    struct cadre_block b = buffers_of(u);
    struct cadre_linear o = o_of(u, &b);
    struct cadre_attention att = cadre_block_attention(u, &b, true);
    void *partial = cadre_partial(u, b.partial, b.whole);
    void *dx1 = u->model->rows_sharded ? dx : b.dx1;
    struct packed qkv[3];
    const void *all;
    packed_of(u, qkv);

    CADRE_TRY(cadre_gather_copy(u, CADRE_POINT_MLP_OUT, dy, b.dy));
    CADRE_TRY(mlp_backward(u, &b, dx1));
    CADRE_TRY(cadre_gather(u, CADRE_POINT_ATTN_OUT, true, dx1, b.dx1, &all));
    CADRE_TRY(cadre_linear_bwd_input(u, &o, b.dx1, b.wide, 0));
    CADRE_TRY(cadre_segments_attention(u, &att, true));
    CADRE_TRY(cadre_keys_scatter(u, b.dqkv, &b.keys));
    CADRE_TRY(rope(u, b.dqkv, true));
    if (u->model->config.qk_norm)
        CADRE_TRY(cadre_head_norm_bwd(u, &b.head_norm, b.dqkv));
    const struct cadre_linear *in[3];
    const void *dqkv[3];
    for (int i = 0; i < 3; i++) {
        in[i] = &qkv[i].linear;
        dqkv[i] = cadre_unit_at(u, b.dqkv, qkv[i].offset);
    }
    CADRE_TRY(cadre_linear_bwd_inputs(u, in, dqkv, 3, partial));
    CADRE_TRY(cadre_block_complete(u, CADRE_POINT_ATTN_IN, partial, b.norm1, b.whole));
    const struct cadre_norm_bwd norm1 = {
        x, b.stats1, b.whole, cadre_own_rows(u, b.dx1), dx, b.norm_parts};
    return cadre_norm_layer_bwd(u, LLAMA_NORM1_W, &norm1);
}

static cadre_status backward_weight(const struct cadre_unit *u, const void *x)
{
    struct cadre_block b = buffers_of(u);
    struct cadre_linear o = o_of(u, &b), gate = gate_of(u), up = up_of(u),
                        down = down_of(u, &b);
    const void *in;
    (void)x;
    CADRE_TRY(cadre_linear_bwd_weight(u, &down, b.act, b.dy));
    CADRE_TRY(cadre_gather(u, CADRE_POINT_MLP_IN, true, b.norm2, b.whole, &in));
    CADRE_TRY(cadre_linear_bwd_weight(u, &up, in, b.dup));
    CADRE_TRY(cadre_linear_bwd_weight(u, &gate, in, b.dgate));
    CADRE_TRY(cadre_linear_bwd_weight(u, &o, b.attn, b.dx1));
    CADRE_TRY(cadre_gather(u, CADRE_POINT_ATTN_IN, true, b.norm1, b.whole, &in));
    return qkv_backward_weight(u, &b, in);
}

const struct cadre_unit_kind cadre_llama_unit = {
    .carve = carve,
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};
