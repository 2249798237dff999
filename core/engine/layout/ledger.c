/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/layout/ledger.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cadre_ledger_block {
    struct cadre_ledger_block *next;
    void *pointer;
    uint64_t bytes;
    bool host;
    struct cadre_ledger_entry *entry;
};

/* Tags beyond the table's size share the last entry. */
static struct cadre_ledger_entry *find_entry(struct cadre_ledger *ledger,
                                             uint32_t space, const char *tag)
{
    char name[sizeof ledger->entry->tag];
    snprintf(name, sizeof name, "%s", tag);
    for (int i = 0; i < ledger->n; i++)
        if (ledger->entry[i].space == space && strcmp(ledger->entry[i].tag, name) == 0)
            return &ledger->entry[i];
    if (ledger->n == CADRE_LEDGER_TAGS)
        return &ledger->entry[CADRE_LEDGER_TAGS - 1];
    struct cadre_ledger_entry *entry = &ledger->entry[ledger->n++];
    bool full = ledger->n == CADRE_LEDGER_TAGS;
    snprintf(entry->tag, sizeof entry->tag, "%s", full ? "other" : name);
    entry->space = full ? CADRE_SPACE_DEVICE : space;
    return entry;
}

void cadre_ledger_note(struct cadre_ledger *ledger, uint32_t space, uint64_t bytes,
                       const char *tag)
{
    struct cadre_ledger_entry *entry = find_entry(ledger, space, tag);
    entry->bytes += bytes;
    if (entry->bytes > entry->peak_bytes)
        entry->peak_bytes = entry->bytes;
    ledger->now_bytes += bytes;
    if (ledger->now_bytes > ledger->peak_bytes)
        ledger->peak_bytes = ledger->now_bytes;
}

/* Host memory is page-locked too: the device accesses it. */
static void *zeroed(struct cadre_device *device, bool host, size_t bytes)
{
    void *pointer = host ? device->ops->alloc_pinned(device, bytes ? bytes : 1)
                         : device->ops->alloc(device, bytes ? bytes : 1);
    if (!pointer)
        return NULL;
    if (host && device->ops->simulated)
        return pointer; /* reads as zeros, and is not to become real */
    if (host) {
        memset(pointer, 0, bytes);
    } else if (device->ops->zero(device, pointer, bytes) != CADRE_OK ||
               (device->ops->async && device->ops->synchronize(device) != CADRE_OK)) {
        /* wait: a collective may still write here after an older event */
        device->ops->free(device, pointer);
        return NULL;
    }
    return pointer;
}

void *cadre_ledger_alloc(struct cadre_ledger *ledger, uint32_t space, size_t bytes,
                         const char *tag)
{
    struct cadre_device *device = ledger->device;
    struct cadre_ledger_block *block = calloc(1, sizeof *block);
    if (!block)
        return NULL;
    block->host = space != CADRE_SPACE_DEVICE;
    block->pointer = zeroed(device, block->host, bytes);
    if (!block->pointer) {
        free(block);
        return NULL;
    }
    block->bytes = bytes;
    block->entry = find_entry(ledger, space, tag);
    block->next = ledger->blocks;
    ledger->blocks = block;
    cadre_ledger_note(ledger, space, bytes, tag);
    return block->pointer;
}

/* Queued ops may still use it. */
static void release(struct cadre_device *device, const struct cadre_ledger_block *block)
{
    if (device->ops->async)
        device->ops->synchronize(device);
    if (block->host)
        device->ops->free_pinned(device, block->pointer);
    else
        device->ops->free(device, block->pointer);
}

bool cadre_ledger_free(struct cadre_ledger *ledger, void *pointer)
{
    for (struct cadre_ledger_block **at = &ledger->blocks; *at; at = &(*at)->next) {
        struct cadre_ledger_block *block = *at;
        if (block->pointer != pointer)
            continue;
        *at = block->next;
        block->entry->bytes -= block->bytes;
        ledger->now_bytes -= block->bytes;
        release(ledger->device, block);
        free(block);
        return true;
    }
    return !pointer;
}

uint64_t cadre_ledger_left(const struct cadre_ledger *ledger, const void *pointer)
{
    for (const struct cadre_ledger_block *b = ledger->blocks; b; b = b->next) {
        uintptr_t begin = (uintptr_t)b->pointer, at = (uintptr_t)pointer;
        if (at >= begin && at - begin < b->bytes)
            return b->bytes - (at - begin);
    }
    return UINT64_MAX;
}

uint64_t cadre_ledger_used(const struct cadre_ledger *ledger, uint32_t space,
                           const char *tag)
{
    for (int i = 0; i < ledger->n; i++)
        if (ledger->entry[i].space == space && strcmp(ledger->entry[i].tag, tag) == 0)
            return ledger->entry[i].bytes;
    return 0;
}

char *cadre_ledger_tag(char out[CADRE_LEDGER_TAG_CHARS], const char *instance,
                       const char *tag)
{
    snprintf(out, CADRE_LEDGER_TAG_CHARS, "%s: %s", instance, tag);
    return out;
}

void cadre_ledger_fini(struct cadre_ledger *ledger)
{
    while (ledger->blocks)
        cadre_ledger_free(ledger, ledger->blocks->pointer);
}
