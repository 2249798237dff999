/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/compare.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/base/status_slot.h"
#include "core/base/terminal.h"
#include "core/compare/child.h"
#include "core/compare/equal.h"
#include "core/compare/forewarn.h"
#include "core/compare/measure.h"
#include "core/compare/report/report.h"
#include "core/compare/settings.h"
#include "core/compare/task.h"
#include "core/compare/verdict/condition.h"
#include "core/run/outdir.h"
#include "core/run/run_lock.h"

struct comparing {
    struct cadre_arrange_request request;
    struct cadre_comparison c;
    struct cadre_arrangement arrangement;
    struct cadre_task *task;
    size_t n_tasks;
    struct cadre_condition *condition; /* of --fail-if; owned */
    size_t n_conditions;
    FILE *table;
    struct cadre_prediction_request predict;
    bool launched;
    struct cadre_run_lock lock; /* of the comparison's folder */
    struct cadre_supervise_watch watch;
    struct cadre_child_failure failure; /* the first */
    double trained_s; /* what the trainings of this process took that did not fail */
    size_t n_trained;
};

/* ---- children ---- */

/* The request to a child. */
struct job {
    const struct cadre_task *task;
    const struct cadre_compared_run *run;
    char *folder; /* owned */
};

static cadre_status arguments(const struct comparing *x, const struct job *job,
                              char ***argv, struct cadre_error *err)
{
    const struct cadre_task_request request = {
        .request = &x->request,
        .comparison = &x->c,
        .arrangement = &x->arrangement,
        .launched = x->launched,
    };
    return cadre_task_arguments(&request, job->task, job->folder, argv, err);
}

static cadre_status run_child(const struct comparing *x, const struct job *job,
                              struct cadre_child_failure *failure,
                              struct cadre_error *err)
{
    char **argv = NULL;
    cadre_status rc = arguments(x, job, &argv, err);
    const struct cadre_child child = {argv, job->task->name, job->folder};
    if (rc == CADRE_OK)
        rc = cadre_child_run(&x->watch, &child, failure, err);
    free(argv);
    return rc;
}

/* ---- runs ---- */

static cadre_status job_init(const struct comparing *x, const struct cadre_task *task,
                             struct job *job, struct cadre_error *err)
{
    job->task = task;
    job->run = &x->c.run[task->run];
    job->folder = cadre_task_folder(task, x->request.out);
    if (!job->folder || !x->c.run) /* there are runs; for the static analyser */
        return cadre_no_memory(err, "a path");
    return CADRE_OK;
}

/* Take the record of a run that made all its steps before; false if there is none. */
static bool take_finished(const struct job *job, struct cadre_record *record)
{
    cadre_status rc = cadre_record_read(job->folder, record, NULL);
    if (rc == CADRE_OK && (int64_t)record->n >= job->run->steps)
        return true;
    cadre_record_fini(record);
    return false;
}

/* A run that was made before must have the settings of the present one. */
static cadre_status check_settings(const struct job *job, struct cadre_error *err)
{
    return cadre_settings_check(job->folder, job->run->options,
                                job->task->perturbation >= 0, err);
}

/* "; about 1:40 left" of the trainings, by the mean of those that ended; "" before. */
static void put_left(const struct comparing *x, const struct job *job, char *out,
                     size_t size)
{
    char left[32];
    size_t to_come = 0;
    for (const struct cadre_task *task = job->task; task < x->task + x->n_tasks; task++)
        to_come += !*x->c.run[task->run].failure;
    const double all = x->trained_s * (double)to_come;
    *out = 0;
    if (x->n_trained > 0)
        snprintf(out, size, "; about %s left",
                 cadre_measure_clock(all / (double)x->n_trained, left, sizeof left));
}

static void log_run(const struct comparing *x, const struct job *job, bool done)
{
    char left[64];
    put_left(x, job, left, sizeof left);
    /* what the layout says of cores and micro-batch is not a perturbation's */
    cadre_log(CADRE_LOG_INFO, "compare", "run %td of %zu, %s: %s, %s%s",
              job->task - x->task + 1, x->n_tasks, job->task->name, job->run->strategy,
              job->task->perturbation >= 0 ? "with other rounding, to measure limits"
                                           : job->run->layout,
              done ? " [done before]" : left);
}

/* Train into the folder unless a resumed comparison finds it done, and read what it
 * left. */
