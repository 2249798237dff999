/* SPDX-License-Identifier: Apache-2.0 */
/* Collecting the states to keep, and agreeing on them. */
#include "core/checkpoint/plugin_state.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/memory.h"
#include "core/checkpoint/plugin_state_private.h"
#include "core/plugin/plugin.h"
#include "core/tensor/dtype.h"

/* ---- what is shared with saving and loading ---- */

const double *cadre_plugin_state_range(const struct cadre_plugin_state *kept, int rank,
                                       size_t key, uint32_t param)
{
    size_t row = (size_t)rank * kept->n_keys + key;
    return kept->ranges + (row * kept->rank->model->n_params + param) * 2;
}

size_t cadre_plugin_state_find(const struct cadre_plugin_state *kept,
                               const char *plugin, const char *name)
{
    for (size_t k = 0; k < kept->n_keys; k++)
        if (strcmp(kept->keys[k].plugin, plugin) == 0 &&
            strcmp(kept->keys[k].name, name) == 0)
            return k;
    return SIZE_MAX;
}

cadre_status cadre_plugin_state_name(const char *param, const char *plugin,
                                     const char *key, char out[CADRE_CHECKPOINT_NAME],
                                     struct cadre_error *err)
{
    int n = snprintf(out, CADRE_CHECKPOINT_NAME, "%s.%s.%s", param, plugin, key);
    if (n >= 0 && n < CADRE_CHECKPOINT_NAME)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "plugin '%s': the name of state '%s' of '%.100s' is longer than "
                      "%d bytes; choose a shorter key",
                      plugin, key, param, CADRE_CHECKPOINT_NAME - 1);
}

char *cadre_plugin_state_blob_file(const char *plugin, const char *key, int rank)
{
    return rank < 0 ? cadre_format("%s.%s.blob", plugin, key)
                    : cadre_format("%s.%s.%06d.blob", plugin, key, rank);
}

cadre_status cadre_plugin_state_check_call(const struct cadre_rank *rank,
                                           const char *plugin,
                                           const struct cadre_plugin_state_call *call,
                                           const struct cadre_buf *data,
                                           struct cadre_error *err)
{
    const struct cadre_model *model = rank->model;
    if (call->param >= model->n_params)
        return cadre_fail(err, CADRE_E_INVALID,
                          "plugin '%s': state '%s' of parameter %u, the model has %u",
                          plugin, call->key, call->param, model->n_params);
    const struct cadre_param *p = &model->params[call->param];
    uint64_t local = cadre_shape_count(&p->local);
    const uint32_t wide = cadre_dtype_wide(model->config.dtype);
    const struct cadre_plan_param *here = &rank->plan.param[call->param];
    if (p->tied_to >= 0 || (!here->present && !here->copied))
        return cadre_fail(err, CADRE_E_INVALID,
                          "plugin '%s': state '%s' of '%s', which is %s; keep it with "
                          "the rank and the entry that own the parameter",
                          plugin, call->key, p->name,
                          p->tied_to >= 0 ? "tied to another" : "not on this rank");
    if (!data || data->dtype != wide || (data->count && !data->data))
        return cadre_fail(err, CADRE_E_INVALID,
                          "plugin '%s': state '%s' of '%s': expected data of type %s, "
                          "found %s",
                          plugin, call->key, p->name, cadre_dtype_name(wide),
                          data ? cadre_dtype_name(data->dtype) : "none");
    if (call->begin > local || call->count > local - call->begin)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "plugin '%s': state '%s' of '%s': elements from %llu, %llu of "
            "them, do not lie within its %llu",
            plugin, call->key, p->name, (unsigned long long)call->begin,
            (unsigned long long)call->count, (unsigned long long)local);
    if (call->combine < CADRE_STATE_SAME || call->combine > CADRE_STATE_REPLICA)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "plugin '%s': state '%s': combine = %u, expected SAME, SUM, MEAN or "
            "REPLICA",
            plugin, call->key, call->combine);
    if (call->combine == CADRE_STATE_REPLICA && cadre_mesh_data_size(&rank->mesh) > 1 &&
        !cadre_rank_diverging_axis(rank))
        return cadre_fail(err, CADRE_E_INVALID,
                          "plugin '%s': state '%s' is of a replica, but no plugin "
                          "claims param.diverges; expected SAME, SUM or MEAN",
                          plugin, call->key);
    return CADRE_OK;
}

