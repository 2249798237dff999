/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/format.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Three digits and a unit. */
static const char *scaled(double value, const char *unit, char *out, size_t size)
{
    double magnitude = fabs(value);
    int digits = magnitude >= 99.95 ? 0 : magnitude >= 9.995 ? 1 : 2;
    snprintf(out, size, "%.*f %s", digits, value, unit);
    return out;
}

const char *cadre_format_seconds(double seconds, char *out, size_t size)
{
    double magnitude = fabs(seconds);
    if (!isfinite(seconds))
        snprintf(out, size, "-");
    else if (magnitude == 0)
        snprintf(out, size, "0 s");
    else if (magnitude >= 0.9995)
        scaled(seconds, "s", out, size);
    else if (magnitude >= 0.9995e-3)
        scaled(seconds * 1e3, "ms", out, size);
    else
        scaled(seconds * 1e6, "us", out, size);
    return out;
}

const char *cadre_format_count(double count, char *out, size_t size)
{
    char digits[64];
    size_t used = 0;
    if (!isfinite(count) || fabs(count) >= 1e18) {
        snprintf(out, size, "-");
        return out;
    }
    int n = snprintf(digits, sizeof digits, "%.0f", count);
    for (int i = 0; i < n && used + 2 < size; i++) {
        bool gap = i > 0 && (n - i) % 3 == 0 && digits[i - 1] != '-';
        if (gap)
            out[used++] = ' ';
        out[used++] = digits[i];
    }
    out[used] = 0;
    return out;
}

const char *cadre_format_bytes(double bytes, char *out, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    if (!isfinite(bytes)) {
        snprintf(out, size, "-");
        return out;
    }
    while (fabs(bytes) >= 1024 && unit < 4) {
        bytes /= 1024;
        unit++;
    }
    if (unit == 0)
        snprintf(out, size, "%.0f B", bytes);
    else
        scaled(bytes, units[unit], out, size);
    return out;
}
