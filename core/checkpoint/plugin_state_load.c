/* SPDX-License-Identifier: Apache-2.0 */
/* Loading plugin state from a checkpoint. */
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/checkpoint/format/file.h"
#include "core/checkpoint/plugin_state_private.h"

struct loader {
    struct cadre_rank *rank;
    struct cadre_checkpoint *checkpoint;
    const char *dir;
    bool same_stack; /* the checkpoint was saved under the same stack */
    const char *plugin;
    void *buffer; /* one chunk */
    char missing
        [CADRE_PLUGIN_STATE_KEY]; /* the first key that it does not hold, or "" */
    int averaged; /* replicas whose mean was taken; 0: none */
};

static bool holds(const struct cadre_checkpoint *checkpoint, const char *file)
{
    const char *name;
    for (size_t i = 0; (name = cadre_checkpoint_small(checkpoint, i)) != NULL; i++)
        if (file && strcmp(name, file) == 0)
            return true;
    return false;
}

static void note_missing(struct loader *l, const char *key)
{
    if (!l->missing[0])
        snprintf(l->missing, sizeof l->missing, "%s", key);
}

/* ---- tensors ---- */

/* Replicas of which the checkpoint has a tensor each. */
static int replicas_of(const struct loader *l, const char *name)
{
    char one[CADRE_CHECKPOINT_NAME];
    struct cadre_range range = {.name = name, .replica = 1};
    while (cadre_range_name(&range, one, NULL) == CADRE_OK &&
           cadre_checkpoint_holds(l->checkpoint, CADRE_CHECKPOINT_PLUGIN_STATE, one))
        range.replica++;
    return range.replica - 1;
}

/* Which replica's tensor this rank takes; 0: the mean, also of another number of
 * replicas, which is noted. */
static int own_replica(struct loader *l, const struct cadre_plugin_state_call *call,
                       const char *name)
{
    const struct cadre_axis *axis = cadre_rank_diverging_axis(l->rank);
    const int here = axis ? axis->size : 1;
    if (call->combine != CADRE_STATE_REPLICA)
        return 0;
    const int there = replicas_of(l, name);
    if (axis && there == here)
        return axis->index + 1;
    if (there > 0)
        l->averaged = there;
    return 0;
}

static cadre_status fill(struct loader *l, const struct cadre_plugin_state_call *call,
                         const char *name, const struct cadre_buf *data)
{
    struct cadre_device *device = l->rank->device;
    size_t size = l->rank->store.wide_bytes;
    struct cadre_range chunk = {
        .part = CADRE_CHECKPOINT_PLUGIN_STATE,
        .name = name,
        .replica = own_replica(l, call, name),
        .param = call->param,
    };
    cadre_status rc = CADRE_OK;
    for (uint64_t done = 0; rc == CADRE_OK && done < call->count; done += chunk.count) {
        uint64_t left = call->count - done;
        char *to = (char *)data->data + done * size;
        chunk.begin = call->begin + done;
        chunk.count = left < CADRE_RANGE_CHUNK ? left : CADRE_RANGE_CHUNK;
        rc = cadre_range_read(l->rank, l->checkpoint, NULL, &chunk, l->buffer,
                              &l->rank->failure);
        if (rc != CADRE_OK)
            break;
        if (call->combine == CADRE_STATE_SUM)
            cadre_range_scale(l->buffer, l->rank->store.wide, chunk.count, 1,
                              cadre_mesh_data_size(&l->rank->mesh));
        if (data->space == CADRE_SPACE_DEVICE)
            rc = device->ops->to_device(device, to, l->buffer, chunk.count * size);
        else
            memcpy(to, l->buffer, chunk.count * size);
    }
    return rc;
}

/* A state must have the shape of its parameter. */
static cadre_status check_shape(const struct loader *l, uint32_t param, ptrdiff_t index)
{
    const struct cadre_safetensors_spec spec =
        cadre_range_tensor(l->rank->model, param, NULL);
    return cadre_safetensors_expect(cadre_checkpoint_plugin_state(l->checkpoint),
                                    (size_t)index, &spec, &l->rank->failure);
}

