/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of a comparison that differ in run.seed alone, taken together: mean of their
 * losses with its 95 % interval by Student's t distribution. [any thread] */
#ifndef CADRE_COMPARE_VERDICT_SEEDS_H
#define CADRE_COMPARE_VERDICT_SEEDS_H

#include "core/compare/verdict/comparison.h"

struct cadre_seed_group {
    char name[64]; /* of its first run, without the seed */
    size_t first; /* the first run */
    size_t runs; /* those that failed too */
    size_t n_last, n_valid; /* runs with such a loss */
    struct cadre_interval last,
        valid; /* of the last training loss and of the validation
                                          loss, nats; ends are NaN for fewer than two */
};

struct cadre_seeds {
    struct cadre_seed_group *group; /* owned; in the order of their first runs */
    size_t n;
    ptrdiff_t best; /* run with the lowest validation loss of those with the baseline's
                       options of [data]; -1: none has one */
    bool failed; /* no memory */
};

/* Do both have the same options but run.seed, which differs? */
bool cadre_seeds_differ(const struct cadre_compared_run *a,
                        const struct cadre_compared_run *b);

/* Is the run another training than the baseline's by its seed alone? */
bool cadre_seeds_only(const struct cadre_compared_run *run);

/* Index of the run that run i must train the same as: the baseline, or where i has
 * another seed alone the run with the baseline's options and that seed, which may be i
 * itself. Without such a run the baseline: then i is compared with nothing. */
size_t cadre_seeds_baseline(const struct cadre_comparison *comparison, size_t i);

/* Is it a comparison over settings or seeds: does compare.vary make its runs, or does a
 * run differ from another one in run.seed alone? */
bool cadre_seeds_wanted(const struct cadre_comparison *comparison);

/* Every run is in one group. *seeds is ended by fini. */
void cadre_seeds_fill(struct cadre_seeds *seeds,
                      const struct cadre_comparison *comparison);
void cadre_seeds_fini(struct cadre_seeds *seeds);

#endif
