/* SPDX-License-Identifier: Apache-2.0 */
/* The first failure of a world: set once, read from then on. Zeros are a record without
 * a failure, which may lie in memory that processes share; no lock is taken, so that a
 * writer which is killed holds up nobody. */
#ifndef CADRE_COMM_FAILURE_H
#define CADRE_COMM_FAILURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

enum { CADRE_FAILURE_NONE, CADRE_FAILURE_WRITING, CADRE_FAILURE_SET };

struct cadre_failure {
    _Atomic uint32_t state;
    cadre_status code; /* from the state SET on, as is the text */
    char text[1024];
};

/* True where it is the first; a later one changes nothing. [any thread] */
bool cadre_failure_set(struct cadre_failure *failure, cadre_status code,
                       const char *text);

/* Has the world failed? True a moment before the text is there. [any thread] */
static inline bool cadre_failure_is_set(const struct cadre_failure *failure)
{
    return atomic_load(&failure->state) != CADRE_FAILURE_NONE;
}

/* What it failed with: CADRE_OK, and "", while there is no failure. Waits for a writer,
 * but not for long: of one that died while it wrote it is CADRE_E_COMM, and a text that
 * says so. The text lives as long as the record. [any thread] */
cadre_status cadre_failure_code(const struct cadre_failure *failure);
const char *cadre_failure_text(const struct cadre_failure *failure);

/* Both, in err; untouched while there is no failure. [any thread] */
cadre_status cadre_failure_get(const struct cadre_failure *failure,
                               struct cadre_error *err);

#endif
