/* SPDX-License-Identifier: Apache-2.0 */
/* Failures that somebody accepts, with the reason: a file with "ID reason" a line. */
#ifndef CADRE_CHECK_WAIVERS_H
#define CADRE_CHECK_WAIVERS_H

#include "core/check/result.h"

struct cadre_waivers {
    size_t n;
    struct cadre_waiver {
        char id[16];
        char reason[240];
    } waiver[64];
};

/* Read the file; "#" begins a comment. Errors: CADRE_E_INVALID: it cannot be read, a
 * check that does not exist, no reason, too many; file and line named. */
cadre_status cadre_waivers_read(const char *path, struct cadre_waivers *out,
                                struct cadre_error *err);

/* A bad verdict of a waived check becomes "waived", with the reason before its text; to
 * another it is added that the waiver is not needed. */
void cadre_waivers_apply(const struct cadre_waivers *waivers,
                         struct cadre_check_result *result);

#endif
