/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/cgroup.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { LINE_BYTES = 4096, PATH_BYTES = 3 * LINE_BYTES };

/* "N:controllers:/group"; version 2 has no controllers. False for another line. */
static bool split(char *line, char **controllers, char **group)
{
    line[strcspn(line, "\n")] = '\0';
    *controllers = strchr(line, ':');
    *group = *controllers ? strchr(++*controllers, ':') : NULL;
    if (!*group)
        return false;
    *(*group)++ = '\0';
    return true;
}

/* Is `name` in the list a,b,c? */
static bool listed(const char *list, const char *name)
{
    const size_t len = strlen(name);
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, len) == 0 && (at[len] == ',' || !at[len]))
            return true;
    }
    return false;
}

void cadre_cgroup_walk(const char *root, const char *controller,
                       cadre_cgroup_visit *visit, void *context)
{
    char line[LINE_BYTES], folder[PATH_BYTES], *controllers, *group;
    snprintf(folder, sizeof folder, "%s/proc/self/cgroup", root);
    FILE *file = fopen(folder, "re");
    while (file && fgets(line, sizeof line, file)) {
        if (!split(line, &controllers, &group))
            continue;
        const bool v2 = !*controllers;
        if (!v2 && !listed(controllers, controller))
            continue;
        const int mount = snprintf(folder, sizeof folder, "%s/sys/fs/cgroup%s%s", root,
                                   v2 ? "" : "/", controllers);
        if (mount < 0 || (size_t)mount + strlen(group) >= sizeof folder)
            continue;
        memcpy(folder + mount, group, strlen(group) + 1);
        if (strcmp(group, "/") == 0) /* the mount itself */
            folder[mount] = '\0';
        for (char *slash = folder + mount; slash;) {
            visit(folder, v2 ? 2 : 1, context);
            slash = strrchr(folder + mount, '/');
            if (slash)
                *slash = '\0';
        }
    }
    if (file)
        fclose(file);
}
