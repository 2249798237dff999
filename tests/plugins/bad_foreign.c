/* SPDX-License-Identifier: Apache-2.0 */
/* Has no entry of its own, but depends on an object that has one: dlsym finds that. */
#include <cadre/strategy.h>

CADRE_EXPORT const char *foreign_id(void);

const char *foreign_id(void)
{
    return CADRE_ENTRY()->id;
}
