/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of one rank by owner and tag: currently allocated bytes, and their peak. */
#ifndef CADRE_ENGINE_LAYOUT_LEDGER_H
#define CADRE_ENGINE_LAYOUT_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/device/device.h"

#define CADRE_LEDGER_TAGS 96 /* the last one is "other", for all further tags */
#define CADRE_LEDGER_TAG_CHARS 112 /* an instance's name, ": " and its tag fit */

struct cadre_ledger_entry {
    char tag[CADRE_LEDGER_TAG_CHARS];
    uint32_t space;
    uint64_t bytes, peak_bytes; /* current, and their peak */
};

struct cadre_ledger_block; /* one live allocation */

/* [exec] One thread at a time. Ready when zero-initialised with `device` set. */
struct cadre_ledger {
    struct cadre_device *device;
    struct cadre_ledger_block *blocks;
    struct cadre_ledger_entry entry[CADRE_LEDGER_TAGS];
    int n;
    uint64_t now_bytes, peak_bytes;
};

/* Zeroed memory accounted under tag; NULL when out of memory. CADRE_SPACE_HOST and
 * _PINNED are page-locked memory of the host that the device can work in. */
void *cadre_ledger_alloc(struct cadre_ledger *ledger, uint32_t space, size_t bytes,
                         const char *tag);
/* Accepts NULL; a pointer that is not the ledger's is ignored: false. Waits for a
 * device whose ops are queued. */
bool cadre_ledger_free(struct cadre_ledger *ledger, void *pointer);
/* Bytes from `pointer` to the end of the block that it lies in; UINT64_MAX where it
 * lies in none of the ledger's. */
uint64_t cadre_ledger_left(const struct cadre_ledger *ledger, const void *pointer);

/* Bytes that are allocated, or noted, under a tag of a space now. */
uint64_t cadre_ledger_used(const struct cadre_ledger *ledger, uint32_t space,
                           const char *tag);

/* The tag under which memory of a plugin's instance is accounted: "ddp: buckets".
 * Returns out. */
char *cadre_ledger_tag(char out[CADRE_LEDGER_TAG_CHARS], const char *instance,
                       const char *tag);

/* Free everything that is left. */
void cadre_ledger_fini(struct cadre_ledger *ledger);

/* Add planned bytes to the table without allocating. */
void cadre_ledger_note(struct cadre_ledger *ledger, uint32_t space, uint64_t bytes,
                       const char *tag);

#endif
