/* SPDX-License-Identifier: Apache-2.0 */
/* The file is 16-bit little-endian words: 6 bits of code, 10 bits of time step or
 * value. Codes above 58 change the annotation before them, or (SKIP) the time of the
 * next. */
#include "core/data/wfdb/wfdb_annotation.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/cache/mapping.h"

enum {
    CODE_NOTQRS = 0,
    CODE_NOTE = 22,
    CODE_MAX = 49,
    CODE_SKIP = 59,
    CODE_NUM = 60,
    CODE_SUB = 61,
    CODE_CHN = 62,
    CODE_AUX = 63,
    ANNOTATION_BYTES_MAX = 1 << 28,
};

static const char *const symbols[] = {
    " ", "N", "L",    "R",    "a",    "V",    "F",    "J",    "A",    "S",
    "E", "j", "/",    "Q",    "~",    "[15]", "|",    "[17]", "s",    "T",
    "*", "D", "\"",   "=",    "p",    "B",    "^",    "t",    "+",    "u",
    "?", "!", "[",    "]",    "e",    "n",    "@",    "x",    "f",    "(",
    ")", "r", "[42]", "[43]", "[44]", "[45]", "[46]", "[47]", "[48]", "[49]",
};

const char *cadre_wfdb_symbol(uint8_t code)
{
    return code <= CODE_MAX ? symbols[code] : "[?]";
}

int cadre_wfdb_aami_class(uint8_t code)
{
    static const struct {
        char symbol;
        int class_id;
    } classes[] = {
        {'N', CADRE_AAMI_N}, {'L', CADRE_AAMI_N}, {'R', CADRE_AAMI_N},
        {'B', CADRE_AAMI_N}, {'e', CADRE_AAMI_N}, {'j', CADRE_AAMI_N},
        {'n', CADRE_AAMI_N}, {'A', CADRE_AAMI_S}, {'a', CADRE_AAMI_S},
        {'J', CADRE_AAMI_S}, {'S', CADRE_AAMI_S}, {'V', CADRE_AAMI_V},
        {'E', CADRE_AAMI_V}, {'r', CADRE_AAMI_V}, {'F', CADRE_AAMI_F},
        {'/', CADRE_AAMI_Q}, {'f', CADRE_AAMI_Q}, {'Q', CADRE_AAMI_Q},
        {'?', CADRE_AAMI_Q},
    };
    const char *symbol = cadre_wfdb_symbol(code);
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++)
        if (symbol[0] == classes[i].symbol && symbol[1] == '\0')
            return classes[i].class_id;
    return -1;
}

struct cursor {
    const uint8_t *bytes;
    size_t size;
    size_t at;
    int64_t time;
    const char *where;
    struct cadre_error *err;
};

static cadre_status need(const struct cursor *cur, size_t bytes)
{
    if (cur->size - cur->at >= bytes)
        return CADRE_OK;
    return cadre_fail(
        cur->err, CADRE_E_INVALID,
        "%s: byte %zu: expected %zu more bytes or the end mark, found the "
        "end of the file: it is truncated",
        cur->where, cur->at, bytes);
}

static uint32_t word_at(const struct cursor *cur, size_t at)
{
    return (uint32_t)cur->bytes[at] | (uint32_t)cur->bytes[at + 1] << 8;
}

/* SKIP: a signed 32-bit step, high word first. */
static cadre_status skip(struct cursor *cur)
{
    CADRE_TRY(need(cur, 4));
    uint32_t step = word_at(cur, cur->at) << 16 | word_at(cur, cur->at + 2);
    cur->time += (int32_t)step;
    cur->at += 4;
    return CADRE_OK;
}

static cadre_status take_aux(struct cursor *cur, uint32_t size,
                             struct cadre_wfdb_annotation *item)
{
    size_t padded = size + (size & 1);
    if (size > UINT8_MAX)
        return cadre_fail(cur->err, CADRE_E_INVALID,
                          "%s: byte %zu: expected at most 255 bytes of text, found %u",
                          cur->where, cur->at, size);
    CADRE_TRY(need(cur, padded));
    item->aux = (const char *)cur->bytes + cur->at;
    item->aux_size = (uint8_t)size;
    cur->at += padded;
    return CADRE_OK;
}

/* The words that follow an annotation and change it. */
static cadre_status take_changes(struct cursor *cur, struct cadre_wfdb_annotation *item)
{
    while (cur->size - cur->at >= 2) {
        uint32_t word = word_at(cur, cur->at);
        uint32_t value = word & 0x3ff;
        cadre_status rc = CADRE_OK;
        switch (word >> 10) {
        case CODE_NUM:
            item->num = (int8_t)value;
            break;
        case CODE_SUB:
            item->subtype = (int8_t)value;
            break;
        case CODE_CHN:
            item->chan = (int8_t)value;
            break;
        case CODE_AUX:
            break;
        default:
            return CADRE_OK;
        }
        cur->at += 2;
        if (word >> 10 == CODE_AUX)
            rc = take_aux(cur, value, item);
        if (rc != CADRE_OK)
            return rc;
    }
    return CADRE_OK;
}

