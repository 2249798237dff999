/* SPDX-License-Identifier: Apache-2.0 */
#include "core/data/template/value.h"

#include <string.h>

#include "core/data/template/characters.h"

const char *cadre_value_type(const json_t *value)
{
    static const char *const names[] = {[JSON_OBJECT] = "an object",
                                        [JSON_ARRAY] = "a list",
                                        [JSON_STRING] = "a text",
                                        [JSON_INTEGER] = "a number",
                                        [JSON_REAL] = "a number with a point",
                                        [JSON_TRUE] = "true",
                                        [JSON_FALSE] = "false",
                                        [JSON_NULL] = "none"};
    return value ? names[json_typeof(value)] : "undefined";
}

bool cadre_value_truth(const json_t *value)
{
    if (json_is_string(value))
        return json_string_length(value) > 0;
    if (json_is_array(value))
        return json_array_size(value) > 0;
    if (json_is_object(value))
        return json_object_size(value) > 0;
    if (json_is_number(value))
        return json_number_value(value) != 0;
    return json_is_true(value);
}

bool cadre_value_integer(const json_t *value, int64_t *out)
{
    *out = json_is_integer(value) ? json_integer_value(value) : json_is_true(value);
    return json_is_integer(value) || json_is_boolean(value);
}

static bool equal_parts(const json_t *a, const json_t *b)
{
    if (json_is_array(a)) {
        if (json_array_size(a) != json_array_size(b))
            return false;
        for (size_t i = 0; i < json_array_size(a); i++)
            if (!cadre_value_equal(json_array_get(a, i), json_array_get(b, i)))
                return false;
        return true;
    }
    if (json_object_size(a) != json_object_size(b))
        return false;
    json_t *object = (json_t *)(uintptr_t)a; /* only read */
    for (void *at = json_object_iter(object); at;
         at = json_object_iter_next(object, at)) {
        const json_t *other =
            json_object_getn(b, json_object_iter_key(at), json_object_iter_key_len(at));
        if (!other || !cadre_value_equal(json_object_iter_value(at), other))
            return false;
    }
    return true;
}

bool cadre_value_equal(const json_t *a, const json_t *b)
{
    int64_t left, right;
    if (!a || !b)
        return a == b;
    if (a == b)
        return true;
    if (cadre_value_integer(a, &left) && cadre_value_integer(b, &right))
        return left == right;
    if (json_is_number(a) && json_is_number(b))
        return json_number_value(a) == json_number_value(b);
    if (json_typeof(a) != json_typeof(b))
        return false;
    if (json_is_array(a) || json_is_object(a))
        return equal_parts(a, b);
    return json_equal(a, b);
}

bool cadre_value_order(const json_t *a, const json_t *b, int *order)
{
    int64_t left, right;
    if (cadre_value_integer(a, &left) && cadre_value_integer(b, &right)) {
        *order = (left > right) - (left < right);
        return true;
    }
    if (!json_is_string(a) || !json_is_string(b))
        return false;
    const size_t n = json_string_length(a), m = json_string_length(b);
    *order = memcmp(json_string_value(a), json_string_value(b), n < m ? n : m);
    if (*order == 0)
        *order = (n > m) - (n < m);
    return true;
}

bool cadre_value_print(const json_t *value, struct cadre_text *out)
{
    if (!value)
        return true;
    if (json_is_string(value))
        cadre_text_append(out, json_string_value(value), json_string_length(value));
    else if (json_is_integer(value))
        cadre_text_printf(out, "%lld", (long long)json_integer_value(value));
    else if (json_is_boolean(value))
        cadre_text_printf(out, "%s", json_is_true(value) ? "True" : "False");
    else if (json_is_null(value))
        cadre_text_printf(out, "None");
    else
        return false;
    return true;
}

/* ---- JSON ---- */

static void put_string(const char *text, size_t size, struct cadre_text *out)
{
    static const char special[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    cadre_text_append(out, "\"", 1);
    for (size_t i = 0; i < size; i++) {
        const char *found = NULL;
        for (size_t s = 0; s + 1 < sizeof special; s += 2)
            if (special[s] == text[i])
                found = special + s + 1;
        if (found)
            cadre_text_printf(out, "\\%c", *found);
        else if ((unsigned char)text[i] < 0x20)
            cadre_text_printf(out, "\\u%04x", (unsigned char)text[i]);
        else
            cadre_text_append(out, text + i, 1);
    }
    cadre_text_append(out, "\"", 1);
}

static void put_break(int indent, int level, struct cadre_text *out)
{
    if (indent >= 0)
        cadre_text_printf(out, "\n%*s", indent * level, "");
}

static bool put_value(const json_t *value, int indent, int level,
                      struct cadre_text *out);

static bool put_parts(const json_t *value, int indent, int level,
                      struct cadre_text *out)
{
    const bool list = json_is_array(value);
    const size_t n = list ? json_array_size(value) : json_object_size(value);
    json_t *object = (json_t *)(uintptr_t)value; /* only read */
    void *at = list ? NULL : json_object_iter(object);
    cadre_text_append(out, list ? "[" : "{", 1);
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            cadre_text_append(out, ", ", indent >= 0 ? 1 : 2);
        put_break(indent, level + 1, out);
        const json_t *part =
            list ? json_array_get(value, i) : json_object_iter_value(at);
        if (!list) {
            put_string(json_object_iter_key(at), json_object_iter_key_len(at), out);
            cadre_text_append(out, ": ", 2);
            at = json_object_iter_next(object, at);
        }
        if (!put_value(part, indent, level + 1, out))
            return false;
    }
    if (n > 0)
        put_break(indent, level, out);
    cadre_text_append(out, list ? "]" : "}", 1);
    return !out->failed;
}

