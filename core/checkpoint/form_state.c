/* SPDX-License-Identifier: Apache-2.0 */
#include "core/checkpoint/form_state.h"

#include <stdlib.h>

#include "core/base/memory.h"
#include "core/engine/layout/scales.h"
#include "core/tensor/nf4.h"

#define KEY "nf4"

/* On all ranks alike, whether or not they hold the parameter. What adapters are trained
 * beside is not saved: it is stored again from where it was. */
static bool is_coded(const struct cadre_rank *rank, uint32_t param)
{
    return rank->plan.param[param].form == CADRE_FORM_NF4 &&
           rank->model->params[param].tied_to < 0 && !rank->model->params[param].frozen;
}

static struct cadre_range scales_of(const struct cadre_rank *rank, uint32_t param)
{
    const struct cadre_param *p = &rank->model->params[param];
    return (struct cadre_range){
        .part = CADRE_CHECKPOINT_FORM,
        .name = p->name,
        .key = KEY,
        .param = param,
        .flat = true,
        .count = cadre_nf4_scales(cadre_shape_count(&p->shape)),
        .on_host = true,
    };
}

/* ---- saving ---- */

cadre_status cadre_form_state_begin(const struct cadre_rank *rank, const char *root,
                                    int64_t step, struct cadre_error *err)
{
    const uint32_t most = rank->model->n_params;
    size_t n = 0;
    char(*names)[CADRE_CHECKPOINT_NAME] = cadre_calloc(most, sizeof *names);
    struct cadre_safetensors_spec *specs = cadre_calloc(most, sizeof *specs);
    cadre_status rc =
        names && specs ? CADRE_OK : cadre_no_memory(err, "the tensor table");
    for (uint32_t i = 0; rc == CADRE_OK && i < most; i++) {
        if (!is_coded(rank, i))
            continue;
        const struct cadre_range whole = scales_of(rank, i);
        rc = cadre_range_name(&whole, names[n], err);
        specs[n] = (struct cadre_safetensors_spec){.name = names[n],
                                                   .dtype = rank->store.wide,
                                                   .ndim = 1,
                                                   .dim = {whole.count}};
        n++;
    }
    if (rc == CADRE_OK && n > 0)
        rc = cadre_draft_begin_states(root, (uint64_t)step, CADRE_CHECKPOINT_FORM,
                                      specs, n, err);
    free(names);
    free(specs);
    return rc;
}

/* Of the ranks that run a parameter, the first saves its scales. */
static bool saves(const struct cadre_rank *rank, uint32_t param)
{
    const struct cadre_axis *stages =
        cadre_rank_plan_axis(&rank->plan, "schedule.order");
    return is_coded(rank, param) && rank->plan.param[param].present &&
           cadre_mesh_is_first(rank->plan.mesh, &stages, stages ? 1 : 0);
}

void cadre_form_state_give(struct cadre_rank *rank, struct cadre_range_sink *sink)
{
    for (uint32_t i = 0; i < rank->model->n_params; i++) {
        struct cadre_range range = scales_of(rank, i);
        if (!saves(rank, i))
            continue;
        void *wide = cadre_calloc(range.count, rank->store.wide_bytes);
        cadre_status rc =
            wide ? cadre_scales_get(&rank->store, i, wide) : CADRE_E_RESOURCE;
        range.data = wide;
        if (rc == CADRE_OK)
            cadre_range_give(sink, &range);
        else if (sink->rc == CADRE_OK)
            sink->rc =
                cadre_fail(sink->err, rc, "cannot read the scales of '%s'", range.name);
        free(wide);
    }
}

/* ---- loading ---- */

struct source {
    const struct cadre_rank *rank;
    struct cadre_checkpoint *checkpoint;
    const struct cadre_hf *hf;
};

static cadre_status read_values(void *arg, uint32_t param, uint64_t begin,
                                uint64_t count, void *out, struct cadre_error *err)
{
    const struct source *from = arg;
    const struct cadre_range range = {.part = CADRE_CHECKPOINT_PARAM,
                                      .name = from->rank->model->params[param].name,
                                      .param = param,
                                      .flat = true,
                                      .begin = begin,
                                      .count = count};
    return cadre_range_read(from->rank, from->checkpoint, from->hf, &range, out, err);
}

cadre_status cadre_form_state_load(struct cadre_rank *rank, uint32_t param,
                                   struct cadre_checkpoint *checkpoint,
                                   const struct cadre_hf *hf, struct cadre_error *err)
{
    char name[CADRE_CHECKPOINT_NAME];
    struct source from = {rank, checkpoint, hf};
    if (!cadre_scales_count(rank->model, &rank->plan, param))
        return CADRE_OK;
    const struct cadre_range range = scales_of(rank, param);
    CADRE_TRY(cadre_range_name(&range, name, err));
    if (hf || !cadre_checkpoint_holds(checkpoint, CADRE_CHECKPOINT_FORM, name))
        return cadre_scales_find(&rank->store, param, read_values, &from, err);
    void *wide = cadre_calloc(range.count, rank->store.wide_bytes);
    cadre_status rc = wide ? cadre_range_read(rank, checkpoint, NULL, &range, wide, err)
                           : cadre_no_memory(err, "scales of nf4");
    if (rc == CADRE_OK && cadre_scales_set(&rank->store, param, wide) != CADRE_OK)
        rc = cadre_fail(err, CADRE_E_DEVICE, "cannot copy '%s' to the device", name);
    free(wide);
    return rc;
}
