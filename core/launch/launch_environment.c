/* SPDX-License-Identifier: Apache-2.0 */
/* This process's rank, from its environment. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/comm/local/segment_private.h"
#include "core/launch/launcher.h"
#include "core/launch/launcher_table.h"
#include "core/launch/status_page.h"

/* Where the launcher watches, this thread works for the rank's slot from now on. The
 * mapping stays to the end of the process. */
static cadre_status enter_page(int rank, struct cadre_error *err)
{
    const char *place = getenv(CADRE_STATUS_VARIABLE);
    struct cadre_status_page page;
    int fd = -1;
    if (!place)
        return CADRE_OK;
    if (strncmp(place, "fd:", 3) != 0 ||
        !cadre_launcher_number(place + 3, 0, INT32_MAX, &fd))
        return cadre_fail(err, CADRE_E_INVALID,
                          CADRE_STATUS_VARIABLE
                          " is \"%s\"; expected fd:N, which a cadre launcher sets: "
                          "unset it to start a run",
                          place);
    CADRE_TRY(cadre_status_page_open(fd, &page, err));
    if ((uint32_t)rank >= page.n)
        return cadre_fail(err, CADRE_E_INVALID,
                          "rank %d has no place in the status page of %u ranks", rank,
                          page.n);
    cadre_status_use(&page.slot[rank]);
    cadre_status_begin(&page.slot[rank], rank);
    return CADRE_OK;
}

cadre_status cadre_launch_child(bool *is_child, int *rank, int *size, int *fd,
                                struct cadre_error *err)
{
    const char *init = getenv("CADRE_INIT");
    int r, n, d;
    *is_child = false;
    if (!init || strncmp(init, "fd:", 3) != 0)
        return CADRE_OK;
    if (!cadre_launcher_number(init + 3, 0, INT32_MAX, &d))
        return cadre_fail(err, CADRE_E_INVALID,
                          "CADRE_INIT is \"%s\"; expected fd:N, which a cadre launcher "
                          "sets: unset it to start a run",
                          init);
    if (!cadre_launcher_number(getenv("CADRE_WORLD_SIZE"), 1, LOCAL_MAX_RANKS, &n))
        return cadre_fail(
            err, CADRE_E_INVALID,
            "CADRE_WORLD_SIZE is not a number from 1 to %d, but CADRE_INIT "
            "is \"%s\": unset CADRE_INIT to start a run",
            LOCAL_MAX_RANKS, init);
    if (!cadre_launcher_number(getenv("CADRE_RANK"), 0, n - 1, &r))
        return cadre_fail(err, CADRE_E_INVALID,
                          "CADRE_RANK is not a number from 0 to %d, but CADRE_INIT is "
                          "\"%s\": unset CADRE_INIT to start a run",
                          n - 1, init);
    CADRE_TRY(enter_page(r, err));
    *is_child = true;
    *rank = r;
    *size = n;
    *fd = d;
    return CADRE_OK;
}

/* ---- ranks of one machine whose launcher gives no address ---- */

/* The parent of a process, 0 for none. */
static long parent_of(long pid)
{
    char path[64], line[512];
    long parent = 0;
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *f = fopen(path, "r");
    if (f && fgets(line, sizeof line, f)) {
        const char *end = strrchr(line, ')'); /* the name may have any character */
        if (end && strlen(end) > 4)
            parent = strtol(end + 4, NULL, 10); /* ") S 123": after the state */
    }
    if (f)
        fclose(f);
    return parent;
}

/* Is the variable in the environment that the process began with? */
static bool began_with(long pid, const char *name)
{
    char path[64];
    char *one = NULL;
    size_t room = 0, length = strlen(name);
    bool found = false;
    snprintf(path, sizeof path, "/proc/%ld/environ", pid);
    FILE *f = fopen(path, "r");
    while (f && !found && getdelim(&one, &room, '\0', f) > 0)
        found = strncmp(one, name, length) == 0 && one[length] == '=';
    free(one);
    if (f)
        fclose(f);
    return found;
}

/* The ranks of one machine descend from the launcher's daemon, with their own scripts
 * in between: find the nearest ancestor that is not a rank itself. Its process id
 * identifies the job. */
static void name_job(const char *variable, char *job, size_t size)
{
    long pid = (long)getpid();
    do
        pid = parent_of(pid);
    while (pid > 1 && began_with(pid, variable));
    snprintf(job, size, "by-%ld", pid);
}

static void name_place(struct cadre_launch_external *out)
{
    const char *dir = getenv("TMPDIR");
    char job[sizeof out->job];
    if (!dir || *dir != '/' || strlen(dir) > sizeof out->where / 2)
        dir = "/tmp";
    snprintf(job, sizeof job, "%s", out->job);
    for (char *c = job; *c; c++)
        if (*c == '/')
            *c = '-';
    snprintf(out->where, sizeof out->where, "file://%s/cadre-%ld-%s", dir,
             (long)getuid(), job);
}

cadre_status cadre_launch_external(struct cadre_launch_external *out,
                                   struct cadre_error *err)
{
    const struct cadre_launcher_env env = cadre_launcher_environment();
    cadre_status rc = cadre_launcher_find(&env, out, NULL, err);
    if (rc != CADRE_OK || !out->launcher || out->where[0] ||
        out->local_size != out->size)
        return rc;
    if (!out->job[0])
        name_job(cadre_launcher_variable(out->launcher), out->job, sizeof out->job);
    name_place(out);
    return rc;
}
