/* SPDX-License-Identifier: Apache-2.0 */
/* The instances wanted on a GPU, and how they fit into the places NVML reports: no two
 * instances share a memory slice, compute slices are not used twice, and no profile
 * occurs more often than it may. */
#ifndef MIG_LAYOUT_H
#define MIG_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plugins/mig/gpu.h"

/* Wanted number of instances of each profile of a GPU. */
struct mig_wanted {
    uint32_t count[MIG_MAX_PROFILES];
};

/* Read "1g x2 + 2g + 3g": names of profiles, whole ("1g.18gb+me") or as number of
 * compute slices ("1g", "1g+me": the one with the least memory), each with a count
 * before or after an x, with + or a comma between. false: *why (of `bytes`) says in one
 * line what is wrong. */
bool mig_wanted_read(const struct mig_gpu *gpu, const char *text,
                     struct mig_wanted *out, char *why, size_t bytes);

/* "3g.71gb + 1g.18gb x2" into out, "nothing" where it is empty; returns out. */
const char *mig_wanted_text(const struct mig_gpu *gpu, const struct mig_wanted *wanted,
                            char *out, size_t bytes);

struct mig_placed {
    uint32_t profile;
    struct mig_span at;
};

struct mig_layout {
    uint32_t n;
    struct mig_placed item[MIG_MAX_SLICES];
};

/* Find places for all that is wanted in addition to what is taken. Small instances get
 * the highest places, since large ones fit only at low places. The result depends on
 * the arguments alone. false: there is none, and *out is empty. */
bool mig_layout_fit(const struct mig_gpu *gpu, const struct mig_wanted *wanted,
                    struct mig_layout *out);

/* For instances that do not fit: the reason in one line, and the nearest that does: as
 * many as fit, by compute slices and then by instances, and for each instance left out
 * the largest smaller one for which there is room. */
void mig_layout_explain(const struct mig_gpu *gpu, const struct mig_wanted *wanted,
                        struct mig_wanted *nearest, char *why, size_t bytes);

#endif
