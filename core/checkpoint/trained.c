/* SPDX-License-Identifier: Apache-2.0 */
#include "core/checkpoint/trained.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/path.h"
#include "core/checkpoint/format/checkpoint.h"

static void append(struct cadre_text *out, const char *between, const char *name)
{
    cadre_text_printf(out, "%s%s", out->len ? between : "", name);
}

/* Is `name` one of "100, 101", or where `end` is ';' of "a; b"? */
static bool is_in(const char *list, const char *name, char end)
{
    size_t n = strlen(name);
    for (const char *at = list; (at = strstr(at, name)); at += n)
        if ((at == list || (at - list >= 2 && at[-1] == ' ' && at[-2] == end)) &&
            (at[n] == end || at[n] == 0))
            return true;
    return false;
}

/* Append the items of a list that are not in `out` already. */
static void append_new(struct cadre_text *out, const char *list, char end)
{
    const char between[] = {end, ' ', 0}, ends[] = {end, 0};
    char item[256];
    for (const char *at = list; at && *at; at += strspn(at, between)) {
        const size_t n = strcspn(at, ends);
        snprintf(item, sizeof item, "%.*s", (int)n, at);
        if (!is_in(cadre_text_str(out), item, end))
            append(out, between, item);
        at += n;
    }
}

/* NULL where DIR is none of ours. */
static cadre_status open_state(const char *dir, struct cadre_checkpoint **out,
                               struct cadre_error *err)
{
    *out = NULL;
    return cadre_path_has(dir, "state.json") ? cadre_checkpoint_open(dir, out, err)
                                             : CADRE_OK;
}

/* What `init` keeps is left out where it is gone by now: it was read when the run
 * began. */
static void list_former(const char *init, struct cadre_text *records,
                        struct cadre_text *holdouts)
{
    struct cadre_checkpoint *checkpoint = NULL;
    if (!*init || open_state(init, &checkpoint, NULL) != CADRE_OK || !checkpoint)
        return;
    append_new(records, cadre_checkpoint_value(checkpoint, "train_records"), ',');
    append_new(holdouts, cadre_checkpoint_value(checkpoint, "holdout"), ';');
    cadre_checkpoint_close(checkpoint);
}

void cadre_trained_list(const struct cadre_dataset *set, const char *init,
                        struct cadre_text *records, struct cadre_text *holdouts)
{
    struct cadre_dataset_info info = {0};
    char line[CADRE_HOLDOUT_CHARS];
    enum cadre_data_split split;
    const char *name;
    for (uint64_t i = 0; set && (name = cadre_dataset_record(set, i, &split)); i++)
        if (split == CADRE_SPLIT_TRAIN)
            append(records, ", ", name);
    if (set)
        cadre_dataset_info(set, &info);
    cadre_holdout_write(&info.holdout, line);
    if (info.holdout.content)
        append(holdouts, "; ", line);
    list_former(init, records, holdouts);
}

static void find_records(const char *list, const struct cadre_dataset *set,
                         struct cadre_text *out)
{
    enum cadre_data_split split;
    const char *name;
    for (uint64_t i = 0; list && (name = cadre_dataset_record(set, i, &split)); i++)
        if (split == CADRE_SPLIT_VALID && is_in(list, name, ','))
            append(out, ", ", name);
}

static void find_share(const char *kept, const struct cadre_dataset *set,
                       struct cadre_met *out)
{
    struct cadre_dataset_info info;
    struct cadre_holdout then;
    char line[CADRE_HOLDOUT_CHARS];
    cadre_dataset_info(set, &info);
    for (const char *at = kept; at && *at; at += strspn(at, "; ")) {
        const size_t n = strcspn(at, ";");
        snprintf(line, sizeof line, "%.*s", (int)n, at);
        at += n;
        if (!cadre_holdout_parse(line, &then))
            continue;
        const double share = cadre_holdout_seen(&then, &info.holdout);
        if (share > out->share) {
            out->share = share;
            out->fraction = (double)then.held / (double)then.count;
        }
    }
}

cadre_status cadre_trained_find(const char *dir, const struct cadre_dataset *set,
                                struct cadre_met *out, struct cadre_error *err)
{
    struct cadre_checkpoint *checkpoint;
    *out = (struct cadre_met){0};
    CADRE_TRY(open_state(dir, &checkpoint, err));
    if (!checkpoint)
        return CADRE_OK;
    find_records(cadre_checkpoint_value(checkpoint, "train_records"), set,
                 &out->records);
    find_share(cadre_checkpoint_value(checkpoint, "holdout"), set, out);
    cadre_checkpoint_close(checkpoint);
    return out->records.failed ? cadre_no_memory(err, "the names of records")
                               : CADRE_OK;
}

void cadre_trained_warn(const char *area, const char *option, const char *dir,
                        const struct cadre_met *met)
{
    if (met->records.len)
        cadre_log(
            CADRE_LOG_WARN, area,
            "%s'%s' was trained on these validation records: %s; name records that "
            "it has not seen in data.valid_records",
            option, dir, cadre_text_str(&met->records));
    if (met->share > 0 && met->fraction > 0)
        cadre_log(
            CADRE_LOG_WARN, area,
            "%s'%s' was trained on %.3g %% of the validation data; divide it as it "
            "was then (data.valid_fraction = %.4g, and the same run.seed), or "
            "name other data",
            option, dir, 100 * met->share, met->fraction);
    else if (met->share > 0)
        cadre_log(CADRE_LOG_WARN, area,
                  "%s'%s' was trained on all of this data; name other data", option,
                  dir);
}
