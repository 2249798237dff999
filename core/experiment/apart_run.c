/* SPDX-License-Identifier: Apache-2.0 */
/* Instances at work, and how they ended. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/experiment/apart.h"
#include "core/train/rundir.h"
#include "core/train/stop.h"

const char *cadre_apart_status_name(enum cadre_apart_status status)
{
    static const char *const names[] = {"waiting", "done", "stopped", "failed"};
    return names[status];
}

/* ---- before ---------------------------------------------------------------------- */

/* The summary of a run that ended, and of its last step where `steps` is given. */
static void take_record(struct cadre_apart_instance *instance, bool whole)
{
    struct cadre_record record = {0};
    cadre_status rc = cadre_record_read(instance->folder, &record, NULL);
    if (rc == CADRE_OK && (!whole || (int64_t)record.n >= instance->steps)) {
        json_decref(instance->summary);
        instance->summary = json_incref(record.summary);
        instance->before = whole;
    }
    cadre_record_fini(&record);
}

/* What a resumed run has done is not begun again. */
static void find_done(struct cadre_apart *apart)
{
    for (size_t k = 0; k < apart->n; k++) {
        struct cadre_apart_instance *instance = &apart->instance[k];
        take_record(instance, true);
        if (instance->before)
            instance->status = CADRE_APART_DONE;
    }
}

static void tell_begin(const struct cadre_apart *apart)
{
    for (size_t k = 0; k < apart->n; k++) {
        const struct cadre_apart_instance *instance = &apart->instance[k];
        cadre_log(CADRE_LOG_INFO, "apart", "instance %zu: %s, %d rank%s%s%s%s", k,
                  apart->stack, instance->ranks, instance->ranks == 1 ? "" : "s",
                  *instance->options ? ", " : "", instance->options,
                  instance->before ? " [done before]" : "");
    }
}

/* ---- at work --------------------------------------------------------------------- */

static struct cadre_process child_of(const struct cadre_apart_instance *instance)
{
    return (struct cadre_process){
        .argv = instance->argv,
        .variables = instance->variable,
        .cpus = instance->pinned ? &instance->cpus : NULL,
        .no_stdin = true,
        .no_stdout = true,
    };
}

/* Those that have not run, all at once. Signals wait for an instance that cannot take
 * them yet: its process begins with them held. */
static cadre_status run_children(struct cadre_apart *apart, struct cadre_error *err)
{
    struct cadre_process *children = cadre_calloc(apart->n, sizeof *children);
    struct cadre_supervise_watch watch;
    size_t n = 0, i = 0;
    if (!children)
        return cadre_fail(err, CADRE_E_RESOURCE, "no memory for the instances");
    for (size_t k = 0; k < apart->n; k++)
        if (apart->instance[k].status == CADRE_APART_WAITING)
            children[n++] = child_of(&apart->instance[k]);
    cadre_stop_install();
    cadre_stop_hold();
    cadre_supervise_open(&watch);
    cadre_status rc = cadre_supervise_run(&watch, &cadre_supervise_independent,
                                          CADRE_THIS_PROGRAM, children, n, err);
    cadre_supervise_close(&watch);
    cadre_stop_release();
    for (size_t k = 0; k < apart->n; k++)
        if (apart->instance[k].status == CADRE_APART_WAITING)
            apart->instance[k].end = children[i++].end;
    free(children);
    return rc;
}

/* ---- after ----------------------------------------------------------------------- */

static enum cadre_apart_status status_of(const struct cadre_process_end *end)
{
    return end->status == 0   ? CADRE_APART_DONE
           : end->status == 4 ? CADRE_APART_STOPPED
                              : CADRE_APART_FAILED;
}

static void tell_failure(const struct cadre_apart *apart, size_t k)
{
    const struct cadre_apart_instance *instance = &apart->instance[k];
    if (instance->end.signal)
        cadre_log(CADRE_LOG_ERROR, "apart",
                  "instance %zu was ended by signal %d (%s); its folder is '%s'", k,
                  instance->end.signal, strsignal(instance->end.signal),
                  instance->folder);
    else
        cadre_log(CADRE_LOG_ERROR, "apart",
                  "instance %zu failed with exit status %d, for the reason that it "
                  "gave; its folder is '%s'",
                  k, instance->end.status, instance->folder);
}

