/* SPDX-License-Identifier: Apache-2.0 */
/* How a run ended that left no summary: its ranks' status pages say it, also after
 * their death. [any thread] */
#ifndef CADRE_REPORT_RUN_END_H
#define CADRE_REPORT_RUN_END_H

enum cadre_run_how {
    CADRE_RUN_UNKNOWN, /* at work, or on another machine, or without pages */
    CADRE_RUN_FAILED, /* by an error of its own */
    CADRE_RUN_DIED, /* killed, or crashed: a rank's process ended without a word */
};

struct cadre_run_end {
    enum cadre_run_how how;
    char why[256]; /* the error of the rank that failed first, or which ranks died; "":
                      not known */
};

/* Read the pages of the run in DIR. Where they cannot be read the end is unknown. */
void cadre_run_end_read(const char *dir, struct cadre_run_end *end);

#endif
