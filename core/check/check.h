/* SPDX-License-Identifier: Apache-2.0 */
/* `cadre check PLUGIN`: the conformance kit. */
#ifndef CADRE_CHECK_CHECK_H
#define CADRE_CHECK_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

#define CADRE_CHECK_SEED 1u

/* All texts are borrowed; NULL: not given. */
struct cadre_check_request {
    const char *plugin; /* short name, or a path with '/' */
    const char *only; /* ids and groups, separated by commas */
    const char *seed, *fuzz, *reproduce; /* numbers and a time, as they were written */
    const char *waive; /* a file */
    const char *junit, *html, *json; /* files to write */
    bool quick;
    /* of a process of the kit itself: one check, and where its verdict goes */
    const char *one_case, *folder;
};

/* Carry out the checks: TAP on stdout, the files at the end. With one_case: that check
 * in this process. [main, before threads] Errors: CADRE_E_INVALID for a plugin, check,
 * number or waiver that does not exist; CADRE_E_DIFFERS a check failed; CADRE_E_ABORTED
 * none failed, and the kit could not carry out all; CADRE_E_STOPPED; CADRE_E_IO. */
cadre_status cadre_check(const struct cadre_check_request *request,
                         struct cadre_error *err);

#endif
