/* SPDX-License-Identifier: Apache-2.0 */
#include "core/check/runner.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/cores.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/check/kit/process.h"
#include "core/checkpoint/format/file.h"
#include "core/launch/supervise.h"

#define MOST_SLOTS 16
#define MOST_ARGUMENTS 20
#define MOST_SLOWNESS 8.0

/* One check that is being carried out. */
struct slot {
    bool busy;
    struct cadre_check_result *result;
    struct cadre_check_process process;
    char *folder, *output;
    const char *argv[MOST_ARGUMENTS];
    char seed[24], fuzz[32];
};

struct run {
    const struct cadre_runner *runner;
    struct slot slot[MOST_SLOTS];
    int slots;
    size_t left; /* chosen and not done */
};

/* ---- which comes next ---- */

static struct cadre_check_result *find(const struct cadre_check_results *results,
                                       const char *id)
{
    for (size_t i = 0; id && i < results->n; i++)
        if (strcmp(results->result[i].check->id, id) == 0)
            return &results->result[i];
    return NULL;
}

static bool is_running(const struct run *run, const struct cadre_check_result *result)
{
    for (int i = 0; i < run->slots; i++)
        if (run->slot[i].busy && run->slot[i].result == result)
            return true;
    return false;
}

static void settle(struct run *run, struct cadre_check_result *result)
{
    result->done = true;
    run->left--;
    if (run->runner->done)
        run->runner->done(run->runner->h, result);
}

/* Of what the check needs, and what that needs in turn: one that has failed. *waits:
 * one is not done yet. What was not chosen is taken for granted. */
static const struct cadre_check_result *
failed_need(const struct cadre_check_results *results,
            const struct cadre_check_result *result, bool *waits)
{
    const struct cadre_check_result *need = find(results, result->check->needs);
    for (; need; need = find(results, need->check->needs)) {
        if (need->done && cadre_check_status_is_bad(need->verdict.status))
            return need;
        *waits |= need->chosen && !need->done;
    }
    return NULL;
}

/* The first whose needs have passed. One whose needs have not cannot be asked. */
static struct cadre_check_result *choose(struct run *run)
{
    struct cadre_check_results *results = run->runner->results;
    for (size_t i = 0; i < results->n; i++) {
        struct cadre_check_result *result = &results->result[i];
        bool waits = false;
        if (!result->chosen || result->done || is_running(run, result))
            continue;
        const struct cadre_check_result *failed = failed_need(results, result, &waits);
        if (!failed && !waits)
            return result;
        if (!failed)
            continue;
        result->verdict.status = CADRE_CHECK_UNSUPPORTED;
        snprintf(result->verdict.text, sizeof result->verdict.text,
                 "needs %s (%s), which did not pass", failed->check->id,
                 failed->check->title);
        settle(run, result);
    }
    return NULL;
}

/* ---- starting ---- */

static void fill_arguments(const struct run *run, struct slot *slot)
{
    const struct cadre_runner *runner = run->runner;
    int n = 0;
    snprintf(slot->seed, sizeof slot->seed, "%" PRIu64, runner->results->seed);
    snprintf(slot->fuzz, sizeof slot->fuzz, "%.3fs", runner->fuzz_s);
    slot->argv[n++] = "cadre";
    slot->argv[n++] = "check";
    slot->argv[n++] = runner->results->plugin;
    slot->argv[n++] = "--case";
    slot->argv[n++] = slot->result->check->id;
    slot->argv[n++] = "--folder";
    slot->argv[n++] = slot->folder;
    if (runner->reproduce) {
        slot->argv[n++] = "--reproduce";
    } else {
        slot->argv[n++] = "--seed";
    }
    slot->argv[n++] = slot->seed;
    if (runner->fuzz_s > 0) {
        slot->argv[n++] = "--fuzz";
        slot->argv[n++] = slot->fuzz;
    }
    if (runner->results->quick)
        slot->argv[n++] = "--quick";
    slot->argv[n] = NULL;
}

/* On a machine that has other work, a check gets a part of its time only. */
static double slowness(void)
{
    double load = 0, cores = cadre_cores();
    if (getloadavg(&load, 1) != 1 || load <= cores)
        return 1;
    return load / cores < MOST_SLOWNESS ? load / cores : MOST_SLOWNESS;
}

static double limit_of(const struct run *run, const struct cadre_check *check)
{
    double own = check->limit_s > 0 ? check->limit_s : CADRE_CHECK_LIMIT_S;
    if (run->runner->limit_s > 0)
        own = run->runner->limit_s;
    return own * slowness() + run->runner->fuzz_s;
}

