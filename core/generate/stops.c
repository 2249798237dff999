/* SPDX-License-Identifier: Apache-2.0 */
#include "core/generate/stops.h"

#include <string.h>

cadre_status cadre_stops_init(struct cadre_stops *stops, const char *const *texts,
                              size_t n, struct cadre_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (!texts[i][0])
            return cadre_fail(err, CADRE_E_INVALID,
                              "--stop: text %zu of %zu is empty, expected a text at "
                              "which to end",
                              i + 1, n);
    *stops = (struct cadre_stops){.texts = texts, .n = n};
    return CADRE_OK;
}

void cadre_stops_fini(struct cadre_stops *stops)
{
    cadre_text_fini(&stops->held);
}

/* Bytes of the longest of the texts that ends what is held; 0: none does. */
static size_t ending(const struct cadre_stops *stops)
{
    const struct cadre_text *held = &stops->held;
    size_t longest = 0;
    for (size_t i = 0; i < stops->n; i++) {
        const size_t length = strlen(stops->texts[i]);
        if (length > longest && length <= held->len &&
            memcmp(held->data + held->len - length, stops->texts[i], length) == 0)
            longest = length;
    }
    return longest;
}

/* Is the end of what is held, from `at` on, the beginning of one of the texts? */
static bool begins(const struct cadre_stops *stops, size_t at)
{
    const size_t left = stops->held.len - at;
    for (size_t i = 0; i < stops->n; i++)
        if (strncmp(stops->held.data + at, stops->texts[i], left) == 0)
            return true;
    return false;
}

/* Byte by byte, so that the end does not depend on how the text fell into pieces. */
cadre_status cadre_stops_add(struct cadre_stops *stops, const char *bytes, size_t size,
                             const char **show, size_t *n, struct cadre_error *err)
{
    struct cadre_text *held = &stops->held;
    *show = bytes;
    *n = stops->stopped ? 0 : size;
    if (stops->n == 0 || stops->stopped)
        return CADRE_OK;
    if (held->len > 0)
        memmove(held->data, held->data + stops->shown, held->len - stops->shown);
    held->len -= stops->shown;
    stops->shown = 0;
    for (size_t i = 0; i < size && !stops->stopped; i++) {
        cadre_text_append(held, bytes + i, 1);
        if (held->failed)
            return cadre_no_memory(err, "the text that may be the beginning of --stop");
        const size_t length = ending(stops);
        stops->stopped = length > 0;
        held->len -= length;
    }
    while (stops->shown < held->len && (stops->stopped || !begins(stops, stops->shown)))
        stops->shown++;
    *show = cadre_text_str(held);
    *n = stops->shown;
    return CADRE_OK;
}

void cadre_stops_end(struct cadre_stops *stops, const char **show, size_t *n)
{
    *show = cadre_text_str(&stops->held) + stops->shown;
    *n = stops->held.len - stops->shown;
    stops->shown = stops->held.len;
}
