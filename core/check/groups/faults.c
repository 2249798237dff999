/* SPDX-License-Identifier: Apache-2.0 */
/* What happens when something else fails: another rank, a service, time, the disk. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/check/groups/training.h"

#define LATE_S 0.4

static struct cadre_rehearsal_setup setup_of(const struct cadre_case *c,
                                             const struct cadre_plugin_handle *plugin)
{
    return (struct cadre_rehearsal_setup){
        .plugin = plugin, .ranks = plugin->desc.axis ? 2 : 1, .seed = c->seed};
}

/* How often the calls come that fail_in and fail_phases choose; 0: never, or the
 * rehearsal fails by itself, or the kit. */
static uint32_t count_calls(struct cadre_case *c,
                            const struct cadre_rehearsal_setup *setup)
{
    struct cadre_rehearsal_report report;
    if (!cadre_case_rehearse(c, setup, &report))
        return 0;
    if (report.end == CADRE_REHEARSAL_DONE)
        return report.calls;
    if (report.end == CADRE_REHEARSAL_REFUSED)
        cadre_case_refused(c, "%s", report.text);
    else
        cadre_case_unsupported(c, "not to be seen behind another failure: %s",
                               report.text);
    return 0;
}

/* ---- H1 ---- */

/* A rank fails in step or sync: the others are told, and end. One that does not end
 * makes the check run out of time. */
static void fail_in_rehearsals(struct cadre_case *c,
                               const struct cadre_plugin_handle *plugin)
{
    static const uint32_t phases[] = {CADRE_DURING_STEP, CADRE_DURING_SYNC,
                                      CADRE_DURING_STATE};
    struct cadre_rehearsal_setup setup = setup_of(c, plugin);
    struct cadre_rehearsal_report report;
    for (size_t i = 0; i < sizeof phases / sizeof phases[0]; i++) {
        setup.fail_rank = setup.ranks - 1;
        setup.fail_phases = phases[i];
        setup.fail_call = 0;
        uint32_t calls = count_calls(c, &setup);
        for (uint32_t n = 0; n < (c->quick ? 3u : 8u) && calls > 0; n++) {
            setup.fail_call = 1 + calls * n / 8;
            if (!cadre_case_rehearse(c, &setup, &report))
                return;
        }
    }
}

#define MOST_CHILDREN 64

static pid_t last_child(pid_t parent)
{
    pid_t child[MOST_CHILDREN];
    size_t n = cadre_check_process_children(parent, child, MOST_CHILDREN);
    return n ? child[n - 1] : 0;
}

/* The rank processes are the leaves below the program that was started. */
static pid_t find_rank(pid_t program)
{
    pid_t rank = 0;
    for (pid_t at = last_child(program); at > 0; at = last_child(at))
        rank = at;
    return rank;
}

static bool has_begun(const char *metrics)
{
    char *data = NULL;
    size_t bytes = 0;
    bool begun =
        cadre_path_exists(metrics) &&
        cadre_path_read_file(metrics, 1 << 24, &data, &bytes, NULL) == CADRE_OK &&
        bytes > 0;
    free(data);
    return begun;
}

static void judge_killed(struct cadre_case *c,
                         const struct cadre_check_process *process, const char *text)
{
    if (process->timed_out)
        cadre_case_fail(c, "a rank was killed, and the others did not end: %s", text);
    else if (process->signal)
        cadre_case_fail(c, "a rank was killed, and the program died of signal %d",
                        process->signal);
    else if (process->status == 0)
        cadre_case_fail(c, "a rank was killed, and the run says that it is done");
    else if (!strstr(text, "rank"))
        cadre_case_fail(c, "a rank was killed, and the message names none: %s", text);
}

static void kill_a_rank(struct cadre_case *c, const struct cadre_subject *subject)
{
    char *conf = cadre_path_join(c->folder, "kit.ini");
    char *out = cadre_path_join(c->folder, "killed");
    char *metrics = cadre_path_join(c->folder, "killed/metrics.jsonl");
    char *said = cadre_path_join(c->folder, "said");
    char tail[1024];
    struct cadre_sets sets = {0};
    struct cadre_error err = {0};
    const struct timespec tick = {.tv_nsec = 5000000};
    cadre_subject_stack(subject, 2, &sets);
    const char *argv[] = {"cadre",
                          "train",
                          conf,
                          "--out",
                          out,
                          "--set",
                          "comm.ranks=processes",
                          "--set",
                          "train.steps=1000000",
                          "--set",
                          sets.text[0],
                          "--set",
                          sets.text[sets.n - 1],
                          NULL};
    struct cadre_check_process process = {
        .argv = (char *const *)(uintptr_t)argv, .output = said, .limit_s = 25};
    if (!conf || !out || !metrics || !said ||
        cadre_check_process_start(&process, &err) != CADRE_OK) {
        cadre_case_host_fault(c, "%s", err.text);
        goto out;
    }
    bool killed = false;
    while (!cadre_check_process_ended(&process)) {
        pid_t rank = killed || !has_begun(metrics) ? 0 : find_rank(process.pid);
        if (rank > 0)
            killed = kill(rank, SIGKILL) == 0;
        nanosleep(&tick, NULL);
    }
    cadre_check_process_tail(said, tail, sizeof tail);
    if (!killed && process.status == 2)
        cadre_case_refused(c, "%s", tail);
    else if (!killed)
        cadre_case_fail(c, "the run ended, or hung, before a rank could be killed: %s",
                        tail);
    else
        judge_killed(c, &process, tail);
out:
    free(conf);
    free(out);
    free(metrics);
    free(said);
}

