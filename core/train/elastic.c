/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/elastic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/checkpoint/resume.h"
#include "core/run/bench.h"
#include "core/run/restarts.h"
#include "core/train/stop.h"

/* ---- before the first loss ---- */

void cadre_elastic_begin(struct cadre_elastic *elastic, const struct cadre_spec *spec)
{
    const enum cadre_config_elastic asked = spec->config.run.elastic;
    *elastic = (struct cadre_elastic){
        .on = asked != CADRE_CONFIG_ELASTIC_NO &&
              !cadre_bench_wanted(&spec->config.bench),
        .replaces = asked == CADRE_CONFIG_ELASTIC_REPLACE,
    };
    if (elastic->on && spec->run.ranks > 1 && spec->config.checkpoint.every == 0)
        cadre_log(
            CADRE_LOG_WARN, "train",
            "run.elastic without checkpoint.every: a run that loses a rank starts "
            "again from where it began");
}

/* ---- the choice of a stack ---- */

/* Sizes of the axes, by entry of the stack. */
struct candidate {
    int size[CADRE_MAX_INSTANCES];
    int ranks;
    int others; /* ranks along the axes that do not split the batch */
};

static int first_of_axis(const struct cadre_run_spec *run, int entry)
{
    int i = 0;
    while (strcmp(run->axis[i].name, run->axis[entry].name) != 0)
        i++;
    return i;
}

static cadre_status find_data_axes(const struct cadre_run_spec *run,
                                   bool splits[CADRE_MAX_INSTANCES],
                                   struct cadre_error *err)
{
    struct cadre_rank rank;
    CADRE_TRY(cadre_rank_plan(&rank, run, 0, err));
    for (int i = 0; i < run->n_plugins; i++) {
        const struct cadre_axis *axis = cadre_mesh_axis(&rank.mesh, run->axis[i].name);
        splits[i] = axis && axis->split_batch;
    }
    cadre_rank_fini(&rank);
    return CADRE_OK;
}

/* Entries of one axis count once. */
static void measure(const struct cadre_run_spec *run, const bool *splits,
                    struct candidate *c)
{
    c->ranks = c->others = 1;
    for (int i = 0; i < run->n_plugins; i++) {
        int first = first_of_axis(run, i);
        c->size[i] = c->size[first];
        c->ranks *= first == i ? c->size[i] : 1;
        c->others *= first == i && !splits[i] ? c->size[i] : 1;
    }
}

/* The sizes after these, counted like digits from 1; false after the last. */
static bool advance(const struct cadre_run_spec *run, struct candidate *c)
{
    for (int i = run->n_plugins - 1; i >= 0; i--) {
        if (first_of_axis(run, i) != i)
            continue;
        if (c->size[i] < run->axis[i].size) {
            c->size[i]++;
            return true;
        }
        c->size[i] = 1;
    }
    return false;
}

/* Axes that do not split the batch exist because one rank is too small: stacks that
 * keep them come first, then those with most ranks. */
static int by_worth(const void *left, const void *right)
{
    const struct candidate *a = left, *b = right;
    if (a->others != b->others)
        return a->others > b->others ? -1 : 1;
    if (a->ranks != b->ranks)
        return a->ranks > b->ranks ? -1 : 1;
    for (int i = 0; i < CADRE_MAX_INSTANCES; i++)
        if (a->size[i] != b->size[i])
            return a->size[i] > b->size[i] ? -1 : 1;
    return 0;
}

/* Every world of 1 to `ranks` ranks, the best first. NULL where there is no memory. */
static struct candidate *list_candidates(const struct cadre_run_spec *run,
                                         const bool *splits, int ranks, size_t *n)
{
    struct candidate one = {0};
    struct candidate *list = cadre_calloc((size_t)run->ranks, sizeof *list);
    *n = 0;
    for (int i = 0; i < run->n_plugins; i++)
        one.size[i] = 1;
    if (!list)
        return NULL;
    do {
        measure(run, splits, &one);
        if (one.ranks <= ranks)
            list[(*n)++] = one;
    } while (advance(run, &one));
    qsort(list, *n, sizeof *list, by_worth);
    return list;
}

/* Is the plan of every rank valid? */
static cadre_status try_candidate(const struct cadre_run_spec *before,
                                  const struct candidate *c, struct cadre_error *err)
{
    struct cadre_run_spec run = *before;
    cadre_status rc = CADRE_OK;
    run.ranks = c->ranks;
    for (int i = 0; i < run.n_plugins; i++)
        run.axis[i].size = c->size[i];
    for (int r = 0; rc == CADRE_OK && r < run.ranks; r++) {
        struct cadre_rank rank;
        rc = cadre_rank_plan(&rank, &run, r, err);
        if (rc == CADRE_OK)
            cadre_rank_fini(&rank);
    }
    return rc;
}

