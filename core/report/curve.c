/* SPDX-License-Identifier: Apache-2.0 */
#include "core/report/curve.h"

#include <math.h>

static void merge(struct cadre_curve_bucket *into,
                  const struct cadre_curve_bucket *from)
{
    if (from->y[0] < into->y[0]) {
        into->x[0] = from->x[0];
        into->y[0] = from->y[0];
    }
    if (from->y[1] > into->y[1]) {
        into->x[1] = from->x[1];
        into->y[1] = from->y[1];
    }
}

/* All buckets are full: each takes in its neighbour. */
static void halve(struct cadre_curve *curve)
{
    for (size_t i = 0; i < CADRE_CURVE_BUCKETS / 2; i++) {
        struct cadre_curve_bucket both = curve->bucket[2 * i];
        merge(&both, &curve->bucket[2 * i + 1]);
        curve->bucket[i] = both;
    }
    curve->n = CADRE_CURVE_BUCKETS / 2;
    curve->shift++;
    curve->in_last = (size_t)1 << curve->shift;
}

void cadre_curve_add(struct cadre_curve *curve, double x, double y)
{
    const struct cadre_curve_bucket point = {{x, x}, {y, y}};
    if (!isfinite(y))
        return;
    if (curve->n > 0 && curve->in_last < (size_t)1 << curve->shift) {
        merge(&curve->bucket[curve->n - 1], &point);
        curve->in_last++;
        return;
    }
    if (curve->n == CADRE_CURVE_BUCKETS)
        halve(curve);
    curve->bucket[curve->n++] = point;
    curve->in_last = 1;
}

size_t cadre_curve_points(const struct cadre_curve *curve, double *x, double *y)
{
    size_t n = 0;
    for (size_t i = 0; i < curve->n; i++) {
        const struct cadre_curve_bucket *b = &curve->bucket[i];
        int first = b->x[0] <= b->x[1] ? 0 : 1;
        x[n] = b->x[first];
        y[n++] = b->y[first];
        if (b->x[0] == b->x[1])
            continue;
        x[n] = b->x[1 - first];
        y[n++] = b->y[1 - first];
    }
    return n;
}
