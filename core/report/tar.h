/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a tar archive in the ustar format (POSIX.1-1988), which every tar reads.
 * Owners are 0 and modes 0644, so that the bytes depend on names, contents and times
 * alone. [one thread] */
#ifndef CADRE_REPORT_TAR_H
#define CADRE_REPORT_TAR_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/error.h"

struct cadre_tar {
    FILE *file;
    char *path, *partial; /* the archive, and its name until it is complete; owned */
};

/* Begin an archive; `path` changes when it is complete. *tar is ended by close or by
 * discard. Errors: CADRE_E_IO, CADRE_E_RESOURCE. */
cadre_status cadre_tar_open(const char *path, struct cadre_tar *tar,
                            struct cadre_error *err);

/* Add a file under `name`, a relative path of at most 255 bytes whose last part has at
 * most 100, with `bytes` of text and a time (s since 1970). Errors: CADRE_E_INVALID for
 * a name that does not fit, CADRE_E_IO. */
cadre_status cadre_tar_add_text(struct cadre_tar *tar, const char *name,
                                const char *text, size_t bytes, int64_t time,
                                struct cadre_error *err);

/* Add the regular file `from` with its time. One that grows meanwhile is taken as far
 * as it went at first. Errors: as add_text; CADRE_E_INVALID for 8 GiB and more, or one
 * that became shorter while it was read. */
cadre_status cadre_tar_add_file(struct cadre_tar *tar, const char *name,
                                const char *from, struct cadre_error *err);

/* Complete the archive and give it its name. Errors: CADRE_E_IO; then there is none. */
cadre_status cadre_tar_close(struct cadre_tar *tar, struct cadre_error *err);

/* Leave nothing of it. Accepts a closed one. */
void cadre_tar_discard(struct cadre_tar *tar);

#endif