static cadre_status train(struct comparing *x, const struct job *job,
                          struct cadre_record *record,
                          struct cadre_child_failure *failure, struct cadre_error *err)
{
    bool done = x->arrangement.resume && take_finished(job, record);
    log_run(x, job, done);
    if (done)
        return check_settings(job, err);
    const double began = cadre_now_s();
    CADRE_TRY(run_child(x, job, failure, err));
    x->trained_s += failure->failed ? 0 : cadre_now_s() - began;
    x->n_trained += !failure->failed;
    struct cadre_error why = {0};
    cadre_status rc =
        failure->failed ? CADRE_OK : cadre_record_read(job->folder, record, &why);
    if (rc != CADRE_OK) {
        *failure = (struct cadre_child_failure){.failed = true, .status = rc};
        snprintf(failure->text, sizeof failure->text, "run %s: %.400s", job->task->name,
                 why.text);
        snprintf(failure->why, sizeof failure->why, "it left no results: %.100s",
                 why.text);
    }
    if (failure->failed)
        cadre_record_fini(record);
    return CADRE_OK;
}

/* A run that failed is reported as failed, and the others go on. */
static void note_failure(struct comparing *x, const struct job *job,
                         const struct cadre_child_failure *failure)
{
    struct cadre_compared_run *run = &x->c.run[job->task->run];
    cadre_log(CADRE_LOG_WARN, "compare", "%s; the other runs go on", failure->text);
    if (job->task->perturbation < 0) {
        snprintf(run->failure, sizeof run->failure, "%s", failure->why);
        run->failed_page = cadre_child_leave_page(job->folder, run->options);
    }
    if (!x->failure.failed)
        x->failure = *failure;
}

static cadre_status train_task(struct comparing *x, const struct cadre_task *task,
                               struct cadre_error *err)
{
    struct job job;
    struct cadre_child_failure failure = {0};
    struct cadre_record *record = task->perturbation < 0
                                      ? &x->c.run[task->run].record
                                      : &x->c.perturbation[task->perturbation].record;
    cadre_status rc = job_init(x, task, &job, err);
    if (rc == CADRE_OK)
        rc = train(x, &job, record, &failure, err);
    if (rc == CADRE_OK && failure.failed)
        note_failure(x, &job, &failure);
    free(job.folder);
    return rc;
}

/* Perturbations without a record measure nothing, and one alone measures too little. */
static void drop_failed_perturbations(struct cadre_comparison *c)
{
    size_t left = 0, n = c->n_perturbations;
    for (size_t p = 0; p < n; p++) {
        struct cadre_perturbation one = c->perturbation[p];
        if (one.record.n > 0)
            c->perturbation[left++] = one;
    }
    c->n_perturbations = left;
    if (left == n || left > 1)
        return;
    if (left == 1)
        cadre_record_fini(&c->perturbation[0].record);
    c->n_perturbations = 0;
    snprintf(c->note, sizeof c->note,
             "%zu of the %zu runs of the baseline with other rounding failed", n - left,
             n);
}

static cadre_status train_all(struct comparing *x, struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    for (size_t i = 0; rc == CADRE_OK && i < x->n_tasks; i++)
        if (!*x->c.run[x->task[i].run].failure) /* nor with other rounding */
            rc = train_task(x, &x->task[i], err);
    drop_failed_perturbations(&x->c);
    return rc;
}

/* An exact run does not depend on algorithms that a run before it timed. */
static void keep_tuning(const struct cadre_comparison *c)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->run[i].exact)
            setenv("CADRE_TUNING", "keep", 1);
}

/* Warn of runs that promise the same bits but chose other algorithms. */
static void tell_algorithms(const struct cadre_comparison *c)
{
    for (size_t i = 1; i < c->n; i++) {
        size_t first = 0;
        while (first < i && (!cadre_compared_same_bits(&c->run[first], &c->run[i]) ||
                             cadre_compared_same_gemm(&c->run[first], &c->run[i])))
            first++;
        if (first < i)
            cadre_log(CADRE_LOG_WARN, "compare",
                      "%s and %s have run.exact and used other GEMM algorithms: "
                      "their bits may differ; see gemm in their certificates",
                      c->run[first].name, c->run[i].name);
    }
}

/* ---- the whole ---- */

