/* SPDX-License-Identifier: Apache-2.0 */
/* The control groups of this process (cgroups(7)), whose limits count for it: those of
 * its own group and of all above. */
#ifndef CADRE_BASE_CGROUP_H
#define CADRE_BASE_CGROUP_H

/* A group's folder; version 1 or 2 of cgroups, whose files have other names. */
typedef void cadre_cgroup_visit(const char *folder, int version, void *context);

/* Visits the group of this process that `controller` ("cpu", "memory") has, or the one
 * of all controllers (version 2), then those above it up to the mount, as
 * /proc/self/cgroup lists them. In a container the names are the host's, and only the
 * mount is there to be read: folders need not exist. `root` stands before every path,
 * "" for the system's own. [any thread] */
void cadre_cgroup_walk(const char *root, const char *controller,
                       cadre_cgroup_visit *visit, void *context);

#endif
