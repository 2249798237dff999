/* SPDX-License-Identifier: Apache-2.0 */
/* comm.link = "GBps:latency_us", or two of them. */
#include <math.h>
#include <string.h>

#include "core/comm/local.h"

/* A decimal number of digits and at most one point, in any locale; *end is the first
 * byte after it. NaN where there is none. */
static double parse_decimal(const char *text, const char **end)
{
    double value = 0, unit = 1;
    bool point = false;
    int digits = 0;
    const char *p = text;
    for (; (*p >= '0' && *p <= '9') || (*p == '.' && !point); p++) {
        if (*p == '.') {
            point = true;
            continue;
        }
        digits++;
        if (point)
            unit /= 10;
        value = point ? value + (*p - '0') * unit : value * 10 + (*p - '0');
    }
    *end = p;
    return digits ? value : NAN;
}

/* One pair, of which *end is the first byte after it; false where it is none. */
static bool parse_pair(const char *text, struct cadre_link *link, const char **end)
{
    link->gbytes_s = parse_decimal(text, end);
    if (isnan(link->gbytes_s) || **end != ':')
        return false;
    link->latency_s = parse_decimal(*end + 1, end) * 1e-6;
    return !isnan(link->latency_s);
}

static bool in_limits(const struct cadre_link *link)
{
    return link->gbytes_s >= 0.001 && link->gbytes_s <= 1e6 && link->latency_s <= 10;
}

cadre_status cadre_link_parse(const char *text, struct cadre_link *inside,
                              struct cadre_link *between, struct cadre_error *err)
{
    struct cadre_link one = {0}, two = {0};
    const char *end = text;
    bool good = !*text || parse_pair(text, &one, &end);
    const bool second = good && *end == ',';
    if (second)
        good = parse_pair(end + 1 + strspn(end + 1, " "), &two, &end);
    if (!good || *end)
        return cadre_fail(err, CADRE_E_INVALID,
                          "comm.link is \"%s\"; expected GBps:latency_us, as "
                          "\"10:50\" for 10 GB/s and 50 us, or two of them, as "
                          "\"12.5:5, 1.25:30\" inside nodes and between them, or "
                          "nothing",
                          text);
    if (*text && (!in_limits(&one) || (second && !in_limits(&two))))
        return cadre_fail(
            err, CADRE_E_INVALID,
            "comm.link is \"%s\"; expected 0.001 to 1e6 GB/s and at most 1e7 "
            "us, as \"10:50\"",
            text);
    *inside = one;
    *between = two;
    return CADRE_OK;
}
