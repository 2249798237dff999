/* SPDX-License-Identifier: Apache-2.0 */
/* Error records of fixed size: filling one never allocates and never fails. */
#include "core/base/error.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static void make_one_line(char *text)
{
    for (unsigned char *p = (unsigned char *)text; *p; p++)
        if (*p < 0x20 || *p == 0x7f)
            *p = '?';
}

static void __attribute__((format(printf, 3, 0)))
store(struct cadre_error *err, cadre_status code, const char *fmt, va_list ap)
{
    if (!err)
        return;
    err->code = code;
    err->errnum = 0;
    vsnprintf(err->text, sizeof err->text, fmt, ap);
    make_one_line(err->text);
}

cadre_status cadre_fail(struct cadre_error *err, cadre_status code, const char *fmt,
                        ...)
{
    va_list ap;
    va_start(ap, fmt);
    store(err, code, fmt, ap);
    va_end(ap);
    return code;
}

cadre_status cadre_no_memory(struct cadre_error *err, const char *fmt, ...)
{
    char what[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return cadre_fail(err, CADRE_E_RESOURCE, "no memory for %s", what);
}

/* Not a fault of a path or of what is in a file. */
static cadre_status of_the_machine(int errnum)
{
    switch (errnum) {
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case EAGAIN:
    case ENOSPC:
    case EDQUOT:
        return CADRE_E_RESOURCE;
    case EIO:
    case EINTR:
        return CADRE_E_IO;
    default:
        return CADRE_OK;
    }
}

cadre_status cadre_error_of_input(cadre_status rc, const struct cadre_error *err)
{
    if (rc != CADRE_E_IO || (err && of_the_machine(err->errnum) != CADRE_OK))
        return rc;
    return CADRE_E_INVALID;
}

cadre_status cadre_error_of_planning(cadre_status rc)
{
    return rc == CADRE_OK || rc == CADRE_E_RESOURCE ? rc : CADRE_E_INVALID;
}

cadre_status cadre_fail_errno(struct cadre_error *err, cadre_status code, int errnum,
                              const char *fmt, ...)
{
    va_list ap;
    if (code == CADRE_E_INVALID && of_the_machine(errnum) != CADRE_OK)
        code = of_the_machine(errnum);
    va_start(ap, fmt);
    store(err, code, fmt, ap);
    va_end(ap);
    if (err) {
        char reason[128];
        err->errnum = errnum;
        /* XSI strerror_r is hidden by _GNU_SOURCE; the GNU one returns the text. */
        const char *text = strerror_r(errnum, reason, sizeof reason);
        size_t used = strlen(err->text);
        snprintf(err->text + used, sizeof err->text - used, ": %s", text);
    }
    return code;
}

void cadre_error_prefix(struct cadre_error *err, const char *fmt, ...)
{
    char old[sizeof err->text];
    va_list ap;
    if (!err || err->code == CADRE_OK)
        return;
    memcpy(old, err->text, sizeof old);
    va_start(ap, fmt);
    vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    size_t used = strlen(err->text);
    snprintf(err->text + used, sizeof err->text - used, ": %s", old);
    make_one_line(err->text);
}

const char *cadre_strerror(cadre_status code)
{
    switch (code) {
    case CADRE_OK:
        return "ok";
    case CADRE_E_INVALID:
        return "invalid input";
    case CADRE_E_UNSUPPORTED:
        return "not supported";
    case CADRE_E_RESOURCE:
        return "out of a resource";
    case CADRE_E_DEVICE:
        return "device failure";
    case CADRE_E_COMM:
        return "communication failure";
    case CADRE_E_ABORTED:
        return "aborted by another rank";
    case CADRE_E_INTERNAL:
        return "internal error";
    case CADRE_E_IO:
        return "input/output error";
    case CADRE_E_NUMERIC:
        return "value is not finite";
    case CADRE_E_DIFFERS:
        return "comparison differs";
    case CADRE_E_STOPPED:
        return "stopped by a signal";
    default:
        return "unknown status";
    }
}
