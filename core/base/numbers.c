/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/numbers.h"

#include <stdlib.h>
#include <string.h>

/* strtod would take signs, "nan" and hexadecimal digits too. */
static int parse_one(const char **at, double *out)
{
    size_t length = strspn(*at, "0123456789.");
    char *end;
    *out = strtod(*at, &end);
    if (length == 0 || end != *at + length)
        return -1;
    *at = end;
    return 0;
}

int cadre_numbers_parse(const char *text, const char *stop, double *out, int room,
                        const char **end)
{
    int n = 0;
    const char *at = text + strspn(text, " \t");
    for (; *at && !strchr(stop, *at); n++) {
        double value;
        if (n > 0 && *at == ',')
            at += 1 + strspn(at + 1, " \t");
        if (parse_one(&at, &value))
            return -1;
        if (*at && !strchr(" \t,", *at) && !strchr(stop, *at))
            return -1;
        if (n < room)
            out[n] = value;
        at += strspn(at, " \t");
    }
    *end = at;
    return n;
}
