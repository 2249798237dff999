/* SPDX-License-Identifier: Apache-2.0 */
/* The checks, a table for each group, and what several groups use to carry them out. */
#ifndef CADRE_CHECK_GROUPS_GROUPS_H
#define CADRE_CHECK_GROUPS_GROUPS_H

#include "core/check/kit/case.h"
#include "core/check/rehearsal/rehearsal.h"
#include "core/plugin/plugin.h"

#define CADRE_CHECK_GROUPS 10
extern const struct cadre_check_group cadre_check_load;
extern const struct cadre_check_group cadre_check_descriptor;
extern const struct cadre_check_group cadre_check_lifecycle;
extern const struct cadre_check_group cadre_check_threads;
extern const struct cadre_check_group cadre_check_contract;
extern const struct cadre_check_group cadre_check_equality;
extern const struct cadre_check_group cadre_check_stack;
extern const struct cadre_check_group cadre_check_state;
extern const struct cadre_check_group cadre_check_faults;
extern const struct cadre_check_group cadre_check_fuzz;

/* The file of a plugin, by path or by short name in the folders that are searched.
 * Errors: CADRE_E_INVALID. */
cadre_status cadre_check_find(const char *name, char *path, size_t bytes,
                              struct cadre_error *err);

/* The file of the plugin; false, with a verdict, where there is none. */
bool cadre_case_file(struct cadre_case *c, char *path, size_t bytes);

/* Load it as `cadre train` does; NULL, with a verdict, where it is refused. */
const struct cadre_plugin_handle *cadre_case_plugin(struct cadre_case *c);

/* The same for checks of what happens in a step: NULL, with the reason, for a plugin
 * that takes no part in one. */
const struct cadre_plugin_handle *cadre_case_stepping(struct cadre_case *c);

/* Carry out one rehearsal; false, with a verdict, where the kit could not. */
bool cadre_case_rehearse(struct cadre_case *c,
                         const struct cadre_rehearsal_setup *setup,
                         struct cadre_rehearsal_report *report);

/* One way to use the plugin: a number of ranks, exact mode, recompute, micro-batches,
 * an option that is not at its default, delays. */
#define CADRE_VARIANT_SETTINGS 8
struct cadre_variant {
    struct cadre_rehearsal_setup setup;
    char name[96]; /* "3 ranks, overlap=no" */
    char setting[CADRE_VARIANT_SETTINGS][64];
    const char *settings[CADRE_VARIANT_SETTINGS + 1];
};

/* The index-th variant, from 0; false after the last. `quick` has a few of them. The
 * variant must not move. */
bool cadre_variant_get(const struct cadre_plugin_handle *plugin, uint32_t index,
                       uint64_t seed, bool quick, struct cadre_variant *out);

/* A variant that the seed chooses, with several things changed at once. */
void cadre_variant_random(const struct cadre_plugin_handle *plugin, uint64_t seed,
                          struct cadre_variant *out);

/* Rehearse every variant, and fail where one breaks one of the rules (a set of 1 <<
 * CADRE_RULE_*). A variant that the plugin refuses is left out; where it refuses all,
 * that is the verdict. */
void cadre_case_hold(struct cadre_case *c, uint32_t rules);

#endif
