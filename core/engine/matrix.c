/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/matrix.h"

#include <stdlib.h>

#include "core/base/clock.h"
#include "core/base/memory.h"

static const char part_label[] = "parts of a matrix";
static const char back_label[] = "result of a matrix";

/* ---- who has what ---- */

static const struct cadre_owners *owners_of(const struct cadre_matrices *m)
{
    return &m->store->opt.owners;
}

/* Begin and count of the OPT range that a rank of the world has. */
static const uint64_t *range_of(const struct cadre_matrices *m, int rank,
                                uint32_t param)
{
    return m->range + 2 * ((size_t)rank * m->store->model->n_params + param);
}

/* Does any rank send? The plan says so of all, those of other stages too. */
static bool any_sends(const struct cadre_store *store)
{
    bool any = false;
    for (uint32_t i = 0; i < store->model->n_params; i++)
        any |= store->plan->param[i].matrix;
    return any && store->opt.owners.n_factors > 0;
}

static cadre_status learn_ranges(struct cadre_matrices *m, struct cadre_error *err)
{
    const struct cadre_store *store = m->store;
    const struct cadre_mesh *mesh = m->exchange->mesh;
    const size_t n = 2 * (size_t)store->model->n_params;
    if (m->exchange->world->represented)
        return cadre_fail(
            err, CADRE_E_UNSUPPORTED,
            "the optimizer moves parts of matrices between ranks, which is "
            "simulated only where each rank runs");
    m->range = cadre_calloc(n * (size_t)mesh->ranks, sizeof *m->range);
    if (!m->range)
        return cadre_no_memory(err, "the ranges of all ranks");
    uint64_t *mine = m->range + n * (size_t)mesh->rank;
    for (uint32_t i = 0; i < store->model->n_params; i++) {
        const struct cadre_share own = cadre_store_share(store, i, CADRE_KIND_OPT);
        mine[2 * i] = own.begin;
        mine[2 * i + 1] = own.count;
    }
    cadre_status rc =
        cadre_comm_gather_records(m->exchange->world, "ranges of optimizer states",
                                  mine, m->range, n * sizeof *m->range);
    if (rc != CADRE_OK && cadre_comm_failure(m->exchange->world, err) == CADRE_OK)
        cadre_fail(err, rc, "the ranks could not tell their optimizer ranges");
    return rc;
}

cadre_status cadre_matrices_init(struct cadre_matrices *matrices,
                                 const struct cadre_store *store,
                                 const struct cadre_exchange *exchange,
                                 struct cadre_error *err)
{
    const struct cadre_owners *owners = &store->opt.owners;
    size_t parts = 0;
    *matrices = (struct cadre_matrices){.store = store, .exchange = exchange};
    if (!any_sends(store))
        return CADRE_OK;
    matrices->first = cadre_calloc(owners->n + 1, sizeof *matrices->first);
    matrices->back = cadre_calloc(owners->n, sizeof *matrices->back);
    for (size_t i = 0; matrices->first && i < owners->n; i++) {
        parts += (size_t)owners->matrix[i].members;
        matrices->first[i + 1] = parts;
    }
    matrices->part = cadre_calloc(parts, sizeof *matrices->part);
    cadre_status rc = CADRE_OK;
    if (!matrices->first || !matrices->back || !matrices->part)
        rc = cadre_no_memory(err, "the events of matrices");
    if (rc == CADRE_OK)
        rc = learn_ranges(matrices, err);
    if (rc != CADRE_OK)
        cadre_matrices_fini(matrices);
    return rc;
}

void cadre_matrices_fini(struct cadre_matrices *matrices)
{
    free(matrices->range);
    free(matrices->first);
    free(matrices->part);
    free(matrices->back);
    matrices->range = NULL;
    matrices->first = NULL;
    matrices->part = matrices->back = NULL;
}

/* ---- transfers ---- */

/* A member's range in the owner's space. */
struct place {
    int rank; /* of the world */
    char *data;
    uint64_t count;
};

static struct place place_of(const struct cadre_matrices *m, size_t index, int member)
{
    const struct cadre_owners *owners = owners_of(m);
    const struct cadre_matrix *matrix = &owners->matrix[index];
    const int rank = cadre_owners_rank(owners, matrix, member);
    const uint64_t *range = range_of(m, rank, matrix->param);
    const uint64_t local = m->store->param[matrix->param].count;
    const uint64_t at =
        (uint64_t)cadre_owners_shard(owners, matrix, member) * local + range[0];
    char *whole = m->store->opt.whole[index];
    return (struct place){rank, whole ? whole + at * m->store->wide_bytes : NULL,
                          range[1]};
}

