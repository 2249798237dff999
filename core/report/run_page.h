/* SPDX-License-Identifier: Apache-2.0 */
/* run.html: a run on one page that needs no other file and no script. */
#ifndef CADRE_REPORT_RUN_PAGE_H
#define CADRE_REPORT_RUN_PAGE_H

#include "core/base/memory.h"
#include "core/report/run_data.h"

/* The page. beside: it will lie in the run's folder, and links to the files there. [any
 * thread] */
void cadre_run_page(const struct cadre_run_data *data, bool beside,
                    struct cadre_text *out);

/* Replace DIR/run.html by the page of `data`. Errors: CADRE_E_IO, CADRE_E_RESOURCE. */
cadre_status cadre_run_page_save(const struct cadre_run_data *data, const char *dir,
                                 struct cadre_error *err);

/* Read the run in DIR and replace DIR/run.html. [one rank] Errors: those of
 * cadre_run_data_read, CADRE_E_IO, CADRE_E_RESOURCE. */
cadre_status cadre_run_page_write(const char *dir, struct cadre_error *err);

/* The same at the end of a run, whose other ranks wait meanwhile: more than 1 GiB of
 * steps, two million or so, is left to `cadre report`. Errors: CADRE_E_INVALID too. */
cadre_status cadre_run_page_leave(const char *dir, struct cadre_error *err);

#endif
