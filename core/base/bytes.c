/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/bytes.h"

#include <stdio.h>

const char *cadre_bytes_text(double bytes, int decimals, char out[CADRE_BYTES_CHARS])
{
    const char *unit = "MiB";
    double value = bytes / 0x1p20;
    if (value >= 10 * 0x1p20) {
        value /= 0x1p20;
        unit = "TiB";
    } else if (value >= 10 * 0x1p10) {
        value /= 0x1p10;
        unit = "GiB";
    }
    snprintf(out, CADRE_BYTES_CHARS, "%.*f %s", decimals, value, unit);
    return out;
}
