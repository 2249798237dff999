/* SPDX-License-Identifier: Apache-2.0 */
/* What an archive of runs (archive.h) is, packed and unpacked. [one thread] */
#ifndef CADRE_REPORT_ARCHIVE_FOLDER_H
#define CADRE_REPORT_ARCHIVE_FOLDER_H

#include "core/report/runs.h"

/* How its README.txt begins; then comes the version that wrote it, and a full stop. */
#define CADRE_ARCHIVE_HEAD "Training runs, archived by "

/* Is it the folder that an archive unpacks to? */
bool cadre_archive_folder_is(const char *dir);

/* Is it an archive, not unpacked? */
bool cadre_archive_file_is(const char *path);

/* Append what the folder holds: who wrote it, its report, comparisons and runs. Errors:
 * CADRE_E_INVALID for a part that is missing or damaged; CADRE_E_IO, CADRE_E_RESOURCE.
 */
cadre_status cadre_archive_folder_describe(const char *dir, struct cadre_text *out,
                                           struct cadre_error *err);

/* Append what a packed archive is and how it is unpacked. */
void cadre_archive_file_describe(const char *path, struct cadre_text *out);

#endif
