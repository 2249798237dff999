/* SPDX-License-Identifier: Apache-2.0 */
/* The second round: values, combined over the data ranks and handed on. */
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/checkpoint/format/file.h"
#include "core/tensor/dtype.h"
#include "core/checkpoint/snapshot_parts.h"
#include "core/checkpoint/states_parts.h"

struct giver {
    struct cadre_states *states;
    int link;
    size_t next; /* the call that has to come */
    cadre_states_put put;
    void *arg;
    void *buffer; /* one chunk */
    struct cadre_error *put_err;
    cadre_status put_rc; /* of the first put that failed */
};

/* Does this rank's data group write the parameter, as the first of those that hold the
 * same of it? */
static bool stands_for(const struct cadre_rank *rank, uint32_t param)
{
    for (int a = 0; a < rank->mesh.n; a++) {
        const struct cadre_axis *axis = &rank->mesh.axis[a];
        bool cut = rank->model->tp_size > 1 && rank->model->tp_size == axis->size &&
                   rank->model->params[param].split != CADRE_SPLIT_NONE;
        if (!axis->split_batch && axis != rank->stages.axis && !cut && axis->index != 0)
            return false;
    }
    return true;
}

/* Elements [at, at + n) of the local part, which lie in the buffer. */
static void give(struct giver *g, const struct cadre_states_call *call, uint64_t at,
                 uint64_t n)
{
    const struct cadre_rank *rank = g->states->rank;
    char name[CADRE_CHECKPOINT_NAME];
    struct cadre_snapshot_piece piece = {
        .part = CADRE_CHECKPOINT_PLUGIN_STATE,
        .param = call->param,
        .begin = at,
        .count = n,
        .data = g->buffer,
        .on_host = true,
    };
    cadre_status rc = cadre_states_name(rank->model->params[call->param].name,
                                        rank->chain.link[call->link].plugin->name,
                                        call->key, name, g->put_err);
    for (size_t i = 0; rc == CADRE_OK && i < g->states->n_table; i++)
        if (strcmp(g->states->names[i], name) == 0)
            piece.name = g->states->names[i];
    if (rc == CADRE_OK && g->put_rc == CADRE_OK)
        rc = g->put(g->arg, &piece, g->put_err);
    if (g->put_rc == CADRE_OK)
        g->put_rc = rc;
}

static cadre_status fetch(struct giver *g, const struct cadre_states_call *call,
                          const struct cadre_buf *data, uint64_t at, uint64_t n)
{
    struct cadre_device *device = g->states->rank->device;
    size_t size = g->states->rank->store.wide_bytes;
    const char *from = (const char *)data->data + (at - call->begin) * size;
    if (data->space == CADRE_SPACE_DEVICE)
        return device->ops->to_host(device, g->buffer, from, n * size);
    memcpy(g->buffer, from, n * size);
    return CADRE_OK;
}

/* What no data rank before this one holds of [at, end): *next is where that ends, the
 * return value where it begins. */
static uint64_t own_run(const struct giver *g, size_t key, uint32_t param, uint64_t at,
                        uint64_t end, uint64_t *next)
{
    const struct cadre_mesh *mesh = &g->states->rank->mesh;
    uint64_t before = UINT64_MAX;
    while (at < end && at != before) {
        before = at;
        *next = end;
        for (int d = 0; d < cadre_mesh_data_index(mesh); d++) {
            const double *range = cadre_states_range(
                g->states, cadre_mesh_data_rank(mesh, d), key, param);
            uint64_t from = (uint64_t)range[0], to = from + (uint64_t)range[1];
            if (from <= at && at < to)
                at = to;
            else if (from > at && from < to && from < *next)
                *next = from;
        }
    }
    return at;
}

static cadre_status give_same(struct giver *g, const struct cadre_states_call *call,
                              const struct cadre_buf *data)
{
    const char *plugin = g->states->rank->chain.link[call->link].plugin->name;
    size_t key = cadre_states_find(g->states, plugin, call->key);
    uint64_t end = call->begin + call->count, at = call->begin, next = at;
    while ((at = own_run(g, key, call->param, at, end, &next)) < end) {
        uint64_t n = next - at;
        n = n < CADRE_STATES_CHUNK ? n : CADRE_STATES_CHUNK;
        cadre_status rc = fetch(g, call, data, at, n);
        if (rc != CADRE_OK)
            return rc;
        give(g, call, at, n);
        at += n;
    }
    return CADRE_OK;
}

static cadre_status sum_chunk(struct giver *g, const char *label, uint64_t n)
{
    struct cadre_rank *rank = g->states->rank;
    cadre_status rc = CADRE_OK;
    for (int a = 0; rc == CADRE_OK && a < rank->mesh.n; a++) {
        struct cadre_comm *comm = rank->mesh.axis[a].comm;
        cadre_event done;
        if (!comm || !rank->mesh.axis[a].split_batch)
            continue;
        rc = comm->ops->all_reduce(comm, label, g->buffer, g->buffer, n,
                                   rank->store.wide, CADRE_SUM, 0, &done);
        if (rc == CADRE_OK)
            rc = comm->ops->wait(comm, done);
    }
    return rc;
}

