/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the MIG instances found a rank gets. */
#ifndef CADRE_PLUGINS_MIG_CHOOSE_H
#define CADRE_PLUGINS_MIG_CHOOSE_H

#include <stddef.h>

#include "plugins/mig/instances.h"

/* What narrows the choice. Texts are never NULL. */
struct mig_wants {
    const char *profile; /* mig.profile: "1g", "1g.18gb", "": any */
    const char *instances; /* mig.instances: UUIDs or GPU:INDEX, "": the first found */
    const char *visible; /* CUDA_VISIBLE_DEVICES of this process, "": not set */
    bool given; /* whoever started this rank chose: one UUID in `visible` is it */
    bool share; /* instances may be given more than once */
    uint32_t n; /* instances wanted */
};

/* The instance of index `index` < n, whose UUID goes to `uuid`. All of the n are looked
 * for, so every rank finds the same fault. False: `why` (of `size` bytes) says in one
 * line what was found and what to do. [any] */
bool mig_choose(const struct mig_list *list, const struct mig_wants *wants,
                uint32_t index, char uuid[NVML_TEXT_BYTES], char *why, size_t size);

#endif
