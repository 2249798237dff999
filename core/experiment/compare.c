/* SPDX-License-Identifier: Apache-2.0 */
#include "core/experiment/compare.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/experiment/arrange.h"
#include "core/experiment/child.h"
#include "core/experiment/report.h"

static const char PROGRAM[] = "/proc/self/exe";

struct comparing {
    struct cadre_arrange_request request;
    struct cadre_comparison c;
    struct cadre_arrangement arrangement;
    struct cadre_child_watch watch;
};

/* ---- children -------------------------------------------------------------------- */

/* What a child is asked for. */
struct job {
    const struct cadre_compared_run *run;
    const char *folder;
    const struct cadre_perturbation *perturbation; /* NULL: the run as it is */
};

static cadre_status ended(const struct job *job, const struct cadre_child_end *end,
                          struct cadre_error *err)
{
    const char *name = job->run->name;
    if (end->asked || end->status == 4)
        return cadre_fail(err, CADRE_E_STOPPED,
                          "stopped by a signal while run %s trained; the same command "
                          "with --set checkpoint.resume=auto goes on",
                          name);
    if (end->signal)
        return cadre_fail(err, CADRE_E_ABORTED, "run %s was ended by signal %d (%s)",
                          name, end->signal, strsignal(end->signal));
    if (end->status == 0)
        return CADRE_OK;
    return cadre_fail(err, end->status == 2 ? CADRE_E_INVALID : CADRE_E_ABORTED,
                      "run %s failed with exit status %d, for the reason above; its "
                      "folder is '%s'",
                      name, end->status, job->folder);
}

/* device.threads, 0: as the run says. Perturbations are not timed and take all cores,
 * which changes no bit. */
static int threads_of(const struct comparing *x, const struct job *job)
{
    int share = x->c.cores / job->run->ranks;
    return job->perturbation && share > job->run->threads ? share
                                                          : x->arrangement.threads;
}

static cadre_status run_child(const struct comparing *x, const struct job *job,
                              struct cadre_error *err)
{
    char threads[64], otherwise[64], name[160];
    size_t n_sets = 0, n = 0;
    struct cadre_child_end end;
    while (x->request.sets && x->request.sets[n_sets])
        n_sets++;
    const char **argv = cadre_calloc(2 * n_sets + 16, sizeof *argv);
    if (!argv)
        return cadre_fail(err, CADRE_E_RESOURCE, "no memory for arguments");
    argv[n++] = "cadre"; /* what ps shows */
    argv[n++] = "train";
    argv[n++] = x->request.conf;
    argv[n++] = "--run";
    argv[n++] = job->run->name;
    argv[n++] = "--out";
    argv[n++] = job->folder;
    for (size_t i = 0; i < n_sets; i++) {
        argv[n++] = "--set";
        argv[n++] = x->request.sets[i];
    }
    snprintf(name, sizeof name, "run.name=%s", cadre_path_basename(job->folder));
    argv[n++] = "--set";
    argv[n++] = name;
    if (threads_of(x, job)) {
        snprintf(threads, sizeof threads, "device.threads=%d", threads_of(x, job));
        argv[n++] = "--set";
        argv[n++] = threads;
    }
    if (job->perturbation) {
        if (job->perturbation->micro_batch)
            snprintf(otherwise, sizeof otherwise, "train.micro_batch=%" PRId64,
                     job->perturbation->micro_batch);
        else
            snprintf(otherwise, sizeof otherwise, "run.perturb=%" PRId64,
                     job->perturbation->seed);
        argv[n++] = "--set";
        argv[n++] = otherwise;
    }
    /* exec wants pointers to char and changes nothing */
    cadre_status rc =
        cadre_child_run(&x->watch, PROGRAM, (char *const *)argv, &end, err);
    free(argv);
    return rc == CADRE_OK ? ended(job, &end, err) : rc;
}

/* ---- runs ------------------------------------------------------------------------ */

