/* SPDX-License-Identifier: Apache-2.0 */
/* A shared object without the entry symbol. */
#include <cadre/strategy.h>

CADRE_EXPORT int cadre_plugin_entry_0(void);

int cadre_plugin_entry_0(void)
{
    return 0;
}
