/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a template: those of JSON, as Python treats them. NULL is a value that is
 * not defined. No value holds itself, and none is deeper than CADRE_VALUE_DEPTH. */
#ifndef CADRE_DATA_TEMPLATE_VALUE_H
#define CADRE_DATA_TEMPLATE_VALUE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/memory.h"

enum { CADRE_VALUE_DEPTH = 64 };

/* For errors: "a text", "undefined". Static storage. */
const char *cadre_value_type(const json_t *value);

/* What `if` makes of it: not defined, none, false, 0 and what is empty are false. */
bool cadre_value_truth(const json_t *value);

/* ==, where true is 1 and false 0. */
bool cadre_value_equal(const json_t *a, const json_t *b);

/* *order: below, at or above 0. False for what has no order: only two texts, or two
 * whole numbers or booleans, have one. */
bool cadre_value_order(const json_t *a, const json_t *b, int *order);

/* A whole number, of which booleans are some; false for others. */
bool cadre_value_integer(const json_t *value, int64_t *out);

/* Append what printing it gives; false for lists and objects, and numbers with a point.
 */
bool cadre_value_print(const json_t *value, struct cadre_text *out);

/* Append it as json.dumps of Python writes it without ensure_ascii; `indent` blanks a
 * level, or below 0: on one line. False where the value is not defined, or a number
 * with a point, or out.failed. */
bool cadre_value_json(const json_t *value, int indent, struct cadre_text *out);

/* A list without `step` 1 too, by Python's rules of start, stop and step; of a text the
 * characters. NULL bounds are left out. A new reference; NULL where there is no memory
 * or `value` is neither. step is not 0. */
json_t *cadre_value_slice(const json_t *value, const int64_t *start,
                          const int64_t *stop, int64_t step);

/* The element or character `index`, from the end where it is below 0: a new reference.
 * NULL where there is none. */
json_t *cadre_value_at(const json_t *value, int64_t index);

/* An object's value by a key that may hold any bytes, borrowed; NULL for none. */
json_t *cadre_value_get(const json_t *object, const json_t *key);

/* The place of `part` in whole[from, size); size where it is not there. */
size_t cadre_value_find(const char *whole, size_t size, size_t from, const char *part,
                        size_t part_size);

#endif
