/* SPDX-License-Identifier: Apache-2.0 */
/* Uses a function that is defined nowhere. */
#include <cadre/strategy.h>

const struct cadre_plugin *nobody_has_this(void);

const struct cadre_plugin *CADRE_ENTRY(void)
{
    return nobody_has_this();
}