/* The plugins as strategy.stack names them, with other sizes. */
static char *write_stack(const struct cadre_spec *spec, const struct candidate *c)
{
    struct cadre_text text = {0};
    struct cadre_stack stack;
    if (cadre_stack_parse(spec->config.strategy.stack, &stack, NULL) != CADRE_OK)
        return NULL;
    for (int i = 0; i < stack.n; i++) {
        char entry[sizeof stack.entry[i]];
        cadre_stack_print(&stack.entry[i], c->size[i], entry, sizeof entry);
        cadre_text_printf(&text, "%s%s", i ? ", " : "", entry);
    }
    char *copy = text.failed ? NULL : cadre_strdup(cadre_text_str(&text));
    cadre_text_fini(&text);
    return copy;
}

cadre_status cadre_elastic_choose(const struct cadre_spec *spec, int ranks, char **text,
                                  struct cadre_error *err)
{
    bool splits[CADRE_MAX_INSTANCES] = {0};
    struct cadre_error why = {0};
    size_t n;
    CADRE_TRY(find_data_axes(&spec->run, splits, err));
    struct candidate *list = list_candidates(&spec->run, splits, ranks, &n);
    if (!list)
        return cadre_no_memory(err, "the stacks to try");
    cadre_status rc = cadre_fail(err, CADRE_E_INVALID, "no rank is left");
    for (size_t i = 0; i < n && rc != CADRE_OK; i++) {
        rc = try_candidate(&spec->run, &list[i], &why);
        if (rc != CADRE_OK)
            rc = cadre_fail(err, CADRE_E_INVALID, "%s", why.text);
        else if (!(*text = write_stack(spec, &list[i])))
            rc = cadre_no_memory(err, "the stack's text");
    }
    free(list);
    return rc;
}

/* ---- from one start to the next ---- */

/* The run's own latest checkpoint, else the one that the run began from. `resume` is
 * the value of checkpoint.resume for it. */
static cadre_status find_start(const struct cadre_spec *spec, const char **resume,
                               int64_t *step, struct cadre_error *err)
{
    const char *asked = spec->config.checkpoint.resume;
    char *path = NULL;
    cadre_status rc = cadre_resume_find_own(spec->out, &path, step, err);
    *resume = "auto";
    if (rc == CADRE_OK && !path && strcmp(asked, "no") != 0) {
        *resume = asked;
        rc = cadre_resume_find(asked, spec->out, &path, step, err);
    }
    free(path);
    return rc;
}

cadre_status cadre_elastic_spec(const struct cadre_spec *spec, const char *stack,
                                const char *resume, const char *by,
                                struct cadre_spec **next, struct cadre_error *err)
{
    const struct cadre_spec_request request = {
        .out = spec->out, .name = spec->name, .need_data = true};
    const char *const set[][2] = {{"strategy.stack", stack},
                                  {"checkpoint.resume", resume}};
    struct cadre_options *options = cadre_options_clone(spec->options);
    cadre_status rc = options ? CADRE_OK : CADRE_E_RESOURCE;
    for (size_t i = 0; i < sizeof set / sizeof set[0] && rc == CADRE_OK; i++) {
        char *text = cadre_format("%s=%s", set[i][0], set[i][1]);
        rc = text ? cadre_options_set(options, text, by, err) : CADRE_E_RESOURCE;
        free(text);
    }
    if (rc == CADRE_OK)
        return cadre_spec_create(options, &request, next, err);
    cadre_options_destroy(options);
    return cadre_fail(err, rc, "no memory for the options of a restart");
}

/* Why the run is not started again although a rank was lost; false if it may be. */
static bool gives_up(const struct cadre_elastic *elastic, const struct cadre_spec *spec,
                     struct cadre_error *err)
{
    long long step = elastic->step;
    if (step >= spec->steps)
        cadre_fail(err, CADRE_E_COMM,
                   "%s; all %lld steps were done, and are in '%s/checkpoints', but "
                   "nobody is left to write summary.json",
                   elastic->why, step, spec->out);
    else if (elastic->tries >= CADRE_ELASTIC_TRIES)
        cadre_fail(
            err, CADRE_E_COMM,
            "%s; run.elastic continued %d times after step %lld and never reached "
            "another checkpoint: it gives up",
            elastic->why, elastic->tries, step);
    else
        return false;
    return true;
}

