/* SPDX-License-Identifier: Apache-2.0 */
/* The second round of calls: values, combined over the data ranks and passed to the
 * sink. */
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/checkpoint/format/file.h"
#include "core/checkpoint/plugin_state_private.h"

struct giver {
    struct cadre_plugin_state *kept;
    int link;
    size_t next; /* index of the next expected call */
    struct cadre_range_sink *sink;
    void *buffer; /* one chunk */
};

/* Is this rank's data group the primary owner of the parameter: the first of those that
 * hold the same part of it? */
static bool stands_for(const struct cadre_rank *rank, uint32_t param)
{
    const struct cadre_axis *tensor = cadre_rank_plan_axis(&rank->plan, "act.complete");
    const bool sharded = rank->model->params[param].split != CADRE_SHARD_NONE;
    for (int a = 0; a < rank->mesh.n; a++) {
        const struct cadre_axis *axis = &rank->mesh.axis[a];
        bool cut = axis == tensor && sharded;
        if (!axis->split_batch && axis != rank->stages.axis && !cut && axis->index != 0)
            return false;
    }
    return true;
}

/* The first data rank of those that share a state with this one. */
static int first_holder(const struct giver *g, size_t key)
{
    const struct cadre_rank *rank = g->kept->rank;
    const int each = cadre_plugin_state_per_replica(rank);
    if (g->kept->keys[key].policy != CADRE_STATE_REPLICA)
        return 0;
    return cadre_mesh_data_index(&rank->mesh) / each * each;
}

/* First range of [at, end) that no earlier data rank holds: returns its begin; *next is
 * its end. */
static uint64_t own_run(const struct giver *g, size_t key, uint32_t param, uint64_t at,
                        uint64_t end, uint64_t *next)
{
    const struct cadre_mesh *mesh = &g->kept->rank->mesh;
    uint64_t before = UINT64_MAX;
    while (at < end && at != before) {
        before = at;
        *next = end;
        for (int d = first_holder(g, key); d < cadre_mesh_data_index(mesh); d++) {
            const double *range = cadre_plugin_state_range(
                g->kept, cadre_mesh_data_rank(mesh, d), key, param);
            uint64_t from = (uint64_t)range[0], to = from + (uint64_t)range[1];
            if (from <= at && at < to)
                at = to;
            else if (from > at && from < to && from < *next)
                *next = from;
        }
    }
    return at;
}

/* A run of this replica, and the mean of all; the runs of all replicas are alike. */
static cadre_status give_replica(struct giver *g, const struct cadre_range *run)
{
    const struct cadre_rank *rank = g->kept->rank;
    const struct cadre_range_sum sum = {
        .axis = cadre_rank_diverging_axis(rank),
        .mean = true,
        .label = "state of a strategy",
        .buffer = g->buffer,
    };
    struct cadre_range own = *run;
    if (!sum.axis) {
        cadre_range_give(g->sink, run);
        return CADRE_OK;
    }
    own.replica = sum.axis->index + 1;
    cadre_range_give(g->sink, &own);
    return cadre_range_combine(rank, run, &sum, g->sink);
}

/* The first data rank that holds an element writes it, in each replica where they have
 * their own. */
static cadre_status give_runs(struct giver *g, size_t key,
                              const struct cadre_range *range)
{
    const bool replica = g->kept->keys[key].policy == CADRE_STATE_REPLICA;
    size_t size = g->kept->rank->store.wide_bytes;
    uint64_t end = range->begin + range->count, at = range->begin, next = at;
    struct cadre_range own = *range;
    cadre_status rc = CADRE_OK;
    while (rc == CADRE_OK &&
           (at = own_run(g, key, range->param, at, end, &next)) < end) {
        own.begin = at;
        own.count = next - at;
        own.data = (const char *)range->data + (at - range->begin) * size;
        if (replica)
            rc = give_replica(g, &own);
        else
            cadre_range_give(g->sink, &own);
        at = next;
    }
    return rc;
}

static cadre_status give_range(struct giver *g,
                               const struct cadre_plugin_state_call *call,
                               const struct cadre_buf *data)
{
    const struct cadre_rank *rank = g->kept->rank;
    const char *plugin = rank->chain.link[call->link].name;
    const struct cadre_range_sum sum = {
        .mean = call->combine == CADRE_STATE_MEAN,
        .label = "state of a strategy",
        .buffer = g->buffer,
    };
    struct cadre_range range = {
        .part = CADRE_CHECKPOINT_PLUGIN_STATE,
        .param = call->param,
        .begin = call->begin,
        .count = call->count,
        .data = data->data,
        .on_host = data->space != CADRE_SPACE_DEVICE,
    };
    char name[CADRE_CHECKPOINT_NAME];
    cadre_status rc = cadre_plugin_state_name(rank->model->params[call->param].name,
                                              plugin, call->key, name, NULL);
    for (size_t i = 0; i < g->kept->n_table; i++)
        if (strcmp(g->kept->names[i], name) == 0)
            range.name = g->kept->names[i];
    const bool combined =
        call->combine == CADRE_STATE_SUM || call->combine == CADRE_STATE_MEAN;
    if (rc == CADRE_OK && combined)
        return cadre_range_combine(rank, &range, &sum, g->sink);
    return rc == CADRE_OK
               ? give_runs(g, cadre_plugin_state_find(g->kept, plugin, call->key),
                           &range)
               : rc;
}

