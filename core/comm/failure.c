/* SPDX-License-Identifier: Apache-2.0 */
#include "core/comm/failure.h"

#include <stdio.h>
#include <time.h>

bool cadre_failure_set(struct cadre_failure *failure, cadre_status code,
                       const char *text)
{
    uint32_t none = CADRE_FAILURE_NONE;
    if (!atomic_compare_exchange_strong(&failure->state, &none, CADRE_FAILURE_WRITING))
        return false;
    failure->code = code;
    snprintf(failure->text, sizeof failure->text, "%s", text);
    atomic_store(&failure->state, CADRE_FAILURE_SET);
    return true;
}

/* The states enclose one copy; a writer killed during it leaves no text. */
static uint32_t settled(const struct cadre_failure *failure)
{
    for (int i = 0; i < 100; i++) {
        if (atomic_load(&failure->state) != CADRE_FAILURE_WRITING)
            break;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return atomic_load(&failure->state);
}

cadre_status cadre_failure_code(const struct cadre_failure *failure)
{
    uint32_t state = settled(failure);
    if (state == CADRE_FAILURE_SET)
        return failure->code;
    return state == CADRE_FAILURE_NONE ? CADRE_OK : CADRE_E_COMM;
}

const char *cadre_failure_text(const struct cadre_failure *failure)
{
    uint32_t state = settled(failure);
    if (state == CADRE_FAILURE_SET)
        return failure->text;
    return state == CADRE_FAILURE_NONE ? "" : "a rank died while it reported a failure";
}

cadre_status cadre_failure_get(const struct cadre_failure *failure,
                               struct cadre_error *err)
{
    cadre_status rc = cadre_failure_code(failure);
    return rc == CADRE_OK ? rc : cadre_fail(err, rc, "%s", cadre_failure_text(failure));
}