static void rank_fails(struct cadre_case *c)
{
    const struct cadre_plugin_handle *plugin = cadre_case_stepping(c);
    struct cadre_subject subject;
    if (!plugin)
        return;
    fail_in_rehearsals(c, plugin);
    if (!c->failing && !c->quick && plugin->desc.axis &&
        cadre_subject_take(c, &subject))
        kill_a_rank(c, &subject);
}

/* ---- H2 ---- */

static bool fail_one(struct cadre_case *c, struct cadre_rehearsal_setup *setup)
{
    struct cadre_rehearsal_report report;
    if (!cadre_case_rehearse(c, setup, &report))
        return false;
    if (!report.failed_on_purpose)
        return true;
    if (report.rule[CADRE_RULE_STATUS].broken)
        cadre_case_fail(c, "%s failed once: %s", report.failed_call,
                        report.rule[CADRE_RULE_STATUS].text);
    if (report.rule[CADRE_RULE_MEMORY].broken)
        cadre_case_fail(c, "%s failed once: %s", report.failed_call,
                        report.rule[CADRE_RULE_MEMORY].text);
    return !c->failing;
}

/* Each service's first calls, and some of the later ones, on one rank. */
static void services_fail(struct cadre_case *c)
{
    static const char *const services[] = {"comm.",   "param.", "model.", "mem.",
                                           "stream.", "ops.",   "plan."};
    const struct cadre_plugin_handle *plugin = cadre_case_stepping(c);
    uint32_t tried = 0, first = c->quick ? 3 : 12, later = c->quick ? 2 : 12;
    if (!plugin)
        return;
    for (size_t i = 0; i < sizeof services / sizeof services[0] && !c->failing; i++) {
        struct cadre_rehearsal_setup setup = setup_of(c, plugin);
        setup.fail_in = services[i];
        setup.recompute = true;
        uint32_t calls = count_calls(c, &setup);
        for (uint32_t n = 1; n <= first + later && calls > 0; n++, tried++) {
            setup.fail_call =
                n <= first ? n : first + (calls - first) * (n - first) / later;
            if (setup.fail_call > calls)
                break;
            setup.fail_rank = (int)(n % (uint32_t)setup.ranks);
            if (!fail_one(c, &setup))
                return;
        }
    }
    if (!c->failing)
        cadre_case_note(c, "%u calls failed in turn", tried);
}

/* ---- H3 ---- */

static void late_rank(struct cadre_case *c)
{
    const struct cadre_plugin_handle *plugin = cadre_case_stepping(c);
    struct cadre_rehearsal_report report;
    if (!plugin)
        return;
    struct cadre_rehearsal_setup setup = setup_of(c, plugin);
    uint32_t calls = count_calls(c, &setup);
    for (int rank = 1; calls > 0 && rank <= setup.ranks && !c->failing; rank++) {
        setup.late_rank = rank;
        setup.late_s = LATE_S;
        if (!cadre_case_rehearse(c, &setup, &report))
            return;
        if (report.end == CADRE_REHEARSAL_FAILED)
            cadre_case_fail(c, "rank %d was late by %.1f s: %s", rank - 1, LATE_S,
                            report.text);
    }
}

/* ---- H4 ---- */

static void sink_fails(struct cadre_case *c, const struct cadre_plugin_handle *plugin)
{
    struct cadre_rehearsal_setup setup = setup_of(c, plugin);
    setup.fail_in = "sink.";
    uint32_t calls = plugin->ops.state ? count_calls(c, &setup) : 0;
    for (uint32_t n = 1; n <= calls && n <= 40 && !c->failing; n++) {
        setup.fail_call = n <= 20 ? n : calls - (40 - n);
        fail_one(c, &setup);
    }
}

/* No file may become larger than this: the checkpoint cannot be written. */
static void full_disk(struct cadre_case *c)
{
    const struct cadre_plugin_handle *plugin = cadre_case_stepping(c);
    struct cadre_subject subject;
    struct cadre_sets sets = {0};
    struct cadre_trained trained;
    if (!plugin)
        return;
    sink_fails(c, plugin);
    if (c->failing || c->quick || !cadre_subject_take(c, &subject))
        return;
    cadre_subject_stack(&subject, plugin->desc.axis ? 2 : 1, &sets);
    cadre_sets_add(&sets, "train.steps=2");
    const struct cadre_training training = {
        .out = "full", .sets = &sets, .file_kib = 16};
    if (!cadre_train_once(c, &training, &trained))
        return;
    if (!trained.ended)
        cadre_case_fail(c, "the checkpoint cannot be written, and the run hangs");
    else if (trained.signal)
        cadre_case_fail(c,
                        "the checkpoint cannot be written, and the run dies of "
                        "signal %d",
                        trained.signal);
    else if (trained.status == 0)
        cadre_case_fail(c, "the checkpoint cannot be written, and the run says that it "
                           "is done");
}

#define CHECK(ID, TITLE, WHY, RUN)                                                     \
    {                                                                                  \
        .id = ID, .group = "faults", .title = TITLE, .why = WHY,                       \
        .see = "docs/check.md", .level = CADRE_LEVEL_FAULT_TOLERANT, .needs = "D6",    \
        .limit_s = 60, .run = RUN                                                      \
    }

static const struct cadre_check checks[] = {
    CHECK("H1", "a rank fails or is killed: the others end, and it is named",
          "A run that hangs costs until somebody looks.", rank_fails),
    CHECK("H2", "each service fails in turn, and the callback returns it",
          "What is ignored trains on with a part missing.", services_fail),
    CHECK("H3", "a rank that is late changes nothing",
          "Every rank is late at some time.", late_rank),
    CHECK("H4", "state that cannot be written is an error",
          "A full disk is found at the last step else.", full_disk),
};

const struct cadre_check_group cadre_check_faults = {"faults", checks,
                                                     sizeof checks / sizeof checks[0]};
