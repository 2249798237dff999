/* SPDX-License-Identifier: Apache-2.0 */
#include "core/config/option_compare.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

bool cadre_option_same(const char *a, const char *b)
{
    char *end_a, *end_b;
    if (strcmp(a, b) == 0)
        return true;
    double x = strtod(a, &end_a), y = strtod(b, &end_b);
    return *a && *b && !*end_a && !*end_b && x == y;
}

bool cadre_option_is_layout(const char *section, const char *key)
{
    static const char *const sections[] = {"model", "data", "train", "optim", "tune"};
    static const char *const keys[] = {"prefetch",    "pinned",     "cache",
                                       "recompute",   "eval_every", "eval_batches",
                                       "micro_batch", "layout"};
    if (strcmp(section, "run") == 0)
        return strcmp(key, "seed") != 0;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++)
        if (strcmp(section, sections[i]) == 0)
            return false;
    return true;
}