static cadre_status load_tensor(void *h, const char *key, cadre_param_id param,
                                uint32_t combine, uint64_t begin,
                                const struct cadre_buf *data)
{
    struct loader *l = h;
    const struct cadre_safetensors *file = cadre_checkpoint_plugin_state(l->checkpoint);
    struct cadre_plugin_state_call call = {
        .param = param,
        .combine = combine,
        .begin = begin,
        .count = data ? data->count : 0,
    };
    char name[CADRE_CHECKPOINT_NAME];
    snprintf(call.key, sizeof call.key, "%s", key ? key : "");
    CADRE_TRY(cadre_plugin_state_check_call(l->rank, l->plugin, &call, data,
                                            &l->rank->failure));
    CADRE_TRY(cadre_plugin_state_name(l->rank->model->params[param].name, l->plugin,
                                      call.key, name, &l->rank->failure));
    ptrdiff_t index = file ? cadre_safetensors_find(file, name) : -1;
    if (index < 0 || !data) {
        note_missing(l, call.key);
        return CADRE_OK;
    }
    CADRE_TRY(check_shape(l, param, index));
    return fill(l, &call, name, data);
}

/* ---- blobs ---- */

static cadre_status read_blob(const struct loader *l, const char *file, char **data,
                              struct cadre_plugin_state_head *head,
                              struct cadre_error *err)
{
    size_t bytes = 0;
    char *path = cadre_format("%s/%s", l->dir, file);
    if (!path)
        return cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory", l->dir);
    cadre_status rc = cadre_file_read_whole(
        path, CADRE_PLUGIN_STATE_BLOB_BYTES + sizeof *head, data, &bytes, err);
    if (rc == CADRE_OK && bytes >= sizeof *head)
        memcpy(head, *data, sizeof *head);
    if (rc == CADRE_OK &&
        (bytes < sizeof *head || bytes - sizeof *head != head->bytes ||
         memcmp(head->magic, CADRE_PLUGIN_STATE_MAGIC, sizeof head->magic) != 0))
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "%s: not a strategy's state: the checkpoint is damaged; use "
                        "another one",
                        path);
    free(path);
    return rc;
}

static cadre_status take_blob(struct loader *l, const char *file, const char *key,
                              const struct cadre_plugin_state_head *wanted, void *to)
{
    struct cadre_plugin_state_head head = {0};
    char *data = NULL;
    cadre_status rc = read_blob(l, file, &data, &head, &l->rank->failure);
    bool fits = head.version == wanted->version && head.bytes == wanted->bytes;
    if (rc == CADRE_OK && fits && head.bytes)
        memcpy(to, data + sizeof head, head.bytes);
    else if (rc == CADRE_OK && !fits && wanted->policy == CADRE_BLOB_DROPPABLE)
        note_missing(l, key);
    else if (rc == CADRE_OK && !fits)
        rc = cadre_fail(&l->rank->failure, CADRE_E_INVALID,
                        "%s/%s: plugin '%s' expects version %u of %llu bytes, found "
                        "version %u of %llu; resume with the plugin that wrote it",
                        l->dir, file, l->plugin, wanted->version,
                        (unsigned long long)wanted->bytes, head.version,
                        (unsigned long long)head.bytes);
    free(data);
    return rc;
}

static cadre_status load_blob(void *h, const char *key, uint32_t version,
                              uint32_t policy, void *data, uint64_t bytes)
{
    struct loader *l = h;
    const struct cadre_plugin_state_head wanted = {
        .version = version, .policy = policy, .bytes = bytes};
    bool common = policy == CADRE_BLOB_REPLICATED;
    cadre_status rc = CADRE_OK;
    char *file =
        cadre_plugin_state_blob_file(l->plugin, key, common ? -1 : l->rank->index);
    if ((common || l->same_stack) && holds(l->checkpoint, file))
        rc = take_blob(l, file, key, &wanted, data);
    else
        note_missing(l, key);
    free(file);
    return rc;
}

/* ---- all of it ---- */

static bool in_stack(const struct cadre_rank *rank, const char *plugin, size_t n)
{
    for (int i = 0; i < rank->chain.n; i++) {
        const char *name = rank->chain.link[i].name;
        if (strlen(name) == n && strncmp(name, plugin, n) == 0)
            return true;
    }
    return false;
}

/* `<param>.<plugin>.<key>`, or with `.<replica>`; keys do not begin with a digit */
static const char *plugin_of(const char *tensor, size_t *n)
{
    const char *key = strrchr(tensor, '.');
    if (key && key[1] >= '0' && key[1] <= '9')
        for (key--; key > tensor && *key != '.';)
            key--;
    const char *plugin = key;
    while (plugin && plugin > tensor && plugin[-1] != '.')
        plugin--;
    *n = key ? (size_t)(key - plugin) : 0;
    return plugin;
}

