/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients that are made in the parts of run.exact_parts: one plane a part, added in
 * the tree of core/base/tree.h. Private to core/model and its tests. */
#ifndef CADRE_MODEL_PLANES_H
#define CADRE_MODEL_PLANES_H

#include "core/model/unit_private.h"

/* n planes of `stride` wide elements, of which the first rows * columns count; where
 * `shared`, one more plane of room follows them. */
struct cadre_planes {
    void *data;
    int64_t n, stride;
    int64_t rows, columns;
    bool shared; /* the other parts are those of the other tensor ranks */
};

/* Wide elements of scratch for n such planes. */
int64_t cadre_planes_room(int64_t n, int64_t stride);
void *cadre_plane_at(const struct cadre_unit *unit, const struct cadre_planes *planes,
                     int64_t i);

/* *sum = the tree of the planes, and where they are shared of those of all tensor
 * ranks, which call it together; the planes are overwritten, and *sum is one of them.
 * [stream] Errors: those of the device and of the redistribution. */
cadre_status cadre_planes_sum(const struct cadre_unit *unit,
                              const struct cadre_planes *planes, const void **sum);

/* dst = beta * dst + sum, `count` wide elements; beta is 0 or 1. [stream] */
cadre_status cadre_planes_give(const struct cadre_unit *unit, void *dst,
                               const void *sum, int64_t count, int beta);

#endif
