/* SPDX-License-Identifier: Apache-2.0 */
/* The search: instances of one profile after another, those that take most memory
 * slices first, each at the next place that is free, back where there is none. */
#include "plugins/mig/layout.h"

#include <stdio.h>
#include <string.h>

static uint32_t size_of(const struct mig_profile *p)
{
    uint32_t least = p->n_places ? p->place[0].size : 0;
    for (uint32_t i = 1; i < p->n_places; i++)
        least = p->place[i].size < least ? p->place[i].size : least;
    return least;
}

static uint32_t existing(const struct mig_gpu *gpu, uint32_t profile)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < gpu->n_taken; i++)
        n += gpu->taken[i].profile == profile;
    return n;
}

static uint32_t slices_in_use(const struct mig_gpu *gpu)
{
    uint32_t slices = 0;
    for (uint32_t i = 0; i < gpu->n_taken; i++)
        slices += gpu->profile[gpu->taken[i].profile].slices;
    return slices;
}

static uint32_t slices_of(const struct mig_gpu *gpu, const struct mig_wanted *wanted)
{
    uint32_t slices = 0;
    for (uint32_t i = 0; i < gpu->n_profiles; i++)
        slices += wanted->count[i] * gpu->profile[i].slices;
    return slices;
}

static uint32_t instances_of(const struct mig_gpu *gpu, const struct mig_wanted *wanted)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < gpu->n_profiles; i++)
        n += wanted->count[i];
    return n;
}

/* Limits that hold for every arrangement. */
static bool within_limits(const struct mig_gpu *gpu, const struct mig_wanted *wanted)
{
    for (uint32_t i = 0; i < gpu->n_profiles; i++)
        if (wanted->count[i] &&
            wanted->count[i] + existing(gpu, i) > gpu->profile[i].instances)
            return false;
    return slices_of(gpu, wanted) + slices_in_use(gpu) <= gpu->slices &&
           instances_of(gpu, wanted) <= MIG_MAX_SLICES;
}

/* All instances, those of larger profiles first; they are few, as all are within the
 * limits. */
static void list_items(const struct mig_gpu *gpu, const struct mig_wanted *wanted,
                       struct mig_layout *out)
{
    out->n = 0;
    for (uint32_t size = MIG_MAX_SLICES + 1; size--;)
        for (uint32_t i = 0; i < gpu->n_profiles; i++)
            for (uint32_t k = 0; size_of(&gpu->profile[i]) == size &&
                                 k < wanted->count[i] && out->n < MIG_MAX_SLICES;
                 k++)
                out->item[out->n++].profile = i;
}

bool mig_layout_fit(const struct mig_gpu *gpu, const struct mig_wanted *wanted,
                    struct mig_layout *out)
{
    uint32_t next[MIG_MAX_SLICES + 1] = {0}; /* places that are left, from the top */
    uint64_t taken = mig_gpu_taken(gpu);
    uint32_t k = 0;
    out->n = 0;
    if (!within_limits(gpu, wanted))
        return false;
    list_items(gpu, wanted, out);
    if (out->n)
        next[0] = gpu->profile[out->item[0].profile].n_places;
    while (k < out->n) {
        struct mig_placed *item = &out->item[k];
        const struct mig_profile *p = &gpu->profile[item->profile];
        while (next[k] && taken & mig_span_bits(p->place[next[k] - 1]))
            next[k]--;
        if (!next[k]) {
            if (k == 0) {
                out->n = 0;
                return false;
            }
            taken &= ~mig_span_bits(out->item[--k].at);
            continue;
        }
        item->at = p->place[--next[k]];
        taken |= mig_span_bits(item->at);
        k++;
        if (k < out->n) /* equal instances: only below the one before */
            next[k] = out->item[k].profile == item->profile
                          ? next[k - 1]
                          : gpu->profile[out->item[k].profile].n_places;
    }
    return true;
}

/* Step to the next smaller choice of at most `most`; false after the last one. */
static bool next_choice(const struct mig_gpu *gpu, const struct mig_wanted *most,
                        struct mig_wanted *choice)
{
    for (uint32_t i = 0; i < gpu->n_profiles; i++) {
        if (choice->count[i]) {
            choice->count[i]--;
            return true;
        }
        choice->count[i] = most->count[i];
    }
    return false;
}

static void find_largest_part(const struct mig_gpu *gpu,
                              const struct mig_wanted *wanted, struct mig_wanted *best)
{
    struct mig_wanted most = *wanted, choice;
    struct mig_layout layout;
    uint32_t slices = 0, instances = 0;
    memset(best, 0, sizeof *best);
    for (uint32_t i = 0; i < gpu->n_profiles; i++)
        if (most.count[i] > gpu->profile[i].instances)
            most.count[i] = gpu->profile[i].instances;
    choice = most;
    do {
        uint32_t s = slices_of(gpu, &choice), n = instances_of(gpu, &choice);
        if ((s > slices || (s == slices && n > instances)) &&
            mig_layout_fit(gpu, &choice, &layout)) {
            *best = choice;
            slices = s;
            instances = n;
        }
    } while (next_choice(gpu, &most, &choice));
}

