/* SPDX-License-Identifier: Apache-2.0 */
/* NAME.check.json beside NAME.so: where `cadre plugins` reads the level. */
#ifndef CADRE_CHECK_RECORD_H
#define CADRE_CHECK_RECORD_H

#include "core/check/result.h"

/* Write the results of a check that left nothing out; of another, nothing. Fills `said`
 * with a line on it for the user, also where it could not be written: that is no
 * failure of the plugin, nor of the check. */
void cadre_check_record(const struct cadre_check_results *results, char *said,
                        size_t bytes);

#endif
