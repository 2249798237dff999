/* SPDX-License-Identifier: Apache-2.0 */
/* SLURM's short forms: lists of hosts, as "node[001,007-015],x[1-2]-ib", and of tasks a
 * node, as "2(x3),1". Read in place; nothing is expanded. */
#ifndef CADRE_LAUNCH_NODELIST_H
#define CADRE_LAUNCH_NODELIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Number of hosts in the list, or -1 where it is invalid: an unknown form, an empty
 * name, a descending range, more than 2^31 hosts. [any thread] */
int64_t cadre_nodelist_count(const char *list);

/* Name of host i, from 0, in the list's order. False where there is none, or it does
 * not fit in `size` bytes. [any thread] */
bool cadre_nodelist_host(const char *list, int64_t i, char *name, size_t size);

/* Entry i of "2(x3),1": 2 for i from 0 to 2, 1 for 3. -1 where there is none. [any
 * thread] */
int cadre_nodelist_tasks(const char *text, int64_t i);

#endif
