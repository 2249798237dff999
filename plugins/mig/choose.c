/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/mig/choose.h"

#include <stdio.h>
#include <string.h>

#define SEPARATORS ", \t"

/* Indices into the list, in the order in which ranks get them. */
struct candidates {
    uint32_t n;
    uint32_t at[MIG_MAX_INSTANCES];
};

/* The next word of *text into `word` (of `size` bytes); false at the end. */
static bool next_word(const char **text, char *word, size_t size)
{
    *text += strspn(*text, SEPARATORS);
    const size_t length = strcspn(*text, SEPARATORS);
    snprintf(word, size, "%.*s", (int)length, *text);
    *text += length;
    return length > 0;
}

/* "1g" is every profile of one slice, "1g.18gb" that one and its variants (+me). */
static bool has_profile(const struct mig_instance *item, const char *profile)
{
    const size_t length = strlen(profile);
    if (strncmp(item->profile, profile, length) != 0)
        return false;
    const char next = item->profile[length];
    return length == 0 || next == '\0' || next == '.' || next == '+';
}

/* Does a word name the instance: its UUID, or GPU:INDEX? */
static bool is_named(const struct mig_instance *item, const char *word)
{
    char place[32];
    snprintf(place, sizeof place, "%u:%u", item->gpu, item->index);
    return strcmp(word, item->uuid) == 0 || strcmp(word, place) == 0;
}

/* Does a word of CUDA_VISIBLE_DEVICES show it: its UUID, or its GPU's index or UUID? */
static bool is_shown(const struct mig_instance *item, const char *word)
{
    char gpu[16];
    snprintf(gpu, sizeof gpu, "%u", item->gpu);
    return strcmp(word, item->uuid) == 0 || strcmp(word, gpu) == 0 ||
           strcmp(word, item->gpu_uuid) == 0;
}

static bool holds(const struct candidates *set, uint32_t at)
{
    for (uint32_t i = 0; i < set->n; i++)
        if (set->at[i] == at)
            return true;
    return false;
}

/* The instances that CUDA_VISIBLE_DEVICES lists, in its order; as in CUDA, the list
 * ends at the first that does not exist. */
static void see(const struct mig_list *list, const char *visible,
                struct candidates *out)
{
    char word[NVML_TEXT_BYTES];
    out->n = 0;
    for (uint32_t i = 0; !*visible && i < list->n; i++)
        out->at[out->n++] = i;
    while (next_word(&visible, word, sizeof word)) {
        const uint32_t before = out->n;
        for (uint32_t i = 0; i < list->n; i++)
            if (is_shown(&list->item[i], word) && !holds(out, i))
                out->at[out->n++] = i;
        if (out->n == before)
            break;
    }
}

static void keep_profile(const struct mig_list *list, const char *profile,
                         struct candidates *set)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < set->n; i++)
        if (has_profile(&list->item[set->at[i]], profile))
            set->at[n++] = set->at[i];
    set->n = n;
}

/* A word of mig.instances that is not available. */
static bool refuse_word(const struct mig_wants *wants, const char *word, uint32_t found,
                        char *why, size_t size)
{
    snprintf(why, size,
             "mig.instances: '%s' is none of the %u MIG instances that %s; `cadre mig "
             "list` prints them",
             word, found,
             *wants->profile   ? "are of mig.profile"
             : *wants->visible ? "CUDA_VISIBLE_DEVICES lists"
                               : "there are");
    return false;
}

/* What mig.instances names, in its order. */
static bool keep_named(const struct mig_list *list, const struct mig_wants *wants,
                       struct candidates *set, char *why, size_t size)
{
    struct candidates named = {0};
    const char *text = wants->instances;
    char word[NVML_TEXT_BYTES];
    while (next_word(&text, word, sizeof word)) {
        uint32_t i = 0;
        while (i < set->n && !is_named(&list->item[set->at[i]], word))
            i++;
        if (i == set->n)
            return refuse_word(wants, word, set->n, why, size);
        if (holds(&named, set->at[i]) && !wants->share) {
            snprintf(why, size,
                     "mig.instances: '%s' is listed twice; several ranks on one "
                     "instance need mig.share = yes",
                     word);
            return false;
        }
        if (named.n < MIG_MAX_INSTANCES)
            named.at[named.n++] = set->at[i];
    }
    *set = named;
    return true;
}

