/* SPDX-License-Identifier: Apache-2.0 */
/* A bump arena over one allocation: made once, filled and rewound every step, so that
 * the step itself allocates nothing. One thread at a time. */
#ifndef CADRE_BASE_ARENA_H
#define CADRE_BASE_ARENA_H

#include <stddef.h>

#include "core/base/error.h"

enum { CADRE_ARENA_ALIGN = 64 };

struct cadre_arena {
    unsigned char *base;
    size_t size_bytes;
    size_t used_bytes;
    size_t high_bytes; /* most ever used */
};

/* Bytes that an allocation of `bytes` takes: rounded up to CADRE_ARENA_ALIGN. Sum these
 * to size an arena. SIZE_MAX on overflow. */
size_t cadre_arena_need(size_t bytes);

/* Reserve `bytes` in huge pages where available, zeroed and touched by the calling
 * thread (so on its NUMA node, without page faults in a timed step). arena is
 * overwritten; on failure it is empty and fini is harmless. Errors:
 * CADRE_E_RESOURCE. */
cadre_status cadre_arena_init(struct cadre_arena *arena, size_t bytes,
                              struct cadre_error *err);

/* `bytes` bytes at a 64-byte boundary, or NULL where the arena is full. Not zeroed
 * after a release. Valid until a release below it or fini. */
void *cadre_arena_alloc(struct cadre_arena *arena, size_t bytes);

/* The current top, and release back to it: everything allocated since is freed. */
size_t cadre_arena_mark(const struct cadre_arena *arena);
void cadre_arena_release(struct cadre_arena *arena, size_t mark);
void cadre_arena_fini(struct cadre_arena *arena);

#endif
