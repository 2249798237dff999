/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizer states of replicas that train apart: a checkpoint keeps their mean, so that
 * any number of replicas can go on from it. */
#include <stdlib.h>

#include "core/train/snapshot_parts.h"
#include "core/train/states.h"

struct meaning {
    struct cadre_rank *rank;
    const struct cadre_axis *axis;
    cadre_snapshot_visit visit;
    void *arg;
    void *buffer; /* one chunk */
    cadre_status visit_rc; /* of the first visit that failed */
};

/* The chunk's mean in the buffer; the first replica shows it. */
static cadre_status mean_of(struct meaning *m, const struct cadre_snapshot_piece *chunk,
                            struct cadre_error *err)
{
    const struct cadre_store *store = &m->rank->store;
    struct cadre_device *device = m->rank->device;
    struct cadre_comm *comm = m->axis->comm;
    uint32_t dtype = store->wide;
    cadre_event done;
    cadre_status rc = device->ops->to_host(device, m->buffer, chunk->data,
                                           chunk->count * store->wide_bytes);
    if (rc == CADRE_OK)
        rc = comm->ops->all_reduce(comm, "mean of optimizer states", m->buffer,
                                   m->buffer, chunk->count, dtype, CADRE_SUM, 0, &done);
    if (rc == CADRE_OK)
        rc = comm->ops->wait(comm, done);
    if (rc != CADRE_OK)
        return cadre_fail(err, rc, "cannot average the optimizer states of '%s'",
                          chunk->name);
    if (m->axis->index != 0 || m->visit_rc != CADRE_OK)
        return CADRE_OK;
    cadre_snapshot_scale(m->buffer, dtype, chunk->count, 1.0 / m->axis->size);
    struct cadre_snapshot_piece mean = *chunk;
    mean.data = m->buffer;
    mean.on_host = true;
    m->visit_rc = m->visit(m->arg, &mean, err);
    return CADRE_OK;
}

static cadre_status mean_of_moment(struct meaning *m,
                                   const struct cadre_rank_slice *slice, bool squares,
                                   struct cadre_error *err)
{
    const struct cadre_store_param *states = &m->rank->store.param[slice->param];
    const char *data = squares ? states->exp_avg_sq : states->exp_avg;
    cadre_status rc = CADRE_OK;
    for (uint64_t at = 0, n; rc == CADRE_OK && at < slice->count; at += n) {
        n = slice->count - at;
        n = n < CADRE_STATES_CHUNK ? n : CADRE_STATES_CHUNK;
        const struct cadre_snapshot_piece chunk = {
            .part = squares ? CADRE_CHECKPOINT_EXP_AVG_SQ : CADRE_CHECKPOINT_EXP_AVG,
            .name = m->rank->model->params[slice->param].name,
            .param = slice->param,
            .begin = slice->begin + at,
            .count = n,
            .data = data + at * m->rank->store.wide_bytes,
        };
        rc = mean_of(m, &chunk, err);
    }
    return rc;
}

cadre_status cadre_snapshot_means(struct cadre_rank *rank, cadre_snapshot_visit visit,
                                  void *arg, struct cadre_error *err)
{
    struct meaning m = {rank, cadre_rank_apart(rank), visit, arg, NULL, CADRE_OK};
    int moments = cadre_snapshot_moments(rank->spec);
    cadre_status rc = CADRE_OK;
    m.buffer = malloc(CADRE_STATES_CHUNK * rank->store.wide_bytes);
    if (!m.buffer)
        return cadre_fail(err, CADRE_E_RESOURCE, "no memory to average states");
    for (size_t s = 0; rc == CADRE_OK && s < rank->update.n_slices; s++) {
        const struct cadre_rank_slice *slice = &rank->update.slices[s];
        if (!cadre_rank_is_primary_owner_within(rank, slice->param, m.axis))
            continue;
        for (int k = 0; rc == CADRE_OK && k < moments; k++)
            rc = mean_of_moment(&m, slice, k == 1, err);
    }
    free(m.buffer);
    return rc == CADRE_OK ? m.visit_rc : rc;
}
