/* SPDX-License-Identifier: Apache-2.0 */
#include "core/data/tokenizer/id_map.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/utf8.h"
#include "core/data/tokenizer/unicode.h"

struct reader {
    const char *text;
    size_t size;
    size_t at;
    const char *path;
    struct cadre_error *err;
};

static cadre_status fail(const struct reader *in, const char *what)
{
    size_t line = 1;
    for (size_t i = 0; i < in->at && i < in->size; i++)
        line += in->text[i] == '\n';
    return cadre_fail(in->err, CADRE_E_INVALID, "\"%s\": line %zu: %s", in->path, line,
                      what);
}

static void skip_blanks(struct reader *in)
{
    while (in->at < in->size && strchr(" \t\r\n", in->text[in->at]) &&
           in->text[in->at] != '\0')
        in->at++;
}

/* The next character that is no blank, which is passed where it is `c`. */
static bool take(struct reader *in, char c)
{
    skip_blanks(in);
    if (in->at >= in->size || in->text[in->at] != c)
        return false;
    in->at++;
    return true;
}

/* Four hexadecimal digits; -1 where there are others. */
static int64_t hex4(struct reader *in)
{
    int64_t value = 0;
    for (int i = 0; i < 4; i++, in->at++) {
        const char c = in->at < in->size ? in->text[in->at] : '?';
        const bool is_digit = c >= '0' && c <= '9';
        const char low = (char)(c | 0x20);
        if (!is_digit && (low < 'a' || low > 'f'))
            return -1;
        value = value * 16 + (is_digit ? c - '0' : low - 'a' + 10);
    }
    return value;
}

/* What follows a backslash, as UTF-8 in `out`; 0 for none. */
static size_t escape(struct reader *in, char out[4])
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char c = in->at < in->size ? in->text[in->at++] : '\0';
    const char *name = c ? strchr(names, c) : NULL;
    if (name) {
        out[0] = values[name - names];
        return 1;
    }
    int64_t code = c == 'u' ? hex4(in) : -1;
    if (code >= 0xd800 && code < 0xdc00) {
        const bool more = in->at + 1 < in->size && in->text[in->at] == '\\' &&
                          in->text[in->at + 1] == 'u';
        in->at += more ? 2 : 0;
        const int64_t low = more ? hex4(in) : -1;
        code = low >= 0xdc00 && low < 0xe000
                   ? 0x10000 + ((code - 0xd800) << 10) + low - 0xdc00
                   : -1;
    }
    if (code < 0 || (code >= 0xdc00 && code < 0xe000))
        return 0;
    return cadre_unicode_write((uint32_t)code, out);
}

/* A string to `out`, which has room for what is left of the text. */
static cadre_status read_string(struct reader *in, char *out, size_t *size)
{
    size_t n = 0;
    if (!take(in, '"'))
        return fail(in, "expected a string");
    while (in->at < in->size && in->text[in->at] != '"') {
        const unsigned char c = (unsigned char)in->text[in->at];
        size_t bytes;
        if (c == '\\') {
            in->at++;
            bytes = escape(in, out + n);
        } else {
            bytes = c < ' ' ? 0 : cadre_utf8_char(in->text + in->at, in->size - in->at);
            memcpy(out + n, in->text + in->at, bytes);
            in->at += bytes;
        }
        if (bytes == 0)
            return fail(in, "this is no string of JSON");
        n += bytes;
    }
    if (!take(in, '"'))
        return fail(in, "a string without end: the file is truncated");
    *size = n;
    return CADRE_OK;
}

static cadre_status read_integer(struct reader *in, int64_t *value)
{
    int64_t sum = 0;
    skip_blanks(in);
    const size_t begin = in->at;
    while (in->at < in->size && in->text[in->at] >= '0' && in->text[in->at] <= '9' &&
           sum < INT64_C(1) << 40)
        sum = sum * 10 + in->text[in->at++] - '0';
    const bool is_zero_led = in->at - begin > 1 && in->text[begin] == '0';
    if (in->at == begin || is_zero_led ||
        (in->at < in->size && !strchr(",} \t\r\n", in->text[in->at])))
        return fail(in, "expected an id, a whole number from 0 on");
    *value = sum;
    return CADRE_OK;
}