static cadre_status give_tensor(void *h, const char *name, cadre_param_id param,
                                uint32_t combine, uint64_t begin,
                                const struct cadre_buf *data)
{
    struct giver *g = h;
    struct cadre_rank *rank = g->kept->rank;
    if (param < rank->model->n_params && rank->plan.param[param].copied)
        return CADRE_OK;
    const struct cadre_plugin_state_call *call =
        g->next < g->kept->n_calls ? &g->kept->calls[g->next++] : NULL;
    if (!call || call->link != g->link || call->param != param ||
        call->combine != combine || call->begin != begin ||
        call->count != (data ? data->count : 0) || strcmp(call->key, name) != 0)
        return cadre_fail(&rank->failure, CADRE_E_INTERNAL,
                          "plugin '%s' describes its states differently when asked "
                          "again",
                          rank->chain.link[g->link].name);
    if (!stands_for(rank, param) || call->count == 0)
        return CADRE_OK;
    cadre_status rc = give_range(g, call, data);
    if (rc != CADRE_OK &&
        (!rank->world || cadre_comm_failure(rank->world, &rank->failure) == CADRE_OK))
        cadre_fail(&rank->failure, rc, "cannot gather state '%s' of '%s'", name,
                   rank->model->params[param].name);
    return rc;
}

static cadre_status pass_blob(void *h, const char *key, uint32_t version,
                              uint32_t policy, void *data, uint64_t bytes)
{
    (void)h, (void)key, (void)version, (void)policy, (void)data, (void)bytes;
    return CADRE_OK; /* copied in the first round */
}

void cadre_plugin_state_give(struct cadre_plugin_state *kept,
                             struct cadre_range_sink *sink)
{
    struct cadre_chain *chain = &kept->rank->chain;
    struct giver g = {.kept = kept, .sink = sink};
    struct cadre_error *err = sink->rc == CADRE_OK ? sink->err : NULL;
    cadre_status rc = CADRE_OK;
    if (kept->n_table == 0)
        return;
    g.buffer = malloc(CADRE_RANGE_CHUNK * kept->rank->store.wide_bytes);
    if (!g.buffer)
        rc = cadre_fail(err, CADRE_E_RESOURCE, "no memory to gather plugins' states");
    for (int i = 0; rc == CADRE_OK && i < chain->n; i++) {
        const struct cadre_state_sink abi = {
            .struct_size = sizeof abi,
            .saving = 1,
            .h = &g,
            .blob = pass_blob,
            .tensor = give_tensor,
        };
        g.link = i;
        rc = cadre_chain_state(chain, i, &abi, err);
    }
    free(g.buffer);
    if (sink->rc == CADRE_OK)
        sink->rc = rc;
}

/* ---- blobs ---- */

static cadre_status write_blob(const char *dir, const char *file,
                               const struct cadre_plugin_state_blob *blob,
                               struct cadre_error *err)
{
    struct cadre_plugin_state_head head = {
        .version = blob->key.version, .policy = blob->key.policy, .bytes = blob->bytes};
    memcpy(head.magic, CADRE_PLUGIN_STATE_MAGIC, sizeof head.magic);
    char *path = file ? cadre_format("%s/%s", dir, file) : NULL;
    char *data = malloc(sizeof head + blob->bytes);
    cadre_status rc;
    if (!path || !data) {
        rc = cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory", dir);
    } else {
        memcpy(data, &head, sizeof head);
        if (blob->bytes)
            memcpy(data + sizeof head, blob->data, blob->bytes);
        rc = cadre_file_write_whole(path, data, sizeof head + blob->bytes, err);
    }
    free(data);
    free(path);
    return rc;
}

cadre_status cadre_plugin_state_write_blobs(const struct cadre_plugin_state *kept,
                                            const char *dir, struct cadre_error *err)
{
    int index = kept->rank->index;
    cadre_status rc = CADRE_OK;
    for (size_t i = 0; rc == CADRE_OK && i < kept->n_blobs; i++) {
        const struct cadre_plugin_state_blob *blob = &kept->blobs[i];
        const struct cadre_plugin_state_key *key = &blob->key;
        bool common = key->policy == CADRE_BLOB_REPLICATED;
        size_t at = cadre_plugin_state_find(kept, key->plugin, key->name);
        if (common && kept->keys[at].owner != index)
            continue;
        char *file =
            cadre_plugin_state_blob_file(key->plugin, key->name, common ? -1 : index);
        rc = write_blob(dir, file, blob, err);
        free(file);
    }
    return rc;
}
