/* SPDX-License-Identifier: Apache-2.0 */
/* What belongs to the host's process and its threads is as it was. */
#include <fenv.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "core/check/groups/groups.h"

#define BUDGET_S 0.05 /* of one callback on a model of 3000 parameters */

static void phases(struct cadre_case *c)
{
    cadre_case_hold(c, 1u << CADRE_RULE_PHASE);
}

static void times(struct cadre_case *c)
{
    const struct cadre_plugin_handle *plugin = cadre_case_stepping(c);
    struct cadre_rehearsal_report report;
    if (!plugin)
        return;
    struct cadre_rehearsal_setup setup = {
        .plugin = plugin, .ranks = plugin->desc.axis ? 2 : 1, .seed = c->seed};
    if (!cadre_case_rehearse(c, &setup, &report))
        return;
    if (report.slowest_s > BUDGET_S)
        cadre_case_warn(c, "%s took %.0f ms of CPU time on a model of 3000 parameters",
                        report.slowest, 1e3 * report.slowest_s);
    else if (report.slowest[0])
        cadre_case_note(c, "the slowest callback is %s, %.2f ms of CPU time",
                        report.slowest, 1e3 * report.slowest_s);
}

/* ---- T4 ---- */

struct process {
    uint64_t environment, handlers;
    char directory[4096], locale[256];
    int rounding;
    mode_t mask;
};

static void look(struct process *out)
{
    struct cadre_hash hash;
    memset(out, 0, sizeof *out);
    cadre_hash_init(&hash, 0);
    for (char **variable = environ; variable && *variable; variable++)
        cadre_hash_update_string(&hash, *variable);
    out->environment = cadre_hash_final(&hash);
    cadre_hash_init(&hash, 0);
    for (int sig = 1; sig < NSIG; sig++) {
        struct sigaction action;
        if (sigaction(sig, NULL, &action) == 0)
            cadre_hash_update(&hash, &action.sa_handler, sizeof action.sa_handler);
    }
    out->handlers = cadre_hash_final(&hash);
    if (!getcwd(out->directory, sizeof out->directory))
        out->directory[0] = 0;
    snprintf(out->locale, sizeof out->locale, "%s", setlocale(LC_ALL, NULL));
    out->rounding = fegetround();
    out->mask = umask(0);
    umask(out->mask);
}

static void compare(struct cadre_case *c, const struct process *before,
                    const struct process *after)
{
    if (before->environment != after->environment)
        cadre_case_fail(c, "changes the environment");
    if (before->handlers != after->handlers)
        cadre_case_fail(c, "changes a signal handler");
    if (strcmp(before->directory, after->directory) != 0)
        cadre_case_fail(c, "changes the working directory");
    if (strcmp(before->locale, after->locale) != 0)
        cadre_case_fail(c, "changes the locale");
    if (before->rounding != after->rounding)
        cadre_case_fail(c, "changes the rounding mode");
    if (before->mask != after->mask)
        cadre_case_fail(c, "changes the umask");
    if (waitpid(-1, NULL, WNOHANG) >= 0)
        cadre_case_fail(c, "starts a process and does not wait for it");
}

static void process_as_before(struct cadre_case *c)
{
    const struct cadre_plugin_handle *plugin = cadre_case_plugin(c);
    struct cadre_rehearsal_report report;
    struct process before, after;
    if (!plugin)
        return;
    struct cadre_rehearsal_setup setup = {
        .plugin = plugin, .ranks = plugin->desc.axis ? 2 : 1, .seed = c->seed};
    look(&before);
    if (!cadre_case_rehearse(c, &setup, &report))
        return;
    look(&after);
    if (report.rule[CADRE_RULE_PROCESS].broken)
        cadre_case_fail(c, "%s", report.rule[CADRE_RULE_PROCESS].text);
    compare(c, &before, &after);
    if (getpid() != c->process)
        _exit(0);
}

#define CHECK(ID, TITLE, WHY, RUN)                                                     \
    {                                                                                  \
        .id = ID, .group = "threads", .title = TITLE, .why = WHY,                      \
        .see = "docs/check.md", .level = CADRE_LEVEL_CORRECT, .needs = "D6",           \
        .run = RUN                                                                     \
    }

static const struct cadre_check checks[] = {
    CHECK("T1", "services are called where the headers allow it, on the rank's thread",
          "They are not locked: the rank's one thread drives them.", phases),
    CHECK("T2", "callbacks are short (a warning, in CPU time)",
          "Every rank waits for the slowest hook.", times),
    CHECK("T4", "signals, environment, directory, locale and rounding are as before",
          "They belong to the process, or to the thread that computes next.",
          process_as_before),
};

const struct cadre_check_group cadre_check_threads = {"threads", checks,
                                                      sizeof checks / sizeof checks[0]};
