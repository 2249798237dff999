/* SPDX-License-Identifier: Apache-2.0 */
#include "core/data/split/holdout.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/base/rng.h"

uint64_t cadre_holdout_share(uint64_t n, double fraction)
{
    uint64_t held = (uint64_t)((double)n * fraction + 0.5);
    if (held == 0 && fraction > 0)
        held = 1;
    return held < n ? held : n > 0 ? n - 1 : 0;
}

bool cadre_holdout_has(const struct cadre_holdout *holdout, uint64_t item)
{
    if (holdout->key == 0)
        return item >= holdout->count - holdout->held;
    return cadre_rng_permute(holdout->key, item, holdout->count) < holdout->held;
}

double cadre_holdout_seen(const struct cadre_holdout *then,
                          const struct cadre_holdout *now)
{
    uint64_t seen = 0;
    if (then->content == 0 || then->content != now->content ||
        then->count != now->count || now->held == 0)
        return 0;
    if (then->key == 0 && now->key == 0)
        seen = now->held > then->held ? now->held - then->held : 0;
    else
        for (uint64_t i = 0; i < now->count; i++)
            seen += cadre_holdout_has(now, i) && !cadre_holdout_has(then, i);
    return (double)seen / (double)now->held;
}

void cadre_holdout_write(const struct cadre_holdout *holdout,
                         char out[CADRE_HOLDOUT_CHARS])
{
    snprintf(out, CADRE_HOLDOUT_CHARS,
             "%016" PRIx64 " %" PRIu64 " %" PRIu64 " %" PRIx64, holdout->content,
             holdout->held, holdout->count, holdout->key);
}

bool cadre_holdout_parse(const char *text, struct cadre_holdout *holdout)
{
    struct cadre_holdout read;
    char rest;
    *holdout = (struct cadre_holdout){0};
    /* NOLINTNEXTLINE(cert-err34-c): %c sees what is left, and the bounds are checked */
    if (sscanf(text, "%16" SCNx64 " %19" SCNu64 " %19" SCNu64 " %16" SCNx64 "%c",
               &read.content, &read.held, &read.count, &read.key, &rest) != 4 ||
        read.held > read.count)
        return false;
    *holdout = read;
    return true;
}
