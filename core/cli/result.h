/* SPDX-License-Identifier: Apache-2.0 */
/* What `--json` of train and compare prints: one object on stdout, at the end, also
 * after a failure. */
#ifndef CADRE_CLI_RESULT_H
#define CADRE_CLI_RESULT_H

#include "core/base/error.h"
#include "core/train/predict.h"

/* How a command ended. */
struct cadre_cli_result {
    const char *command; /* "train", "compare" */
    const char *name; /* of the run; NULL: unknown */
    const char *folder; /* of its results; NULL: unknown, or none was made */
    cadre_status rc;
    const char *error; /* the line of a failure */
    const struct cadre_prediction *plan; /* of --dry-run; else NULL */
};

/* Print command, name, folder, status, exit_status and error; of a plan its memory, of
 * a training the figures of its summary.json (and of bench.json), of a comparison those
 * of each run in report.json. What is not there is null. Returns result->rc, or
 * CADRE_E_IO where stdout cannot be written to and nothing failed before. */
cadre_status cadre_cli_result_print(const struct cadre_cli_result *result,
                                    struct cadre_error *err);

#endif
