/* SPDX-License-Identifier: Apache-2.0 */
/* Running instances, and how they ended. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/run/bench.h"
#include "core/run/rundir.h"
#include "core/sweep/sweep.h"
#include "core/train/stop.h"

const char *cadre_sweep_status_name(enum cadre_sweep_status status)
{
    static const char *const names[] = {"waiting", "done", "stopped", "failed"};
    return names[status];
}

/* ---- before training ---- */

/* Take the summary of a run that ended; if `whole`, only after its last step. A run
 * that began from another's checkpoint has no metrics of the steps before. */
static void take_record(struct cadre_sweep_instance *instance, bool whole)
{
    struct cadre_record record = {0};
    cadre_status rc = whole
                          ? cadre_record_read(instance->folder, &record, NULL)
                          : cadre_record_read_summary(instance->folder, &record, NULL);
    if (rc == CADRE_OK && (!whole || (int64_t)record.n >= instance->steps)) {
        json_decref(instance->summary);
        instance->summary = json_incref(record.summary);
        instance->before = whole;
    }
    cadre_record_fini(&record);
}

/* Instances that a resumed run finds done are skipped. */
static void find_done(struct cadre_sweep *sweep)
{
    for (size_t k = 0; k < sweep->n; k++) {
        struct cadre_sweep_instance *instance = &sweep->instance[k];
        take_record(instance, true);
        if (instance->before)
            instance->status = CADRE_SWEEP_DONE;
    }
}

static void tell_begin(const struct cadre_sweep *sweep)
{
    for (size_t k = 0; k < sweep->n; k++) {
        const struct cadre_sweep_instance *instance = &sweep->instance[k];
        cadre_log(CADRE_LOG_INFO, "sweep", "instance %zu: %s, %d rank%s%s%s%s", k,
                  sweep->stack, instance->ranks, instance->ranks == 1 ? "" : "s",
                  *instance->options ? ", " : "", instance->options,
                  instance->before ? " [done before]" : "");
    }
}

/* ---- training ---- */

static struct cadre_process child_of(const struct cadre_sweep_instance *instance)
{
    return (struct cadre_process){
        .argv = instance->argv,
        .variables = instance->variable,
        .cpus = instance->pinned ? &instance->cpus : NULL,
        .no_stdin = true,
        .no_stdout = true,
    };
}

/* Start those that have not run, all at once. Each process starts with signals held, so
 * one that comes before its handlers are installed stays pending. */
static cadre_status run_children(struct cadre_sweep *sweep, struct cadre_error *err)
{
    struct cadre_process *children = cadre_calloc(sweep->n, sizeof *children);
    struct cadre_supervise_watch watch;
    size_t n = 0, i = 0;
    if (!children)
        return cadre_no_memory(err, "the instances");
    for (size_t k = 0; k < sweep->n; k++)
        if (sweep->instance[k].status == CADRE_SWEEP_WAITING)
            children[n++] = child_of(&sweep->instance[k]);
    cadre_stop_install();
    cadre_stop_hold();
    cadre_supervise_open(&watch);
    cadre_status rc = cadre_supervise_run(&watch, &cadre_supervise_independent,
                                          CADRE_THIS_PROGRAM, children, n, err);
    cadre_supervise_close(&watch);
    cadre_stop_release();
    for (size_t k = 0; k < sweep->n; k++)
        if (sweep->instance[k].status == CADRE_SWEEP_WAITING)
            sweep->instance[k].end = children[i++].end;
    free(children);
    return rc;
}

/* ---- after training ---- */

static enum cadre_sweep_status status_of(const struct cadre_process_end *end)
{
    return end->status == 0   ? CADRE_SWEEP_DONE
           : end->status == 4 ? CADRE_SWEEP_STOPPED
                              : CADRE_SWEEP_FAILED;
}

static void tell_failure(const struct cadre_sweep *sweep, size_t k)
{
    const struct cadre_sweep_instance *instance = &sweep->instance[k];
    if (instance->end.signal)
        cadre_log(CADRE_LOG_ERROR, "sweep",
                  "instance %zu was ended by signal %d (%s); its folder is '%s'", k,
                  instance->end.signal, strsignal(instance->end.signal),
                  instance->folder);
    else
        cadre_log(CADRE_LOG_ERROR, "sweep",
                  "instance %zu failed with exit status %d, for the reason that it "
                  "printed; its folder is '%s'",
                  k, instance->end.status, instance->folder);
}

static void take_ends(struct cadre_sweep *sweep)
{
    for (size_t k = 0; k < sweep->n; k++) {
        struct cadre_sweep_instance *instance = &sweep->instance[k];
        if (instance->status != CADRE_SWEEP_WAITING)
            continue;
        instance->status = status_of(&instance->end);
        if (instance->status == CADRE_SWEEP_FAILED)
            tell_failure(sweep, k);
        else
            take_record(instance, false);
    }
}