static bool is_sent(const struct cadre_matrices *m, size_t index)
{
    return owners_of(m)->matrix[index].members > 1;
}

static cadre_status receive_parts(struct cadre_matrices *m, size_t index,
                                  cadre_event after)
{
    const struct cadre_matrix *matrix = &owners_of(m)->matrix[index];
    for (int k = 0; k < matrix->members; k++) {
        const struct place from = place_of(m, index, k);
        if (k == matrix->own || from.count == 0)
            continue;
        CADRE_TRY(cadre_comm_recv(m->exchange->world, part_label, from.data, from.count,
                                  m->store->wide, from.rank, after,
                                  &m->part[m->first[index] + (size_t)k]));
    }
    return CADRE_OK;
}

/* This rank's range of a matrix that another rank computes. */
static struct place own_range(const struct cadre_matrices *m, size_t index)
{
    const struct cadre_owners *owners = owners_of(m);
    const struct cadre_matrix *matrix = &owners->matrix[index];
    return (struct place){cadre_owners_rank(owners, matrix, matrix->owner),
                          cadre_store_opt_grad(m->store, matrix->param),
                          range_of(m, owners->rank, matrix->param)[1]};
}

static cadre_event *own_part(const struct cadre_matrices *m, size_t index)
{
    return &m->part[m->first[index] + (size_t)owners_of(m)->matrix[index].own];
}

/* Between two ranks operations match in order: first all parts, then all results. */
cadre_status cadre_matrices_post(struct cadre_matrices *matrices)
{
    const struct cadre_owners *owners = owners_of(matrices);
    struct cadre_device *device = matrices->store->ledger->device;
    struct cadre_comm *world = matrices->exchange->world;
    const uint32_t wide = matrices->store->wide;
    cadre_device_event after;
    if (!matrices->range)
        return CADRE_OK;
    CADRE_TRY(device->ops->event_record(device, &after));
    for (size_t i = 0; i < owners->n; i++) {
        if (!is_sent(matrices, i))
            continue;
        if (cadre_owners_mine(&owners->matrix[i])) {
            CADRE_TRY(receive_parts(matrices, i, after));
            continue;
        }
        const struct place own = own_range(matrices, i);
        if (own.count > 0)
            CADRE_TRY(cadre_comm_send(world, part_label, own.data, own.count, wide,
                                      own.rank, after, own_part(matrices, i)));
    }
    for (size_t i = 0; i < owners->n; i++) {
        if (!is_sent(matrices, i) || cadre_owners_mine(&owners->matrix[i]))
            continue;
        const struct place own = own_range(matrices, i);
        if (own.count > 0)
            CADRE_TRY(cadre_comm_recv(world, back_label, own.data, own.count, wide,
                                      own.rank, *own_part(matrices, i),
                                      &matrices->back[i]));
    }
    return CADRE_OK;
}

/* The compute stream waits. */
static cadre_status await(const struct cadre_matrices *m, cadre_event event)
{
    if (event == 0)
        return CADRE_OK;
    const double begin = cadre_now_s();
    cadre_status rc =
        cadre_comm_stream_wait(m->exchange->world, m->store->ledger->device, event);
    cadre_timeline_add(m->exchange->timeline, CADRE_SPAN_WAIT, "whole matrices", begin);
    return rc;
}

/* ---- the whole ---- */

/* Copy this rank's own range to its place in the whole, or back. */
static cadre_status copy_own(const struct cadre_matrices *m, size_t index, bool back)
{
    const struct cadre_matrix *matrix = &owners_of(m)->matrix[index];
    struct cadre_device *device = m->store->ledger->device;
    const struct place at = place_of(m, index, matrix->own);
    void *grad = cadre_store_opt_grad(m->store, matrix->param);
    const size_t bytes = at.count * m->store->wide_bytes;
    if (bytes == 0)
        return CADRE_OK;
    return back ? device->ops->copy(device, grad, at.data, bytes)
                : device->ops->copy(device, at.data, grad, bytes);
}

/* Is the matrix, shard after shard, not yet the logical one? */
static bool is_scattered(const struct cadre_matrices *m, size_t index)
{
    const struct cadre_matrix *matrix = &owners_of(m)->matrix[index];
    return cadre_owners_shards(owners_of(m), matrix) > 1 &&
           cadre_opt_storage_scattered(&m->store->model->params[matrix->param]);
}

