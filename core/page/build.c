/* SPDX-License-Identifier: Apache-2.0 */
#include "core/page/build.h"

#include "config.h"
#include "core/page/commit.h" /* made by make: CADRE_COMMIT, "" where it is not known */

const char *cadre_page_build(void)
{
    static const char whole[] = PACKAGE_STRING ", commit " CADRE_COMMIT;
    return sizeof CADRE_COMMIT > 1 ? whole : PACKAGE_STRING;
}
