/* SPDX-License-Identifier: Apache-2.0 */
/* A folder to write results into: files of other people are not mixed with them. */
#ifndef CADRE_RUN_OUTDIR_H
#define CADRE_RUN_OUTDIR_H

#include "core/base/error.h"

/* What is to be written into the folder. */
enum cadre_outdir_use {
    CADRE_OUTDIR_RUN,
    CADRE_OUTDIR_COMPARISON,
    CADRE_OUTDIR_REPORT, /* on runs that lie elsewhere */
};

/* Refuse `dir` where it holds files and none of them is of a run or a comparison, where
 * its config.ini is not what a run writes, or where it holds a comparison and is for a
 * run, or the other way. For a report, refuse it where it holds files and none of them
 * is named as one that a report or a page writes, or where it holds a run and no
 * report. A folder that is not there is fine, so is one with hidden files, logs (.log,
 * .out, .err) and empty folders alone.
 * [any thread] Errors: CADRE_E_INVALID naming a file, CADRE_E_IO. */
cadre_status cadre_outdir_check(const char *dir, enum cadre_outdir_use use,
                                struct cadre_error *err);

#endif
