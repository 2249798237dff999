/* SPDX-License-Identifier: Apache-2.0 */
#include "core/check/kit/case.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/memory.h"
#include "core/base/path.h"

#define VERDICT_FILE "verdict"

/* Line breaks inside of a text would look like further lines. */
__attribute__((format(printf, 2, 0))) static void
add_line(struct cadre_verdict *verdict, const char *fmt, va_list ap)
{
    size_t used = strlen(verdict->text), room = sizeof verdict->text - used;
    if (used && room > 1) {
        verdict->text[used++] = '\n';
        verdict->text[used] = 0;
        room--;
    }
    vsnprintf(verdict->text + used, room, fmt, ap);
    for (char *at = verdict->text + used; *at; at++)
        if ((unsigned char)*at < ' ')
            *at = ' ';
}

void cadre_case_fail(struct cadre_case *c, const char *fmt, ...)
{
    va_list ap;
    if (!c->failing)
        c->verdict.text[0] = 0;
    c->failing = true;
    c->verdict.status = CADRE_CHECK_FAIL;
    va_start(ap, fmt);
    add_line(&c->verdict, fmt, ap);
    va_end(ap);
}

__attribute__((format(printf, 3, 0))) static void
say(struct cadre_case *c, enum cadre_check_status status, const char *fmt, va_list ap)
{
    if (c->verdict.status != CADRE_CHECK_PASS)
        return;
    c->verdict = (struct cadre_verdict){.status = status};
    add_line(&c->verdict, fmt, ap);
}

void cadre_case_warn(struct cadre_case *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(c, CADRE_CHECK_WARNING, fmt, ap);
    va_end(ap);
}

void cadre_case_refused(struct cadre_case *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(c, CADRE_CHECK_REFUSED, fmt, ap);
    va_end(ap);
}

void cadre_case_unsupported(struct cadre_case *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(c, CADRE_CHECK_UNSUPPORTED, fmt, ap);
    va_end(ap);
}

void cadre_case_host_fault(struct cadre_case *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(c, CADRE_CHECK_HOST_FAULT, fmt, ap);
    va_end(ap);
}

void cadre_case_note(struct cadre_case *c, const char *fmt, ...)
{
    va_list ap;
    if (c->verdict.status != CADRE_CHECK_PASS)
        return;
    va_start(ap, fmt);
    add_line(&c->verdict, fmt, ap);
    va_end(ap);
}

/* Written aside and renamed: a check that is killed while it writes has left nothing.
 */
static cadre_status write_verdict(const struct cadre_case *c, struct cadre_error *err)
{
    char *path = cadre_path_join(c->folder, VERDICT_FILE);
    char *aside = path ? cadre_format("%s.new", path) : NULL;
    cadre_status rc = CADRE_OK;
    FILE *file = aside ? fopen(aside, "we") : NULL;
    if (!file)
        rc = cadre_fail_errno(err, CADRE_E_IO, errno, "cannot write the verdict of %s",
                              c->check->id);
    if (file) {
        fprintf(file, "%d\n%s", (int)c->verdict.status, c->verdict.text);
        bool bad = ferror(file) != 0;
        if (fclose(file) != 0 || bad || rename(aside, path) != 0)
            rc = cadre_fail_errno(err, CADRE_E_IO, errno,
                                  "cannot write the verdict of %s", c->check->id);
    }
    free(aside);
    free(path);
    return rc;
}

cadre_status cadre_case_run(struct cadre_case *c, struct cadre_error *err)
{
    c->process = getpid();
    c->failing = false;
    c->verdict = (struct cadre_verdict){.status = CADRE_CHECK_PASS};
    c->check->run(c);
    if (getpid() != c->process)
        _exit(0);
    return write_verdict(c, err);
}

bool cadre_verdict_read(const char *folder, struct cadre_verdict *out)
{
    char *path = cadre_path_join(folder, VERDICT_FILE), *data = NULL, *end = NULL;
    size_t bytes = 0;
    bool there = path && cadre_path_exists(path) &&
                 cadre_path_read_file(path, 1 << 16, &data, &bytes, NULL) == CADRE_OK;
    long status = there ? strtol(data, &end, 10) : -1;
    there = there && end != data && *end == '\n' && status >= 0 &&
            status < CADRE_CHECK_STATUSES;
    if (there) {
        out->status = (enum cadre_check_status)status;
        snprintf(out->text, sizeof out->text, "%s", end + 1);
    }
    free(data);
    free(path);
    return there;
}
