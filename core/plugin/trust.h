/* SPDX-License-Identifier: Apache-2.0 */
/* Whose code may run in this process: a plugin is loaded only if nobody but this user,
 * root and the owner of the program could have put it where it lies. */
#ifndef CADRE_PLUGIN_TRUST_H
#define CADRE_PLUGIN_TRUST_H

#include <sys/stat.h>

#include "core/base/error.h"

/* Who may own a plugin and the folders above it. */
struct cadre_trusted {
    uid_t user; /* who runs the program */
    uid_t owner; /* of the program's file */
};

/* Why a file or folder that others can change would run their code; "" where it would
 * not: it is of root or of a trusted owner, and no other user may write to it. A folder
 * with the sticky bit, as /tmp, may be written by all. A static text. [any thread] */
const char *cadre_trust_fault(const struct stat *st, const struct cadre_trusted *who);

/* Check the file and each folder above it. `path` is absolute and without links
 * (realpath). Where a group may write that is not its user's own, the first such plugin
 * of the process is warned of. Errors: CADRE_E_INVALID naming the file or folder, what
 * is wrong with it and what to do. [any thread] */
cadre_status cadre_trust_check(const char *path, struct cadre_error *err);

#endif
