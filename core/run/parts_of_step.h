/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of a step went: computing, waiting for transfers on each axis, and so
 * on, in seconds a step or as fractions of it. Parts do not overlap; what they leave of
 * the step is "other". [any thread] */
#ifndef CADRE_RUN_PARTS_OF_STEP_H
#define CADRE_RUN_PARTS_OF_STEP_H

#include <stdbool.h>
#include <stddef.h>

#include <cadre/types.h>

#include "core/base/json.h"
#include "core/engine/step_report.h"

enum cadre_part {
    CADRE_PART_COMPUTE, /* forward and backward, less what they waited for */
    CADRE_PART_BUBBLE, /* of the schedule, mean over the ranks */
    CADRE_PART_RANKS, /* waits for ranks that are slower, before a transfer begins */
    CADRE_PART_DATA, /* waits for samples */
    CADRE_PART_OPTIMIZER, /* less what it waited for */
    CADRE_PARTS,
};

/* Seconds by the name of an axis, in the order in which they came. */
struct cadre_axis_times {
    int n;
    struct {
        char axis[CADRE_AXIS_CHARS];
        double s;
    } of[CADRE_STEP_AXES];
};

struct cadre_step_parts {
    bool known; /* false: of a device that queues its work, or of nothing */
    double part[CADRE_PARTS];
    struct cadre_axis_times exposed; /* exposed communication */
};

/* Add to the axis' time. More than CADRE_STEP_AXES names go to the last. */
void cadre_axis_times_add(struct cadre_axis_times *times, const char *axis, double s);

/* An object of one number an axis. */
void cadre_axis_times_put(struct cadre_json *json,
                          const struct cadre_axis_times *times);

/* Add those of an object as put writes it; anything else is ignored. */
struct json_t;
void cadre_axis_times_take(struct cadre_axis_times *times, const struct json_t *object);

/* Add a step of this rank. Zeroed parts are those of no step. A step that is not known
 * makes the sum unknown for good. */
void cadre_step_parts_add(struct cadre_step_parts *sum,
                          const struct cadre_step_times *times);

/* The numbers as a vector of CADRE_STEP_PARTS_VALUES, for a sum over ranks: every rank
 * has the same axes. An
 * unknown sum is NaN, and so is all that it is added to. */
enum { CADRE_STEP_PARTS_VALUES = CADRE_PARTS + CADRE_STEP_AXES };
void cadre_step_parts_values(const struct cadre_step_parts *parts, double *values);

/* Put back what became of the vector, times `factor`. */
void cadre_step_parts_set(struct cadre_step_parts *parts, const double *values,
                          double factor);

/* All of them together. */
double cadre_step_parts_sum(const struct cadre_step_parts *parts);

/* The median of each number of the known ones of `list` (n), times `factor`; unknown
 * without one, or without memory. */
void cadre_step_parts_median(const struct cadre_step_parts *list, size_t n,
                             double factor, struct cadre_step_parts *out);

/* An object of them; null where they are not known. Of a step of step_s it has
 * `other_s` too, what the parts leave of it, and `excess_s`, what they have beyond it:
 * one of the two is 0. NaN: without them. */
void cadre_step_parts_put(struct cadre_json *json, const struct cadre_step_parts *parts,
                          double step_s);

/* Read such an object; unknown where it is none, as in files of earlier builds. */
void cadre_step_parts_take(struct cadre_step_parts *parts, const struct json_t *object);

/* "compute_s" and so on. Static. */
const char *cadre_part_key(enum cadre_part part);

#endif