static bool put_value(const json_t *value, int indent, int level,
                      struct cadre_text *out)
{
    if (json_is_array(value) || json_is_object(value))
        return put_parts(value, indent, level, out);
    if (json_is_string(value))
        put_string(json_string_value(value), json_string_length(value), out);
    else if (json_is_integer(value))
        cadre_text_printf(out, "%lld", (long long)json_integer_value(value));
    else if (json_is_boolean(value))
        cadre_text_printf(out, "%s", json_is_true(value) ? "true" : "false");
    else if (json_is_null(value))
        cadre_text_printf(out, "null");
    else
        return false;
    return !out->failed;
}

bool cadre_value_json(const json_t *value, int indent, struct cadre_text *out)
{
    return put_value(value, indent, 0, out);
}

/* ---- parts ---- */

static int64_t length(const json_t *value)
{
    return json_is_array(value) ? (int64_t)json_array_size(value)
                                : cadre_characters_count(json_string_value(value),
                                                         json_string_length(value));
}

/* A bound as Python cuts it: from `least` to `most`. */
static int64_t bound(const int64_t *given, int64_t otherwise, int64_t n, int64_t least,
                     int64_t most)
{
    if (!given)
        return otherwise;
    const int64_t at = *given < 0 ? (*given < -n ? least : *given + n) : *given;
    return at < least ? least : at > most ? most : at;
}

/* Characters from one end to the other, backwards where step is below 0. */
static json_t *characters(const json_t *value, int64_t from, int64_t to, int64_t step)
{
    const char *text = json_string_value(value);
    const size_t size = json_string_length(value);
    struct cadre_text out = {0};
    if (step == 1) {
        const size_t begin = cadre_characters_offset(text, size, from);
        const size_t end = to > from ? cadre_characters_offset(text, size, to) : begin;
        return json_stringn(text + begin, end - begin);
    }
    size_t at = cadre_characters_offset(text, size, from);
    for (int64_t i = from; step > 0 ? i < to : i > to; i += step) {
        const size_t n = cadre_characters_offset(text + at, size - at, 1);
        cadre_text_append(&out, text + at, n);
        for (int64_t s = 0; s < (step > 0 ? step : -step); s++) {
            if (step > 0)
                at += at < size ? cadre_characters_offset(text + at, size - at, 1) : 0;
            else
                while (at > 0 && ((unsigned char)text[--at] & 0xc0u) == 0x80u)
                    ;
        }
    }
    json_t *made = out.failed ? NULL : json_stringn(cadre_text_str(&out), out.len);
    cadre_text_fini(&out);
    return made;
}

json_t *cadre_value_slice(const json_t *value, const int64_t *start,
                          const int64_t *stop, int64_t step)
{
    if (!json_is_array(value) && !json_is_string(value))
        return NULL;
    const int64_t n = length(value);
    const int64_t least = step < 0 ? -1 : 0, most = step < 0 ? n - 1 : n;
    const int64_t from = bound(start, step < 0 ? n - 1 : 0, n, least, most);
    const int64_t to = bound(stop, step < 0 ? -1 : n, n, least, most);
    if (step > n) /* one element at most: no overflow */
        step = n + 1;
    if (step < -n)
        step = -n - 1;
    if (json_is_string(value))
        return characters(value, from, to, step);
    json_t *made = json_array();
    for (int64_t i = from; made && (step > 0 ? i < to : i > to); i += step)
        if (json_array_append(made, json_array_get(value, (size_t)i)) != 0) {
            json_decref(made);
            return NULL;
        }
    return made;
}

json_t *cadre_value_at(const json_t *value, int64_t index)
{
    const int64_t n = length(value);
    if (index < -n || index >= n)
        return NULL;
    index = index < 0 ? index + n : index;
    if (json_is_array(value))
        return json_incref(json_array_get(value, (size_t)index));
    return characters(value, index, index + 1, 1);
}

json_t *cadre_value_get(const json_t *object, const json_t *key)
{
    return json_is_string(key) ? json_object_getn(object, json_string_value(key),
                                                  json_string_length(key))
                               : NULL;
}

size_t cadre_value_find(const char *whole, size_t size, size_t from, const char *part,
                        size_t part_size)
{
    if (part_size == 0)
        return from;
    const char *at =
        from < size ? memmem(whole + from, size - from, part, part_size) : NULL;
    return at ? (size_t)(at - whole) : size;
}
