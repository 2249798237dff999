/* SPDX-License-Identifier: Apache-2.0 */
/* Unit 0 of the ViT form (Dosovitskiy et al. 2021): patches projected, and added to
 * learned positions. The class token is the last row of an image, as the head scores
 * the last row; without a mask the order of rows has no meaning. The table of tokens
 * has two rows, the projection's bias, which each patch has, and the class token, whose
 * row of patches is zero. So a row is patches W^T + tokens[kind] + positions[t].
 *
 * The unit is whole on every tensor rank. Where rows are sharded, a rank keeps its own,
 * and gathers all gradients. */
#include "core/model/layer.h"

struct buffers {
    void *rows; /* saved: (N, P) patches */
    int32_t *kinds; /* saved: (N) */
    void *dy; /* grad_outputs */
    void *embed, *whole; /* scratch */
};

static int64_t width_of(const struct cadre_unit *u)
{
    const struct cadre_image_form *image = &u->model->config.image;
    return image->channels * image->patch * image->patch;
}

static struct buffers carve_buffers(struct cadre_carver *carver)
{
    const struct cadre_unit *u = carver->unit;
    /* an element takes 2 bytes at least */
    struct buffers b = {
        .rows = cadre_carve(carver, CADRE_UNIT_SAVED, u->N * width_of(u)),
        .kinds = cadre_carve(carver, CADRE_UNIT_SAVED, 2 * u->N),
        .dy = cadre_carve(carver, CADRE_UNIT_GRAD_OUTPUTS, u->N * u->C),
        .embed = cadre_carve(carver, CADRE_UNIT_SCRATCH, u->N * u->C),
        .whole = cadre_carve(carver, CADRE_UNIT_SCRATCH, u->N * u->C),
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

static struct cadre_patches patches_of(const struct cadre_unit *u,
                                       const struct buffers *b)
{
    const struct cadre_image_form *image = &u->model->config.image;
    struct cadre_patches patches = {
        .dtype = u->dtype,
        .batch = u->B,
        .height = image->height,
        .width = image->width,
        .channels = image->channels,
        .size = image->patch,
        .stride = 4 * cadre_model_inputs(&u->model->config, u->T),
        .nhwc = image->nhwc,
        .pixels = (const uint8_t *)u->pass->tokens,
        .rows = b->rows,
        .kinds = b->kinds,
    };
    for (int c = 0; c < CADRE_IMAGE_CHANNELS; c++) {
        patches.mean[c] = image->mean[c];
        patches.std[c] = image->std[c];
    }
    return patches;
}

static struct cadre_embed embed_of(const struct cadre_unit *u, const struct buffers *b)
{
    return (struct cadre_embed){
        .dtype = u->dtype,
        .batch = u->B,
        .time = u->T,
        .channels = u->C,
        .tokens = b->kinds,
        .count = u->model->config.vocab,
        .positions = u->model->config.context,
    };
}

static struct cadre_linear projection_of(const struct cadre_unit *u)
{
    return (struct cadre_linear){
        .weight = EMBED_PATCHES,
        .bias = -1,
        .rows = u->N,
        .in = width_of(u),
        .out = u->C,
        .ldx = width_of(u),
        .ldy = u->C,
    };
}

static cadre_status forward(const struct cadre_unit *u, const void *x, void *y)
{
    const struct buffers b = buffers_of(u);
    const struct cadre_patches patches = patches_of(u, &b);
    const struct cadre_linear projection = projection_of(u);
    struct cadre_embed embed = embed_of(u, &b);
    void *whole = u->model->rows_sharded ? b.whole : y;
    (void)x;
    embed.wte = cadre_unit_param(u, EMBED_WTE);
    embed.wpe = cadre_unit_param(u, EMBED_WPE);
    embed.out = b.embed;
    CADRE_TRY(u->ops->patches(u->device, &patches));
    CADRE_TRY(u->ops->embed_fwd(u->device, &embed));
    CADRE_TRY(
        cadre_linear_fwd(u, &projection, b.rows, whole, CADRE_EPILOGUE_NONE, NULL));
    return u->ops->add(u->device, u->dtype, cadre_own_rows(u, whole), NULL,
                       cadre_own_rows(u, b.embed), y, u->R, u->C);
}

static cadre_status backward_input(const struct cadre_unit *u, const void *x,
                                   const void *dy, void *dx)
{
    const struct buffers b = buffers_of(u);
    (void)x;
    (void)dx;
    return cadre_gather_copy(u, CADRE_POINT_EMBED_OUT, dy, b.dy);
}

static cadre_status backward_weight(const struct cadre_unit *u, const void *x)
{
    const struct cadre_pass *pass = u->pass;
    const struct buffers b = buffers_of(u);
    const struct cadre_linear projection = projection_of(u);
    struct cadre_embed embed = embed_of(u, &b);
    const uint32_t wpe = u->first + EMBED_WPE, wte = u->first + EMBED_WTE;
    (void)x;
    embed.dout = b.dy;
    CADRE_TRY(cadre_linear_bwd_weight(u, &projection, b.rows, b.dy));
    CADRE_TRY(pass->grad_begin(pass->hook_arg, wpe, &embed.dwpe, &embed.beta));
    CADRE_TRY(u->ops->embed_bwd_positions(u->device, &embed));
    CADRE_TRY(pass->grad_end(pass->hook_arg, wpe));
    CADRE_TRY(pass->grad_begin(pass->hook_arg, wte, &embed.dwte, &embed.beta));
    CADRE_TRY(u->ops->embed_bwd_tokens(u->device, &embed));
    return pass->grad_end(pass->hook_arg, wte);
}

const struct cadre_unit_kind cadre_image_unit = {
    .carve = carve,
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};
