/* SPDX-License-Identifier: Apache-2.0 */
/* Runs and their report as one file, for a paper's appendix: options, summaries, raw
 * times, certificates, machines and versions; no checkpoints and no traces. */
#ifndef CADRE_REPORT_ARCHIVE_H
#define CADRE_REPORT_ARCHIVE_H

#include "core/report/runs.h"

/* Is it the name of an archive that can be written: does it end in .tar? Errors:
 * CADRE_E_INVALID, with what to do for one that is to be compressed. */
cadre_status cadre_archive_check_name(const char *path, struct cadre_error *err);

/* Write the archive `path`: NAME/README.txt, NAME/report/ (the report's files in the
 * folder `report`, unless it is NULL), NAME/comparison-K/ for each comparison that was
 * given, and NAME/runs/K-NAME/. Of a folder the files *.ini, *.json, *.jsonl, *.csv,
 * *.md and *.html are taken in the order of their names, without trace*. The same files
 * make the same bytes. [one thread] Errors: those of tar.h, CADRE_E_RESOURCE. */
cadre_status cadre_archive_write(const struct cadre_runs *runs, const char *report,
                                 const char *path, struct cadre_error *err);

#endif
