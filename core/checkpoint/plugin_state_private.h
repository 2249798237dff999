/* SPDX-License-Identifier: Apache-2.0 */
/* Common parts of saving and loading plugin state. Private to core/checkpoint. */
#ifndef CADRE_CHECKPOINT_PLUGIN_STATE_PRIVATE_H
#define CADRE_CHECKPOINT_PLUGIN_STATE_PRIVATE_H

#include "core/checkpoint/format/tensor_file.h"
#include "core/checkpoint/plugin_state.h"

/* With the 0: of a key; of an instance, "ddp@site". */
enum { CADRE_PLUGIN_STATE_KEY = CADRE_KEY_CHARS, CADRE_PLUGIN_STATE_INSTANCE = 80 };
#define CADRE_PLUGIN_STATE_BLOB_BYTES ((uint64_t)64000000)

/* Key of a state, equal on all ranks. No padding: it is compared and sent as bytes. */
struct cadre_plugin_state_key {
    char plugin[CADRE_PLUGIN_STATE_INSTANCE];
    char name[CADRE_PLUGIN_STATE_KEY];
    uint32_t tensor; /* 1, or 0: a blob */
    uint32_t policy; /* CADRE_STATE_* or CADRE_BLOB_* */
    uint32_t version; /* blobs */
    int32_t owner; /* the first rank that has it */
    uint64_t bytes, hash; /* of a replicated blob, else 0 */
};

/* A tensor as this rank's plugin described it. */
struct cadre_plugin_state_call {
    int link;
    char key[CADRE_PLUGIN_STATE_KEY];
    uint32_t param, combine;
    uint64_t begin, count;
};

struct cadre_plugin_state_blob {
    struct cadre_plugin_state_key key;
    void *data;
    uint64_t bytes;
};

/* Header of a blob's file. */
struct cadre_plugin_state_head {
    char magic[8];
    uint32_t version, policy;
    uint64_t bytes;
};
#define CADRE_PLUGIN_STATE_MAGIC "cadreblb"

struct cadre_plugin_state {
    struct cadre_rank *rank;
    size_t n_keys, n_calls, n_blobs, n_table;
    struct cadre_plugin_state_key *keys; /* of this rank, then of all */
    struct cadre_plugin_state_call *calls;
    struct cadre_plugin_state_blob *blobs;
    double *ranges; /* (ranks, keys, params, 2): begin and count */
    struct cadre_safetensors_spec *table;
    char (*names)[CADRE_CHECKPOINT_NAME]; /* of the table */
};

/* Begin and count of the range of a tensor that a rank of the world holds. */
const double *cadre_plugin_state_range(const struct cadre_plugin_state *kept, int rank,
                                       size_t key, uint32_t param);

/* Replicas of which a state of CADRE_STATE_REPLICA has a tensor each: those along the
 * axis of param.diverges, 1 without one. The data ranks of replica r are those from
 * r * cadre_plugin_state_per_replica on. */
int cadre_plugin_state_replicas(const struct cadre_rank *rank);
int cadre_plugin_state_per_replica(const struct cadre_rank *rank);

/* The key's index, SIZE_MAX where there is none. */
size_t cadre_plugin_state_find(const struct cadre_plugin_state *kept,
                               const char *plugin, const char *name);

/* `<param>.<plugin>.<key>`. Errors: CADRE_E_INVALID too long. */
cadre_status cadre_plugin_state_name(const char *param, const char *plugin,
                                     const char *key, char out[CADRE_CHECKPOINT_NAME],
                                     struct cadre_error *err);

/* File name of a blob within the checkpoint: of a rank, or the common one (rank < 0).
 * The caller frees it. NULL: no memory. */
char *cadre_plugin_state_blob_file(const char *plugin, const char *key, int rank);

/* Is this a range and kind that a plugin may describe? Errors: CADRE_E_INVALID naming
 * plugin, key and parameter. */
cadre_status cadre_plugin_state_check_call(const struct cadre_rank *rank,
                                           const char *plugin,
                                           const struct cadre_plugin_state_call *call,
                                           const struct cadre_buf *data,
                                           struct cadre_error *err);

#endif
