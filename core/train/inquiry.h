/* SPDX-License-Identifier: Apache-2.0 */
/* What the plugins of a stack say to a run: whether they take it, and what its ranks
 * hold. They are asked as in a run, by their plan; nothing is allocated, opened or
 * started, and no data are read. */
#ifndef CADRE_TRAIN_INQUIRY_H
#define CADRE_TRAIN_INQUIRY_H

#include "core/run/spec.h"

struct cadre_inquiry {
    int ranks;
    int asked; /* of them */
    int largest; /* of those asked, the one that asks for most memory */
    uint64_t bytes; /* that it asks for, of any memory: as --dry-run prints */
    int64_t micro_batches; /* most that one of them runs in a step */
    int64_t time; /* most tokens of a sample that one of them has */
    int blocks; /* most blocks of the model that one of them has */
    int tensor; /* ranks that divide the products of a block */
    uint64_t params; /* of the model */
    bool claims_other; /* a plugin that is not Cadre's own claims something, or reduces:
                          what it sends is not known */
};

/* Ask ranks 0, every, 2 every, ... of a run, from loaded, unresolved options, which it
 * takes, also on failure. `ranks` is what the stack has; 0: as its numbers say. [main]
 * Errors: those of cadre_spec_create and of the plugins' plan, one line each. */
cadre_status cadre_inquiry(struct cadre_options *options_take, int ranks, int every,
                           struct cadre_inquiry *out, struct cadre_error *err);

#endif
