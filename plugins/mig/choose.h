/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the MIG instance of a rank among those found. */
#ifndef CADRE_PLUGINS_MIG_CHOOSE_H
#define CADRE_PLUGINS_MIG_CHOOSE_H

#include <stddef.h>

#include "plugins/mig/instances.h"

/* What narrows the choice. Texts are never NULL. */
struct mig_wants {
    const char *profile; /* mig.profile: "1g", "1g.18gb", "": any */
    const char *instances; /* mig.instances: UUIDs or GPU:INDEX, "": the first found */
    const char *visible; /* CUDA_VISIBLE_DEVICES of this process, "": not set */
    bool given; /* an external launcher chose: a single UUID in `visible` */
    bool share; /* instances may be given more than once */
    uint32_t n; /* instances wanted */
    const uint32_t *slices; /* mig.sizes: compute slices of each (n); NULL: any */
};

/* [any] The instance of index `index` < n; its UUID is written to `uuid`. All n are
 * resolved, so every rank reports the same error. False: `why` (of `size` bytes) says
 * in one line what was found and what to do. */
bool mig_choose(const struct mig_list *list, const struct mig_wants *wants,
                uint32_t index, char uuid[NVML_TEXT_BYTES], char *why, size_t size);

#endif