static size_t count(const struct cadre_sweep *sweep, enum cadre_sweep_status status)
{
    size_t n = 0;
    for (size_t k = 0; k < sweep->n; k++)
        n += sweep->instance[k].status == status;
    return n;
}

static cadre_status outcome(const struct cadre_sweep *sweep, struct cadre_error *err)
{
    const size_t failed = count(sweep, CADRE_SWEEP_FAILED);
    const size_t stopped = count(sweep, CADRE_SWEEP_STOPPED);
    const bool benchmark = cadre_bench_wanted(&sweep->spec->config.bench);
    struct cadre_text which = {0};
    cadre_status rc = CADRE_OK;
    for (size_t k = 0; k < sweep->n; k++)
        if (sweep->instance[k].status == CADRE_SWEEP_FAILED)
            cadre_text_printf(&which, "%s%zu", which.len ? ", " : "", k);
    if (failed)
        rc = cadre_fail(
            err, CADRE_E_ABORTED,
            "%zu of %zu instances failed (%s); the results of the others are in '%s'%s",
            failed, sweep->n, cadre_text_str(&which), sweep->spec->out,
            benchmark ? ""
                      : "; --set checkpoint.resume=auto continues those that are not "
                        "done");
    else if (stopped && benchmark)
        rc = cadre_fail(err, CADRE_E_STOPPED,
                        "stopped by a signal during a benchmark, which leaves no "
                        "result");
    else if (stopped)
        rc = cadre_fail(err, CADRE_E_STOPPED,
                        "stopped by a signal; checkpoints are in '%s/instance-*'; "
                        "continue with --set checkpoint.resume=auto",
                        sweep->spec->out);
    cadre_text_fini(&which);
    return rc;
}

static cadre_status report(const struct cadre_sweep *sweep, FILE *out,
                           struct cadre_error *err)
{
    struct cadre_text table = {0};
    cadre_status rc = cadre_sweep_write_instances(sweep, err);
    if (rc == CADRE_OK)
        rc = cadre_sweep_write_summary(sweep, err);
    if (rc != CADRE_OK)
        return rc;
    cadre_sweep_table(sweep, &table);
    if (table.failed || fputs(cadre_text_str(&table), out) < 0)
        rc = cadre_fail(err, CADRE_E_IO, "cannot print the table of instances");
    cadre_text_fini(&table);
    return rc;
}

cadre_status cadre_sweep_train(struct cadre_sweep *sweep, FILE *out,
                               struct cadre_error *err)
{
    const bool resuming = strcmp(sweep->spec->config.checkpoint.resume, "no") != 0;
    const bool benchmark = cadre_bench_wanted(&sweep->spec->config.bench);
    struct cadre_run_lock lock = {0};
    cadre_status rc;
    CADRE_TRY_OR(cadre_rundir_prepare(sweep->spec, resuming, &lock, err), fail);
    if (resuming && !benchmark)
        find_done(sweep);
    CADRE_TRY_OR(cadre_sweep_write_instances(sweep, err), fail);
    tell_begin(sweep);
    CADRE_TRY_OR(run_children(sweep, err), fail);
    take_ends(sweep);
    CADRE_TRY_OR(report(sweep, out, err), fail);
    rc = outcome(sweep, err);
fail:
    cadre_run_lock_release(&lock);
    return rc;
}

/* One after the other, each with its own placement. */
cadre_status cadre_sweep_dry_run(struct cadre_sweep *sweep, FILE *out,
                                 struct cadre_error *err)
{
    char dry[] = "--dry-run";
    cadre_status rc = CADRE_OK;
    for (size_t k = 0; rc == CADRE_OK && k < sweep->n; k++) {
        const struct cadre_sweep_instance *instance = &sweep->instance[k];
        struct cadre_process child = child_of(instance);
        struct cadre_supervise_watch watch;
        char **argv = cadre_calloc(instance->argc + 2, sizeof *argv);
        if (!argv)
            return cadre_no_memory(err, "arguments");
        memcpy(argv, instance->argv, instance->argc * sizeof *argv);
        argv[instance->argc] = dry;
        child.argv = argv;
        child.no_stdout = false;
        fprintf(out, "%sinstance %zu of %zu%s%s\n", k ? "\n" : "", k, sweep->n,
                *instance->options ? ": " : "", instance->options);
        if (fflush(out) != 0)
            rc = cadre_fail(err, CADRE_E_IO, "cannot write to stdout");
        cadre_supervise_open(&watch);
        if (rc == CADRE_OK)
            rc = cadre_supervise_run(&watch, &cadre_supervise_independent,
                                     CADRE_THIS_PROGRAM, &child, 1, err);
        cadre_supervise_close(&watch);
        if (rc == CADRE_OK && child.end.status != 0)
            rc = cadre_fail(err, CADRE_E_INVALID,
                            "instance %zu cannot be planned, for the reason above", k);
        free(argv);
    }
    return rc;
}
