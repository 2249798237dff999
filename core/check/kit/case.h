/* SPDX-License-Identifier: Apache-2.0 */
/* One check being carried out, in a process of its own, and its verdict. The verdict
 * goes to the kit through a file, which is opened when the check is over: a plugin that
 * closes descriptors, writes to stdout or never returns cannot change it. */
#ifndef CADRE_CHECK_KIT_CASE_H
#define CADRE_CHECK_KIT_CASE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/error.h"
#include "core/check/kit/check.h"

struct cadre_verdict {
    enum cadre_check_status status;
    char text[2048]; /* one or more lines, no final line break; may be empty */
};

struct cadre_case {
    const struct cadre_check *check;
    const char *plugin; /* short name or path, as the user gave it */
    const char *folder; /* of this case alone; exists, and is removed after it */
    const char *shared; /* of all cases of the kit */
    uint64_t seed;
    double fuzz_s; /* of Z1: seconds to try; 0: a few trials */
    bool quick;
    bool reproduce; /* of Z1: the one trial of `seed` */
    bool failing; /* a verdict of `fail` has been said */
    pid_t process; /* that carries it out; a process that it forked has no say */
    struct cadre_verdict verdict; /* CADRE_CHECK_PASS at the start */
};

/* Say what is wrong, or why nothing can be said. `fail` wins over the others, and
 * further failures become further lines; else the first one stands. One line each. */
void cadre_case_fail(struct cadre_case *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void cadre_case_warn(struct cadre_case *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void cadre_case_refused(struct cadre_case *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void cadre_case_unsupported(struct cadre_case *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void cadre_case_host_fault(struct cadre_case *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* A text beside a verdict of `pass`: figures worth showing. */
void cadre_case_note(struct cadre_case *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Carry it out and leave the verdict in FOLDER/verdict. Does not return to a process
 * that a plugin forked. Errors: CADRE_E_IO. */
cadre_status cadre_case_run(struct cadre_case *c, struct cadre_error *err);

/* The verdict that a case left in `folder`; false where there is none. */
bool cadre_verdict_read(const char *folder, struct cadre_verdict *out);

#endif