int cadre_plugin_state_replicas(const struct cadre_rank *rank)
{
    const struct cadre_axis *axis = cadre_rank_diverging_axis(rank);
    return axis ? axis->size : 1;
}

int cadre_plugin_state_per_replica(const struct cadre_rank *rank)
{
    return cadre_mesh_data_size(&rank->mesh) / cadre_plugin_state_replicas(rank);
}

/* ---- the first round of calls ---- */

struct collector {
    struct cadre_plugin_state *kept;
    int link;
    const char *plugin;
};

static cadre_status refuse(const struct collector *c, const char *key, const char *why)
{
    return cadre_fail(&c->kept->rank->failure, CADRE_E_INVALID,
                      "plugin '%s': state '%.60s': %s", c->plugin, key, why);
}

static cadre_status no_memory(const struct collector *c)
{
    return cadre_fail(&c->kept->rank->failure, CADRE_E_RESOURCE,
                      "no memory to describe the states of plugin '%s'", c->plugin);
}

static cadre_status check_name(const struct collector *c, const char *key)
{
    if (!key || !cadre_plugin_is_name(key) || strlen(key) >= CADRE_PLUGIN_STATE_KEY)
        return refuse(c, key ? key : "",
                      "expected a key of [a-z0-9_], at most 47 characters");
    return CADRE_OK;
}

/* Note a key of this rank. */
static cadre_status add_key(struct collector *c,
                            const struct cadre_plugin_state_key *key)
{
    struct cadre_plugin_state *s = c->kept;
    size_t at = cadre_plugin_state_find(s, key->plugin, key->name);
    if (at != SIZE_MAX) {
        if (!key->tensor || memcmp(&s->keys[at], key, sizeof *key) != 0)
            return refuse(c, key->name, "described twice, in two ways");
        return CADRE_OK;
    }
    struct cadre_plugin_state_key *more =
        cadre_realloc(s->keys, s->n_keys + 1, sizeof *s->keys);
    if (!more)
        return no_memory(c);
    s->keys = more;
    s->keys[s->n_keys++] = *key;
    return CADRE_OK;
}

static struct cadre_plugin_state_key key_of(const struct collector *c, const char *name,
                                            uint32_t policy)
{
    struct cadre_plugin_state_key key;
    memset(&key, 0, sizeof key);
    snprintf(key.plugin, sizeof key.plugin, "%s", c->plugin);
    snprintf(key.name, sizeof key.name, "%s", name);
    key.policy = policy;
    return key;
}

static cadre_status collect_tensor(void *h, const char *name, cadre_param_id param,
                                   uint32_t combine, uint64_t begin,
                                   const struct cadre_buf *data)
{
    struct collector *c = h;
    struct cadre_plugin_state *s = c->kept;
    struct cadre_plugin_state_call call = {
        .link = c->link,
        .param = param,
        .combine = combine,
        .begin = begin,
        .count = data ? data->count : 0,
    };
    CADRE_TRY(check_name(c, name));
    snprintf(call.key, sizeof call.key, "%s", name);
    CADRE_TRY(cadre_plugin_state_check_call(s->rank, c->plugin, &call, data,
                                            &s->rank->failure));
    if (s->rank->plan.param[param].copied)
        return CADRE_OK; /* its owner's stage writes it */
    for (size_t i = 0; i < s->n_calls; i++)
        if (s->calls[i].link == c->link && s->calls[i].param == param &&
            strcmp(s->calls[i].key, name) == 0)
            return refuse(c, name, "one parameter described twice");
    struct cadre_plugin_state_key key = key_of(c, name, combine);
    key.tensor = 1;
    CADRE_TRY(add_key(c, &key));
    struct cadre_plugin_state_call *more =
        cadre_realloc(s->calls, s->n_calls + 1, sizeof *s->calls);
    if (!more)
        return no_memory(c);
    s->calls = more;
    s->calls[s->n_calls++] = call;
    return CADRE_OK;
}