static cadre_status add(struct cadre_id_map *map, size_t at, size_t size, int64_t id)
{
    if (map->count == map->capacity) {
        const size_t capacity = 2 * map->capacity + 256;
        struct cadre_id_map_entry *grown =
            cadre_realloc(map->entries, capacity, sizeof *grown);
        if (!grown)
            return CADRE_E_RESOURCE;
        map->entries = grown;
        map->capacity = capacity;
    }
    map->entries[map->count++] = (struct cadre_id_map_entry){at, size, id};
    return CADRE_OK;
}

cadre_status cadre_id_map_read(struct cadre_id_map *map, const char *text, size_t size,
                               const char *path, struct cadre_error *err)
{
    struct reader in = {text, size, 0, path, err};
    map->keys = cadre_calloc(size + 4, 1); /* no key is longer than its text */
    if (!map->keys)
        return cadre_no_memory(err, "the entries of \"%s\"", path);
    if (!take(&in, '{'))
        return fail(&in, size == 0 ? "the file is empty" : "expected an object");
    bool more = !take(&in, '}');
    while (more) {
        size_t n = 0;
        int64_t id = 0;
        CADRE_TRY(read_string(&in, map->keys + map->keys_size, &n));
        if (!take(&in, ':'))
            return fail(&in, "expected \":\" behind a key");
        CADRE_TRY(read_integer(&in, &id));
        if (add(map, map->keys_size, n, id) != CADRE_OK)
            return cadre_no_memory(err, "the entries of \"%s\"", path);
        map->keys_size += n;
        more = take(&in, ',');
        if (!more && !take(&in, '}'))
            return fail(&in, "expected \",\" or \"}\": the file is truncated?");
    }
    skip_blanks(&in);
    return in.at == size ? CADRE_OK : fail(&in, "something follows the object");
}

void cadre_id_map_fini(struct cadre_id_map *map)
{
    free(map->entries);
    free(map->keys);
    memset(map, 0, sizeof *map);
}

/* ---- locating ---- */

static void skip_string(struct reader *in)
{
    for (in->at++; in->at < in->size && in->text[in->at] != '"'; in->at++)
        in->at += in->text[in->at] == '\\';
    in->at++;
}

/* Pass one value, whatever it holds. */
static void skip_value(struct reader *in)
{
    int depth = 0;
    skip_blanks(in);
    for (bool more = true; more && in->at < in->size;) {
        const char c = in->text[in->at];
        if (c == '"') {
            skip_string(in);
        } else {
            if (depth == 0 && (c == ',' || c == '}' || c == ']'))
                return;
            depth += (c == '{' || c == '[') - (c == '}' || c == ']');
            in->at++;
        }
        more = depth > 0 || (c != '"' && c != '}' && c != ']');
    }
}

/* Inside an object: go to the value of a key. */
static bool enter(struct reader *in, const char *key)
{
    const size_t n = strlen(key);
    if (!take(in, '{'))
        return false;
    do {
        skip_blanks(in);
        const size_t begin = in->at + 1;
        if (in->at >= in->size || in->text[in->at] != '"')
            return false;
        skip_string(in);
        const bool is_it = in->at == begin + n + 1 && in->at <= in->size &&
                           memcmp(in->text + begin, key, n) == 0;
        if (!take(in, ':'))
            return false;
        if (is_it)
            return true;
        skip_value(in);
    } while (take(in, ','));
    return false;
}

bool cadre_id_map_locate(const char *text, size_t size, const char *outer,
                         const char *inner, size_t *begin, size_t *end)
{
    struct reader in = {.text = text, .size = size};
    if (!enter(&in, outer) || !enter(&in, inner))
        return false;
    skip_blanks(&in);
    *begin = in.at;
    skip_value(&in);
    *end = in.at < size ? in.at : size;
    return *begin < *end;
}