/* A folder of data or plans alone may stay; a run that has trained may not. */
static cadre_status refuse_old(const struct comparing *x, struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    for (size_t i = 0; rc == CADRE_OK && i < x->c.n; i++) {
        char *folder = cadre_arrange_folder(x->request.out, x->c.run[i].name);
        const char *mark = x->c.run[i].instances ? "instances.json" : "metrics.jsonl";
        char *path = folder ? cadre_path_join(folder, mark) : NULL;
        if (!path)
            rc = cadre_no_memory(err, "a path");
        else if (cadre_path_exists(path))
            rc = cadre_fail(err, CADRE_E_INVALID,
                            "'%s' holds a comparison already; choose another --out, "
                            "remove it, or continue it by --set "
                            "checkpoint.resume=auto",
                            x->request.out);
        free(folder);
        free(path);
    }
    return rc;
}

static cadre_status tell_difference(const struct comparing *x,
                                    const struct cadre_compared_run *other,
                                    struct cadre_error *err)
{
    if (other->equal == CADRE_EQUAL_DIFFERS && !other->by_design)
        return cadre_fail(err, CADRE_E_DIFFERS,
                          "run %s did not train the same as %s: %s", other->name,
                          x->c.run[x->c.baseline].name, other->why);
    return cadre_fail(err, CADRE_E_DIFFERS,
                      "run %s did not train the same as single with %s, as it must: %s",
                      other->name, other->changes.equal, other->setting.why);
}

static cadre_status report(struct comparing *x, struct cadre_error *err)
{
    cadre_status rc, failed;
    struct cadre_error condition = {0};
    struct cadre_text table = {0}, where = {0};
    const char *out = x->request.out;
    tell_algorithms(&x->c);
    CADRE_TRY_OR(cadre_comparison_judge(&x->c, err), fail);
    CADRE_TRY_OR(cadre_predictions_make(&x->c, &x->predict, err), fail);
    CADRE_TRY_OR(cadre_report_write(&x->c, out, err), fail);
    CADRE_TRY_OR(cadre_predictions_log(&x->c, out, err), fail);
    cadre_report_table(&x->c, &table);
    failed = cadre_conditions_check(x->condition, x->n_conditions, &x->c, &table,
                                    &condition);
    cadre_text_printf(&where,
                      "%s/report.html, report.md, report.json, report.csv; a "
                      "certificate of each run: certificate-NAME.json",
                      out);
    bool wrong = table.failed || where.failed ||
                 fputs(cadre_text_str(&table), x->table) < 0 ||
                 !cadre_terminal_write(x->table, "Report: ", 8, cadre_text_str(&where));
    const struct cadre_compared_run *other = cadre_comparison_differing(&x->c);
    if (wrong)
        rc = cadre_fail(err, CADRE_E_IO, "cannot print the table; the report is '%s'",
                        out);
    else if (x->failure.failed)
        rc = cadre_fail(err, x->failure.status, "%s", x->failure.text);
    else if (other)
        rc = tell_difference(x, other, err);
    else if (failed != CADRE_OK)
        rc = cadre_fail(err, failed, "%s", condition.text);
fail:
    cadre_text_fini(&where);
    cadre_text_fini(&table);
    return rc;
}

/* ---- single steps, for a batch system ---- */

static cadre_status list(const struct comparing *x, struct cadre_error *err)
{
    for (size_t i = 0; i < x->n_tasks; i++) {
        const struct cadre_compared_run *run = &x->c.run[x->task[i].run];
        /* cadre starts instances itself, also under a launcher */
        const int processes = run->instances > 0 ? 1 : run->ranks;
        if (printf("%s\t%d\t%d\n", x->task[i].name, run->ranks, processes) < 0)
            return cadre_fail(err, CADRE_E_IO, "cannot print the list to stdout");
    }
    return CADRE_OK;
}

/* The missing runs of a comparison: "two, three:2 (3 of 20 steps)". */
static cadre_status find_missing(const struct comparing *x, struct cadre_text *missing,
                                 struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    for (size_t i = 0; rc == CADRE_OK && i < x->n_tasks; i++) {
        struct job job;
        struct cadre_record record = {0};
        rc = job_init(x, &x->task[i], &job, err);
        if (rc == CADRE_OK && cadre_path_has(job.folder, "summary.json"))
            rc = cadre_record_read(job.folder, &record, err);
        if ((int64_t)record.n < job.run->steps)
            cadre_text_printf(missing, "%s%s", missing->len ? ", " : "",
                              job.task->name);
        if (record.n > 0 && (int64_t)record.n < job.run->steps)
            cadre_text_printf(missing, " (%zu of %" PRId64 " steps)", record.n,
                              job.run->steps);
        cadre_record_fini(&record);
        free(job.folder);
    }
    return rc;
}

