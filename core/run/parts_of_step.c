/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/parts_of_step.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/median.h"
#include "core/base/memory.h"

static const char EXPOSED[] = "comm_exposed_axis_s";

/* ---- by axis ---- */

void cadre_axis_times_add(struct cadre_axis_times *times, const char *axis, double s)
{
    int i = 0;
    while (i < times->n && strncmp(times->of[i].axis, axis, CADRE_AXIS_CHARS - 1) != 0)
        i++;
    if (i == CADRE_STEP_AXES)
        i--;
    if (i == times->n) {
        snprintf(times->of[i].axis, sizeof times->of[i].axis, "%s", axis);
        times->of[i].s = 0;
        times->n++;
    }
    times->of[i].s += s;
}

void cadre_axis_times_put(struct cadre_json *json, const struct cadre_axis_times *times)
{
    cadre_json_begin_object(json);
    for (int i = 0; i < times->n; i++)
        cadre_json_put_f64(json, times->of[i].axis, times->of[i].s);
    cadre_json_end_object(json);
}

void cadre_axis_times_take(struct cadre_axis_times *times, const json_t *object)
{
    const char *axis;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, axis, value)
    {
        if (json_is_number(value))
            cadre_axis_times_add(times, axis, json_number_value(value));
    }
}

/* ---- sums ---- */

void cadre_step_parts_add(struct cadre_step_parts *sum,
                          const struct cadre_step_times *times)
{
    sum->known = true;
    sum->part[CADRE_PART_COMPUTE] += times->compute_s;
    sum->part[CADRE_PART_BUBBLE] += times->bubble_s;
    sum->part[CADRE_PART_RANKS] += times->wait_ranks_s;
    sum->part[CADRE_PART_DATA] += times->wait_data_s;
    sum->part[CADRE_PART_OPTIMIZER] += fmax(times->optim_s - times->optim_wait_s, 0);
    for (int i = 0; i < times->n_exposed; i++)
        cadre_axis_times_add(&sum->exposed, times->exposed[i].axis,
                             times->exposed[i].s);
    for (int i = 0; i < CADRE_PARTS; i++)
        sum->known = sum->known && isfinite(sum->part[i]);
}

void cadre_step_parts_values(const struct cadre_step_parts *parts, double *values)
{
    for (int i = 0; i < CADRE_PARTS; i++)
        values[i] = parts->known ? parts->part[i] : (double)NAN;
    for (int i = 0; i < CADRE_STEP_AXES; i++)
        values[CADRE_PARTS + i] = i < parts->exposed.n ? parts->exposed.of[i].s : 0;
}

void cadre_step_parts_set(struct cadre_step_parts *parts, const double *values,
                          double factor)
{
    for (int i = 0; i < CADRE_PARTS; i++) {
        parts->part[i] = factor * values[i];
        parts->known = parts->known && isfinite(parts->part[i]);
    }
    for (int i = 0; i < parts->exposed.n; i++)
        parts->exposed.of[i].s = factor * values[CADRE_PARTS + i];
}

double cadre_step_parts_sum(const struct cadre_step_parts *parts)
{
    double sum = 0;
    for (int i = 0; i < CADRE_PARTS; i++)
        sum += parts->part[i];
    for (int i = 0; i < parts->exposed.n; i++)
        sum += parts->exposed.of[i].s;
    return sum;
}

/* ---- medians ---- */

static double time_of(const struct cadre_step_parts *parts, const char *axis)
{
    for (int i = 0; i < parts->exposed.n; i++)
        if (strcmp(parts->exposed.of[i].axis, axis) == 0)
            return parts->exposed.of[i].s;
    return 0;
}

static size_t count_known(const struct cadre_step_parts *list, size_t n)
{
    size_t known = 0;
    for (size_t i = 0; i < n; i++)
        known += list[i].known;
    return known;
}

/* Of a part, or of an axis where one is named; `room` (n) is overwritten. */
static double median_of(const struct cadre_step_parts *list, size_t n, int part,
                        const char *axis, double *room)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
        if (list[i].known)
            room[k++] = axis ? time_of(&list[i], axis) : list[i].part[part];
    return cadre_median(room, k);
}

void cadre_step_parts_median(const struct cadre_step_parts *list, size_t n,
                             double factor, struct cadre_step_parts *out)
{
    double *room = count_known(list, n) ? cadre_calloc(n, sizeof *room) : NULL;
    *out = (struct cadre_step_parts){.known = room != NULL};
    if (!room)
        return;
    for (size_t i = 0; i < n; i++)
        for (int k = 0; list[i].known && k < list[i].exposed.n; k++)
            cadre_axis_times_add(&out->exposed, list[i].exposed.of[k].axis, 0);
    for (int i = 0; i < CADRE_PARTS; i++)
        out->part[i] = factor * median_of(list, n, i, NULL, room);
    for (int i = 0; i < out->exposed.n; i++)
        out->exposed.of[i].s =
            factor * median_of(list, n, 0, out->exposed.of[i].axis, room);
    free(room);
}

/* ---- files ---- */

const char *cadre_part_key(enum cadre_part part)
{
    static const char *const keys[CADRE_PARTS] = {
        "compute_s", "bubble_s", "wait_ranks_s", "wait_data_s", "optimizer_s"};
    return keys[part];
}

void cadre_step_parts_put(struct cadre_json *json, const struct cadre_step_parts *parts,
                          double step_s)
{
    double other_s = step_s - cadre_step_parts_sum(parts);
    if (!parts->known) {
        cadre_json_null(json);
        return;
    }
    cadre_json_begin_object(json);
    for (int i = 0; i < CADRE_PARTS; i++)
        cadre_json_put_f64(json, cadre_part_key((enum cadre_part)i), parts->part[i]);
    cadre_json_key(json, EXPOSED);
    cadre_axis_times_put(json, &parts->exposed);
    if (isfinite(other_s)) {
        cadre_json_put_f64(json, "other_s", fmax(other_s, 0));
        cadre_json_put_f64(json, "excess_s", fmax(-other_s, 0));
    }
    cadre_json_end_object(json);
}

void cadre_step_parts_take(struct cadre_step_parts *parts, const json_t *object)
{
    *parts = (struct cadre_step_parts){.known = json_is_object(object)};
    for (int i = 0; i < CADRE_PARTS; i++) {
        const json_t *value =
            json_object_get(object, cadre_part_key((enum cadre_part)i));
        parts->known = parts->known && json_is_number(value);
        parts->part[i] = json_number_value(value);
    }
    cadre_axis_times_take(&parts->exposed, json_object_get(object, EXPOSED));
}
