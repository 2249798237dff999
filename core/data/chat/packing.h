/* SPDX-License-Identifier: Apache-2.0 */
/* Which records share a window. Each goes, in order, into that of a few open windows
 * which it fills best; a function of the lengths alone. */
#ifndef CADRE_DATA_CHAT_PACKING_H
#define CADRE_DATA_CHAT_PACKING_H

#include <stdint.h>

#include "core/base/error.h"

/* Window w has the records member[first[w]] to member[first[w + 1] - 1], ascending. */
struct cadre_packing {
    uint64_t windows;
    uint64_t *first; /* (windows + 1), owned */
    uint64_t *member; /* (records), owned */
};

/* Pack records (n) of lengths[i] rows, at most `capacity` each, into windows of
 * `capacity` rows; capacity 0: each is a window of its own. The caller frees with
 * cadre_packing_fini, also after a failure. [any thread] Errors: CADRE_E_RESOURCE. */
cadre_status cadre_packing_init(const int64_t *lengths, uint64_t n, int64_t capacity,
                                struct cadre_packing *out);

/* Safe on a zeroed packing. */
void cadre_packing_fini(struct cadre_packing *packing);

#endif
