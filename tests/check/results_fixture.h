/* SPDX-License-Identifier: Apache-2.0 */
/* Results without a plugin: verdicts as a test says them. */
#ifndef CADRE_TESTS_RESULTS_FIXTURE_H
#define CADRE_TESTS_RESULTS_FIXTURE_H

#include "core/check/result.h"

/* None chosen. Ended by cadre_check_results_fini. */
void results_of(struct cadre_check_results *out, const char *plugin);

/* The check is chosen and done, with this verdict. */
struct cadre_check_result *results_say(struct cadre_check_results *results,
                                       const char *id, enum cadre_check_status status,
                                       const char *text);

/* All checks of the levels up to this one have passed. */
void results_pass(struct cadre_check_results *results, enum cadre_check_level level);

/* Ids of every status in turn, from "L1" on, with texts that no format takes as they
 * are: markup, quotes, line breaks, "#", control bytes, bytes that are no UTF-8. */
void results_awkward(struct cadre_check_results *results);

#endif