/* Does `visible` name one MIG instance and nothing else? */
static bool is_one(const char *visible)
{
    return strncmp(visible, "MIG-", 4) == 0 &&
           visible[strcspn(visible, SEPARATORS)] == '\0';
}

/* An external launcher has chosen; does the instance match mig.profile and mig.sizes?
 */
static bool take_given(const struct mig_list *list, const struct mig_wants *wants,
                       uint32_t index, char uuid[NVML_TEXT_BYTES], char *why,
                       size_t size)
{
    for (uint32_t i = 0; i < list->n; i++) {
        const struct mig_instance *item = &list->item[i];
        const bool sized = !wants->slices || item->slices == wants->slices[index];
        if (strcmp(item->uuid, wants->visible) != 0 ||
            (has_profile(item, wants->profile) && sized))
            continue;
        if (!sized)
            snprintf(why, size,
                     "this rank was started on %s, which has %u compute slices, but "
                     "mig.sizes has %u at index %u of the axis; make them agree",
                     item->uuid, item->slices, wants->slices[index], index);
        else
            snprintf(why, size,
                     "this rank was started on %s, which is a %s, but mig.profile = "
                     "%s; make them agree",
                     item->uuid, item->profile, wants->profile);
        return false;
    }
    snprintf(uuid, NVML_TEXT_BYTES, "%.*s", (int)NVML_TEXT_BYTES - 1, wants->visible);
    return true;
}

/* With mig.sizes: the first candidates of those sizes in their order, or, where
 * mig.instances has an order of its own, these alone. */
static bool keep_sizes(const struct mig_list *list, const struct mig_wants *wants,
                       struct candidates *set, char *why, size_t size)
{
    struct candidates sized = {0};
    for (uint32_t k = 0; k < wants->n; k++) {
        uint32_t i = *wants->instances ? k : 0;
        while (i < set->n && (list->item[set->at[i]].slices != wants->slices[k] ||
                              (holds(&sized, set->at[i]) && !wants->share)))
            i += *wants->instances ? set->n : 1;
        if (i < set->n && sized.n < MIG_MAX_INSTANCES) {
            sized.at[sized.n++] = set->at[i];
            continue;
        }
        snprintf(
            why, size,
            "mig.sizes asks for %u compute slices at index %u of the axis, and %s; "
            "`cadre mig list` prints the instances",
            wants->slices[k], k,
            *wants->instances ? "the instance of mig.instances there has others"
                              : "no instance of that size is left");
        return false;
    }
    *set = sized;
    return true;
}

static bool refuse_few(const struct mig_list *list, const struct mig_wants *wants,
                       uint32_t found, char *why, size_t size)
{
    const char *s = wants->n == 1 ? "" : "s";
    if (list->n == 0)
        snprintf(
            why, size,
            "strategy.stack needs %u MIG instance%s, and there is none: %s; `cadre "
            "mig plan` says how to make them, mig.pin = no shares the GPU as it is",
            wants->n, s, list->reason);
    else
        snprintf(
            why, size,
            "strategy.stack needs %u MIG instance%s, found %u%s%s%s%s; take fewer, "
            "make more (`cadre mig plan`), or let ranks share them (mig.share = "
            "yes)",
            wants->n, s, found, *wants->instances ? " in mig.instances" : "",
            *wants->profile ? " of mig.profile = " : "", wants->profile,
            *wants->visible ? " under CUDA_VISIBLE_DEVICES" : "");
    return false;
}

bool mig_choose(const struct mig_list *list, const struct mig_wants *wants,
                uint32_t index, char uuid[NVML_TEXT_BYTES], char *why, size_t size)
{
    struct candidates set;
    const bool given = wants->given && is_one(wants->visible);
    if (given && !*wants->instances)
        return take_given(list, wants, index, uuid, why, size);
    see(list, given ? "" : wants->visible, &set);
    keep_profile(list, wants->profile, &set);
    if (*wants->instances && list->n && !keep_named(list, wants, &set, why, size))
        return false;
    if (set.n == 0 || (set.n < wants->n && !wants->share))
        return refuse_few(list, wants, set.n, why, size);
    if (wants->slices && wants->n > 0 && !keep_sizes(list, wants, &set, why, size))
        return false;
    snprintf(uuid, NVML_TEXT_BYTES, "%s", list->item[set.at[index % set.n]].uuid);
    return true;
}
