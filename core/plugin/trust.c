/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plugin/trust.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "core/base/log.h"

const char *cadre_trust_fault(const struct stat *st, const struct cadre_trusted *who)
{
    const bool sticky = S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX);
    if (st->st_uid != 0 && st->st_uid != who->user && st->st_uid != who->owner)
        return "belongs to another user (trusted are root, you, and the owner of the "
               "program): copy the plugin to a folder of your own";
    if ((st->st_mode & S_IWOTH) && !sticky)
        return "can be written by every user: chmod o-w";
    return "";
}

/* Of a file that its user's own group may write, nobody else may: user-private groups
 * have the number of their user. */
static bool is_of_a_group(const struct stat *st)
{
    return (st->st_mode & S_IWGRP) && st->st_gid != st->st_uid &&
           !(S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX));
}

static struct cadre_trusted trusted(void)
{
    struct stat program;
    struct cadre_trusted who = {geteuid(), geteuid()};
    if (stat("/proc/self/exe", &program) == 0)
        who.owner = program.st_uid;
    return who;
}

static void warn_once(const char *plugin, const char *part)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&warned))
        cadre_log(CADRE_LOG_WARN, "plugin",
                  "the plugin '%s' runs what the group of '%s' may write: chmod g-w, "
                  "if that is not meant",
                  plugin, part);
}

cadre_status cadre_trust_check(const char *path, struct cadre_error *err)
{
    const struct cadre_trusted who = trusted();
    char part[PATH_MAX];
    size_t length = strlen(path);
    if (*path != '/' || length >= sizeof part)
        return cadre_fail(err, CADRE_E_INVALID,
                          "the plugin '%s' is not named by an absolute path of less "
                          "than %zu bytes",
                          path, sizeof part);
    memcpy(part, path, length + 1);
    for (;;) {
        struct stat st;
        if (stat(part, &st))
            return cadre_fail_errno(err, CADRE_E_INVALID, errno,
                                    "cannot see who owns '%s', of the plugin '%s'",
                                    part, path);
        const char *fault = cadre_trust_fault(&st, &who);
        if (*fault)
            return cadre_fail(err, CADRE_E_INVALID,
                              "the plugin '%s' is not loaded: '%s' %s", path, part,
                              fault);
        if (is_of_a_group(&st))
            warn_once(path, part);
        if (strcmp(part, "/") == 0)
            return CADRE_OK;
        char *slash = strrchr(part, '/');
        slash[slash == part] = '\0';
    }
}