/* Copy the shards' blocks to their places in the logical matrix, or back. A shard of
 * packed q, k, v has a block of each. */
static cadre_status rearrange(const struct cadre_matrices *m, size_t index, bool back)
{
    const struct cadre_matrix *matrix = &owners_of(m)->matrix[index];
    const struct cadre_param *p = &m->store->model->params[matrix->param];
    struct cadre_device *device = m->store->ledger->device;
    const size_t element = m->store->wide_bytes;
    const bool down = p->split_dim == 0;
    const int64_t shards = cadre_owners_shards(owners_of(m), matrix);
    const int64_t groups = p->split == CADRE_SHARD_QKV ? 3 : 1;
    const int64_t whole_columns = (int64_t)matrix->columns;
    const int64_t rows = (int64_t)matrix->rows / (down ? groups * shards : 1);
    const int64_t columns = whole_columns / (down ? 1 : groups * shards);
    const int64_t ld = down ? whole_columns : groups * columns;
    const int64_t shard_count = (int64_t)m->store->param[matrix->param].count;
    for (int64_t block = 0; block < groups * shards; block++) {
        const int64_t group = block / shards, shard = block % shards;
        const int64_t unit = down ? rows * whole_columns : columns;
        char *logical =
            (char *)m->store->opt.logical + (size_t)(block * unit) * element;
        char *local = (char *)m->store->opt.whole[index] +
                      (size_t)(shard * shard_count + group * unit) * element;
        CADRE_TRY(back ? device->ops->copy_rows(device, m->store->wide, local, ld,
                                                logical, whole_columns, rows, columns)
                       : device->ops->copy_rows(device, m->store->wide, logical,
                                                whole_columns, local, ld, rows,
                                                columns));
    }
    return CADRE_OK;
}

cadre_status cadre_matrices_take(struct cadre_matrices *matrices, size_t index,
                                 struct cadre_buf *whole)
{
    const struct cadre_store *store = matrices->store;
    const struct cadre_matrix *matrix = &owners_of(matrices)->matrix[index];
    *whole = (struct cadre_buf){.count = matrix->rows * matrix->columns,
                                .dtype = store->wide,
                                .space = CADRE_SPACE_DEVICE};
    if (!is_sent(matrices, index)) {
        whole->data = cadre_store_opt_grad(store, matrix->param);
        return CADRE_OK;
    }
    for (int k = 0; k < matrix->members; k++)
        if (k != matrix->own)
            CADRE_TRY(
                await(matrices, matrices->part[matrices->first[index] + (size_t)k]));
    CADRE_TRY(copy_own(matrices, index, false));
    whole->data = store->opt.whole[index];
    if (!is_scattered(matrices, index))
        return CADRE_OK;
    whole->data = store->opt.logical;
    return rearrange(matrices, index, false);
}

cadre_status cadre_matrices_give(struct cadre_matrices *matrices, size_t index)
{
    const struct cadre_matrix *matrix = &owners_of(matrices)->matrix[index];
    struct cadre_device *device = matrices->store->ledger->device;
    cadre_device_event after;
    if (!is_sent(matrices, index))
        return CADRE_OK;
    if (is_scattered(matrices, index))
        CADRE_TRY(rearrange(matrices, index, true));
    CADRE_TRY(copy_own(matrices, index, true));
    CADRE_TRY(device->ops->event_record(device, &after));
    for (int k = 0; k < matrix->members; k++) {
        const struct place to = place_of(matrices, index, k);
        if (k == matrix->own || to.count == 0)
            continue;
        CADRE_TRY(cadre_comm_send(matrices->exchange->world, back_label, to.data,
                                  to.count, matrices->store->wide, to.rank, after,
                                  &matrices->part[matrices->first[index] + (size_t)k]));
    }
    return CADRE_OK;
}

/* What this rank sent back is waited for too: the next step writes its space. */
cadre_status cadre_matrices_wait(struct cadre_matrices *matrices)
{
    const struct cadre_owners *owners = owners_of(matrices);
    if (!matrices->range)
        return CADRE_OK;
    for (size_t i = 0; i < owners->n; i++) {
        const struct cadre_matrix *matrix = &owners->matrix[i];
        CADRE_TRY(await(matrices, matrices->back[i]));
        matrices->back[i] = 0;
        for (int k = 0; k < matrix->members; k++) {
            cadre_event *part = &matrices->part[matrices->first[i] + (size_t)k];
            CADRE_TRY(await(matrices, *part));
            *part = 0;
        }
    }
    return CADRE_OK;
}
