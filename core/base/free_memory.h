/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of this machine that a process can still have. */
#ifndef CADRE_BASE_FREE_MEMORY_H
#define CADRE_BASE_FREE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

struct cadre_free_memory {
    uint64_t bytes;
    const char *limit; /* what sets it: "free", "left of the cgroup's limit" */
    uint64_t process; /* what ulimit -v leaves to this process; UINT64_MAX: all */
};

#define CADRE_FREE_BY_PROCESS "left by ulimit -v"

/* What is available (MemAvailable of /proc/meminfo), or what the limits of this
 * process's cgroup and those above it leave, whichever is less: version 2's memory.max,
 * version 1's memory.limit_in_bytes. The page cache that a cgroup could give back
 * counts as free. A limit of the process (RLIMIT_AS) is told apart: of several
 * processes each has its own. `root` stands before every path, "" for the system's own.
 * False where the system says nothing. [any thread] */
bool cadre_free_memory_read(const char *root, struct cadre_free_memory *out);

#endif
