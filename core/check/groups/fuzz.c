/* SPDX-License-Identifier: Apache-2.0 */
/* Random variants, with several things changed at once, and a call that fails. */
#include <stdio.h>

#include "core/base/clock.h"
#include "core/base/rng.h"
#include "core/check/groups/groups.h"

#define TRIALS 40u /* without --fuzz */

/* A call that fails leaves rules broken that are no fault: only these are looked at. */
#define RULES_OF_FAILURE (1u << CADRE_RULE_STATUS | 1u << CADRE_RULE_TEXT)

static bool try_one(struct cadre_case *c, const struct cadre_plugin_handle *plugin,
                    uint64_t seed)
{
    struct cadre_variant variant;
    struct cadre_rehearsal_report report;
    cadre_variant_random(plugin, seed, &variant);
    uint64_t key = cadre_rng_key(seed, "failure");
    if (cadre_rng_below(key, 0, 3) == 0) {
        variant.setup.fail_rank =
            (int)cadre_rng_below(key, 1, (uint64_t)variant.setup.ranks);
        variant.setup.fail_call = 1 + (uint32_t)cadre_rng_below(key, 2, 400);
    }
    if (!cadre_case_rehearse(c, &variant.setup, &report))
        return false;
    for (int rule = 0; rule < CADRE_RULES; rule++)
        if (report.rule[rule].broken &&
            (!report.failed_on_purpose || (RULES_OF_FAILURE >> rule & 1)))
            cadre_case_fail(c, "%s%s%s: %s; again: --reproduce %llu", variant.name,
                            report.failed_on_purpose ? ", failing " : "",
                            report.failed_call, report.rule[rule].text,
                            (unsigned long long)seed);
    if (!c->failing && report.end == CADRE_REHEARSAL_FAILED &&
        !report.failed_on_purpose)
        cadre_case_fail(c, "%s: %s; again: --reproduce %llu", variant.name, report.text,
                        (unsigned long long)seed);
    return !c->failing;
}

/* A crash has no verdict: the seed that runs is in the output. */
static void fuzz(struct cadre_case *c)
{
    const struct cadre_plugin_handle *plugin = cadre_case_stepping(c);
    double begin = cadre_now_s();
    uint32_t done = 0;
    uint32_t least = c->reproduce ? 1 : TRIALS;
    while (plugin && (done < least || cadre_now_s() - begin < c->fuzz_s)) {
        uint64_t seed = c->seed + (c->reproduce ? 0 : done);
        fprintf(stderr, "again: --reproduce %llu\n", (unsigned long long)seed);
        if (!try_one(c, plugin, seed))
            return;
        done++;
    }
    if (plugin)
        cadre_case_note(c, "%u trials", done);
}

static const struct cadre_check checks[] = {
    {.id = "Z1",
     .group = "fuzz",
     .title = "random plans, delays and failures break no rule",
     .why = "Faults hide where two conditions meet that nobody had tried together.",
     .see = "docs/check.md",
     .level = CADRE_LEVEL_FAULT_TOLERANT,
     .needs = "D6",
     .run = fuzz},
};

const struct cadre_check_group cadre_check_fuzz = {"fuzz", checks, 1};
