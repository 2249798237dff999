/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a run: the peak bytes of each rank under each tag. */
#ifndef CADRE_RUN_USAGE_H
#define CADRE_RUN_USAGE_H

#include "core/base/json.h"
#include "core/engine/rank.h"

struct cadre_usage_row {
    char tag[64]; /* of the ledger; with "(host)" or "(pinned)" if not device memory */
    uint64_t *bytes; /* (ranks) */
};

struct cadre_usage {
    int ranks, n;
    struct cadre_usage_row *row;
    uint64_t *bytes; /* of all rows */
    uint64_t *resident; /* (processes) peak resident bytes, by their first rank */
    int processes; /* fewer than ranks where these are threads */
};

/* [collective: world] The ledgers of all ranks, in the order of rank 0's tags. The
 * caller calls fini, also after a failure. */
cadre_status cadre_usage_gather(struct cadre_rank *rank, struct cadre_usage *usage,
                                struct cadre_error *err);
void cadre_usage_fini(struct cadre_usage *usage);

/* {"tag": [bytes of rank 0, ...], ...} */
void cadre_usage_write(const struct cadre_usage *usage, struct cadre_json *json);

#endif
