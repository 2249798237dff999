/* SPDX-License-Identifier: Apache-2.0 */
/* What was built. [any thread] */
#ifndef CADRE_PAGE_BUILD_H
#define CADRE_PAGE_BUILD_H

/* "cadre 0.2.0, commit 0123456789ab", with "-dirty" behind it where files were changed
 * since; only the version where no commit is known. Static. */
const char *cadre_page_build(void);

#endif
