/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/mig/sizes.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEPARATORS ", \t"

bool mig_sizes_read(const char *text, struct mig_sizes *out, char *why, size_t size)
{
    out->n = 0;
    for (const char *at = text + strspn(text, SEPARATORS); *at;
         at += strspn(at, SEPARATORS)) {
        char *end;
        unsigned long value = strtoul(at, &end, 10);
        if (!isdigit((unsigned char)*at) || (*end && !strchr(SEPARATORS, *end)) ||
            value < 1 || value > MIG_MAX_SIZE || out->n == MIG_MAX_SIZES) {
            snprintf(why, size,
                     "mig.sizes: expected at most %u numbers from 1 to %u, as in '3 "
                     "1', found '%.64s'",
                     MIG_MAX_SIZES, MIG_MAX_SIZE, text);
            return false;
        }
        out->of[out->n++] = (uint32_t)value;
        at = end;
    }
    return true;
}

uint64_t mig_sizes_sum(const struct mig_sizes *sizes, uint32_t first, uint32_t n)
{
    uint64_t sum = 0;
    for (uint32_t i = first; i < first + n; i++)
        sum += sizes->of[i];
    return sum;
}

bool mig_sizes_divide(const struct mig_sizes *sizes, uint64_t m, uint64_t *first)
{
    uint64_t *count = first + 1; /* of each part, until they are summed */
    if (m < sizes->n)
        return false;
    for (uint32_t r = 0; r < sizes->n; r++)
        count[r] = 1;
    for (uint64_t given = sizes->n; given < m; given++) {
        uint32_t best = 0; /* (count + 1) / size is least: compared as products */
        for (uint32_t r = 1; r < sizes->n; r++)
            if ((count[r] + 1) * sizes->of[best] < (count[best] + 1) * sizes->of[r])
                best = r;
        count[best]++;
    }
    first[0] = 0;
    for (uint32_t r = 0; r < sizes->n; r++)
        first[r + 1] += first[r];
    return true;
}
