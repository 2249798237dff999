/* SPDX-License-Identifier: Apache-2.0 */
/* All checks, in the order in which they are carried out and reported. */
#ifndef CADRE_CHECK_CATALOGUE_H
#define CADRE_CHECK_CATALOGUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "core/base/error.h"
#include "core/check/kit/check.h"

size_t cadre_catalogue_size(void);

/* The index-th check; NULL after the last. */
const struct cadre_check *cadre_catalogue_at(size_t index);

/* By id, upper or lower case; NULL: there is none. */
const struct cadre_check *cadre_catalogue_find(const char *id);

/* Which checks "K2, state" chooses: ids and groups, separated by commas. chosen has
 * cadre_catalogue_size() entries. NULL text: all but those that are asked for only, and
 * under `quick` but the slow ones. Errors: CADRE_E_INVALID with the nearest name, and
 * where the text names none. */
cadre_status cadre_catalogue_choose(const char *text, bool quick, bool *chosen,
                                    struct cadre_error *err);

/* Id, level, title and why of each. */
void cadre_catalogue_print(FILE *file);

#endif