/* Take the record of a run that made all its steps before; false where there is
 * none. */
static bool take_finished(const struct job *job, struct cadre_record *record)
{
    cadre_status rc = cadre_record_read(job->folder, record, NULL);
    if (rc == CADRE_OK && (int64_t)record->n >= job->run->steps)
        return true;
    cadre_record_fini(record);
    return false;
}

/* Train into the folder unless a resumed comparison finds it done, and read what it
 * left. */
static cadre_status train(const struct comparing *x, const struct job *job,
                          struct cadre_record *record, struct cadre_error *err)
{
    bool done = x->arrangement.resume && take_finished(job, record);
    cadre_log(CADRE_LOG_INFO, "compare", "%s: %s, %s%s",
              cadre_path_basename(job->folder), job->run->strategy, job->run->layout,
              done ? " [done before]" : "");
    if (done)
        return CADRE_OK;
    cadre_status rc = run_child(x, job, err);
    return rc == CADRE_OK ? cadre_record_read(job->folder, record, err) : rc;
}

static cadre_status train_repeat(struct comparing *x, size_t i, int64_t repeat,
                                 struct cadre_error *err)
{
    struct cadre_compared_run *run = &x->c.run[i];
    struct cadre_record again = {0};
    char *folder = cadre_arrange_folder(x->request.out, run->name, repeat);
    struct job job = {.run = run, .folder = folder};
    cadre_status rc = CADRE_E_RESOURCE;
    if (!folder)
        cadre_fail(err, rc, "no memory for a path");
    else
        rc = train(x, &job, repeat ? &again : &run->record, err);
    if (rc == CADRE_OK && repeat)
        run->repeat_s[run->repeats++] =
            cadre_record_median_s(&again, x->c.warmup, (int64_t)again.n);
    cadre_record_fini(&again);
    free(folder);
    return rc;
}

static cadre_status train_perturbation(struct comparing *x,
                                       struct cadre_perturbation *one,
                                       struct cadre_error *err)
{
    const struct cadre_compared_run *base = &x->c.run[x->c.baseline];
    char *folder =
        one->micro_batch
            ? cadre_format("%s/runs/%s:reordered", x->request.out, base->name)
            : cadre_format("%s/runs/%s:moved-%" PRId64, x->request.out, base->name,
                           one->seed);
    struct job job = {.run = base, .folder = folder, .perturbation = one};
    cadre_status rc = CADRE_E_RESOURCE;
    if (!folder)
        cadre_fail(err, rc, "no memory for a path");
    else
        rc = train(x, &job, &one->record, err);
    free(folder);
    return rc;
}

static cadre_status train_all(struct comparing *x, struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    for (size_t i = 0; i < x->c.n; i++) {
        size_t more = (size_t)x->arrangement.repeats - 1;
        x->c.run[i].repeat_s = cadre_calloc(more, sizeof(double));
        if (!x->c.run[i].repeat_s)
            return cadre_fail(err, CADRE_E_RESOURCE, "no memory for repeats");
    }
    for (int64_t repeat = 0; repeat < x->arrangement.repeats; repeat++)
        for (size_t i = 0; i < x->c.n; i++)
            CADRE_TRY(train_repeat(x, i, repeat, err));
    for (size_t p = 0; p < x->c.n_perturbations; p++)
        CADRE_TRY(train_perturbation(x, &x->c.perturbation[p], err));
fail:
    return rc;
}

/* Algorithms that one run timed are no surprise to an exact run after it. */
static void keep_tuning(const struct cadre_comparison *c)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->run[i].exact)
            setenv("CADRE_TUNING", "keep", 1);
}

