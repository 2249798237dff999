/* SPDX-License-Identifier: Apache-2.0 */
/* The WFDB records at a path. */
#ifndef CADRE_DATA_WFDB_RECORD_LIST_H
#define CADRE_DATA_WFDB_RECORD_LIST_H

#include <stddef.h>

#include "core/base/error.h"

struct cadre_record_list {
    char *folder; /* owned; what the names are below */
    char **names; /* (count), owned; sorted by bytes; without .hea */
    size_t count;
    size_t capacity;
};

/* Records in a folder and its folders (symbolic links to folders are not followed), or
 * the one record that `path` names, with or without .hea. The caller frees with
 * cadre_record_list_fini. Errors: CADRE_E_INVALID nothing there, folders nested deeper
 * than 16; CADRE_E_IO; CADRE_E_RESOURCE. [any thread] */
cadre_status cadre_record_list_init(const char *path, struct cadre_record_list *list,
                                    struct cadre_error *err);

/* Safe on a zeroed list. */
void cadre_record_list_fini(struct cadre_record_list *list);

#endif
