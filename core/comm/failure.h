/* SPDX-License-Identifier: Apache-2.0 */
/* The first failure of a world: written once. All zeros is a record without a failure.
 * It may lie in memory shared by processes; no lock is taken, so that a killed writer
 * blocks no reader. */
#ifndef CADRE_COMM_FAILURE_H
#define CADRE_COMM_FAILURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

enum { CADRE_FAILURE_NONE, CADRE_FAILURE_WRITING, CADRE_FAILURE_SET };

struct cadre_failure {
    _Atomic uint32_t state;
    cadre_status code; /* valid from the state SET on, as is the text */
    char text[1024];
};

/* True where it is the first; a later one changes nothing. [any thread] */
bool cadre_failure_set(struct cadre_failure *failure, cadre_status code,
                       const char *text);

/* Has the world failed? True shortly before the text is written. [any thread] */
static inline bool cadre_failure_is_set(const struct cadre_failure *failure)
{
    return atomic_load(&failure->state) != CADRE_FAILURE_NONE;
}

/* The code and text of the failure: CADRE_OK and "" while there is none. Waits briefly
 * for a writer; for one that died while writing, CADRE_E_COMM and a text that says so.
 * The text lives as long as the record. [any thread] */
cadre_status cadre_failure_code(const struct cadre_failure *failure);
const char *cadre_failure_text(const struct cadre_failure *failure);

/* Copies code and text to err, which is untouched while there is no failure. [any
 * thread] */
cadre_status cadre_failure_get(const struct cadre_failure *failure,
                               struct cadre_error *err);

#endif
