/* SPDX-License-Identifier: Apache-2.0 */
/* restarts.json in the folder of a run: the restarts by run.elastic. The launcher
 * writes it between two starts; rank 0 copies it into the summary at the end. */
#ifndef CADRE_RUN_RESTARTS_H
#define CADRE_RUN_RESTARTS_H

#include <stdint.h>

#include "core/base/error.h"
#include "core/base/json.h"

struct cadre_restart {
    int64_t step; /* training continues after it; 0: from the beginning */
    int lost; /* ranks */
    const char *from, *stack; /* strategy.stack before and after */
    const char *why; /* one line */
    const char *date; /* ISO 8601 in UTC; cadre_restarts_add sets it */
};

/* Add one to the file in `dir`. [the launching process, while there are no ranks]
 * Errors: CADRE_E_INVALID the file is not what cadre wrote, CADRE_E_IO,
 * CADRE_E_RESOURCE. */
cadre_status cadre_restarts_add(const char *dir, const struct cadre_restart *restart,
                                struct cadre_error *err);

/* Put "restarts": [...] into the object being written; nothing if the run had none or
 * the file is damaged. */
void cadre_restarts_put(const char *dir, struct cadre_json *json);

/* strategy.stack before the first of them, which the caller frees; NULL as above. */
char *cadre_restarts_first(const char *dir);

#endif