/* The data ranks take turns in writing what they all have after the sum. */
static cadre_status give_combined(struct giver *g, const struct cadre_states_call *call,
                                  const struct cadre_buf *data)
{
    const struct cadre_rank *rank = g->states->rank;
    uint64_t size = (uint64_t)cadre_mesh_data_size(&rank->mesh);
    uint64_t mine = (uint64_t)cadre_mesh_data_index(&rank->mesh);
    cadre_status rc = CADRE_OK;
    for (uint64_t at = 0, n, c = 0; rc == CADRE_OK && at < call->count; at += n, c++) {
        n = call->count - at;
        n = n < CADRE_STATES_CHUNK ? n : CADRE_STATES_CHUNK;
        rc = fetch(g, call, data, at, n);
        if (rc == CADRE_OK)
            rc = sum_chunk(g, "state of a strategy", n);
        if (rc == CADRE_OK && c % size == mine) {
            if (call->combine == CADRE_STATE_MEAN)
                cadre_snapshot_scale(g->buffer, rank->store.wide, n,
                                     1.0 / (double)size);
            give(g, call, at, n);
        }
    }
    return rc;
}

static cadre_status give_tensor(void *h, const char *name, cadre_param_id param,
                                uint32_t combine, uint64_t begin,
                                const struct cadre_buf *data)
{
    struct giver *g = h;
    struct cadre_rank *rank = g->states->rank;
    if (param < rank->model->n_params && rank->plan.param[param].copied)
        return CADRE_OK;
    const struct cadre_states_call *call =
        g->next < g->states->n_calls ? &g->states->calls[g->next++] : NULL;
    if (!call || call->link != g->link || call->param != param ||
        call->combine != combine || call->begin != begin ||
        call->count != (data ? data->count : 0) || strcmp(call->key, name) != 0)
        return cadre_fail(&rank->failure, CADRE_E_INTERNAL,
                          "plugin '%s' describes its states differently when asked "
                          "again",
                          rank->chain.link[g->link].plugin->name);
    if (!stands_for(rank, param) || call->count == 0)
        return CADRE_OK;
    cadre_status rc = combine == CADRE_STATE_SAME ? give_same(g, call, data)
                                                  : give_combined(g, call, data);
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

cadre_status cadre_states_give(struct cadre_states *states, cadre_states_put put,
                               void *arg, struct cadre_error *err)
{
    struct cadre_chain *chain = &states->rank->chain;
    struct giver g = {.states = states, .put = put, .arg = arg, .put_err = err};
    cadre_status rc = CADRE_OK;
    if (states->n_table == 0)
        return CADRE_OK;
    g.buffer = malloc(CADRE_STATES_CHUNK * states->rank->store.wide_bytes);
    if (!g.buffer)
        return cadre_fail(err, CADRE_E_RESOURCE, "no memory to gather states");
    for (int i = 0; rc == CADRE_OK && i < chain->n; i++) {
        const struct cadre_state_sink sink = {
            .struct_size = sizeof sink,
            .saving = 1,
            .h = &g,
            .blob = pass_blob,
            .tensor = give_tensor,
        };
        g.link = i;
        rc = cadre_chain_state(chain, i, &sink, err);
    }
    free(g.buffer);
    return rc == CADRE_OK ? g.put_rc : rc;
}

/* ---- blobs ---- */

static cadre_status write_blob(const char *dir, const char *file,
                               const struct cadre_states_blob *blob,
                               struct cadre_error *err)
{
    struct cadre_states_head head = {
        .version = blob->key.version, .policy = blob->key.policy, .bytes = blob->bytes};
    memcpy(head.magic, CADRE_STATES_MAGIC, sizeof head.magic);
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

cadre_status cadre_states_write_blobs(const struct cadre_states *states,
                                      const char *dir, struct cadre_error *err)
{
    int index = states->rank->index;
    cadre_status rc = CADRE_OK;
    for (size_t i = 0; rc == CADRE_OK && i < states->n_blobs; i++) {
        const struct cadre_states_blob *blob = &states->blobs[i];
        const struct cadre_states_key *key = &blob->key;
        bool common = key->policy == CADRE_BLOB_REPLICATED;
        size_t at = cadre_states_find(states, key->plugin, key->name);
        if (common && states->keys[at].owner != index)
            continue;
        char *file =
            cadre_states_blob_file(key->plugin, key->name, common ? -1 : index);
        rc = write_blob(dir, file, blob, err);
        free(file);
    }
    return rc;
}
