/* SPDX-License-Identifier: Apache-2.0 */
/* Heap helpers and a growable text. Everything is freed with free(). [any thread] */
#ifndef CADRE_BASE_MEMORY_H
#define CADRE_BASE_MEMORY_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* n zeroed elements; NULL where there is no memory or n * size overflows. Zero elements
 * return a pointer that is not NULL, so NULL always means failure. */
void *cadre_calloc(size_t n, size_t size);

/* Resize an array of `size`-byte elements to n; the old one stays valid on failure
 * (NULL). New elements are not zeroed. */
void *cadre_realloc(void *old, size_t n, size_t size);

/* A copy of text, NULL for NULL or no memory. */
char *cadre_strdup(const char *text);

/* A copy of at most n bytes of text. */
char *cadre_strndup(const char *text, size_t n);

/* Strip blanks from both ends in place; returns the new start, inside text. */
char *cadre_strip(char *text);

/* The formatted text; NULL where there is no memory. */
char *cadre_format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Bytes of this process in memory: now, and (peak may be NULL) the most ever, both of
 * all its threads; zeros where the system does not report it. */
void cadre_memory_resident(uint64_t *now, uint64_t *peak);

/* A text that grows. Zero-initialised is empty; data is NULL or ends with a zero. Once
 * an append failed for memory, `failed` stays set and later appends do nothing. */
struct cadre_text {
    char *data;
    size_t len;
    size_t cap;
    bool failed;
};

void cadre_text_append(struct cadre_text *text, const char *bytes, size_t n);
void cadre_text_printf(struct cadre_text *text, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void cadre_text_vprintf(struct cadre_text *text, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));

/* The text so far, "" where empty; valid until the next call on it. */
const char *cadre_text_str(const struct cadre_text *text);

/* Empty it and keep the memory. */
void cadre_text_reset(struct cadre_text *text);
void cadre_text_fini(struct cadre_text *text);

#endif
