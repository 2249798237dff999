/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: a code and one line of text that says what, where, expected, found, what to
 * do.
 *
 * Set-up functions take a last `struct cadre_error *err` (may be NULL) and fill it
 * through cadre_fail. Step-time functions return the code only. A caller that adds
 * context uses cadre_error_prefix; cadre_fail replaces the text. */
#ifndef CADRE_BASE_ERROR_H
#define CADRE_BASE_ERROR_H

#include <stdarg.h>

#include <cadre/status.h>

struct cadre_error {
    cadre_status code;
    char text[1024]; /* one line, no final newline; empty while code is CADRE_OK */
    int errnum; /* of cadre_fail_errno, else 0 */
};

/* Store `code` and the formatted text in err (may be NULL) and return code. Line breaks
 * and control bytes in the text are shown as '?', so an error is always one line.
 * [any thread] */
cadre_status cadre_fail(struct cadre_error *err, cadre_status code, const char *fmt,
                        ...) __attribute__((format(printf, 3, 4)));

/* CADRE_E_RESOURCE with the text "no memory for " and a noun with its article. [any
 * thread] */
cadre_status cadre_no_memory(struct cadre_error *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* As cadre_fail, with strerror(errnum) appended after ": ". Where errnum is a failure
 * of the machine (no memory, no descriptor, a full or broken disk), CADRE_E_INVALID
 * becomes CADRE_E_RESOURCE or CADRE_E_IO: the input may be good. */
cadre_status cadre_fail_errno(struct cadre_error *err, cadre_status code, int errnum,
                              const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* For files that are input, before anything has begun: CADRE_E_IO becomes
 * CADRE_E_INVALID (there is no such file, it may not be read), unless the machine
 * failed, as above. Other codes stay. */
cadre_status cadre_error_of_input(cadre_status rc, const struct cadre_error *err);

/* What planning finds, before anything has begun, is wrong input: CADRE_E_INVALID,
 * whatever it was, but for lack of memory, which stays. */
cadre_status cadre_error_of_planning(cadre_status rc);

/* Put "prefix: " before the text already in err. Does nothing where err is NULL or OK.
 */
void cadre_error_prefix(struct cadre_error *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* A short name of a status code, "unknown status" for others. Static storage. */
const char *cadre_strerror(cadre_status code);

#endif
