/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that plugins take, with a margin behind each block, and structs that end at an
 * unreadable page. */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/memory.h"
#include "core/check/rehearsal/private.h"

#define MARGIN 64u
#define MARGIN_BYTE 0xa5

static struct tag *find_tag(struct cadre_player *p, const char *name)
{
    for (uint32_t i = 0; i < p->plan.n_tags; i++)
        if (strcmp(p->plan.tag[i].name, name) == 0)
            return &p->plan.tag[i];
    return NULL;
}

static bool take_from_tag(struct cadre_player *p, uint32_t space, uint64_t bytes,
                          const char *name)
{
    struct tag *tag = find_tag(p, name);
    if (!tag) {
        play_refuse(
            p, CADRE_RULE_MEMORY,
            "allocates %llu bytes under the tag '%s', which plan did not announce",
            (unsigned long long)bytes, name);
        return false;
    }
    if (space != tag->space) {
        play_refuse(p, CADRE_RULE_MEMORY,
                    "allocates '%s' in memory space %u, announced was %u", name, space,
                    tag->space);
        return false;
    }
    tag->now += bytes;
    if (tag->now > tag->most)
        tag->most = tag->now;
    if (tag->now <= tag->planned)
        return true;
    play_refuse(p, CADRE_RULE_MEMORY,
                "has %llu bytes under the tag '%s', announced were %llu",
                (unsigned long long)tag->now, name, (unsigned long long)tag->planned);
    return false;
}

static void *add_block(struct cadre_player *p, uint64_t bytes, const char *tag)
{
    if (p->n_blocks == p->cap_blocks) {
        uint32_t cap = p->cap_blocks ? 2 * p->cap_blocks : 16;
        struct block *grown = cadre_realloc(p->block, cap, sizeof *grown);
        if (!grown)
            return NULL;
        p->block = grown;
        p->cap_blocks = cap;
    }
    char *data = aligned_alloc(64, (bytes + 2 * MARGIN + 63) / 64 * 64);
    if (!data)
        return NULL;
    memset(data, 0, bytes);
    memset(data + bytes, MARGIN_BYTE, MARGIN);
    struct block *block = &p->block[p->n_blocks++];
    *block = (struct block){.data = data, .bytes = bytes};
    memccpy(block->tag, tag, 0, sizeof block->tag - 1);
    return data;
}

static void *mem_alloc(struct cadre_ctx *ctx, uint32_t space, uint64_t bytes,
                       const char *tag)
{
    struct cadre_player *p = play_player_of(ctx);
    if (play_enter(p, IN_BIND | IN_RUN, "mem.alloc") != CADRE_OK)
        return NULL;
    if (!tag || strlen(tag) >= CADRE_TAG_CHARS || space > CADRE_SPACE_HOST) {
        play_refuse(p, CADRE_RULE_ARGUMENT,
                    "mem.alloc without a tag, or of memory space %u", space);
        return NULL;
    }
    if (!take_from_tag(p, space, bytes, tag))
        return NULL;
    return add_block(p, bytes, tag);
}

static bool margin_is_whole(const struct block *block)
{
    for (uint32_t i = 0; i < MARGIN; i++)
        if ((unsigned char)block->data[block->bytes + i] != MARGIN_BYTE)
            return false;
    return true;
}

/* Memory stays until the end: an operation in flight may still use it. */
static void mem_free(struct cadre_ctx *ctx, void *at)
{
    struct cadre_player *p = play_player_of(ctx);
    if (!at ||
        play_enter_sure(p, IN_BIND | IN_RUN | IN_DESTROY, "mem.free") != CADRE_OK)
        return;
    for (uint32_t i = 0; i < p->n_blocks; i++) {
        struct block *block = &p->block[i];
        if (block->data != at || block->freed)
            continue;
        struct tag *tag = find_tag(p, block->tag);
        /* what destroy frees is released when all is over: services.h */
        if (!(p->phase & IN_DESTROY) && !p->all->stop)
            play_check_release(p, at, block->bytes);
        block->freed = true;
        memset(block->data, 0xff, block->bytes); /* who uses it still reads NaN */
        if (tag)
            tag->now -= block->bytes;
        return;
    }
    play_refuse(
        p, CADRE_RULE_ARGUMENT,
        "mem.free of memory that mem.alloc did not give, or that is free already");
}

const struct cadre_mem_svc play_mem = {sizeof play_mem, 0, mem_alloc, mem_free};

void play_check_blocks(struct cadre_player *p)
{
    for (uint32_t i = 0; i < p->n_blocks; i++)
        if (!margin_is_whole(&p->block[i])) {
            play_refuse(p, CADRE_RULE_MEMORY,
                        "wrote beyond the %llu bytes that it has under the tag '%s'",
                        (unsigned long long)p->block[i].bytes, p->block[i].tag);
            return;
        }
}

void play_free_blocks(struct cadre_player *p)
{
    for (uint32_t i = 0; i < p->n_blocks; i++)
        free(p->block[i].data);
    free(p->block);
    p->block = NULL;
    p->n_blocks = p->cap_blocks = 0;
}

/* mallinfo2 counts the arena of the first thread alone; checks that ask set one arena
 * for all. */
uint64_t play_heap_in_use(void)
{
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
    struct mallinfo2 now = mallinfo2();
    return now.uordblks + now.hblkhd;
#else
    return 0;
#endif
}

/* ---- walls ---- */

static uint64_t page_bytes(void)
{
    return (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t room_for(uint64_t bytes)
{
    uint64_t page = page_bytes();
    return (bytes + page - 1) / page * page;
}

void *play_walled(uint64_t bytes)
{
    uint64_t room = room_for(bytes);
    char *at = mmap(NULL, room + page_bytes(), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    if (mprotect(at + room, page_bytes(), PROT_NONE) != 0) {
        munmap(at, room + page_bytes());
        return NULL;
    }
    return at + room - bytes;
}

void play_unwall(void *at, uint64_t bytes)
{
    uint64_t room = room_for(bytes);
    if (at)
        munmap((char *)at + bytes - room, room + page_bytes());
}

void *play_present(struct cadre_player *p, uint32_t slot, const void *from,
                   uint32_t bytes)
{
    struct stage *stage = &p->stage[slot];
    uint32_t seen = bytes + p->all->setup->extra;
    if (!p->all->setup->walled && !p->all->setup->extra)
        return (void *)(uintptr_t)from;
    if (!stage->at) {
        stage->at = play_walled(seen);
        stage->bytes = seen;
        if (!stage->at)
            return (void *)(uintptr_t)from;
    }
    /* what a newer host adds is not zero */
    memset(stage->at, 0xee, seen);
    memcpy(stage->at, from, bytes);
    memcpy(stage->at, &seen, sizeof seen); /* struct_size */
    return stage->at;
}

void play_free_stage(struct cadre_player *p)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        play_unwall(p->stage[i].at, p->stage[i].bytes);
        p->stage[i] = (struct stage){0};
    }
}