static cadre_status collect_blob(void *h, const char *name, uint32_t version,
                                 uint32_t policy, void *data, uint64_t bytes)
{
    struct collector *c = h;
    struct cadre_plugin_state *s = c->kept;
    CADRE_TRY(check_name(c, name));
    if (policy < CADRE_BLOB_DROPPABLE || policy > CADRE_BLOB_PER_RANK)
        return refuse(c, name, "expected DROPPABLE, REPLICATED or PER_RANK");
    if (bytes > CADRE_PLUGIN_STATE_BLOB_BYTES || (bytes && !data))
        return refuse(c, name, "expected at most 64 MB; keep more as a tensor");
    struct cadre_plugin_state_key key = key_of(c, name, policy);
    key.version = version;
    if (policy == CADRE_BLOB_REPLICATED) {
        key.bytes = bytes;
        key.hash = cadre_hash_of(data, bytes, 0);
    }
    CADRE_TRY(add_key(c, &key));
    struct cadre_plugin_state_blob *more =
        cadre_realloc(s->blobs, s->n_blobs + 1, sizeof *s->blobs);
    if (!more)
        return no_memory(c);
    s->blobs = more;
    struct cadre_plugin_state_blob *blob = &s->blobs[s->n_blobs];
    *blob = (struct cadre_plugin_state_blob){.key = key, .bytes = bytes};
    blob->data = malloc(bytes ? bytes : 1);
    if (!blob->data)
        return no_memory(c);
    s->n_blobs++;
    if (bytes)
        memcpy(blob->data, data, bytes);
    return CADRE_OK;
}

static cadre_status describe(struct cadre_plugin_state *kept, struct cadre_error *err)
{
    struct cadre_chain *chain = &kept->rank->chain;
    cadre_status rc = CADRE_OK;
    for (int i = 0; rc == CADRE_OK && i < chain->n; i++) {
        struct collector c = {kept, i, chain->link[i].name};
        const struct cadre_state_sink sink = {
            .struct_size = sizeof sink,
            .saving = 1,
            .h = &c,
            .blob = collect_blob,
            .tensor = collect_tensor,
        };
        rc = cadre_chain_state(chain, i, &sink, err);
    }
    return rc;
}

/* ---- agreement ---- */

/* All ranks' keys, rank 0's first; *n in total. */
static cadre_status gather_keys(struct cadre_plugin_state *s,
                                struct cadre_plugin_state_key **all, uint64_t *counts,
                                struct cadre_error *err)
{
    struct cadre_comm *world = s->rank->world;
    size_t ranks = (size_t)world->size;
    double *n = cadre_calloc(ranks, sizeof *n);
    cadre_event done = 0;
    cadre_status rc = CADRE_E_RESOURCE;
    *all = NULL;
    if (n) {
        n[s->rank->index] = (double)s->n_keys;
        rc = cadre_rank_sum(s->rank, "states of strategies", n, ranks);
    }
    for (size_t r = 0; rc == CADRE_OK && r < ranks; r++)
        counts[r + 1] = counts[r] + (uint64_t)n[r] * sizeof **all;
    if (rc == CADRE_OK && counts[ranks] > 0) {
        *all = malloc(counts[ranks]);
        rc = *all ? cadre_comm_all_gather(world, "states of strategies", s->keys, *all,
                                          counts, CADRE_U8, 0, &done)
                  : CADRE_E_RESOURCE;
        if (rc == CADRE_OK)
            rc = cadre_comm_wait(world, done);
    }
    free(n);
    if (rc != CADRE_OK)
        cadre_fail(err, rc, "the ranks could not agree on their strategies' states");
    return rc;
}

/* Add another rank's key to the common list. */
static cadre_status unite(struct cadre_plugin_state *s,
                          const struct cadre_plugin_state_key *key, int rank,
                          struct cadre_error *err)
{
    size_t at = cadre_plugin_state_find(s, key->plugin, key->name);
    if (at == SIZE_MAX) {
        s->keys[s->n_keys] = *key;
        s->keys[s->n_keys++].owner = rank;
        return CADRE_OK;
    }
    struct cadre_plugin_state_key same = *key;
    same.owner = s->keys[at].owner;
    if (memcmp(&same, &s->keys[at], sizeof same) == 0)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "plugin '%s': state '%s' differs between rank %d and rank %d%s",
                      key->plugin, key->name, same.owner, rank,
                      key->tensor ? "" : "; a replicated one must be the same on all");
}

static cadre_status agree_keys(struct cadre_plugin_state *s, struct cadre_error *err)
{
    if (!s->rank->world || s->rank->world->size == 1)
        return CADRE_OK;
    int ranks = s->rank->world->size;
    struct cadre_plugin_state_key *all = NULL;
    uint64_t *counts = cadre_calloc((size_t)ranks + 1, sizeof *counts);
    if (!counts)
        return cadre_no_memory(err, "the states' table");
    cadre_status rc = gather_keys(s, &all, counts, err);
    if (rc == CADRE_OK) {
        free(s->keys);
        s->n_keys = 0;
        s->keys = malloc(counts[ranks] ? counts[ranks] : 1);
        if (!s->keys)
            rc = cadre_no_memory(err, "the states' table");
    }
    for (int r = 0; r < ranks; r++)
        for (uint64_t k = counts[r]; rc == CADRE_OK && all && k < counts[r + 1];
             k += sizeof *all)
            rc = unite(s, all + k / sizeof *all, r, err);
    free(all);
    free(counts);
    return rc;
}

