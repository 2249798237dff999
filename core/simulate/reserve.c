/* SPDX-License-Identifier: Apache-2.0 */
#include "core/simulate/reserve.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/bytes.h"

#define PAGE 4096u

/* Taken blocks in order of their addresses; between them it is free. */
struct block {
    struct block *next;
    size_t at, bytes;
};

struct cadre_reserve {
    char *base;
    size_t bytes;
    struct block *first;
};

static size_t whole_pages(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

cadre_status cadre_reserve_open(size_t bytes, struct cadre_reserve **out,
                                struct cadre_error *err)
{
    char text[CADRE_BYTES_CHARS];
    struct cadre_reserve *reserve = calloc(1, sizeof *reserve);
    if (!reserve)
        return cadre_fail(err, CADRE_E_RESOURCE, "no memory for a simulated device");
    reserve->bytes = whole_pages(bytes);
    reserve->base = mmap(NULL, reserve->bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserve->base == MAP_FAILED) {
        free(reserve);
        return cadre_fail(err, CADRE_E_RESOURCE,
                          "the system reserves no %s of address space for a simulated "
                          "rank: look at ulimit -v and vm.overcommit_memory, or "
                          "simulate fewer ranks",
                          cadre_bytes_text((double)bytes, 1, text));
    }
    *out = reserve;
    return CADRE_OK;
}

void cadre_reserve_close(struct cadre_reserve *reserve)
{
    if (!reserve)
        return;
    while (reserve->first) {
        struct block *block = reserve->first;
        reserve->first = block->next;
        free(block);
    }
    munmap(reserve->base, reserve->bytes);
    free(reserve);
}

void *cadre_reserve_alloc(struct cadre_reserve *reserve, size_t bytes)
{
    struct block **at = &reserve->first;
    size_t end = 0; /* of the block before */
    if (bytes > reserve->bytes)
        return NULL;
    const size_t wanted = whole_pages(bytes ? bytes : 1);
    while (*at && (*at)->at - end < wanted) {
        end = (*at)->at + (*at)->bytes;
        at = &(*at)->next;
    }
    if (!*at && reserve->bytes - end < wanted)
        return NULL;
    struct block *block = malloc(sizeof *block);
    if (!block)
        return NULL;
    *block = (struct block){*at, end, wanted};
    *at = block;
    return reserve->base + end;
}

void cadre_reserve_free(struct cadre_reserve *reserve, void *block)
{
    if (!block)
        return;
    const size_t offset = (size_t)((char *)block - reserve->base);
    for (struct block **at = &reserve->first; *at; at = &(*at)->next) {
        struct block *found = *at;
        if (found->at != offset)
            continue;
        *at = found->next;
        madvise(block, found->bytes, MADV_DONTNEED);
        free(found);
        return;
    }
}

bool cadre_reserve_holds(const struct cadre_reserve *reserve, const void *address)
{
    const uintptr_t base = (uintptr_t)reserve->base, at = (uintptr_t)address;
    return at >= base && at - base < reserve->bytes;
}

void cadre_reserve_zero(void *from, size_t bytes)
{
    static const char zeros[PAGE];
    for (char *at = from; bytes > 0;) {
        const size_t n = bytes < PAGE ? bytes : PAGE;
        if (memcmp(at, zeros, n) != 0)
            memset(at, 0, n);
        at += n;
        bytes -= n;
    }
}

void cadre_reserve_clear(const struct cadre_reserve *reserve, void *from, size_t bytes)
{
    const size_t begin = (size_t)((char *)from - reserve->base), end = begin + bytes;
    const size_t first = whole_pages(begin), last = end / PAGE * PAGE;
    if (last <= first) {
        cadre_reserve_zero(from, bytes);
        return;
    }
    cadre_reserve_zero(from, first - begin);
    madvise(reserve->base + first, last - first, MADV_DONTNEED);
    cadre_reserve_zero(reserve->base + last, end - last);
}