static cadre_status start(struct run *run, struct slot *slot,
                          struct cadre_check_result *result, struct cadre_error *err)
{
    slot->result = result;
    slot->folder = cadre_path_join(run->runner->folder, result->check->id);
    slot->output = slot->folder ? cadre_path_join(slot->folder, "output") : NULL;
    if (!slot->output)
        return cadre_no_memory(err, "a path");
    CADRE_TRY(cadre_path_make_dirs(slot->folder, err));
    fill_arguments(run, slot);
    slot->process = (struct cadre_check_process){
        .argv = (char *const *)(uintptr_t)slot->argv,
        .output = slot->output,
        .limit_s = limit_of(run, result->check),
        .leads = true,
    };
    CADRE_TRY(cadre_check_process_start(&slot->process, err));
    slot->busy = true;
    return CADRE_OK;
}

/* ---- ending ---- */

static void describe_end(const struct cadre_check_process *process,
                         struct cadre_verdict *out)
{
    char tail[512];
    cadre_check_process_tail(process->output, tail, sizeof tail);
    const char *said = tail[0] ? "; it printed: " : "";
    if (process->timed_out) {
        out->status = CADRE_CHECK_TIMEOUT;
        snprintf(out->text, sizeof out->text, "did not end within %.0f s%s%s",
                 process->limit_s, said, tail);
    } else if (process->signal) {
        out->status = CADRE_CHECK_CRASH;
        snprintf(out->text, sizeof out->text, "ended by signal %d (%s)%s%s",
                 process->signal, strsignal(process->signal), said, tail);
    } else {
        out->status = CADRE_CHECK_CRASH;
        snprintf(out->text, sizeof out->text,
                 "the process ended with status %d before the check was over: a plugin "
                 "calls neither exit nor abort%s%s",
                 process->status, said, tail);
    }
}

static void release(struct slot *slot)
{
    if (slot->folder)
        cadre_file_remove_tree(slot->folder, NULL);
    free(slot->folder);
    free(slot->output);
    *slot = (struct slot){0};
}

static void finish(struct run *run, struct slot *slot)
{
    struct cadre_check_result *result = slot->result;
    pid_t running[MOST_SLOTS];
    size_t n = 0;
    result->wall_s = cadre_now_s() - slot->process.begin_s;
    result->cpu_s = slot->process.cpu_s;
    if (!cadre_verdict_read(slot->folder, &result->verdict))
        describe_end(&slot->process, &result->verdict);
    slot->busy = false;
    for (int i = 0; i < run->slots; i++)
        if (run->slot[i].busy)
            running[n++] = run->slot[i].process.pid;
    cadre_check_process_sweep(running, n);
    release(slot);
    settle(run, result);
}

static void give_up(struct run *run)
{
    for (int i = 0; i < run->slots; i++) {
        if (run->slot[i].busy)
            cadre_check_process_kill(&run->slot[i].process);
        release(&run->slot[i]);
    }
    cadre_check_process_sweep(NULL, 0);
}

/* ---- all of them ---- */

static cadre_status fill_slots(struct run *run, struct cadre_error *err)
{
    for (int i = 0; i < run->slots; i++) {
        struct cadre_check_result *next = run->slot[i].busy ? NULL : choose(run);
        if (next)
            CADRE_TRY(start(run, &run->slot[i], next, err));
    }
    return CADRE_OK;
}

static cadre_status run_all(struct run *run, const struct cadre_supervise_watch *watch,
                            struct cadre_error *err)
{
    const struct timespec tick = {.tv_nsec = 20000000};
    while (run->left > 0) {
        CADRE_TRY(fill_slots(run, err));
        for (int i = 0; i < run->slots; i++)
            if (run->slot[i].busy && cadre_check_process_ended(&run->slot[i].process))
                finish(run, &run->slot[i]);
        if (run->left == 0)
            break;
        int sig = sigtimedwait(&watch->watched, NULL, &tick);
        if (sig == SIGINT || sig == SIGTERM)
            return cadre_fail(err, CADRE_E_STOPPED, "stopped by a signal");
    }
    return CADRE_OK;
}

cadre_status cadre_runner_run(const struct cadre_runner *runner,
                              struct cadre_error *err)
{
    struct cadre_supervise_watch watch;
    struct run *run = cadre_calloc(1, sizeof *run);
    if (!run)
        return cadre_no_memory(err, "the checks");
    run->runner = runner;
    run->slots = runner->slots > 0 ? runner->slots : cadre_cores();
    if (run->slots > MOST_SLOTS)
        run->slots = MOST_SLOTS;
    for (size_t i = 0; i < runner->results->n; i++)
        run->left +=
            runner->results->result[i].chosen && !runner->results->result[i].done;
    cadre_check_process_adopt();
    cadre_supervise_open(&watch);
    cadre_status rc = run_all(run, &watch, err);
    give_up(run);
    cadre_supervise_close(&watch);
    free(run);
    return rc;
}
