/* SPDX-License-Identifier: Apache-2.0 */
/* A curve of any length in a bounded number of points that keeps every peak: points are
 * taken in buckets, and of a bucket its lowest and its highest one are kept. [one
 * thread] */
#ifndef CADRE_REPORT_CURVE_H
#define CADRE_REPORT_CURVE_H

#include <stddef.h>

enum { CADRE_CURVE_BUCKETS = 400, CADRE_CURVE_POINTS = 2 * CADRE_CURVE_BUCKETS };

struct cadre_curve_bucket {
    double x[2], y[2]; /* the lowest point, and the highest */
};

/* Zero-initialised is empty. */
struct cadre_curve {
    struct cadre_curve_bucket bucket[CADRE_CURVE_BUCKETS];
    size_t n; /* buckets */
    size_t in_last; /* points in the last one */
    unsigned shift; /* 2^shift points fill a bucket */
};

/* Add a point; x does not fall from one call to the next. One that is not finite is
 * left out. */
void cadre_curve_add(struct cadre_curve *curve, double x, double y);

/* Fill x and y, of CADRE_CURVE_POINTS each, in the order of x; returns how many there
 * are. Up to CADRE_CURVE_BUCKETS points are all there. */
size_t cadre_curve_points(const struct cadre_curve *curve, double *x, double *y);

#endif