/* Replace one of `profile` by the largest smaller plain profile for which there is
 * room. */
static void add_smaller(const struct mig_gpu *gpu, uint32_t profile,
                        struct mig_wanted *nearest)
{
    const struct mig_profile *limit = &gpu->profile[profile];
    struct mig_layout layout;
    int best = -1;
    for (uint32_t i = 0; i < gpu->n_profiles; i++) {
        const struct mig_profile *p = &gpu->profile[i];
        if (p->slices > limit->slices || p->memory > limit->memory ||
            strpbrk(p->name, "+-") ||
            (best >= 0 && (p->slices < gpu->profile[best].slices ||
                           (p->slices == gpu->profile[best].slices &&
                            p->memory <= gpu->profile[best].memory))))
            continue;
        nearest->count[i]++;
        if (mig_layout_fit(gpu, nearest, &layout))
            best = (int)i;
        nearest->count[i]--;
    }
    if (best >= 0)
        nearest->count[best]++;
}

static void find_nearest(const struct mig_gpu *gpu, const struct mig_wanted *wanted,
                         struct mig_wanted *out)
{
    find_largest_part(gpu, wanted, out);
    struct mig_wanted part = *out;
    for (uint32_t size = MIG_MAX_SLICES + 1; size--;)
        for (uint32_t i = 0; i < gpu->n_profiles; i++)
            for (uint32_t k = part.count[i];
                 size_of(&gpu->profile[i]) == size && k < wanted->count[i] &&
                 k - part.count[i] < MIG_MAX_SLICES;
                 k++)
                add_smaller(gpu, i, out);
}

static uint32_t free_slices(const struct mig_gpu *gpu)
{
    uint64_t taken = mig_gpu_taken(gpu);
    uint32_t n = 0;
    for (uint32_t i = 0; i < gpu->end; i++)
        n += !(taken >> i & 1);
    return n;
}

/* Where a profile may begin, and which of these places are taken already. */
static void say_places(const struct mig_gpu *gpu, uint32_t profile, char *why,
                       size_t bytes)
{
    const struct mig_profile *p = &gpu->profile[profile];
    uint64_t taken = mig_gpu_taken(gpu);
    size_t n = (size_t)snprintf(
        why, bytes, "%s takes %u memory slices and can begin at", p->name, size_of(p));
    for (uint32_t i = 0; i < p->n_places && n < bytes; i++)
        n += (size_t)snprintf(why + n, bytes - n, "%s %u%s", i ? "," : "",
                              p->place[i].start,
                              taken & mig_span_bits(p->place[i]) ? " (taken)" : "");
    if (n < bytes)
        snprintf(why + n, bytes - n, " only: no arrangement leaves room for it");
}

static void say_why(const struct mig_gpu *gpu, const struct mig_wanted *wanted,
                    const struct mig_wanted *part, char *why, size_t bytes)
{
    uint32_t need = 0, slices = slices_of(gpu, wanted), used = slices_in_use(gpu);
    for (uint32_t i = 0; i < gpu->n_profiles; i++) {
        const struct mig_profile *p = &gpu->profile[i];
        uint32_t there = existing(gpu, i);
        need += wanted->count[i] * size_of(p);
        if (wanted->count[i] && wanted->count[i] + there > p->instances) {
            snprintf(why, bytes,
                     "a GPU holds at most %u of %s, %u are wanted and %u exist",
                     p->instances, p->name, wanted->count[i], there);
            return;
        }
    }
    if (slices + used > gpu->slices) {
        snprintf(why, bytes, "%u compute slices are wanted, %u of %u are free", slices,
                 gpu->slices > used ? gpu->slices - used : 0, gpu->slices);
        return;
    }
    if (need > free_slices(gpu)) {
        snprintf(why, bytes, "%u memory slices are wanted, %u of %u are free", need,
                 free_slices(gpu), gpu->end);
        return;
    }
    snprintf(why, bytes, "no arrangement of them is possible");
    for (uint32_t i = gpu->n_profiles; i--;)
        if (part->count[i] < wanted->count[i]) {
            say_places(gpu, i, why, bytes);
            return;
        }
}

void mig_layout_explain(const struct mig_gpu *gpu, const struct mig_wanted *wanted,
                        struct mig_wanted *nearest, char *why, size_t bytes)
{
    struct mig_wanted part;
    find_largest_part(gpu, wanted, &part);
    say_why(gpu, wanted, &part, why, bytes);
    find_nearest(gpu, wanted, nearest);
}
