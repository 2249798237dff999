/* SPDX-License-Identifier: Apache-2.0 */
/* comm.link = "GBps:latency_us". */
#include <math.h>

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

cadre_status cadre_link_parse(const char *text, double *gbytes_s, double *latency_s,
                              struct cadre_error *err)
{
    const char *end;
    if (!*text) {
        *gbytes_s = 0;
        *latency_s = 0;
        return CADRE_OK;
    }
    double rate = parse_decimal(text, &end);
    if (isnan(rate) || *end != ':')
        goto fail;
    double latency = parse_decimal(end + 1, &end);
    if (isnan(latency) || *end)
        goto fail;
    if (!(rate >= 0.001 && rate <= 1e6) || latency > 1e7)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "comm.link is \"%s\"; expected 0.001 to 1e6 GB/s and at most 1e7 "
            "us, as \"10:50\"",
            text);
    *gbytes_s = rate;
    *latency_s = latency * 1e-6;
    return CADRE_OK;
fail:
    return cadre_fail(err, CADRE_E_INVALID,
                      "comm.link is \"%s\"; expected GBps:latency_us, as \"10:50\" for "
                      "10 GB/s and 50 us, or nothing",
                      text);
}