/* Log a line for each plugin whose tensors this stack cannot use. */
static void tell_foreign(const struct loader *l)
{
    const struct cadre_safetensors *file = cadre_checkpoint_plugin_state(l->checkpoint);
    char warned[256] = ",";
    for (size_t i = 0; file && i < cadre_safetensors_count(file); i++) {
        size_t n, used = strlen(warned);
        const char *plugin = plugin_of(cadre_safetensors_at(file, i)->name, &n);
        char mark[64];
        snprintf(mark, sizeof mark, ",%.*s,", (int)n, plugin ? plugin : "");
        if (!plugin || n == 0 || in_stack(l->rank, plugin, n) || strstr(warned, mark))
            continue;
        snprintf(warned + used, sizeof warned - used, "%s", mark + 1);
        cadre_log(CADRE_LOG_INFO, "train",
                  "the checkpoint's states of plugin '%.*s', which is not in the "
                  "stack, are not used",
                  (int)n, plugin);
    }
}

static bool same_stack(const struct cadre_rank *rank,
                       const struct cadre_checkpoint *checkpoint)
{
    const char *stack = cadre_checkpoint_value(checkpoint, "stack");
    return stack && strcmp(stack, rank->spec->stack_text) == 0;
}

cadre_status cadre_plugin_state_check(const struct cadre_rank *rank,
                                      const struct cadre_checkpoint *checkpoint,
                                      const char *dir, struct cadre_error *err)
{
    struct loader l = {.dir = dir};
    const char *file;
    cadre_status rc = CADRE_OK;
    if (same_stack(rank, checkpoint))
        return CADRE_OK;
    for (size_t i = 0; (file = cadre_checkpoint_small(checkpoint, i)) != NULL; i++) {
        struct cadre_plugin_state_head head = {0};
        const char *dot = strchr(file, '.'), *end = strstr(file, ".000000.blob");
        char *data = NULL;
        if (!end || !dot || !in_stack(rank, file, (size_t)(dot - file)))
            continue;
        rc = read_blob(&l, file, &data, &head, err);
        free(data);
        if (rc == CADRE_OK && head.policy == CADRE_BLOB_PER_RANK)
            rc = cadre_fail(
                err, CADRE_E_INVALID,
                "'%s' holds a state of plugin '%.*s' for each rank ('%.*s'), "
                "so it resumes with strategy.stack = %s only, this run has "
                "%s",
                dir, (int)(dot - file), file, (int)(end - dot - 1), dot + 1,
                cadre_checkpoint_value(checkpoint, "stack"), rank->spec->stack_text);
        if (rc != CADRE_OK)
            break;
    }
    return rc;
}

static cadre_status load_link(struct loader *l, int i, struct cadre_error *err)
{
    const struct cadre_state_sink sink = {
        .struct_size = sizeof sink,
        .h = l,
        .blob = load_blob,
        .tensor = load_tensor,
    };
    l->plugin = l->rank->chain.link[i].name;
    l->missing[0] = '\0';
    l->averaged = 0;
    cadre_status rc = cadre_chain_state(&l->rank->chain, i, &sink, err);
    if (rc == CADRE_OK && l->missing[0])
        cadre_log(CADRE_LOG_INFO, "train",
                  "plugin '%s': the checkpoint does not hold all its states ('%s'); "
                  "those start empty",
                  l->plugin, l->missing);
    if (rc == CADRE_OK && l->averaged && l->rank->index == 0)
        cadre_log(CADRE_LOG_INFO, "train",
                  "plugin '%s': the checkpoint has states of %d replicas, this run has "
                  "%d: each gets their mean",
                  l->plugin, l->averaged, cadre_plugin_state_replicas(l->rank));
    return rc;
}

cadre_status cadre_plugin_state_load(struct cadre_rank *rank,
                                     struct cadre_checkpoint *checkpoint,
                                     const char *dir, struct cadre_error *err)
{
    struct loader l = {
        .rank = rank,
        .checkpoint = checkpoint,
        .dir = dir,
        .same_stack = same_stack(rank, checkpoint),
    };
    cadre_status rc = cadre_plugin_state_check(rank, checkpoint, dir, err);
    if (rc != CADRE_OK)
        return rc;
    l.buffer = malloc(CADRE_RANGE_CHUNK * rank->store.wide_bytes);
    if (!l.buffer)
        return cadre_no_memory(err, "strategies' states");
    for (int i = 0; rc == CADRE_OK && i < rank->chain.n; i++)
        rc = load_link(&l, i, err);
    if (rc == CADRE_OK)
        tell_foreign(&l);
    free(l.buffer);
    return rc;
}