/* Runs that promise the same bits, and chose algorithms otherwise all the same. */
static void tell_algorithms(const struct cadre_comparison *c)
{
    for (size_t i = 1; i < c->n; i++) {
        size_t first = 0;
        while (first < i && (!cadre_compared_same_bits(&c->run[first], &c->run[i]) ||
                             cadre_compared_same_gemm(&c->run[first], &c->run[i])))
            first++;
        if (first < i)
            cadre_log(CADRE_LOG_WARN, "compare",
                      "%s and %s ask for run.exact and multiplied by other algorithms: "
                      "their bits may differ; see gemm in their certificates",
                      c->run[first].name, c->run[i].name);
    }
}

/* ---- the whole ------------------------------------------------------------------- */

/* A folder of data or plans alone may stay; a run that has trained may not. */
static cadre_status refuse_old(const struct comparing *x, struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    for (size_t i = 0; rc == CADRE_OK && i < x->c.n; i++) {
        char *folder = cadre_arrange_folder(x->request.out, x->c.run[i].name, 0);
        char *path = folder ? cadre_path_join(folder, "metrics.jsonl") : NULL;
        if (!path)
            rc = cadre_fail(err, CADRE_E_RESOURCE, "no memory for a path");
        else if (cadre_path_exists(path))
            rc = cadre_fail(err, CADRE_E_INVALID,
                            "'%s' holds a comparison already; choose another --out, "
                            "remove it, or go on with it by --set "
                            "checkpoint.resume=auto",
                            x->request.out);
        free(folder);
        free(path);
    }
    return rc;
}

static cadre_status report(struct comparing *x, struct cadre_error *err)
{
    cadre_status rc;
    struct cadre_text table = {0};
    const char *out = x->request.out;
    tell_algorithms(&x->c);
    CADRE_TRY(cadre_comparison_judge(&x->c, err));
    CADRE_TRY(cadre_report_write(&x->c, out, err));
    cadre_report_table(&x->c, &table);
    bool wrong =
        table.failed || fputs(cadre_text_str(&table), stdout) < 0 ||
        printf("Report: %s/report.html, report.json, report.csv; a certificate of "
               "each run: certificate-NAME.json\n",
               out) < 0;
    const struct cadre_compared_run *other = cadre_comparison_differing(&x->c);
    if (wrong)
        rc = cadre_fail(err, CADRE_E_IO, "cannot print the table; the report is '%s'",
                        out);
    else if (other)
        rc = cadre_fail(err, CADRE_E_DIFFERS, "run %s did not train the same as %s: %s",
                        other->name, x->c.run[x->c.baseline].name, other->why);
fail:
    cadre_text_fini(&table);
    return rc;
}

static char *default_out(const struct cadre_options *options, const char *conf)
{
    const char *base = cadre_path_basename(conf);
    const char *dot = strrchr(base, '.');
    int length = dot && dot != base ? (int)(dot - base) : (int)strlen(base);
    return cadre_format("%s/%.*s", cadre_options_raw(options, "run.out"), length, base);
}

cadre_status cadre_compare(const struct cadre_options *options, const char *conf_path,
                           char *const *sets, const char *out, struct cadre_error *err)
{
    cadre_status rc;
    char *made = out ? NULL : default_out(options, conf_path);
    struct comparing x = {
        .request = {options, conf_path, sets, out ? out : made},
    };
    if (!x.request.out)
        return cadre_fail(err, CADRE_E_RESOURCE, "no memory for a path");
    CADRE_TRY(cadre_arrange(&x.request, &x.c, &x.arrangement, err));
    if (!x.arrangement.resume)
        CADRE_TRY(refuse_old(&x, err));
    if (cadre_path_make_dirs(x.request.out, err) != CADRE_OK) {
        cadre_error_prefix(err, "--out");
        rc = CADRE_E_INVALID; /* the user named it */
        goto fail;
    }
    keep_tuning(&x.c);
    cadre_child_watch_open(&x.watch);
    rc = train_all(&x, err);
    cadre_child_watch_close(&x.watch);
    if (rc == CADRE_OK)
        rc = report(&x, err);
fail:
    cadre_comparison_fini(&x.c);
    free(made);
    return rc;
}