/* Ranks that an external launcher started are processes, whatever comm.ranks says. */
static cadre_status correct_layouts(struct comparing *x, struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    for (size_t i = 0; rc == CADRE_OK && i < x->c.n; i++) {
        struct cadre_compared_run *run = &x->c.run[i];
        if (run->processes || !(cadre_record_machine(&run->record, "processes") > 1))
            continue;
        run->processes = true;
        rc = cadre_arrange_describe(run, err);
    }
    return rc;
}

/* Collecting ranks nothing: it must not take the place of a report that does. */
static cadre_status refuse_timed(const struct comparing *x, struct cadre_error *err)
{
    static const char *const made_by_timing[] = {"pieces.jsonl", "report.json"};
    bool timed = true;
    for (size_t i = 0; i < 2; i++)
        timed = timed && cadre_path_has(x->request.out, made_by_timing[i]);
    if (!timed)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "'%s' has a report whose runs were timed in turns, and --collect "
                      "would replace it by one that ranks nothing; move report.json "
                      "away if that is wanted, or `cadre report` its runs elsewhere",
                      x->request.out);
}

/* The report on runs that other processes trained. */
static cadre_status collect(struct comparing *x, struct cadre_error *err)
{
    struct cadre_text missing = {0};
    CADRE_TRY(refuse_timed(x, err));
    cadre_status rc = find_missing(x, &missing, err);
    if (rc == CADRE_OK && missing.failed)
        rc = cadre_no_memory(err, "names");
    else if (rc == CADRE_OK && missing.len)
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "'%s' lacks trainings of this comparison: %s; make each by "
                        "--run NAME, then collect again",
                        x->request.out, cadre_text_str(&missing));
    cadre_text_fini(&missing);
    x->arrangement.resume = true; /* all exist, so none is trained */
    snprintf(x->c.unranked, sizeof x->c.unranked,
             "the runs were started apart in time");
    if (rc == CADRE_OK)
        rc = train_all(x, err);
    if (rc == CADRE_OK)
        rc = correct_layouts(x, err);
    return rc == CADRE_OK ? report(x, err) : rc;
}

/* Whoever starts the ranks of a run divides the cores among them; a rank under an
 * external launcher knows only its own cores. */
static cadre_status refuse_unset_threads(const struct comparing *x,
                                         struct cadre_error *err)
{
    if (!x->launched || x->arrangement.threads == 0)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "device.threads = 0 (%s): a launcher started this rank, and runs "
                      "of a comparison use the same cores per rank: set it to that "
                      "number",
                      cadre_options_source(x->c.run[0].options, "device.threads"));
}

/* Returns only if the run was done before, or on failure. */
static cadre_status become(const struct comparing *x, const struct cadre_task *task,
                           struct cadre_error *err)
{
    struct job job;
    struct cadre_record record = {0};
    char **argv = NULL;
    CADRE_TRY(job_init(x, task, &job, err));
    bool done = x->arrangement.resume && take_finished(&job, &record);
    log_run(x, &job, done);
    cadre_record_fini(&record);
    cadre_status rc = done ? check_settings(&job, err) : arguments(x, &job, &argv, err);
    if (rc == CADRE_OK && !done) {
        fflush(NULL);
        /* the training has a supervisor of its own */
        cadre_status_finished(cadre_status_current());
        execv(CADRE_THIS_PROGRAM, argv);
        rc = cadre_fail_errno(err, CADRE_E_RESOURCE, errno, "cannot become '%s'",
                              CADRE_THIS_PROGRAM);
    }
    free(job.folder);
    free(argv);
    return rc;
}

static cadre_status make_one(const struct comparing *x, const char *name,
                             struct cadre_error *err)
{
    const struct cadre_task *task;
    CADRE_TRY(refuse_unset_threads(x, err));
    CADRE_TRY(cadre_tasks_find(x->task, x->n_tasks, name, &task, err));
    return become(x, task, err);
}

/* ---- the command ---- */

char *cadre_compare_folder(const struct cadre_options *options, const char *conf)
{
    const char *base = cadre_path_basename(conf);
    const char *dot = strrchr(base, '.');
    int length = dot && dot != base ? (int)(dot - base) : (int)strlen(base);
    return cadre_format("%s/%.*s", cadre_options_raw(options, "run.out"), length, base);
}

