/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/arena.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const size_t HUGE_PAGE_BYTES = (size_t)2 << 20;

size_t cadre_arena_need(size_t bytes)
{
    const size_t align = CADRE_ARENA_ALIGN;
    return bytes > SIZE_MAX - align ? SIZE_MAX : (bytes + align - 1) / align * align;
}

cadre_status cadre_arena_init(struct cadre_arena *arena, size_t bytes,
                              struct cadre_error *err)
{
    size_t align = bytes >= HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : CADRE_ARENA_ALIGN;
    void *base = NULL;
    memset(arena, 0, sizeof *arena);
    size_t size = cadre_arena_need(bytes > 0 ? bytes : 1);
    if (size == SIZE_MAX || posix_memalign(&base, align, size) != 0)
        return cadre_fail(err, CADRE_E_RESOURCE,
                          "cannot reserve %zu bytes of memory: use a smaller model, "
                          "micro-batch or context",
                          bytes);
    /* Advice only: without huge pages the arena is slower, not wrong. */
    if (align == HUGE_PAGE_BYTES)
        (void)madvise(base, size, MADV_HUGEPAGE);
    memset(base, 0, size);
    arena->base = base;
    arena->size_bytes = size;
    return CADRE_OK;
}

void *cadre_arena_alloc(struct cadre_arena *arena, size_t bytes)
{
    size_t need = cadre_arena_need(bytes);
    if (need > arena->size_bytes - arena->used_bytes)
        return NULL;
    void *p = arena->base + arena->used_bytes;
    arena->used_bytes += need;
    if (arena->used_bytes > arena->high_bytes)
        arena->high_bytes = arena->used_bytes;
    return p;
}

size_t cadre_arena_mark(const struct cadre_arena *arena)
{
    return arena->used_bytes;
}

void cadre_arena_release(struct cadre_arena *arena, size_t mark)
{
    assert(mark <= arena->used_bytes);
    arena->used_bytes = mark;
}

void cadre_arena_fini(struct cadre_arena *arena)
{
    free(arena->base);
    memset(arena, 0, sizeof *arena);
}
