/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/child.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/log.h"
#include "core/base/path.h"
#include "core/config/config.h"
#include "core/report/run_page.h"
#include "core/report/run_end.h"

static void describe(const struct cadre_child *child,
                     const struct cadre_process_end *end,
                     struct cadre_child_failure *failure)
{
    *failure = (struct cadre_child_failure){.failed = true};
    failure->status = end->status == 2 ? CADRE_E_INVALID : CADRE_E_ABORTED;
    if (end->signal) {
        snprintf(failure->why, sizeof failure->why, "signal %d (%s)", end->signal,
                 strsignal(end->signal));
        snprintf(failure->text, sizeof failure->text, "run %s was ended by %s",
                 child->name, failure->why);
    } else {
        struct cadre_run_end said; /* what a reader of the report has not above */
        cadre_run_end_read(child->folder, &said);
        snprintf(failure->why, sizeof failure->why, "exit status %d%s%s", end->status,
                 *said.why ? ": " : "", said.why);
        snprintf(failure->text, sizeof failure->text,
                 "run %s failed with exit status %d, for the reason above; its folder "
                 "is '%s'",
                 child->name, end->status, child->folder);
    }
}

cadre_status cadre_child_run(const struct cadre_supervise_watch *watch,
                             const struct cadre_child *child,
                             struct cadre_child_failure *failure,
                             struct cadre_error *err)
{
    struct cadre_process process = {
        .argv = child->argv, .no_stdin = true, .no_stdout = true};
    *failure = (struct cadre_child_failure){0};
    CADRE_TRY(cadre_supervise_run(watch, &cadre_supervise_independent,
                                  CADRE_THIS_PROGRAM, &process, 1, err));
    if (process.end.asked || process.end.status == 4)
        return cadre_fail(err, CADRE_E_STOPPED,
                          "stopped by a signal while run %s trained; the same command "
                          "with --set checkpoint.resume=auto continues",
                          child->name);
    if (process.end.signal || process.end.status != 0)
        describe(child, &process.end, failure);
    return CADRE_OK;
}

bool cadre_child_leave_page(const char *folder, const struct cadre_options *options)
{
    struct cadre_config config;
    struct cadre_error err = {0};
    struct stat steps;
    char *metrics = cadre_path_join(folder, "metrics.jsonl");
    cadre_config_fill(&config, options);
    bool left =
        config.log.page && metrics && stat(metrics, &steps) == 0 && steps.st_size > 0;
    free(metrics);
    if (left && cadre_run_page_leave(folder, &err) != CADRE_OK) {
        cadre_log(CADRE_LOG_WARN, "compare", "no run.html: %s", err.text);
        left = false;
    }
    return left;
}