static void take_ends(struct cadre_apart *apart)
{
    for (size_t k = 0; k < apart->n; k++) {
        struct cadre_apart_instance *instance = &apart->instance[k];
        if (instance->status != CADRE_APART_WAITING)
            continue;
        instance->status = status_of(&instance->end);
        if (instance->status == CADRE_APART_FAILED)
            tell_failure(apart, k);
        else
            take_record(instance, false);
    }
}

static size_t count(const struct cadre_apart *apart, enum cadre_apart_status status)
{
    size_t n = 0;
    for (size_t k = 0; k < apart->n; k++)
        n += apart->instance[k].status == status;
    return n;
}

static cadre_status outcome(const struct cadre_apart *apart, struct cadre_error *err)
{
    const size_t failed = count(apart, CADRE_APART_FAILED);
    const size_t stopped = count(apart, CADRE_APART_STOPPED);
    struct cadre_text which = {0};
    cadre_status rc = CADRE_OK;
    for (size_t k = 0; k < apart->n; k++)
        if (apart->instance[k].status == CADRE_APART_FAILED)
            cadre_text_printf(&which, "%s%zu", which.len ? ", " : "", k);
    if (failed)
        rc = cadre_fail(err, CADRE_E_ABORTED,
                        "%zu of %zu instances failed (%s); what the others did is in "
                        "'%s'; --set checkpoint.resume=auto goes on with those that "
                        "are not done",
                        failed, apart->n, cadre_text_str(&which), apart->spec->out);
    else if (stopped)
        rc = cadre_fail(err, CADRE_E_STOPPED,
                        "stopped by a signal; checkpoints are in '%s/instance-*'; go "
                        "on with --set checkpoint.resume=auto",
                        apart->spec->out);
    cadre_text_fini(&which);
    return rc;
}

static cadre_status report(const struct cadre_apart *apart, FILE *out,
                           struct cadre_error *err)
{
    struct cadre_text table = {0};
    cadre_status rc = cadre_apart_write_instances(apart, err);
    if (rc == CADRE_OK)
        rc = cadre_apart_write_summary(apart, err);
    if (rc != CADRE_OK)
        return rc;
    cadre_apart_table(apart, &table);
    if (table.failed || fputs(cadre_text_str(&table), out) < 0)
        rc = cadre_fail(err, CADRE_E_IO, "cannot print the table of instances");
    cadre_text_fini(&table);
    return rc;
}

cadre_status cadre_apart_train(struct cadre_apart *apart, FILE *out,
                               struct cadre_error *err)
{
    const bool resuming = strcmp(apart->spec->config.checkpoint.resume, "no") != 0;
    cadre_status rc;
    CADRE_TRY(cadre_rundir_prepare(apart->spec, resuming, err));
    if (resuming)
        find_done(apart);
    CADRE_TRY(cadre_apart_write_instances(apart, err));
    tell_begin(apart);
    CADRE_TRY(run_children(apart, err));
    take_ends(apart);
    CADRE_TRY(report(apart, out, err));
    rc = outcome(apart, err);
fail:
    return rc;
}

/* One after the other, each where it would train. */
cadre_status cadre_apart_dry_run(struct cadre_apart *apart, FILE *out,
                                 struct cadre_error *err)
{
    char dry[] = "--dry-run";
    cadre_status rc = CADRE_OK;
    for (size_t k = 0; rc == CADRE_OK && k < apart->n; k++) {
        const struct cadre_apart_instance *instance = &apart->instance[k];
        struct cadre_process child = child_of(instance);
        struct cadre_supervise_watch watch;
        char **argv = cadre_calloc(instance->argc + 2, sizeof *argv);
        if (!argv)
            return cadre_fail(err, CADRE_E_RESOURCE, "no memory for arguments");
        memcpy(argv, instance->argv, instance->argc * sizeof *argv);
        argv[instance->argc] = dry;
        child.argv = argv;
        child.no_stdout = false;
        fprintf(out, "%sinstance %zu of %zu%s%s\n", k ? "\n" : "", k, apart->n,
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
