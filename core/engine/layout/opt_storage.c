/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/layout/opt_storage.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/engine/layout/store.h"
#include "core/model/init.h"
#include "core/tensor/dtype.h"

#define ALIGN 64
#define SPACES 3u
#define STATES "optimizer states"
#define WHOLE "whole matrices"

static uint64_t padded(uint64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

bool cadre_opt_storage_scattered(const struct cadre_param *param)
{
    return param->split == CADRE_SHARD_QKV || param->split_dim > 0;
}

/* ---- the core's own ---- */

enum { CODED = 4 }; /* states of a parameter of adamw8bit */

static const struct cadre_plan_state coded[CODED] = {
    {.key = "exp_avg_codes", .dtype = CADRE_U8, .block = 1},
    {.key = "exp_avg_sq_codes", .dtype = CADRE_U8, .block = 1},
    {.key = "exp_avg_absmax", .block = CADRE_ADAMW8_BLOCK},
    {.key = "exp_avg_sq_absmax", .block = CADRE_ADAMW8_BLOCK},
};

cadre_status cadre_opt_storage_plan(struct cadre_rank_plan *plan,
                                    enum cadre_optimizer_kind optimizer,
                                    struct cadre_error *err)
{
    const struct cadre_model *model = plan->model;
    if (optimizer != CADRE_OPTIMIZER_ADAMW8BIT)
        return CADRE_OK;
    plan->state = cadre_calloc(CODED * (size_t)model->n_params, sizeof *plan->state);
    if (!plan->state)
        return cadre_no_memory(err, "the table of optimizer states");
    for (uint32_t i = 0; i < model->n_params; i++) {
        if (model->params[i].tied_to >= 0 || plan->param[i].frozen)
            continue;
        for (int k = 0; k < CODED; k++) {
            struct cadre_plan_state *state = &plan->state[plan->n_states++];
            *state = coded[k];
            state->param = i;
            state->extent = CADRE_OPT_ELEMENTS;
            if (state->dtype == 0)
                state->dtype = cadre_dtype_wide(model->config.dtype);
        }
    }
    return CADRE_OK;
}

/* ---- states ---- */

static const struct cadre_matrix *matrix_of(const struct cadre_owners *owners,
                                            uint32_t param)
{
    for (size_t i = 0; i < owners->n; i++)
        if (owners->matrix[i].param == param)
            return &owners->matrix[i];
    return NULL;
}

/* A planned state as this rank has it, without data. */
static struct cadre_buf state_of(const struct cadre_owners *owners,
                                 const struct cadre_rank_plan *plan, uint32_t index)
{
    const struct cadre_plan_state *s = &plan->state[index];
    const struct cadre_share own =
        cadre_store_share_of(plan->model, plan, s->param, CADRE_KIND_OPT);
    struct cadre_buf buf = {.dtype = s->dtype, .space = CADRE_SPACE_DEVICE};
    if (s->extent == CADRE_OPT_ELEMENTS) {
        buf.count = own.count / s->block + (own.count % s->block != 0);
        buf.space = own.space;
        return buf;
    }
    const struct cadre_matrix *matrix = matrix_of(owners, s->param);
    if (matrix && cadre_owners_mine(matrix))
        buf.count = s->extent == CADRE_OPT_ROWS ? matrix->rows : matrix->columns;
    return buf;
}

static uint64_t state_bytes(const struct cadre_owners *owners,
                            const struct cadre_rank_plan *plan, uint32_t space)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < plan->n_states; i++) {
        const struct cadre_buf buf = state_of(owners, plan, i);
        if (buf.space == space)
            bytes += padded(buf.count * cadre_dtype_bytes(buf.dtype));
    }
    return bytes;
}

static cadre_status place_states(struct cadre_opt_storage *storage,
                                 const struct cadre_rank_plan *plan,
                                 struct cadre_ledger *ledger)
{
    char *at[SPACES] = {0};
    for (uint32_t space = 0; space < SPACES; space++) {
        const uint64_t bytes = state_bytes(&storage->owners, plan, space);
        if (bytes)
            at[space] = cadre_ledger_alloc(ledger, space, bytes, STATES);
        if (bytes && !at[space])
            return CADRE_E_RESOURCE;
    }
    for (uint32_t i = 0; i < plan->n_states; i++) {
        struct cadre_buf *buf = &storage->state[i];
        *buf = state_of(&storage->owners, plan, i);
        if (buf->count == 0)
            continue;
        buf->data = at[buf->space];
        at[buf->space] += padded(buf->count * cadre_dtype_bytes(buf->dtype));
    }
    return CADRE_OK;
}

/* ---- whole matrices ---- */

static uint64_t matrix_bytes(const struct cadre_rank_plan *plan,
                             const struct cadre_matrix *matrix)
{
    const uint32_t wide = cadre_dtype_wide(plan->model->config.dtype);
    return padded(matrix->rows * matrix->columns * cadre_dtype_bytes(wide));
}

/* Does this rank assemble the matrix? */
static bool assembles(const struct cadre_matrix *matrix)
{
    return matrix->members > 1 && cadre_owners_mine(matrix);
}

