/* SPDX-License-Identifier: Apache-2.0 */
/* Ways to use a plugin: each thing by itself, or several at once by chance. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/rng.h"
#include "core/check/groups/groups.h"

#define MOST_VALUES 16u /* of an option that are tried */

static void begin(const struct cadre_plugin_handle *plugin, uint64_t seed, int ranks,
                  struct cadre_variant *out)
{
    memset(out, 0, sizeof *out);
    out->setup.plugin = plugin;
    out->setup.seed = seed;
    out->setup.ranks = ranks;
    out->setup.settings = out->settings;
    snprintf(out->name, sizeof out->name, "%d rank%s", ranks, ranks == 1 ? "" : "s");
}

static void add_name(struct cadre_variant *v, const char *what)
{
    size_t used = strlen(v->name);
    snprintf(v->name + used, sizeof v->name - used, ", %s", what);
}

static void add_setting(struct cadre_variant *v, const char *setting)
{
    for (uint32_t i = 0; i < CADRE_VARIANT_SETTINGS; i++)
        if (!v->settings[i]) {
            snprintf(v->setting[i], sizeof v->setting[i], "%s", setting);
            v->settings[i] = v->setting[i];
            add_name(v, setting);
            return;
        }
}

/* ---- options ---- */

static const struct cadre_option *option_at(const struct cadre_plugin_handle *plugin,
                                            uint32_t index)
{
    const char *at = (const char *)plugin->desc.options;
    return (const void *)(at + (size_t)index * plugin->desc.option_stride);
}

/* The n-th value of an option that is not its default, as "key=value"; false: there is
 * none. Numbers with few values have each of them. */
static bool other_value(const struct cadre_option *option, uint32_t n, char *out,
                        size_t bytes)
{
    bool on = strcmp(option->def, "yes") == 0 || strcmp(option->def, "on") == 0 ||
              strcmp(option->def, "true") == 0 || strcmp(option->def, "1") == 0;
    if (option->type == CADRE_OPTION_BOOL) {
        snprintf(out, bytes, "%s=%s", option->key, on ? "no" : "yes");
        return n == 0;
    }
    if (option->type == CADRE_OPTION_ENUM && option->choices) {
        const char *at = option->choices;
        for (; *at; at += strcspn(at, ","), at += *at == ',') {
            at += strspn(at, " ");
            size_t length = strcspn(at, ", ");
            bool def =
                strlen(option->def) == length && strncmp(option->def, at, length) == 0;
            if (def || n-- > 0)
                continue;
            snprintf(out, bytes, "%s=%.*s", option->key, (int)length, at);
            return true;
        }
        return false;
    }
    if (option->type == CADRE_OPTION_I64 && option->max - option->min >= 1 &&
        option->max - option->min <= 4) {
        long long value = (long long)option->min + (long long)n;
        if ((double)value > option->max)
            return false;
        snprintf(out, bytes, "%s=%lld", option->key, value);
        return true;
    }
    return false;
}

static bool option_variant(const struct cadre_plugin_handle *plugin, uint32_t index,
                           struct cadre_variant *v)
{
    char setting[64];
    for (uint32_t i = 0; i < plugin->desc.n_options; i++)
        for (uint32_t n = 0; n < MOST_VALUES; n++) {
            if (!other_value(option_at(plugin, i), n, setting, sizeof setting))
                break;
            if (index-- == 0) {
                add_setting(v, setting);
                return true;
            }
        }
    return false;
}

/* ---- one thing at a time ---- */

static bool plain(uint32_t index, uint64_t seed, struct cadre_variant *v)
{
    struct cadre_rehearsal_setup *setup = &v->setup;
    switch (index) {
    case 0:
        return true;
    case 1:
    case 2:
    case 3:
        setup->shuffled = true;
        setup->seed = seed + index;
        add_name(v, "operations that end at other times");
        return true;
    case 4:
        setup->exact = true;
        add_name(v, "exact");
        return true;
    case 5:
        setup->recompute = true;
        add_name(v, "recompute");
        return true;
    case 6:
        setup->rank_microbatches = 1;
        add_name(v, "1 micro-batch a rank");
        return true;
    case 7:
        setup->rank_microbatches = 4;
        setup->steps = 5;
        add_name(v, "4 micro-batches a rank");
        return true;
    case 8:
        setup->wide = true;
        setup->rank_microbatches = 3;
        add_name(v, "fp64, 3 micro-batches a rank");
        return true;
    default:
        return false;
    }
}
#define PLAIN 9u

bool cadre_variant_get(const struct cadre_plugin_handle *plugin, uint32_t index,
                       uint64_t seed, bool quick, struct cadre_variant *out)
{
    static const int ranks[] = {2, 3, 4, 1};
    uint32_t sizes = quick ? 1 : 4, plains = quick ? 5 : PLAIN;
    if (!plugin->desc.axis) {
        begin(plugin, seed, 1, out);
        return index < PLAIN ? plain(index, seed, out)
                             : option_variant(plugin, index - PLAIN, out);
    }
    if (index < sizes * plains) {
        begin(plugin, seed, ranks[index / plains], out);
        return plain(index % plains, seed, out);
    }
    begin(plugin, seed, 2, out);
    return option_variant(plugin, index - sizes * plains, out);
}

/* ---- several at once ---- */

void cadre_variant_random(const struct cadre_plugin_handle *plugin, uint64_t seed,
                          struct cadre_variant *out)
{
    uint64_t key = cadre_rng_key(seed, "variant"), n = 0;
    begin(plugin, seed, plugin->desc.axis ? 1 + (int)cadre_rng_below(key, n++, 4) : 1,
          out);
    struct cadre_rehearsal_setup *setup = &out->setup;
    setup->exact = cadre_rng_below(key, n++, 2);
    setup->recompute = cadre_rng_below(key, n++, 2);
    setup->shuffled = cadre_rng_below(key, n++, 4) > 0;
    setup->wide = cadre_rng_below(key, n++, 2);
    setup->frozen = cadre_rng_below(key, n++, 3) == 0;
    setup->reload = cadre_rng_below(key, n++, 4) == 0;
    setup->rank_microbatches = 1 + (uint32_t)cadre_rng_below(key, n++, 5);
    setup->steps = 2 + (uint32_t)cadre_rng_below(key, n++, 5);
    snprintf(out->name, sizeof out->name, "%d ranks, %u micro-batches%s%s%s%s%s%s",
             setup->ranks, setup->rank_microbatches, setup->exact ? ", exact" : "",
             setup->recompute ? ", recompute" : "", setup->shuffled ? ", delays" : "",
             setup->wide ? ", fp64" : "", setup->frozen ? ", frozen" : "",
             setup->reload ? ", reload" : "");
    for (uint32_t i = 0; i < plugin->desc.n_options; i++) {
        char setting[64];
        uint32_t value = (uint32_t)cadre_rng_below(key, n++, 4);
        if (cadre_rng_below(key, n++, 3) == 0 &&
            other_value(option_at(plugin, i), value, setting, sizeof setting))
            add_setting(out, setting);
    }
}
