/* SPDX-License-Identifier: Apache-2.0 */
/* The verdicts of all checks, and what they come to. */
#ifndef CADRE_CHECK_RESULT_H
#define CADRE_CHECK_RESULT_H

#include "core/check/kit/case.h"

struct cadre_check_result {
    const struct cadre_check *check;
    bool chosen;
    bool done;
    struct cadre_verdict verdict;
    double wall_s, cpu_s;
};

struct cadre_check_results {
    const char *plugin; /* as the user named it; borrowed */
    char digest[17]; /* of its file, as `cadre plugins` has it; "": cannot be read */
    uint64_t seed;
    bool quick;
    size_t n; /* of the whole catalogue */
    struct cadre_check_result *result; /* owned */
};

/* One for each check of the catalogue, none chosen. Ended by fini, also on failure.
 * Errors: CADRE_E_RESOURCE. */
cadre_status cadre_check_results_init(struct cadre_check_results *results,
                                      const char *plugin, uint64_t seed,
                                      struct cadre_error *err);
void cadre_check_results_fini(struct cadre_check_results *results);

size_t cadre_check_results_chosen(const struct cadre_check_results *results);
size_t cadre_check_results_count(const struct cadre_check_results *results,
                                 enum cadre_check_status status);
/* Of a status that is bad. */
size_t cadre_check_results_bad(const struct cadre_check_results *results);

/* The level that the plugin has reached: all checks of it and of those below were
 * carried out, none is bad, and at each level one has passed. "none" where it has
 * reached none. */
const char *cadre_check_results_level(const struct cadre_check_results *results);

/* "48 pass, 2 unsupported, 0 fail: conforms to cadre.strategy/0.10 level stackable". */
void cadre_check_results_summary(const struct cadre_check_results *results, char *out,
                                 size_t bytes);

/* The command that repeats a check by itself. */
void cadre_check_results_reproduce(const struct cadre_check_results *results,
                                   const struct cadre_check *check, char *out,
                                   size_t bytes);

#endif