static void log_restart(const struct cadre_elastic *elastic,
                        const struct cadre_spec *next, int lost, bool replaced)
{
    char others[48] = "", after[48] = "from the beginning";
    if (lost > 1)
        snprintf(others, sizeof others, " (%d ranks were lost)", lost);
    if (elastic->step > 0)
        snprintf(after, sizeof after, "after step %lld", (long long)elastic->step);
    cadre_log(CADRE_LOG_WARN, "train", "%s%s; run.elastic continues with %s%s, %s",
              elastic->why, others, next->stack, replaced ? " as before" : "", after);
}

cadre_status cadre_elastic_cannot(const struct cadre_elastic *elastic,
                                  struct cadre_error *err)
{
    char because[sizeof err->text];
    snprintf(because, sizeof because, "%s", err->text);
    return cadre_fail(err, CADRE_E_COMM, "%s; run.elastic cannot continue: %s",
                      elastic->why, because);
}

static cadre_status choose(const struct cadre_spec *spec, int lost, bool replace,
                           char **stack, struct cadre_error *err)
{
    if (!replace)
        return cadre_elastic_choose(spec, spec->run.ranks - lost, stack, err);
    *stack = cadre_strdup(spec->config.strategy.stack);
    return *stack ? CADRE_OK : cadre_no_memory(err, "the stack's text");
}

static cadre_status restart(struct cadre_elastic *elastic,
                            const struct cadre_spec *spec, int lost,
                            struct cadre_spec **next, struct cadre_error *err)
{
    char *stack = NULL;
    const char *resume;
    int64_t step = 0;
    cadre_status rc;
    CADRE_TRY_OR(find_start(spec, &resume, &step, err), fail);
    elastic->tries = step == elastic->step ? elastic->tries : 0;
    elastic->step = step;
    if (gives_up(elastic, spec, err))
        return CADRE_E_COMM;
    const bool replace = elastic->replaces && elastic->tries == 0;
    CADRE_TRY_OR(choose(spec, lost, replace, &stack, err), fail);
    CADRE_TRY_OR(cadre_elastic_spec(spec, stack, resume, "run.elastic", next, err),
                 fail);
    struct cadre_restart record = {
        .step = step,
        .lost = lost,
        .from = spec->config.strategy.stack,
        .stack = stack,
        .why = elastic->why,
    };
    rc = cadre_restarts_add(spec->out, &record, err);
    elastic->tries++;
    log_restart(elastic, *next, lost, replace);
fail:
    free(stack);
    return rc == CADRE_OK ? rc : cadre_elastic_cannot(elastic, err);
}

cadre_status cadre_elastic_next(struct cadre_elastic *elastic,
                                const struct cadre_spec *spec,
                                const struct cadre_launch_end *end,
                                struct cadre_spec **next, struct cadre_error *err)
{
    *next = NULL;
    snprintf(elastic->why, sizeof elastic->why, "%s", err->text);
    if (end->asked || cadre_stop_requested())
        return cadre_fail(err, CADRE_E_STOPPED,
                          "stopped by a signal, when %s; continue with --set "
                          "checkpoint.resume=auto",
                          elastic->why);
    cadre_status rc = restart(elastic, spec, end->lost, next, err);
    if (rc != CADRE_OK) {
        cadre_spec_destroy(*next);
        *next = NULL;
    }
    return rc;
}

char **cadre_elastic_argv(const struct cadre_spec *spec, char *const *argv)
{
    static const char set[] = "--set";
    const char *const last[][2] = {
        {"strategy.stack=", spec->config.strategy.stack},
        {"checkpoint.resume=", spec->config.checkpoint.resume},
    };
    size_t n = 0, room = 0;
    while (argv[n])
        n++;
    for (int i = 0; i < 2; i++)
        room += strlen(last[i][0]) + strlen(last[i][1]) + 1;
    char **out = malloc((n + 5) * sizeof *out + room);
    if (!out)
        return NULL;
    memcpy(out, argv, n * sizeof *out);
    char *text = (char *)(out + n + 5);
    for (int i = 0; i < 2; i++) {
        out[n++] = (char *)(uintptr_t)set; /* not written to */
        out[n++] = text;
        text = stpcpy(stpcpy(text, last[i][0]), last[i][1]) + 1;
    }
    out[n] = NULL;
    return out;
}
