/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/verdict/seeds.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/student.h"

static const char *option_of(const struct cadre_compared_run *run, const char *name)
{
    const char *text = run->options ? cadre_options_raw(run->options, name) : NULL;
    return text ? text : "";
}

/* The hash of a setup leaves all of [run] out. */
static bool same_setting(const struct cadre_compared_run *a,
                         const struct cadre_compared_run *b)
{
    return a == b || (a->setup != 0 && a->setup == b->setup && a->exact == b->exact &&
                      strcmp(a->sums, b->sums) == 0 && !a->instances && !b->instances &&
                      strcmp(option_of(a, "run.seed"), option_of(b, "run.seed")) != 0);
}

bool cadre_seeds_differ(const struct cadre_compared_run *a,
                        const struct cadre_compared_run *b)
{
    return a != b && same_setting(a, b);
}

bool cadre_seeds_only(const struct cadre_compared_run *run)
{
    static const char seed[] = "run.seed (";
    const char *end = strchr(run->other_training, ')');
    return strncmp(run->other_training, seed, strlen(seed)) == 0 && end && !end[1];
}

size_t cadre_seeds_baseline(const struct cadre_comparison *c, size_t i)
{
    const struct cadre_compared_run *base = &c->run[c->baseline];
    const char *seed = option_of(&c->run[i], "run.seed");
    if (!cadre_seeds_only(&c->run[i]))
        return c->baseline;
    for (size_t k = 0; k < c->n; k++)
        if (cadre_seeds_differ(base, &c->run[k]) &&
            strcmp(option_of(&c->run[k], "run.seed"), seed) == 0)
            return k;
    return c->baseline;
}

bool cadre_seeds_wanted(const struct cadre_comparison *c)
{
    if (c->n > 0 && *option_of(&c->run[0], "compare.vary"))
        return true;
    for (size_t i = 0; i < c->n; i++)
        for (size_t k = 0; k < i; k++)
            if (cadre_seeds_differ(&c->run[i], &c->run[k]))
                return true;
    return false;
}

/* "ddp-2_seed-1" without "_seed-1"; "all" where nothing else is left. */
static void name_group(const struct cadre_compared_run *run, struct cadre_seed_group *g)
{
    char seed[64];
    snprintf(seed, sizeof seed, "seed-%.40s", option_of(run, "run.seed"));
    const char *at = g->runs > 1 ? strstr(run->name, seed) : NULL;
    const char *end = at ? at + strlen(seed) : NULL;
    if (!at || (*end && *end != '_') || (at != run->name && at[-1] != '_')) {
        snprintf(g->name, sizeof g->name, "%s", run->name);
        return;
    }
    if (*end)
        end++;
    else if (at != run->name)
        at--;
    snprintf(g->name, sizeof g->name, "%.*s%s", (int)(at - run->name), run->name, end);
    if (!*g->name)
        snprintf(g->name, sizeof g->name, "all");
}

/* Of all runs in the setting of `first`; `room` (c->n) is overwritten. */
static size_t take_mean(const struct cadre_comparison *c, size_t first, const char *key,
                        double *room, struct cadre_interval *out)
{
    size_t n = 0;
    double half;
    for (size_t i = first; i < c->n; i++) {
        double value = cadre_record_number(&c->run[i].record, key);
        if (same_setting(&c->run[first], &c->run[i]) && isfinite(value))
            room[n++] = value;
    }
    out->value = cadre_student_mean(room, n, &half);
    out->low = out->value - half;
    out->high = out->value + half;
    return n;
}

static bool is_in_a_group(const struct cadre_comparison *c,
                          const struct cadre_seeds *seeds, size_t run)
{
    for (size_t i = 0; i < seeds->n; i++)
        if (same_setting(&c->run[seeds->group[i].first], &c->run[run]))
            return true;
    return false;
}

static void find_best(struct cadre_seeds *seeds, const struct cadre_comparison *c)
{
    double best = INFINITY;
    seeds->best = -1;
    for (size_t i = 0; i < c->n; i++) {
        double value = cadre_record_number(&c->run[i].record, "valid_loss");
        if (!strstr(c->run[i].other_training, "data.") && value < best) {
            best = value;
            seeds->best = (ptrdiff_t)i;
        }
    }
}

void cadre_seeds_fill(struct cadre_seeds *seeds, const struct cadre_comparison *c)
{
    double *room = cadre_calloc(c->n, sizeof *room);
    *seeds = (struct cadre_seeds){.group = cadre_calloc(c->n, sizeof *seeds->group)};
    seeds->failed = !room || !seeds->group;
    for (size_t i = 0; !seeds->failed && i < c->n; i++) {
        struct cadre_seed_group *g = &seeds->group[seeds->n];
        if (is_in_a_group(c, seeds, i))
            continue;
        g->first = i;
        for (size_t k = i; k < c->n; k++)
            g->runs += same_setting(&c->run[i], &c->run[k]);
        name_group(&c->run[i], g);
        g->n_last = take_mean(c, i, "loss_last", room, &g->last);
        g->n_valid = take_mean(c, i, "valid_loss", room, &g->valid);
        seeds->n++;
    }
    find_best(seeds, c);
    free(room);
}

void cadre_seeds_fini(struct cadre_seeds *seeds)
{
    free(seeds->group);
    *seeds = (struct cadre_seeds){0};
}
