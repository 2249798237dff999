/* SPDX-License-Identifier: Apache-2.0 */
/* Overflow is checked here and not left to libc, whose debugging versions abort on it.
 */
#include "core/base/memory.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *cadre_calloc(size_t n, size_t size)
{
    size_t bytes;
    if (n == 0 || size == 0)
        n = size = 1;
    if (__builtin_mul_overflow(n, size, &bytes))
        return NULL;
    return calloc(1, bytes);
}

void *cadre_realloc(void *old, size_t n, size_t size)
{
    size_t bytes;
    if (n == 0 || size == 0)
        n = size = 1;
    if (__builtin_mul_overflow(n, size, &bytes))
        return NULL;
    return realloc(old, bytes);
}

char *cadre_strdup(const char *text)
{
    return text ? strdup(text) : NULL;
}

char *cadre_strndup(const char *text, size_t n)
{
    return text ? strndup(text, n) : NULL;
}

char *cadre_strip(char *text)
{
    size_t n = strlen(text);
    while (n > 0 && isspace((unsigned char)text[n - 1]))
        text[--n] = 0;
    while (isspace((unsigned char)*text))
        text++;
    return text;
}

char *cadre_format(const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    return n < 0 ? NULL : text;
}

/* The bytes of a line "NAME: 1234 kB", else the previous value. */
static uint64_t bytes_of_line(const char *line, const char *name, uint64_t before)
{
    const size_t length = strlen(name);
    if (strncmp(line, name, length) != 0)
        return before;
    return 1024 * (uint64_t)strtoull(line + length, NULL, 10);
}

void cadre_memory_resident(uint64_t *now, uint64_t *peak)
{
    char line[128];
    FILE *file = fopen("/proc/self/status", "re");
    *now = 0;
    if (peak)
        *peak = 0;
    while (file && fgets(line, sizeof line, file)) {
        *now = bytes_of_line(line, "VmRSS:", *now);
        if (peak)
            *peak = bytes_of_line(line, "VmHWM:", *peak);
    }
    if (file)
        fclose(file);
}

/* Reserve n more bytes and the final zero. */
static bool reserve(struct cadre_text *text, size_t n)
{
    if (text->failed)
        return false;
    if (n < text->cap - text->len)
        return true;
    if (n > SIZE_MAX / 4 - text->len) {
        text->failed = true;
        return false;
    }
    size_t cap = 2 * (text->len + n) + 64;
    char *data = realloc(text->data, cap);
    if (!data) {
        text->failed = true;
        return false;
    }
    text->data = data;
    text->cap = cap;
    return true;
}

void cadre_text_append(struct cadre_text *text, const char *bytes, size_t n)
{
    if (!reserve(text, n))
        return;
    if (n > 0)
        memcpy(text->data + text->len, bytes, n);
    text->len += n;
    text->data[text->len] = 0;
}

void cadre_text_vprintf(struct cadre_text *text, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    if (n < 0)
        text->failed = true;
    else if (reserve(text, (size_t)n)) {
        vsnprintf(text->data + text->len, (size_t)n + 1, fmt, again);
        text->len += (size_t)n;
    }
    va_end(again);
}

void cadre_text_printf(struct cadre_text *text, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    cadre_text_vprintf(text, fmt, ap);
    va_end(ap);
}

const char *cadre_text_str(const struct cadre_text *text)
{
    return text->data ? text->data : "";
}

void cadre_text_reset(struct cadre_text *text)
{
    text->len = 0;
    text->failed = false;
    if (text->data)
        text->data[0] = 0;
}

void cadre_text_fini(struct cadre_text *text)
{
    free(text->data);
    memset(text, 0, sizeof *text);
}
