/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/json_read.h"

#include <errno.h>

#include "core/base/memory.h"

/* jansson calls some failed allocations faults of the text, so errno is asked. */
cadre_status cadre_json_read(const char *text, size_t bytes, const char *path,
                             json_t **root, struct cadre_error *err)
{
    json_error_t why;
    errno = 0;
    *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &why);
    if (*root)
        return CADRE_OK;
    if (errno == ENOMEM)
        return cadre_no_memory(err, "'%s'", path);
    return cadre_fail(err, CADRE_E_INVALID, "'%s' line %d: expected JSON: %s", path,
                      why.line, why.text);
}
