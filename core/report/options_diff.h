/* SPDX-License-Identifier: Apache-2.0 */
/* What differs in the options of several runs, as their config.ini says. [any thread]
 */
#ifndef CADRE_REPORT_OPTIONS_DIFF_H
#define CADRE_REPORT_OPTIONS_DIFF_H

#include "core/base/memory.h"
#include "core/report/run_data.h"

struct cadre_options_diff {
    char **key; /* "section.key"; owned, in the order of the files */
    size_t n;
    bool failed; /* no memory */
};

/* The keys whose values are not the same in all of the n runs; one that a run's file
 * does not have differs. Left out are run.name and run.out, which are of the run
 * itself, [compare], and [run:NAME]. *diff is ended by fini. */
void cadre_options_diff_fill(struct cadre_options_diff *diff,
                             const struct cadre_run_data *const *run, size_t n);
void cadre_options_diff_fini(struct cadre_options_diff *diff);

/* Are both the same training on the same data with the same seed? `why` gets the keys
 * that make it another one, "" for none. Data are the same where the fingerprints of
 * both are, whatever their paths; without them, where the paths are. A run without
 * config.ini is not known to be the same. */
bool cadre_options_diff_same_training(const struct cadre_run_data *a,
                                      const struct cadre_run_data *b, char *why,
                                      size_t size);

#endif
