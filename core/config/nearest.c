/* SPDX-License-Identifier: Apache-2.0 */
#include "core/config/nearest.h"

#include <ctype.h>
#include <string.h>

enum { LONGEST = 64 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static int same(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

size_t cadre_edit_distance(const char *a, const char *b)
{
    size_t rows[3][LONGEST + 1];
    size_t na = strnlen(a, LONGEST), nb = strnlen(b, LONGEST);
    for (size_t j = 0; j <= nb; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t *now = rows[i % 3];
        const size_t *up = rows[(i + 2) % 3], *up2 = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            size_t replaced = up[j - 1] + !same(a[i - 1], b[j - 1]);
            now[j] = least(replaced, least(up[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
                now[j] = least(now[j], up2[j - 2] + 1);
        }
    }
    return rows[na % 3][nb];
}

void cadre_nearest_offer(struct cadre_nearest *nearest, const char *word,
                         const char *candidate)
{
    size_t distance = cadre_edit_distance(word, candidate);
    if (distance > 1 + strlen(word) / 3)
        return;
    if (!nearest->name || distance < nearest->distance) {
        nearest->name = candidate;
        nearest->distance = distance;
    }
}
