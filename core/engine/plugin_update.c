/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/plugin_update.h"

#include <stdlib.h>

#include "core/base/memory.h"

/* ---- slices ---- */

/* The states of a slice, out of the rank's; they are `used` by the slices before. */
static void take_states(struct cadre_plugin_update *update,
                        struct cadre_plugin_slice *slice, size_t used)
{
    const struct cadre_store *store = update->store;
    const struct cadre_rank_plan *plan = store->plan;
    for (uint32_t i = 0; i < plan->n_states; i++)
        slice->n_states += plan->state[i].param == slice->param;
    slice->state = update->states + 2 * used;
    slice->matrix_state = slice->state + slice->n_states;
    for (uint32_t i = 0, k = 0; i < plan->n_states; i++) {
        if (plan->state[i].param != slice->param)
            continue;
        const bool elements = plan->state[i].extent == CADRE_OPT_ELEMENTS;
        const struct cadre_buf none = {.dtype = plan->state[i].dtype};
        slice->state[k] = elements ? store->opt.state[i] : none;
        slice->matrix_state[k++] = elements ? none : store->opt.state[i];
    }
}

static void find_slices(struct cadre_plugin_update *update, double weight_decay)
{
    const struct cadre_store *store = update->store;
    size_t used = 0;
    for (uint32_t i = 0; i < store->model->n_params; i++) {
        const struct cadre_share own = cadre_store_share(store, i, CADRE_KIND_OPT);
        struct cadre_plugin_slice *slice = &update->slice[update->n_slices];
        /* an owner computes a matrix of which it holds nothing */
        if (own.count == 0 && !store->plan->param[i].matrix)
            continue;
        *slice = (struct cadre_plugin_slice){
            .param = i,
            .begin = own.begin,
            .count = own.count,
            .weight_decay = store->model->params[i].decay ? weight_decay : 0.0,
        };
        take_states(update, slice, used);
        used += slice->n_states;
        update->n_slices++;
    }
}

cadre_status cadre_plugin_update_init(struct cadre_plugin_update *update,
                                      struct cadre_chain *chain,
                                      struct cadre_store *store,
                                      const struct cadre_exchange *exchange,
                                      double weight_decay, struct cadre_error *err)
{
    const size_t n_states = store->plan->n_states;
    *update = (struct cadre_plugin_update){
        .chain = chain,
        .store = store,
        .slice = cadre_calloc(store->model->n_params, sizeof *update->slice),
        .states = cadre_calloc(2 * n_states, sizeof *update->states),
    };
    if (!update->slice || !update->states)
        return cadre_no_memory(err, "the optimizer's tables");
    find_slices(update, weight_decay);
    return cadre_matrices_init(&update->matrices, store, exchange, err);
}

void cadre_plugin_update_fini(struct cadre_plugin_update *update)
{
    cadre_matrices_fini(&update->matrices);
    free(update->slice);
    free(update->states);
    *update = (struct cadre_plugin_update){0};
}

/* ---- stages ---- */

static struct cadre_update_ev event_of(const struct cadre_plugin_update *update,
                                       const struct cadre_plugin_slice *slice,
                                       const struct cadre_plugin_step *step,
                                       uint32_t stage)
{
    const bool matrix = stage == CADRE_UPDATE_MATRIX;
    return (struct cadre_update_ev){
        .struct_size = sizeof(struct cadre_update_ev),
        .stage = stage,
        .param = slice->param,
        .n_states = slice->n_states,
        .step = (uint64_t)step->step,
        .lr = step->lr,
        .weight_decay = slice->weight_decay,
        .begin = matrix ? 0 : slice->begin,
        .grad = {.data = cadre_store_opt_grad(update->store, slice->param),
                 .count = slice->count,
                 .dtype = update->store->wide,
                 .space = CADRE_SPACE_DEVICE},
        .state = matrix ? slice->matrix_state : slice->state,
    };
}

static cadre_status prepare(struct cadre_plugin_update *update,
                            const struct cadre_plugin_step *step)
{
    struct cadre_device *device = update->store->ledger->device;
    for (size_t s = 0; s < update->n_slices; s++) {
        const struct cadre_plugin_slice *slice = &update->slice[s];
        const struct cadre_update_ev ev =
            event_of(update, slice, step, CADRE_UPDATE_PREPARE);
        if (slice->count == 0)
            continue;
        if (step->factor != 1)
            CADRE_TRY(device->ops->scale(device, update->store->wide, ev.grad.data,
                                         (int64_t)slice->count, step->factor));
        CADRE_TRY(cadre_chain_update(update->chain, &ev));
    }
    return CADRE_OK;
}

static const struct cadre_plugin_slice *
slice_of(const struct cadre_plugin_update *update, uint32_t param)
{
    size_t s = 0;
    while (update->slice[s].param != param)
        s++;
    return &update->slice[s];
}

static cadre_status compute(struct cadre_plugin_update *update,
                            const struct cadre_plugin_step *step)
{
    const struct cadre_owners *owners = &update->store->opt.owners;
    CADRE_TRY(cadre_matrices_post(&update->matrices));
    for (size_t i = 0; i < owners->n; i++) {
        const struct cadre_matrix *matrix = &owners->matrix[i];
        if (!cadre_owners_mine(matrix))
            continue;
        struct cadre_update_ev ev = event_of(update, slice_of(update, matrix->param),
                                             step, CADRE_UPDATE_MATRIX);
        ev.rows = matrix->rows;
        ev.columns = matrix->columns;
        CADRE_TRY(cadre_matrices_take(&update->matrices, i, &ev.grad));
        CADRE_TRY(cadre_chain_update(update->chain, &ev));
        CADRE_TRY(cadre_matrices_give(&update->matrices, i));
        update->computed++;
    }
    return cadre_matrices_wait(&update->matrices);
}

static cadre_status apply(struct cadre_plugin_update *update,
                          const struct cadre_plugin_step *step)
{
    const struct cadre_store *store = update->store;
    struct cadre_device *device = store->ledger->device;
    for (size_t s = 0; s < update->n_slices; s++) {
        const struct cadre_plugin_slice *slice = &update->slice[s];
        struct cadre_update_ev ev = event_of(update, slice, step, CADRE_UPDATE_APPLY);
        void *rounded = cadre_store_opt_rounded(store, slice->param);
        if (slice->count == 0)
            continue;
        ev.value = (struct cadre_buf){
            .data = cadre_store_opt_data(store, slice->param),
            .count = slice->count,
            .dtype = store->wide,
            .space = rounded
                         ? cadre_store_share(store, slice->param, CADRE_KIND_OPT).space
                         : CADRE_SPACE_DEVICE};
        CADRE_TRY(cadre_chain_update(update->chain, &ev));
        if (rounded)
            CADRE_TRY(device->ops->cast(device, store->model->config.dtype, rounded,
                                        store->wide, ev.value.data,
                                        (int64_t)slice->count));
    }
    return CADRE_OK;
}

cadre_status cadre_plugin_update_run(struct cadre_plugin_update *update,
                                     const struct cadre_plugin_step *step)
{
    CADRE_TRY(prepare(update, step));
    CADRE_TRY(compute(update, step));
    return apply(update, step);
}