static cadre_status agree_ranges(struct cadre_plugin_state *s, struct cadre_error *err)
{
    const struct cadre_rank *rank = s->rank;
    size_t n = (size_t)rank->mesh.ranks * s->n_keys * rank->model->n_params * 2;
    s->ranges = cadre_calloc(n, sizeof *s->ranges);
    if (!s->ranges)
        return cadre_no_memory(err, "the states' table");
    for (size_t i = 0; i < s->n_calls; i++) {
        const struct cadre_plugin_state_call *call = &s->calls[i];
        size_t key =
            cadre_plugin_state_find(s, rank->chain.link[call->link].name, call->key);
        double *range =
            (double *)cadre_plugin_state_range(s, rank->index, key, call->param);
        range[0] = (double)call->begin;
        range[1] = (double)call->count;
    }
    cadre_status rc = cadre_rank_sum(s->rank, "ranges of states", s->ranges, n);
    if (rc != CADRE_OK)
        cadre_fail(err, rc, "the ranks could not agree on their strategies' states");
    return rc;
}

/* Do data ranks [first, end) together hold all of a tensor? *upto: what they hold from
 * its begin on. */
static bool covered(const struct cadre_plugin_state *s, size_t key, uint32_t param,
                    const int span[2], double *upto)
{
    const struct cadre_mesh *mesh = &s->rank->mesh;
    double local = (double)cadre_shape_count(&s->rank->model->params[param].local);
    double most = -1;
    *upto = 0;
    while (*upto > most) {
        most = *upto;
        for (int d = span[0]; d < span[1]; d++) {
            const double *range =
                cadre_plugin_state_range(s, cadre_mesh_data_rank(mesh, d), key, param);
            if (range[0] <= *upto && range[0] + range[1] > *upto)
                *upto = range[0] + range[1];
        }
    }
    return *upto >= local;
}

/* Do the replicas hold the same ranges? Their mean is taken element by element. */
static bool replicas_are_alike(const struct cadre_plugin_state *s, size_t key,
                               uint32_t param)
{
    const struct cadre_mesh *mesh = &s->rank->mesh;
    const int each = cadre_plugin_state_per_replica(s->rank);
    bool same = true;
    for (int d = each; d < cadre_mesh_data_size(mesh); d++) {
        const double *first = cadre_plugin_state_range(
            s, cadre_mesh_data_rank(mesh, d % each), key, param);
        const double *other =
            cadre_plugin_state_range(s, cadre_mesh_data_rank(mesh, d), key, param);
        same = same && first[0] == other[0] && first[1] == other[1];
    }
    return same;
}

/* Do this rank's data ranks, or those of each replica, together hold all of a tensor?
 * Where it is to be combined, each must hold the whole. */
static cadre_status check_cover(const struct cadre_plugin_state *s, size_t key,
                                uint32_t param, struct cadre_error *err)
{
    const struct cadre_mesh *mesh = &s->rank->mesh;
    const struct cadre_param *p = &s->rank->model->params[param];
    const uint32_t policy = s->keys[key].policy;
    double local = (double)cadre_shape_count(&p->local), upto = 0;
    int span[2] = {0, cadre_mesh_data_size(mesh)};
    bool some = false, whole = true;
    for (int d = 0; d < span[1]; d++) {
        const double *range =
            cadre_plugin_state_range(s, cadre_mesh_data_rank(mesh, d), key, param);
        some |= range[1] > 0;
        whole &= range[0] == 0 && range[1] == local;
    }
    if (!some || whole)
        return CADRE_OK;
    if (policy == CADRE_STATE_SUM || policy == CADRE_STATE_MEAN)
        return cadre_fail(err, CADRE_E_INVALID,
                          "plugin '%s': state '%s' of '%s' is to be combined, but not "
                          "every data rank holds the whole of it",
                          s->keys[key].plugin, s->keys[key].name, p->name);
    if (policy == CADRE_STATE_REPLICA) {
        span[1] = cadre_plugin_state_per_replica(s->rank);
        if (!replicas_are_alike(s, key, param))
            return cadre_fail(err, CADRE_E_INVALID,
                              "plugin '%s': state '%s' of '%s': the replicas hold "
                              "different ranges of it, expected the same",
                              s->keys[key].plugin, s->keys[key].name, p->name);
    }
    if (covered(s, key, param, span, &upto))
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "plugin '%s': no rank holds element %.0f of state '%s' of '%s'",
                      s->keys[key].plugin, upto, s->keys[key].name, p->name);
}

