/* SPDX-License-Identifier: Apache-2.0 */
/* Unit 0: token embedding, with learned positions in GPT-2 form. Under tensor
 * parallelism the vocabulary is sharded; the rank that holds a row's token adds its
 * position too and the others contribute zero, so the sum of the redistribution holds
 * both once. Where rows are sharded, a rank keeps its own, and gathers all gradients.
 */
#include "core/model/layer.h"
#include "core/model/segments.h"

struct buffers {
    void *dy; /* grad_outputs */
    void *partial; /* scratch */
};

static struct buffers carve_buffers(struct cadre_carver *carver)
{
    const struct cadre_unit *u = carver->unit;
    struct buffers b = {
        .dy = cadre_carve(carver, CADRE_UNIT_GRAD_OUTPUTS, u->N * u->C),
        .partial = cadre_carve(carver, CADRE_UNIT_SCRATCH, u->N * u->C),
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

static bool has_positions(const struct cadre_unit *u)
{
    return u->model->config.arch == CADRE_ARCH_GPT2;
}

static bool is_split(const struct cadre_unit *u)
{
    return u->model->params[u->first + EMBED_WTE].split == CADRE_SHARD_VOCAB;
}

static struct cadre_embed embed_of(const struct cadre_unit *u)
{
    const struct cadre_param *wte = &u->model->params[u->first + EMBED_WTE];
    return (struct cadre_embed){
        .dtype = u->dtype,
        .batch = u->B,
        .time = u->T,
        .channels = u->C,
        .position = u->position,
        .tokens = u->pass->tokens,
        .begin = is_split(u) ? u->model->vocab_begin : 0,
        .count = (int64_t)wte->local.dim[0],
        .positions = has_positions(u) ? u->model->config.context : 0,
    };
}

static cadre_status forward(const struct cadre_unit *u, const void *x, void *y)
{
    struct buffers b = buffers_of(u);
    struct cadre_embed embed = embed_of(u);
    (void)x;
    embed.wte = cadre_unit_param(u, EMBED_WTE);
    if (has_positions(u))
        embed.wpe = cadre_unit_param(u, EMBED_WPE);
    bool apart = is_split(u) || u->model->rows_sharded;
    embed.out = apart ? cadre_partial(u, b.partial, y) : y;
    CADRE_TRY(cadre_segments_embed(u, &embed));
    if (is_split(u))
        CADRE_TRY(cadre_complete(u, CADRE_POINT_EMBED_OUT, false, embed.out, y, u->C));
    else if (u->model->rows_sharded)
        CADRE_TRY(u->ops->copy(u->device, y, cadre_own_rows(u, embed.out),
                               (size_t)(u->R * u->C) * u->element));
    return CADRE_OK;
}

static cadre_status backward_input(const struct cadre_unit *u, const void *x,
                                   const void *dy, void *dx)
{
    struct buffers b = buffers_of(u);
    (void)x;
    (void)dx;
    return cadre_gather_copy(u, CADRE_POINT_EMBED_OUT, dy, b.dy);
}

static cadre_status backward_weight(const struct cadre_unit *u, const void *x)
{
    const struct cadre_pass *pass = u->pass;
    struct buffers b = buffers_of(u);
    struct cadre_embed embed = embed_of(u);
    (void)x;
    embed.dout = b.dy;
    if (has_positions(u) && !cadre_param_is_frozen(u, EMBED_WPE)) {
        uint32_t wpe = u->first + EMBED_WPE;
        CADRE_TRY(pass->grad_begin(pass->hook_arg, wpe, &embed.dwpe, &embed.beta));
        CADRE_TRY(cadre_segments_embed_positions(u, &embed));
        CADRE_TRY(pass->grad_end(pass->hook_arg, wpe));
    }
    uint32_t wte = u->first + EMBED_WTE;
    if (cadre_param_is_frozen(u, EMBED_WTE))
        return CADRE_OK;
    CADRE_TRY(pass->grad_begin(pass->hook_arg, wte, &embed.dwte, &embed.beta));
    CADRE_TRY(u->ops->embed_bwd_tokens(u->device, &embed));
    return pass->grad_end(pass->hook_arg, wte);
}

const struct cadre_unit_kind cadre_embed_unit = {
    .carve = carve,
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};
