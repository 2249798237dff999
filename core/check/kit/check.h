/* SPDX-License-Identifier: Apache-2.0 */
/* One check of the conformance kit: what it is called, why it exists, and the function
 * that carries it out in a process of its own. */
#ifndef CADRE_CHECK_KIT_CHECK_H
#define CADRE_CHECK_KIT_CHECK_H

#include <stdbool.h>
#include <stddef.h>

struct cadre_case;

enum cadre_check_status {
    CADRE_CHECK_PASS,
    CADRE_CHECK_WARNING, /* nothing is wrong, something is worth knowing */
    CADRE_CHECK_REFUSED, /* the plugin said in one line that it does not do this */
    CADRE_CHECK_UNSUPPORTED, /* could not be asked here; the text says why */
    CADRE_CHECK_WAIVED, /* failed, and a waiver says why that is accepted */
    CADRE_CHECK_FAIL,
    CADRE_CHECK_CRASH, /* the process of the check died, or was ended by the plugin */
    CADRE_CHECK_TIMEOUT, /* it did not end within its limit */
    CADRE_CHECK_HOST_FAULT, /* the kit itself could not do its work */
    CADRE_CHECK_STATUSES,
};

/* What a plugin is worth, from below to above. It has reached the highest one at which
 * every check passes, at which every check of the levels below passes too. */
enum cadre_check_level {
    CADRE_LEVEL_LOADABLE,
    CADRE_LEVEL_CORRECT,
    CADRE_LEVEL_EXACT,
    CADRE_LEVEL_STACKABLE,
    CADRE_LEVEL_RESUMABLE,
    CADRE_LEVEL_FAULT_TOLERANT,
    CADRE_CHECK_LEVELS,
};

struct cadre_check {
    const char *id; /* "K2"; stable: never used for another check */
    const char *group; /* "contract" */
    const char *title; /* what holds where it passes, one line */
    const char *why; /* one or two sentences */
    const char *see; /* the document's file and section */
    enum cadre_check_level level;
    const char *needs; /* the check without which this one cannot be asked, or NULL */
    double limit_s; /* of wall time; 0: CADRE_CHECK_LIMIT_S */
    bool slow; /* left out by --quick */
    bool asked_only; /* carried out where --only names it, --fuzz for Z1 */
    void (*run)(struct cadre_case *);
};

#define CADRE_CHECK_LIMIT_S 30.0

/* A group in the order in which its checks are carried out. */
struct cadre_check_group {
    const char *name;
    const struct cadre_check *check;
    size_t n;
};

/* "pass", "host fault", ... and "loadable", "fault-tolerant", ... Static storage. */
const char *cadre_check_status_name(enum cadre_check_status status);
const char *cadre_check_level_name(enum cadre_check_level level);

/* Does a status keep the plugin from reaching the check's level? */
bool cadre_check_status_is_bad(enum cadre_check_status status);

#endif
