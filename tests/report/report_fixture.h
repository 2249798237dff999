/* SPDX-License-Identifier: Apache-2.0 */
/* Run folders made by hand for tests of core/report/. A failure ends the test. */
#ifndef CADRE_TESTS_REPORT_FIXTURE_H
#define CADRE_TESTS_REPORT_FIXTURE_H

#include <stdbool.h>

struct report_run {
    const char *name;
    int steps; /* lines of metrics.jsonl, 0: 6 */
    double loss; /* of step k: loss + 1 / k; validation every third step, 0.5 above */
    double step_s; /* 0: 0.1; the first two take ten times as long */
    const char *config; /* more of config.ini; NULL: none */
    const char *fingerprint; /* NULL: "f" */
    const char *host; /* NULL: "here" */
    const char *build; /* NULL: not said */
    bool no_summary; /* as where it is at work or was killed */
    bool old; /* without the parts of a step */
};

/* Make DIR/NAME; returns its path, valid until the eighth following call. */
const char *report_run(const char *dir, const struct report_run *run);

#endif
