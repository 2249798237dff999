/* SPDX-License-Identifier: Apache-2.0 */
/* Train and valid by record: no beat of a validation record is ever trained on. */
#include "core/data/dataset_split.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/rng.h"

static const char separators[] = ", \t";

/* "100" names the record "100" and, in a folder of folders, "p1/100". */
static bool is_named(const char *record, const char *name, size_t size)
{
    const char *slash = strrchr(record, '/');
    return (strncmp(record, name, size) == 0 && record[size] == '\0') ||
           (slash && strncmp(slash + 1, name, size) == 0 && slash[1 + size] == '\0');
}

static cadre_status mark_named(struct cadre_dataset *set, const char *names,
                               struct cadre_error *err)
{
    for (const char *at = names + strspn(names, separators); *at;) {
        size_t size = strcspn(at, separators);
        bool found = false;
        for (uint64_t r = 0; r < set->cache.count; r++)
            if (is_named(set->cache.records[r].name, at, size)) {
                set->record_split[r] = CADRE_SPLIT_VALID;
                found = true;
            }
        if (!found)
            return cadre_fail(
                err, CADRE_E_INVALID,
                "data.valid_records: expected records that data.path holds "
                "with this lead, found \"%.*s\"",
                (int)(size < 60 ? size : 60), at);
        at += size;
        at += strspn(at, separators);
    }
    return CADRE_OK;
}

/* The seed permutes the records; the first ones are for validation. */
static void mark_fraction(struct cadre_dataset *set, double fraction, uint64_t seed)
{
    uint64_t count = set->cache.count;
    const struct cadre_holdout holdout = {
        .count = count,
        .held = cadre_holdout_share(count, fraction),
        .key = cadre_rng_key(seed, "data.valid_records"),
    };
    for (uint64_t r = 0; r < count; r++)
        if (cadre_holdout_has(&holdout, r))
            set->record_split[r] = CADRE_SPLIT_VALID;
}

static cadre_status make_spans(struct cadre_dataset *set, enum cadre_data_split which)
{
    struct cadre_split *split = &set->splits[which];
    split->spans = cadre_calloc(set->cache.count, sizeof *split->spans);
    if (!split->spans)
        return CADRE_E_RESOURCE;
    for (uint64_t r = 0; r < set->cache.count; r++) {
        const struct cadre_cache_record *record = &set->cache.records[r];
        if (set->record_split[r] != which || record->label_count == 0)
            continue;
        split->spans[split->span_count++] = (struct cadre_span){
            .first = split->samples,
            .samples = record->label_count,
            .tokens = record->tokens,
            .width = 2,
            .labels = record->labels,
        };
        split->samples += record->label_count;
        split->tokens += record->token_count;
    }
    return CADRE_OK;
}

cadre_status cadre_dataset_split_records(struct cadre_dataset *set,
                                         const struct cadre_dataset_config *config,
                                         struct cadre_error *err)
{
    const char *names = config->valid_records ? config->valid_records : "";
    cadre_status rc;
    set->record_split = cadre_calloc(set->cache.count, sizeof *set->record_split);
    if (!set->record_split)
        return cadre_no_memory(err, "the split by record");
    for (uint64_t r = 0; r < set->cache.count; r++) {
        const struct cadre_cache_record *record = &set->cache.records[r];
        if (record->token_count != record->label_count * (uint64_t)set->window)
            return cadre_fail(err, CADRE_E_INTERNAL,
                              "token cache: record \"%s\" has %llu "
                              "tokens for %llu windows",
                              record->name, (unsigned long long)record->token_count,
                              (unsigned long long)record->label_count);
    }
    if (names[strspn(names, separators)])
        CADRE_TRY_OR(mark_named(set, names, err), fail);
    else if (set->cache.count > 0)
        mark_fraction(set, config->valid_fraction, config->seed);
    CADRE_TRY_OR(make_spans(set, CADRE_SPLIT_TRAIN), fail);
    CADRE_TRY_OR(make_spans(set, CADRE_SPLIT_VALID), fail);
    return CADRE_OK;
fail:
    if (rc == CADRE_E_RESOURCE)
        cadre_fail(err, rc, "no memory for the split by record");
    return rc;
}

const char *cadre_dataset_record(const struct cadre_dataset *set, uint64_t index,
                                 enum cadre_data_split *split)
{
    if (index >= set->info.records)
        return NULL;
    *split = (enum cadre_data_split)set->record_split[index];
    return set->cache.records[index].name;
}
