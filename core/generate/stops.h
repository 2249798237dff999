/* SPDX-License-Identifier: Apache-2.0 */
/* Texts at which a generated text ends. Bytes come in pieces; those that may still be
 * the beginning of such a text are held back until that is known. */
#ifndef CADRE_GENERATE_STOPS_H
#define CADRE_GENERATE_STOPS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/error.h"
#include "core/base/memory.h"

struct cadre_stops {
    const char *const *texts; /* borrowed; none is empty */
    size_t n;
    struct cadre_text held; /* given; the first `shown` bytes were handed out */
    size_t shown;
    bool stopped;
};

/* Start with `n` texts, also none. No memory is taken yet. Errors: CADRE_E_INVALID a
 * text is empty. */
cadre_status cadre_stops_init(struct cadre_stops *stops, const char *const *texts,
                              size_t n, struct cadre_error *err);
void cadre_stops_fini(struct cadre_stops *stops);

/* Add a piece: (*show)[0, *n) may be shown now, the rest is held. Where one of the
 * texts is complete, `stopped` is set, and all before it is shown: before the first
 * that ends, and of those that end together the longest. *show is valid until the next
 * call. Errors: CADRE_E_RESOURCE. */
cadre_status cadre_stops_add(struct cadre_stops *stops, const char *bytes, size_t size,
                             const char **show, size_t *n, struct cadre_error *err);

/* The end without one of the texts: what is held is shown. */
void cadre_stops_end(struct cadre_stops *stops, const char **show, size_t *n);

#endif
