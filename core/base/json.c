/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/json.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "config.h"
#include "core/base/utf8.h"

static void put(struct cadre_json *json, const char *bytes, size_t n)
{
    if (json->text)
        cadre_text_append(json->text, bytes, n);
    else if (fwrite(bytes, 1, n, json->file) != n)
        json->failed = true;
}

static void put_str(struct cadre_json *json, const char *text)
{
    put(json, text, strlen(text));
}

static void new_line(struct cadre_json *json)
{
    if (!json->pretty)
        return;
    put_str(json, "\n");
    for (int i = 0; i < json->depth; i++)
        put_str(json, "  ");
}

/* Write what precedes an element: nothing after a key, else a comma where needed. */
static void lead(struct cadre_json *json)
{
    if (json->after_key) {
        json->after_key = false;
        return;
    }
    if (json->depth == 0)
        return;
    if (json->filled[json->depth - 1])
        put_str(json, json->pretty ? "," : ", ");
    json->filled[json->depth - 1] = true;
    new_line(json);
}

static void put_quoted(struct cadre_json *json, const char *text)
{
    size_t left = strlen(text);
    put_str(json, "\"");
    while (left > 0) {
        unsigned char c = (unsigned char)*text;
        size_t n = cadre_utf8_char(text, left);
        if (c == '"' || c == '\\') {
            const char escaped[2] = {'\\', (char)c};
            put(json, escaped, 2);
        } else if (c < 0x20 || c == 0x7f) {
            char escaped[8];
            snprintf(escaped, sizeof escaped, "\\u%04x", c);
            put_str(json, escaped);
        } else if (n == 0) {
            put_str(json, "\xef\xbf\xbd");
        } else {
            put(json, text, n);
        }
        text += n > 0 ? n : 1;
        left -= n > 0 ? n : 1;
    }
    put_str(json, "\"");
}

static void put_literal(struct cadre_json *json, const char *text)
{
    lead(json);
    put_str(json, text);
}

static void begin(struct cadre_json *json, const char *open, char close)
{
    assert(json->depth < CADRE_JSON_DEPTH);
    put_literal(json, open);
    json->close[json->depth] = close;
    json->filled[json->depth] = false;
    json->depth++;
}

static void end(struct cadre_json *json, char close)
{
    assert(json->depth > 0 && json->close[json->depth - 1] == close &&
           !json->after_key);
    json->depth--;
    if (json->filled[json->depth])
        new_line(json);
    put(json, &close, 1);
}

void cadre_json_init(struct cadre_json *json, FILE *file, bool pretty)
{
    memset(json, 0, sizeof *json);
    json->file = file;
    json->pretty = pretty;
}

void cadre_json_init_text(struct cadre_json *json, struct cadre_text *text, bool pretty)
{
    cadre_json_init(json, NULL, pretty);
    json->text = text;
}

void cadre_json_begin_object(struct cadre_json *json)
{
    begin(json, "{", '}');
}

void cadre_json_end_object(struct cadre_json *json)
{
    end(json, '}');
}

void cadre_json_begin_array(struct cadre_json *json)
{
    begin(json, "[", ']');
}

void cadre_json_end_array(struct cadre_json *json)
{
    end(json, ']');
}

void cadre_json_key(struct cadre_json *json, const char *key)
{
    assert(json->depth > 0 && json->close[json->depth - 1] == '}' && !json->after_key);
    lead(json);
    put_quoted(json, key);
    put_str(json, ": ");
    json->after_key = true;
}

void cadre_json_string(struct cadre_json *json, const char *text)
{
    if (!text) {
        cadre_json_null(json);
        return;
    }
    lead(json);
    put_quoted(json, text);
}

void cadre_json_i64(struct cadre_json *json, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, value);
    put_literal(json, text);
}

void cadre_json_u64(struct cadre_json *json, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    put_literal(json, text);
}

void cadre_json_f64(struct cadre_json *json, double value)
{
    char text[32];
    if (!isfinite(value)) {
        cadre_json_null(json);
        return;
    }
    snprintf(text, sizeof text, "%.17g", value);
    put_literal(json, text);
}

void cadre_json_bool(struct cadre_json *json, bool value)
{
    put_literal(json, value ? "true" : "false");
}

void cadre_json_null(struct cadre_json *json)
{
    put_literal(json, "null");
}

cadre_status cadre_json_finish(struct cadre_json *json)
{
    assert(json->depth == 0 && !json->after_key);
    put_str(json, "\n");
    if (json->text)
        return json->text->failed ? CADRE_E_RESOURCE : CADRE_OK;
    if (fflush(json->file) != 0 || ferror(json->file))
        json->failed = true;
    return json->failed ? CADRE_E_IO : CADRE_OK;
}

void cadre_json_put_string(struct cadre_json *json, const char *key, const char *text)
{
    cadre_json_key(json, key);
    cadre_json_string(json, text);
}

void cadre_json_put_i64(struct cadre_json *json, const char *key, int64_t value)
{
    cadre_json_key(json, key);
    cadre_json_i64(json, value);
}

void cadre_json_put_f64(struct cadre_json *json, const char *key, double value)
{
    cadre_json_key(json, key);
    cadre_json_f64(json, value);
}

void cadre_json_put_bool(struct cadre_json *json, const char *key, bool value)
{
    cadre_json_key(json, key);
    cadre_json_bool(json, value);
}

const char *cadre_json_date(char out[CADRE_JSON_DATE])
{
    struct tm utc;
    time_t now = time(NULL);
    memset(out, 0, CADRE_JSON_DATE);
    if (gmtime_r(&now, &utc))
        strftime(out, CADRE_JSON_DATE, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return out;
}

void cadre_json_put_head(struct cadre_json *json, int schema_version)
{
    char date[CADRE_JSON_DATE];
    cadre_json_put_i64(json, "schema_version", schema_version);
    cadre_json_put_string(json, "build", PACKAGE_STRING);
    cadre_json_put_string(json, "date", cadre_json_date(date));
}