/* The tensors of single replicas, beside their mean. */
static cadre_status add_replicas(struct cadre_plugin_state *s, uint32_t param,
                                 const char *name, struct cadre_error *err)
{
    const int replicas = cadre_plugin_state_replicas(s->rank);
    cadre_status rc = CADRE_OK;
    for (int r = 1; rc == CADRE_OK && replicas > 1 && r <= replicas; r++) {
        const struct cadre_range range = {.name = name, .replica = r};
        rc = cadre_range_name(&range, s->names[s->n_table], err);
        s->table[s->n_table] =
            cadre_range_tensor(s->rank->model, param, s->names[s->n_table]);
        s->n_table++;
    }
    return rc;
}

static cadre_status add_entry(struct cadre_plugin_state *s, size_t key, uint32_t param,
                              struct cadre_error *err)
{
    const struct cadre_model *model = s->rank->model;
    const struct cadre_param *p = &model->params[param];
    bool some = false;
    for (int r = 0; r < s->rank->mesh.ranks; r++)
        some |= cadre_plugin_state_range(s, r, key, param)[1] > 0;
    if (!some)
        return CADRE_OK;
    cadre_status rc = cadre_plugin_state_name(
        p->name, s->keys[key].plugin, s->keys[key].name, s->names[s->n_table], err);
    const char *name = s->names[s->n_table];
    s->table[s->n_table] = cadre_range_tensor(model, param, name);
    s->n_table++;
    if (rc == CADRE_OK && s->keys[key].policy == CADRE_STATE_REPLICA)
        rc = add_replicas(s, param, name, err);
    return rc == CADRE_OK ? check_cover(s, key, param, err) : rc;
}

static cadre_status make_table(struct cadre_plugin_state *s, struct cadre_error *err)
{
    uint32_t n_params = s->rank->model->n_params;
    cadre_status rc = CADRE_OK;
    const size_t each = 1 + (size_t)cadre_plugin_state_replicas(s->rank);
    s->table = cadre_calloc(s->n_keys * n_params * each, sizeof *s->table);
    s->names = cadre_calloc(s->n_keys * n_params * each, sizeof *s->names);
    if (!s->table || !s->names)
        return cadre_no_memory(err, "the states' table");
    for (uint32_t i = 0; i < n_params; i++)
        for (size_t k = 0; rc == CADRE_OK && k < s->n_keys; k++)
            if (s->keys[k].tensor)
                rc = add_entry(s, k, i, err);
    return rc;
}

static bool any_keeps(const struct cadre_chain *chain)
{
    for (int i = 0; i < chain->n; i++)
        if (chain->link[i].plugin->ops.state)
            return true;
    return false;
}

cadre_status cadre_plugin_state_collect(struct cadre_rank *rank,
                                        struct cadre_plugin_state **out,
                                        struct cadre_error *err)
{
    struct cadre_plugin_state *s = calloc(1, sizeof *s);
    cadre_status rc;
    if (!s)
        return cadre_no_memory(err, "the states' table");
    s->rank = rank;
    if (any_keeps(&rank->chain)) { /* the same answer on every rank */
        CADRE_TRY_OR(describe(s, err), fail);
        CADRE_TRY_OR(agree_keys(s, err), fail);
        CADRE_TRY_OR(agree_ranges(s, err), fail);
        CADRE_TRY_OR(make_table(s, err), fail);
    }
    *out = s;
    return CADRE_OK;
fail:
    cadre_plugin_state_destroy(s);
    return rc;
}

void cadre_plugin_state_destroy(struct cadre_plugin_state *kept)
{
    if (!kept)
        return;
    for (size_t i = 0; i < kept->n_blobs; i++)
        free(kept->blobs[i].data);
    free(kept->blobs);
    free(kept->keys);
    free(kept->calls);
    free(kept->ranges);
    free(kept->table);
    free(kept->names);
    free(kept);
}

const struct cadre_safetensors_spec *
cadre_plugin_state_table(const struct cadre_plugin_state *kept, size_t *n)
{
    *n = kept->n_table;
    return kept->table;
}
