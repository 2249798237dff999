/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/snapshot_parts.h"
#include "core/model/init.h"

#include "core/base/path.h"

struct cadre_safetensors_spec *cadre_snapshot_table(const struct cadre_model *model,
                                                    size_t *n)
{
    struct cadre_safetensors_spec *table = cadre_calloc(model->n_params, sizeof *table);
    *n = 0;
    for (uint32_t i = 0; table && i < model->n_params; i++) {
        const struct cadre_param *p = &model->params[i];
        if (p->tied_to >= 0)
            continue;
        struct cadre_safetensors_spec *t = &table[(*n)++];
        t->name = p->name;
        t->dtype = cadre_dtype_wide(model->config.dtype);
        t->ndim = p->shape.ndim;
        for (uint32_t d = 0; d < p->shape.ndim; d++)
            t->dim[d] = p->shape.dim[d];
    }
    return table;
}

int cadre_snapshot_moments(const struct cadre_run_spec *run)
{
    if (run->optim.kind == CADRE_OPTIMIZER_ADAMW)
        return 2;
    return run->optim.momentum != 0 ? 1 : 0;
}

char *cadre_snapshot_root(const struct cadre_spec *spec)
{
    return cadre_path_join(spec->out, "checkpoints");
}

uint64_t cadre_snapshot_run(const struct cadre_model *model, uint32_t param,
                            uint64_t begin, uint64_t limit, uint64_t *logical)
{
    const struct cadre_param *p = &model->params[param];
    uint64_t n = 1;
    *logical = cadre_param_logical(p, model->tp_rank, model->tp_size, begin);
    if (model->tp_size == 1 || p->split == CADRE_SPLIT_NONE)
        return limit;
    while (n < limit && cadre_param_logical(p, model->tp_rank, model->tp_size,
                                            begin + n) == *logical + n)
        n++;
    return n;
}

cadre_status cadre_snapshot_staging(struct cadre_arena *staging,
                                    const struct cadre_rank *rank,
                                    struct cadre_error *err)
{
    size_t most = 0;
    for (uint32_t i = 0; i < rank->model->n_params; i++) {
        struct cadre_share values =
            cadre_store_share(&rank->store, i, CADRE_KIND_PARAM);
        struct cadre_share states = cadre_store_share(&rank->store, i, CADRE_KIND_OPT);
        uint64_t count = values.count > states.count ? values.count : states.count;
        size_t bytes = cadre_arena_need(count * rank->store.wide_bytes);
        most = bytes > most ? bytes : most;
    }
    return cadre_arena_init(staging, most ? most : CADRE_ARENA_ALIGN, err);
}

void cadre_snapshot_scale(void *data, uint32_t dtype, uint64_t n, double factor)
{
    for (uint64_t i = 0; i < n; i++)
        if (dtype == CADRE_F64)
            ((double *)data)[i] *= factor;
        else
            ((float *)data)[i] = (float)(((float *)data)[i] * factor);
}