static uint64_t logical_bytes(const struct cadre_owners *owners,
                              const struct cadre_rank_plan *plan)
{
    uint64_t most = 0;
    for (size_t i = 0; i < owners->n; i++) {
        const struct cadre_matrix *matrix = &owners->matrix[i];
        if (!assembles(matrix) || cadre_owners_shards(owners, matrix) == 1 ||
            !cadre_opt_storage_scattered(&plan->model->params[matrix->param]))
            continue;
        const uint64_t bytes = matrix_bytes(plan, matrix);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static cadre_status place_matrices(struct cadre_opt_storage *storage,
                                   const struct cadre_rank_plan *plan,
                                   struct cadre_ledger *ledger)
{
    const struct cadre_owners *owners = &storage->owners;
    const uint64_t logical = logical_bytes(owners, plan);
    for (size_t i = 0; i < owners->n; i++) {
        if (!assembles(&owners->matrix[i]))
            continue;
        storage->whole[i] = cadre_ledger_alloc(
            ledger, CADRE_SPACE_DEVICE, matrix_bytes(plan, &owners->matrix[i]), WHOLE);
        if (!storage->whole[i])
            return CADRE_E_RESOURCE;
    }
    if (logical)
        storage->logical =
            cadre_ledger_alloc(ledger, CADRE_SPACE_DEVICE, logical, WHOLE);
    return logical && !storage->logical ? CADRE_E_RESOURCE : CADRE_OK;
}

/* ---- all ---- */

/* Does tensor parallelism leave the blocks of a state whole? Then a shard's blocks, as
 * it lies, are those of the whole parameter. */
static cadre_status check_cut(const struct cadre_model *model,
                              const struct cadre_plan_state *s, struct cadre_error *err)
{
    const struct cadre_param *p = &model->params[s->param];
    uint64_t whole;
    if (s->block <= 1 || model->tp_size == 1 || p->split == CADRE_SHARD_NONE)
        return CADRE_OK;
    const uint64_t run = cadre_param_run(p, model->tp_rank, model->tp_size, 0, &whole);
    if (run % s->block == 0)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_UNSUPPORTED,
                      "the optimizer's state '%s' of '%s' has one value for %u "
                      "elements, and act.complete divides these over ranks: each has "
                      "%llu side by side; expected a multiple of %u, as where "
                      "model.channels over the ranks is one, or a stack without it",
                      s->key, p->name, s->block, (unsigned long long)run, s->block);
}

/* States are saved in the wide dtype and in the layout of one rank. */
cadre_status cadre_opt_storage_check(const struct cadre_rank_plan *plan,
                                     struct cadre_error *err)
{
    const struct cadre_model *model = plan->model;
    const uint32_t wide = cadre_dtype_wide(model->config.dtype);
    for (uint32_t i = 0; i < plan->n_states; i++) {
        const struct cadre_plan_state *s = &plan->state[i];
        const struct cadre_param *p = &model->params[s->param];
        if (s->dtype == CADRE_I32 || (s->dtype == CADRE_F64 && wide == CADRE_F32))
            return cadre_fail(err, CADRE_E_UNSUPPORTED,
                              "the optimizer's state '%s' of '%s' has the dtype %s, "
                              "which a checkpoint in %s does not hold; expected %s, "
                              "bf16, f16, u8 or i8",
                              s->key, p->name, cadre_dtype_name(s->dtype),
                              cadre_dtype_name(wide), cadre_dtype_name(wide));
        CADRE_TRY(check_cut(model, s, err));
    }
    return CADRE_OK;
}

cadre_status cadre_opt_storage_init(struct cadre_opt_storage *storage,
                                    const struct cadre_rank_plan *plan,
                                    struct cadre_ledger *ledger,
                                    struct cadre_error *err)
{
    memset(storage, 0, sizeof *storage);
    CADRE_TRY(cadre_owners_init(&storage->owners, plan, err));
    storage->state = cadre_calloc(plan->n_states, sizeof *storage->state);
    storage->whole = cadre_calloc(storage->owners.n, sizeof *storage->whole);
    if (storage->state && storage->whole &&
        place_states(storage, plan, ledger) == CADRE_OK &&
        place_matrices(storage, plan, ledger) == CADRE_OK)
        return CADRE_OK;
    cadre_opt_storage_fini(storage);
    return cadre_no_memory(err, "optimizer states and whole matrices");
}

void cadre_opt_storage_fini(struct cadre_opt_storage *storage)
{
    cadre_owners_fini(&storage->owners);
    free(storage->state);
    free(storage->whole);
    storage->state = NULL;
    storage->whole = NULL;
}

void cadre_opt_storage_note(const struct cadre_rank_plan *plan,
                            struct cadre_ledger *ledger)
{
    struct cadre_owners owners;
    struct cadre_error why = {0};
    if (cadre_owners_init(&owners, plan, &why) != CADRE_OK) {
        cadre_log(CADRE_LOG_ERROR, "plan", "%s", why.text);
        return;
    }
    for (uint32_t space = 0; space < SPACES; space++) {
        const uint64_t bytes = state_bytes(&owners, plan, space);
        if (bytes)
            cadre_ledger_note(ledger, space, bytes, STATES);
    }
    uint64_t whole = logical_bytes(&owners, plan);
    for (size_t i = 0; i < owners.n; i++)
        if (assembles(&owners.matrix[i]))
            whole += matrix_bytes(plan, &owners.matrix[i]);
    if (whole)
        cadre_ledger_note(ledger, CADRE_SPACE_DEVICE, whole, WHOLE);
    cadre_owners_fini(&owners);
}
