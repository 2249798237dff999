/* SPDX-License-Identifier: Apache-2.0 */
#include "core/checkpoint/trained.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/path.h"
#include "core/checkpoint/format/checkpoint.h"

static void append(struct cadre_text *out, const char *name)
{
    cadre_text_printf(out, "%s%s", out->len ? ", " : "", name);
}

void cadre_trained_list(const struct cadre_dataset *set, struct cadre_text *out)
{
    enum cadre_data_split split;
    const char *name;
    for (uint64_t i = 0; set && (name = cadre_dataset_record(set, i, &split)); i++)
        if (split == CADRE_SPLIT_TRAIN)
            append(out, name);
}

/* Is `name` one of "100, 101"? */
static bool is_in(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = list; (at = strstr(at, name)); at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ',' || at[n] == 0))
            return true;
    return false;
}

cadre_status cadre_trained_find(const char *dir, const struct cadre_dataset *set,
                                struct cadre_text *out, struct cadre_error *err)
{
    struct cadre_checkpoint *checkpoint = NULL;
    enum cadre_data_split split;
    const char *name;
    char *state = cadre_path_join(dir, "state.json");
    bool there = state && cadre_path_exists(state);
    free(state);
    if (!there)
        return CADRE_OK;
    CADRE_TRY(cadre_checkpoint_open(dir, &checkpoint, err));
    const char *list = cadre_checkpoint_value(checkpoint, "train_records");
    for (uint64_t i = 0; list && (name = cadre_dataset_record(set, i, &split)); i++)
        if (split == CADRE_SPLIT_VALID && is_in(list, name))
            append(out, name);
    cadre_checkpoint_close(checkpoint);
    return CADRE_OK;
}
