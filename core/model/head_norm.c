/* SPDX-License-Identifier: Apache-2.0 */
#include "core/model/head_norm.h"

struct cadre_head_norm cadre_head_norm_carve(struct cadre_carver *carver)
{
    const struct cadre_unit *u = carver->unit;
    const enum cadre_unit_buffer input = CADRE_UNIT_SAVED_FOR_INPUT;
    struct cadre_head_norm norm = {0};
    if (!u->model->config.qk_norm)
        return norm;
    norm.q = cadre_carve(carver, input, u->N * u->A);
    norm.k = cadre_carve(carver, input, u->N * u->G * u->D);
    norm.q_stats = cadre_carve_wide(carver, input, u->N * u->H * 2);
    norm.k_stats = cadre_carve_wide(carver, input, u->N * u->G * 2);
    norm.rows = cadre_carve(carver, CADRE_UNIT_SCRATCH, u->N * u->A);
    norm.grads = cadre_carve(carver, CADRE_UNIT_SCRATCH, u->N * u->A);
    return norm;
}

/* One of the two norms. */
struct part {
    uint32_t weight; /* position of its parameter */
    int64_t width, offset; /* its columns of the packed rows */
    void *x, *stats;
};

static void parts_of(const struct cadre_unit *u, const struct cadre_head_norm *norm,
                     struct part part[2])
{
    const struct cadre_model_config *config = &u->model->config;
    part[0] = (struct part){cadre_llama_place(config, LLAMA_Q_NORM), u->A, 0, norm->q,
                            norm->q_stats};
    part[1] = (struct part){cadre_llama_place(config, LLAMA_K_NORM), u->G * u->D, u->A,
                            norm->k, norm->k_stats};
}

static struct cadre_norm norm_of(const struct cadre_unit *u, const struct part *part)
{
    return (struct cadre_norm){
        .dtype = u->dtype,
        .rows = u->N * (part->width / u->D),
        .channels = u->D,
        .eps = u->model->config.norm_eps,
        .w = cadre_unit_param(u, part->weight),
        .x = part->x,
        .stats = part->stats,
    };
}

cadre_status cadre_head_norm_fwd(const struct cadre_unit *unit,
                                 const struct cadre_head_norm *norm, void *qkv)
{
    struct part part[2];
    parts_of(unit, norm, part);
    for (int i = 0; i < 2; i++) {
        struct cadre_norm op = norm_of(unit, &part[i]);
        op.y = norm->rows;
        CADRE_TRY(unit->ops->norm_fwd(unit->device, &op));
        CADRE_TRY(unit->ops->copy_rows(
            unit->device, unit->dtype, cadre_unit_at(unit, qkv, part[i].offset),
            unit->Q, norm->rows, part[i].width, unit->N, part[i].width));
    }
    return CADRE_OK;
}

cadre_status cadre_head_norm_bwd(const struct cadre_unit *unit,
                                 const struct cadre_head_norm *norm, void *dqkv)
{
    const struct cadre_pass *pass = unit->pass;
    struct part part[2];
    parts_of(unit, norm, part);
    for (int i = 2; i-- > 0;) {
        const uint32_t param = unit->first + part[i].weight;
        const int64_t width = part[i].width;
        void *columns = cadre_unit_at(unit, dqkv, part[i].offset);
        struct cadre_norm op = norm_of(unit, &part[i]);
        op.dy = norm->rows;
        op.dx = norm->grads;
        CADRE_TRY(unit->ops->copy_rows(unit->device, unit->dtype, norm->rows, width,
                                       columns, unit->Q, unit->N, width));
        CADRE_TRY(pass->grad_begin(pass->hook_arg, param, &op.dw, &op.beta));
        CADRE_TRY(unit->ops->norm_bwd(unit->device, &op));
        CADRE_TRY(pass->grad_end(pass->hook_arg, param));
        CADRE_TRY(unit->ops->copy_rows(unit->device, unit->dtype, columns, unit->Q,
                                       norm->grads, width, unit->N, width));
    }
    return CADRE_OK;
}
