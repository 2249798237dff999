/* SPDX-License-Identifier: Apache-2.0 */
#include "core/checkpoint/kept_replicas.h"

#include <stdlib.h>

#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/checkpoint/opt_state.h"

/* The value and the moments, as keys. */
static const char *const keys[] = {NULL, "exp_avg", "exp_avg_sq"};

/* The axis whose replicas the run keeps, NULL for none. */
static const struct cadre_axis *kept_axis(const struct cadre_rank *rank)
{
    const struct cadre_claim *claim =
        cadre_rank_plan_claim(&rank->plan, "param.diverges");
    return claim && claim->keeps_replicas ? cadre_rank_diverging_axis(rank) : NULL;
}

static bool is_trained(const struct cadre_rank *rank, uint32_t param)
{
    return rank->model->params[param].tied_to < 0 && !rank->plan.param[param].frozen;
}

/* ---- saving ---- */

struct table {
    size_t n, most;
    struct cadre_safetensors_spec *spec;
    char (*name)[CADRE_CHECKPOINT_NAME];
};

static cadre_status add_param(struct table *t, const struct cadre_rank *rank,
                              uint32_t param, int replica, struct cadre_error *err)
{
    const int moments = cadre_range_moments(rank->spec);
    cadre_status rc = CADRE_OK;
    for (int k = 0; rc == CADRE_OK && k <= moments; k++) {
        const struct cadre_range range = {.name = rank->model->params[param].name,
                                          .key = keys[k],
                                          .replica = replica};
        rc = cadre_range_name(&range, t->name[t->n], err);
        t->spec[t->n] = cadre_range_tensor(rank->model, param, t->name[t->n]);
        t->n++;
    }
    return rc;
}

static cadre_status add_state(struct table *t, const struct cadre_rank *rank,
                              uint32_t i, int replica, struct cadre_error *err)
{
    const struct cadre_plan_state *s = &rank->plan.state[i];
    const struct cadre_range range = {
        .name = rank->model->params[s->param].name, .key = s->key, .replica = replica};
    cadre_status rc = cadre_range_name(&range, t->name[t->n], err);
    t->spec[t->n] = cadre_opt_state_tensor(rank, i, t->name[t->n]);
    t->n++;
    return rc;
}

static cadre_status fill_table(struct table *t, const struct cadre_rank *rank,
                               int replicas, struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    for (int r = 1; r <= replicas; r++) {
        for (uint32_t i = 0; rc == CADRE_OK && i < rank->model->n_params; i++)
            if (is_trained(rank, i))
                rc = add_param(t, rank, i, r, err);
        for (uint32_t i = 0; rc == CADRE_OK && i < rank->plan.n_states; i++)
            if (is_trained(rank, rank->plan.state[i].param))
                rc = add_state(t, rank, i, r, err);
    }
    return rc;
}

cadre_status cadre_kept_replicas_begin(const struct cadre_rank *rank, const char *root,
                                       int64_t step, struct cadre_error *err)
{
    const struct cadre_axis *axis = kept_axis(rank);
    struct table t = {0};
    if (!axis)
        return CADRE_OK;
    t.most = (size_t)axis->size *
             (3 * (size_t)rank->model->n_params + (size_t)rank->plan.n_states);
    t.spec = cadre_calloc(t.most, sizeof *t.spec);
    t.name = cadre_calloc(t.most, sizeof *t.name);
    cadre_status rc = t.spec && t.name ? fill_table(&t, rank, axis->size, err)
                                       : cadre_no_memory(err, "the tensor table");
    if (rc == CADRE_OK)
        rc = cadre_draft_begin_states(root, (uint64_t)step, CADRE_CHECKPOINT_REPLICA,
                                      t.spec, t.n, err);
    free(t.spec);
    free(t.name);
    return rc;
}

static void give_param(struct cadre_rank *rank, const struct cadre_rank_slice *slice,
                       int replica, struct cadre_range_sink *sink)
{
    const struct cadre_store_param *own = &rank->store.param[slice->param];
    const void *const data[] = {cadre_store_opt_data(&rank->store, slice->param),
                                own->exp_avg, own->exp_avg_sq};
    for (int k = 0; k <= cadre_range_moments(rank->spec); k++) {
        const struct cadre_range range = {
            .part = CADRE_CHECKPOINT_REPLICA,
            .name = rank->model->params[slice->param].name,
            .key = keys[k],
            .replica = replica,
            .param = slice->param,
            .begin = slice->begin,
            .count = slice->count,
            .data = data[k],
        };
        cadre_range_give(sink, &range);
    }
}