/* The next word that is an annotation or the end mark. Code 0 (NOTQRS) is neither but
 * where all the word is 0: it moves the time alone, as after definitions of types,
 * where a SKIP of -1 takes back its step of 1. */
static cadre_status next_word(struct cursor *cur, struct cadre_wfdb_annotation *item,
                              uint32_t *word)
{
    for (;;) {
        CADRE_TRY(need(cur, 2));
        *word = word_at(cur, cur->at);
        cur->at += 2;
        if (*word >> 10 == CODE_SKIP) {
            CADRE_TRY(skip(cur));
            continue;
        }
        cur->time += *word & 0x3ff;
        if (*word >> 10 != CODE_NOTQRS || *word == 0)
            return CADRE_OK;
        CADRE_TRY(take_changes(cur, item));
    }
}

/* Take the next annotation; false at the end mark. num and chan last until changed. */
static cadre_status take(struct cursor *cur, struct cadre_wfdb_annotation *item,
                         bool *more)
{
    uint32_t word = 0;
    CADRE_TRY(next_word(cur, item, &word));
    *more = word != 0;
    if (!*more)
        return CADRE_OK;
    if (word >> 10 > CODE_MAX)
        return cadre_fail(
            cur->err, CADRE_E_INVALID,
            "%s: byte %zu: expected an annotation code of 1 to 49, found %u",
            cur->where, cur->at - 2, word >> 10);
    if (cur->time < 0)
        return cadre_fail(cur->err, CADRE_E_INVALID,
                          "%s: byte %zu: expected a time of 0 or more, found %lld",
                          cur->where, cur->at - 2, (long long)cur->time);
    item->time = cur->time;
    item->code = (uint8_t)(word >> 10);
    item->subtype = 0;
    item->aux = NULL;
    item->aux_size = 0;
    CADRE_TRY(take_changes(cur, item));
    return CADRE_OK;
}

/* A first note "## time resolution: 360" describes the file, not the record. */
static double time_resolution(const struct cadre_wfdb_annotation *item)
{
    static const char prefix[] = "## time resolution: ";
    char text[64] = "";
    if (item->code != CODE_NOTE || item->time != 0 || item->aux_size >= sizeof text ||
        item->aux_size < sizeof prefix - 1 ||
        memcmp(item->aux, prefix, sizeof prefix - 1) != 0)
        return 0;
    memcpy(text, item->aux, item->aux_size);
    return strtod(text + sizeof prefix - 1, NULL);
}

static cadre_status take_all(struct cursor *cur, struct cadre_wfdb_annotations *list)
{
    struct cadre_wfdb_annotation item = {0};
    bool more = false;
    for (;;) {
        CADRE_TRY(take(cur, &item, &more));
        if (!more)
            break;
        double frequency = list->count == 0 ? time_resolution(&item) : 0;
        if (frequency > 0)
            list->frequency = frequency;
        else
            list->items[list->count++] = item;
    }
    return CADRE_OK;
}

cadre_status cadre_wfdb_annotations_parse(const void *bytes, size_t size,
                                          const char *where,
                                          struct cadre_wfdb_annotations *list,
                                          struct cadre_error *err)
{
    struct cadre_wfdb_annotations found = {0};
    cadre_status rc;
    found.bytes = malloc(size + 1);
    found.items = malloc((size / 2 + 1) * sizeof *found.items);
    if (!found.bytes || !found.items) {
        rc = cadre_fail(err, CADRE_E_RESOURCE, "%s: no memory for %zu annotations",
                        where, size / 2);
        goto fail;
    }
    memcpy(found.bytes, bytes, size);
    struct cursor cur = {.bytes = (const uint8_t *)found.bytes,
                         .size = size,
                         .where = where,
                         .err = err};
    CADRE_TRY_OR(take_all(&cur, &found), fail);
    *list = found;
    return CADRE_OK;
fail:
    cadre_wfdb_annotations_fini(&found);
    return rc;
}

cadre_status cadre_wfdb_annotations_read(const char *path,
                                         struct cadre_wfdb_annotations *list,
                                         struct cadre_error *err)
{
    char *bytes = NULL;
    size_t size = 0;
    cadre_status rc =
        cadre_mapping_read(path, ANNOTATION_BYTES_MAX, &bytes, &size, err);
    if (rc == CADRE_OK)
        rc = cadre_wfdb_annotations_parse(bytes, size, path, list, err);
    free(bytes);
    return rc;
}

void cadre_wfdb_annotations_fini(struct cadre_wfdb_annotations *list)
{
    free(list->items);
    free(list->bytes);
    memset(list, 0, sizeof *list);
}
