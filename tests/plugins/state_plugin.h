/* SPDX-License-Identifier: Apache-2.0 */
/* What tests look into: the instances of state_plugin.c are made of this. */
#ifndef CADRE_TESTS_STATE_PLUGIN_H
#define CADRE_TESTS_STATE_PLUGIN_H

#include <cadre/helpers.h>

#define STATE_MAX_PARAMS 64
#define STATE_KINDS 3 /* by CADRE_STATE_* less 1 */

struct cadre_self {
    const struct cadre_host *host;
    const struct cadre_mesh_svc *mesh;
    const struct cadre_model_svc *model;
    const char *fault;
    uint32_t rank;
    int32_t data_rank, data_ranks;
    int split; /* a rank holds an (overlapping) part of what is the same on all */
    struct cadre_buf kept[STATE_KINDS][STATE_MAX_PARAMS]; /* count 0: not here */
    uint64_t begin[STATE_KINDS][STATE_MAX_PARAMS];
    uint32_t n_params;
    uint32_t version; /* of the blobs */
    uint64_t common, own, spare; /* REPLICATED, PER_RANK, DROPPABLE */
};

#endif