void cadre_kept_replicas_give(struct cadre_rank *rank, struct cadre_range_sink *sink)
{
    const struct cadre_axis *axis = kept_axis(rank);
    cadre_status rc = CADRE_OK;
    for (size_t s = 0; axis && s < rank->update.n_slices; s++)
        if (cadre_rank_is_primary_owner_within(rank, rank->update.slices[s].param,
                                               axis))
            give_param(rank, &rank->update.slices[s], axis->index + 1, sink);
    for (uint32_t i = 0; axis && rc == CADRE_OK && i < rank->plan.n_states; i++) {
        struct cadre_range range = cadre_opt_state_range(rank, i);
        range.part = CADRE_CHECKPOINT_REPLICA;
        range.replica = axis->index + 1;
        if (range.count > 0 &&
            cadre_rank_is_primary_owner_within(rank, range.param, axis))
            rc = cadre_opt_state_give_one(rank, i, &range, sink);
    }
    if (rc != CADRE_OK && sink->rc == CADRE_OK)
        sink->rc = rc;
}

/* ---- loading ---- */

/* Replicas that a checkpoint keeps; 0: it has no such file. */
static int count_replicas(const struct cadre_rank *rank,
                          const struct cadre_checkpoint *checkpoint)
{
    char name[CADRE_CHECKPOINT_NAME];
    struct cadre_range range = {0};
    uint32_t first = 0;
    while (first < rank->model->n_params && !is_trained(rank, first))
        first++;
    if (first == rank->model->n_params)
        return 0;
    range.name = rank->model->params[first].name;
    for (range.replica = 1;
         cadre_range_name(&range, name, NULL) == CADRE_OK &&
         cadre_checkpoint_holds(checkpoint, CADRE_CHECKPOINT_REPLICA, name);
         range.replica++)
        ;
    return range.replica - 1;
}

static cadre_status load_param(struct cadre_rank *rank, uint32_t param, int replica,
                               struct cadre_checkpoint *checkpoint,
                               struct cadre_error *err)
{
    struct cadre_store_param *own = &rank->store.param[param];
    void *const to[] = {NULL, own->exp_avg, own->exp_avg_sq};
    const struct cadre_share values = cadre_store_elements(&rank->store, param);
    const struct cadre_share opt =
        cadre_store_share(&rank->store, param, CADRE_KIND_OPT);
    const uint64_t most = values.count > opt.count ? values.count : opt.count;
    void *buffer = cadre_calloc(most, rank->store.wide_bytes);
    cadre_status rc =
        buffer ? CADRE_OK : cadre_no_memory(err, "the values of a replica");
    const size_t n = (size_t)cadre_range_moments(rank->spec) + 1;
    for (size_t k = 0; rc == CADRE_OK && k < n && k < sizeof to / sizeof *to; k++) {
        const struct cadre_share *share = k == 0 ? &values : &opt;
        const struct cadre_range range = {
            .part = CADRE_CHECKPOINT_REPLICA,
            .name = rank->model->params[param].name,
            .key = keys[k],
            .replica = replica,
            .param = param,
            .begin = share->begin,
            .count = share->count,
        };
        if (share->count == 0)
            continue;
        rc = cadre_range_read(rank, checkpoint, NULL, &range, buffer, err);
        if (rc != CADRE_OK)
            break;
        if (k == 0)
            rc = cadre_store_put(&rank->store, param, buffer);
        else
            rc = rank->device->ops->to_device(rank->device, to[k], buffer,
                                              share->count * rank->store.wide_bytes);
    }
    free(buffer);
    return rc;
}

static cadre_status load_own(struct cadre_rank *rank, int replica,
                             struct cadre_checkpoint *checkpoint,
                             struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    for (uint32_t i = 0; rc == CADRE_OK && i < rank->model->n_params; i++)
        if (is_trained(rank, i))
            rc = load_param(rank, i, replica, checkpoint, err);
    for (uint32_t i = 0; rc == CADRE_OK && i < rank->plan.n_states; i++) {
        struct cadre_range range = cadre_opt_state_range(rank, i);
        range.part = CADRE_CHECKPOINT_REPLICA;
        range.replica = replica;
        if (range.count > 0)
            rc = cadre_opt_state_load_one(rank, i, &range, checkpoint, err);
    }
    return rc;
}

cadre_status cadre_kept_replicas_load(struct cadre_rank *rank,
                                      struct cadre_checkpoint *checkpoint,
                                      const char *path, struct cadre_error *err)
{
    const struct cadre_axis *axis = kept_axis(rank);
    const int here = axis ? axis->size : 1;
    const int there = count_replicas(rank, checkpoint);
    if (there == 0)
        return CADRE_OK;
    if (axis && there == here)
        return load_own(rank, axis->index + 1, checkpoint, err);
    if (rank->index == 0)
        cadre_log(CADRE_LOG_INFO, "train",
                  "'%s' keeps %d replicas, this run has %d: each resumes from the mean "
                  "of their optimizer states",
                  path, there, here);
    return CADRE_OK;
}
