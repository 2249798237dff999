/* SPDX-License-Identifier: Apache-2.0 */
/* From options to the runs of a comparison. All user errors are found here, before
 * anything trains. */
#ifndef CADRE_COMPARE_ARRANGE_H
#define CADRE_COMPARE_ARRANGE_H

#include "core/compare/timetable.h"
#include "core/compare/verdict/comparison.h"
#include "core/config/options.h"

struct cadre_arrange_request {
    const struct cadre_options *options; /* loaded, not resolved; borrowed */
    const char *conf; /* their file */
    char *const *sets; /* "s.k=v", NULL-terminated: they win over a run's section */
    const char *out; /* folder of the comparison */
    const char *command; /* how it was called, for a shell; NULL: not known */
};

/* Arguments of the children besides the user's own. */
struct cadre_arrangement {
    int threads; /* device.threads, cores divided evenly; 0: each run's own option */
    bool resume; /* finished runs are kept */
    struct cadre_timetable timetable; /* of the rounds */
};

/* Fill the fields of `comparison` that come from options. It is passed zeroed and ended
 * by cadre_comparison_fini, also on failure. Opens the data (and so fills its cache)
 * and plans every run. [main] Errors: CADRE_E_INVALID and those of cadre_spec_create;
 * the text names the run. */
cadre_status cadre_arrange(const struct cadre_arrange_request *request,
                           struct cadre_comparison *comparison,
                           struct cadre_arrangement *arrangement,
                           struct cadre_error *err);

/* Describe the layout of `run` in words; replaces its `layout`. Errors:
 * CADRE_E_RESOURCE. */
cadre_status cadre_arrange_describe(struct cadre_compared_run *run,
                                    struct cadre_error *err);

/* OUT/runs/NAME, of a training that task.h names. The caller frees it; NULL: no memory.
 */
char *cadre_arrange_folder(const char *out, const char *name);

/* The micro-batch of the first perturbation: another one that divides the global batch,
 * smaller if possible, since that takes no more memory; 0 where there is none. */
int64_t cadre_arrange_perturbation(int64_t global_batch, int64_t micro_batch);

#endif