static cadre_status measure(struct comparing *x, struct cadre_error *err)
{
    const struct cadre_task_request request = {
        .request = &x->request,
        .comparison = &x->c,
        .arrangement = &x->arrangement,
    };
    return cadre_measure(&request, &x->c, &x->watch, err);
}

static cadre_status forewarn(const struct comparing *x, struct cadre_error *err)
{
    struct cadre_text lines = {0};
    char *rest = NULL;
    cadre_forewarn(&x->c, &x->arrangement.timetable, x->condition, x->n_conditions,
                   &lines);
    for (char *line = lines.data ? strtok_r(lines.data, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest))
        cadre_log(CADRE_LOG_WARN, "compare", "%s", line);
    const bool failed = lines.failed;
    cadre_text_fini(&lines);
    return failed ? cadre_no_memory(err, "warnings") : CADRE_OK;
}

static cadre_status compare_all(struct comparing *x, struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    if (!x->arrangement.resume)
        CADRE_TRY(refuse_old(x, err));
    if (cadre_path_make_dirs(x->request.out, err) != CADRE_OK) {
        cadre_error_prefix(err, "--out");
        return CADRE_E_INVALID; /* the user named it */
    }
    CADRE_TRY(cadre_run_lock_take(&x->lock, x->request.out, err));
    CADRE_TRY(cadre_settings_write(x->request.options, x->request.out, err));
    CADRE_TRY(forewarn(x, err));
    cadre_supervise_open(&x->watch);
    rc = train_all(x, err);
    if (rc == CADRE_OK)
        rc = cadre_equal_settings(&x->c, x->request.out, &x->watch, err);
    if (rc == CADRE_OK)
        rc = measure(x, err);
    cadre_supervise_close(&x->watch);
    if (rc == CADRE_OK)
        rc = report(x, err);
    return rc;
}

static cadre_status arrange(struct comparing *x, enum cadre_compare_step step,
                            struct cadre_error *err)
{
    /* opening ECG data leaves a cache in the folder, so what is there is seen before */
    if (step == CADRE_COMPARE_ALL &&
        strcmp(cadre_options_raw(x->request.options, "checkpoint.resume"), "auto") != 0)
        CADRE_TRY(cadre_outdir_check(x->request.out, CADRE_OUTDIR_COMPARISON, err));
    CADRE_TRY(cadre_arrange(&x->request, &x->c, &x->arrangement, err));
    keep_tuning(&x->c);
    return cadre_tasks_create(&x->c, &x->task, &x->n_tasks, err);
}

static cadre_status do_step(struct comparing *x,
                            const struct cadre_compare_request *request,
                            struct cadre_error *err)
{
    switch (request->step) {
    case CADRE_COMPARE_LIST:
        return list(x, err);
    case CADRE_COMPARE_ONE:
        return make_one(x, request->task, err);
    case CADRE_COMPARE_COLLECT:
        return collect(x, err);
    default:
        return compare_all(x, err);
    }
}

/* Before anything trains. */
static cadre_status take_conditions(struct comparing *x, char *const *fail_if,
                                    struct cadre_error *err)
{
    cadre_status rc = CADRE_OK;
    size_t n = 0;
    while (fail_if && fail_if[n])
        n++;
    x->condition = cadre_calloc(n, sizeof *x->condition);
    if (!x->condition)
        return cadre_no_memory(err, "%zu conditions", n);
    for (x->n_conditions = 0; rc == CADRE_OK && x->n_conditions < n; x->n_conditions++)
        rc = cadre_condition_parse(fail_if[x->n_conditions], &x->c,
                                   &x->condition[x->n_conditions], err);
    return rc;
}

cadre_status cadre_compare(const struct cadre_compare_request *request,
                           struct cadre_error *err)
{
    char *made =
        request->out ? NULL : cadre_compare_folder(request->options, request->conf);
    struct comparing x = {
        .request = {request->options, request->conf, request->sets,
                    request->out ? request->out : made, request->command},
        .table = request->table,
        .predict = request->predict,
        .launched = request->launched,
    };
    if (!x.request.out)
        return cadre_no_memory(err, "a path");
    cadre_status rc = arrange(&x, request->step, err);
    if (rc == CADRE_OK)
        rc = take_conditions(&x, request->fail_if, err);
    if (rc == CADRE_OK)
        rc = do_step(&x, request, err);
    cadre_run_lock_release(&x.lock);
    cadre_tasks_destroy(x.task, x.n_tasks);
    free(x.condition);
    cadre_comparison_fini(&x.c);
    free(made);
    return rc;
}
