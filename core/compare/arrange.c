/* SPDX-License-Identifier: Apache-2.0 */
#include "core/compare/arrange.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cores.h"
#include "core/base/hash.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/compare/verdict/machine.h"
#include "core/compare/verdict/seeds.h"
#include "core/config/option_compare.h"
#include "core/run/bench.h"
#include "core/sweep/sweep.h"
#include "core/train/costs.h"
#include "core/train/predict.h"
#include "core/train/train.h"

struct arranging {
    const struct cadre_arrange_request *request;
    struct cadre_comparison *c;
    struct cadre_config *config; /* of each run; texts are borrowed from its options */
};

char *cadre_arrange_folder(const char *out, const char *name)
{
    return cadre_format("%s/runs/%s", out, name);
}

int64_t cadre_arrange_perturbation(int64_t global_batch, int64_t micro_batch)
{
    for (int64_t d = 2; d <= micro_batch; d++)
        if (micro_batch % d == 0)
            return micro_batch / d;
    for (int64_t d = 2; d <= global_batch; d++)
        if (global_batch % d == 0)
            return d;
    return 0;
}

/* ---- one run ---- */

static cadre_status check_name(const char *name, struct cadre_error *err)
{
    if (strchr(name, '/') || name[0] == '.' || strlen(name) > 60)
        return cadre_fail(err, CADRE_E_INVALID,
                          "[run:%s] cannot name a folder: expected at most 60 "
                          "characters, no '/' and no '.' in front",
                          name);
    return CADRE_OK;
}

/* The options of a run as loaded, and its spec. */
static cadre_status make_spec(const struct arranging *a, const char *name,
                              struct cadre_options *loaded, struct cadre_spec **spec,
                              struct cadre_error *err)
{
    cadre_status rc;
    char *out = cadre_arrange_folder(a->request->out, name);
    struct cadre_spec_request request = {.out = out, .name = name, .need_data = true};
    CADRE_TRY_OR(cadre_options_apply_run(loaded, name, err), fail);
    for (char *const *set = a->request->sets; set && *set; set++)
        CADRE_TRY_OR(cadre_options_set(loaded, *set, "command line", err), fail);
    struct cadre_options *options = cadre_options_clone(loaded);
    if (options && out) {
        rc = cadre_spec_create(options, &request, spec, err);
    } else {
        rc = cadre_no_memory(err, "run %s", name);
        cadre_options_destroy(options);
    }
fail:
    free(out);
    return rc;
}

/* Does it consist of independent runs? */
static cadre_status take_instances(struct arranging *a, size_t i, const char *name,
                                   const struct cadre_options *loaded,
                                   const struct cadre_spec *spec,
                                   struct cadre_error *err)
{
    struct cadre_compared_run *run = &a->c->run[i];
    const struct cadre_sweep_request request = {
        .options = loaded,
        .conf = a->request->conf,
        .run = name,
        .sets = a->request->sets,
    };
    struct cadre_sweep *sweep = NULL;
    cadre_status rc = cadre_sweep_create(&request, spec, &sweep, err);
    if (rc != CADRE_OK || !sweep)
        return rc;
    run->instances = (int)sweep->n;
    for (size_t k = 0; k < sweep->n; k++)
        if (sweep->instance[k].threads > run->threads || k == 0)
            run->threads = sweep->instance[k].threads;
    cadre_sweep_destroy(sweep);
    return CADRE_OK;
}

static double eps_of(const struct cadre_spec *spec)
{
    return spec->run.model.dtype == CADRE_F64 ? 0x1p-52 : 0x1p-23;
}

/* eps of 16-bit numbers, 0 for wider ones. */
static double coarse_of(const struct cadre_spec *spec)
{
    return spec->run.model.dtype == CADRE_BF16  ? 0x1p-7
           : spec->run.model.dtype == CADRE_F16 ? 0x1p-10
                                                : 0;
}

static void hash_option(void *arg, const char *section,
                        const struct cadre_option *option, const char *value)
{
    static const char *const left_out[] = {"run", "bench", "compare", "report",
                                           "energy"};
    for (size_t i = 0; i < sizeof left_out / sizeof left_out[0]; i++)
        if (strcmp(section, left_out[i]) == 0)
            return;
    cadre_hash_update_string(arg, section);
    cadre_hash_update_string(arg, option->key);
    cadre_hash_update_string(arg, value);
}

static uint64_t setup_of(const struct cadre_options *options)
{
    struct cadre_hash hash;
    cadre_hash_init(&hash, 0);
    cadre_options_each(options, hash_option, &hash);
    return cadre_hash_final(&hash);
}

static cadre_status take_spec(struct arranging *a, size_t i, const char *name,
                              const struct cadre_spec *spec, int64_t params,
                              struct cadre_error *err)
{
    struct cadre_compared_run *run = &a->c->run[i];
    run->name = cadre_strdup(name);
    run->strategy = cadre_strdup(spec->stack);
    run->other_training = cadre_strdup("");
    run->ranks = spec->run.ranks;
    run->threads = spec->run.device.threads;
    run->gpu = spec->gpu;
    run->exact = spec->run.exact;
    run->processes = spec->local.processes;
    run->simulated_link = spec->local.link.gbytes_s > 0;
    run->simulated_nodes = spec->config.comm.node > 0;
    run->simulated_pace = cadre_spec_pace(spec) != NULL;
    run->micro_batch = spec->run.micro_batch;
    run->steps = spec->steps;
    run->params = params;
    run->eps = eps_of(spec);
    run->coarse = coarse_of(spec);
    run->options = cadre_options_clone(spec->options);
    run->setup = setup_of(spec->options);
    run->data = spec->data_info.fingerprint;
    CADRE_TRY(cadre_train_signature(spec, run->sums, &run->changes, err));
    if (!run->name || !run->strategy || !run->other_training || !run->options)
        return cadre_no_memory(err, "run %s", name);
    cadre_config_fill(&a->config[i], run->options);
    return CADRE_OK;
}

/* The checks of train --dry-run: placement, conflicts. Whether a run fits into memory
 * is found where it starts, which may be another machine. */
static cadre_status plan_run(struct cadre_spec *spec, int64_t *params,
                             struct cadre_error *err)
{
    struct cadre_prediction plan;
    CADRE_TRY(cadre_error_of_planning(cadre_costs_find(spec, err)));
    CADRE_TRY(cadre_error_of_planning(cadre_predict(spec, NULL, NULL, &plan, err)));
    *params = (int64_t)plan.params;
    return CADRE_OK;
}

/* The runs of a comparison are trainings, whose results it reads. */
static cadre_status refuse_benchmark(const struct cadre_spec *spec,
                                     struct cadre_error *err)
{
    const struct cadre_config_bench *bench = &spec->config.bench;
    if (!cadre_bench_wanted(bench))
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "bench.steps = %" PRId64
                      " and bench.target = %g make a benchmark, "
                      "and a comparison trains; leave them at 0",
                      bench->steps, bench->target);
}

static cadre_status arrange_run(struct arranging *a, size_t i, const char *name,
                                struct cadre_error *err)
{
    struct cadre_spec *spec = NULL;
    int64_t params = 0;
    CADRE_TRY(check_name(name, err));
    /* no fault of this run */
    CADRE_TRY(cadre_options_check_shared(a->request->options, name, err));
    struct cadre_options *loaded = cadre_options_clone(a->request->options);
    if (!loaded)
        return cadre_no_memory(err, "run %s", name);
    cadre_status rc = make_spec(a, name, loaded, &spec, err);
    if (rc == CADRE_OK)
        rc = refuse_benchmark(spec, err);
    if (rc == CADRE_OK)
        rc = plan_run(spec, &params, err);
    if (rc == CADRE_OK)
        rc = take_spec(a, i, name, spec, params, err);
    if (rc == CADRE_OK)
        rc = take_instances(a, i, name, loaded, spec, err);
    if (rc != CADRE_OK)
        cadre_error_prefix(err, "run %s", name);
    cadre_options_destroy(loaded);
    cadre_spec_destroy(spec);
    return rc;
}

/* ---- between runs ---- */

/* Cores per rank are the same in every run, so that times are comparable. */
static cadre_status same_threads(struct arranging *a, struct cadre_arrangement *out,
                                 struct cadre_error *err)
{
    struct cadre_comparison *c = a->c;
    int most = 1;
    bool unset = false;
    for (size_t i = 0; i < c->n; i++) {
        most = c->run[i].ranks > most ? c->run[i].ranks : most;
        unset = unset || a->config[i].device.threads == 0;
        c->whole = c->whole || (c->run[i].instances && !c->run[i].gpu);
    }
    /* with a sweep, every run takes all cores of the machine */
    c->whole = c->whole && unset;
    if (c->whole)
        return CADRE_OK;
    int share = c->cores / most > 1 ? c->cores / most : 1;
    for (size_t i = 0; i < c->n; i++) {
        if (a->config[i].device.threads == 0)
            c->run[i].threads = share;
        if (c->run[i].threads != c->run[0].threads)
            return cadre_fail(
                err, CADRE_E_INVALID,
                "device.threads is %d in run %s and %d in run %s (%s): "
                "runs of a comparison use the same cores per rank",
                c->run[0].threads, c->run[0].name, c->run[i].threads, c->run[i].name,
                cadre_options_source(c->run[i].options, "device.threads"));
    }
    out->threads = unset ? share : 0;
    return CADRE_OK;
}

struct differing {
    const struct cadre_options *baseline;
    struct cadre_text keys;
};

static void add_difference(void *arg, const char *section,
                           const struct cadre_option *option, const char *mine)
{
    struct differing *d = arg;
    char name[128];
    if (cadre_option_is_layout(section, option->key))
        return;
    snprintf(name, sizeof name, "%s.%s", section, option->key);
    const char *base = cadre_options_raw(d->baseline, name);
    if (base && !cadre_option_same(base, mine)) /* NULL: the baseline lacks it */
        cadre_text_printf(&d->keys, "%s%s (%s, baseline %s)", d->keys.len ? ", " : "",
                          name, mine, base);
}

static cadre_status find_other_training(const struct arranging *a, size_t i,
                                        struct cadre_error *err)
{
    struct cadre_compared_run *run = &a->c->run[i];
    struct differing d = {.baseline = a->c->run[a->c->baseline].options};
    cadre_options_each(run->options, add_difference, &d);
    free(run->other_training);
    run->other_training = cadre_strdup(cadre_text_str(&d.keys));
    bool failed = d.keys.failed || !run->other_training;
    cadre_text_fini(&d.keys);
    if (failed)
        return cadre_no_memory(err, "the options");
    return CADRE_OK;
}

/* Is `section` the name of a plugin of the stack "name:2, other:2"? */
static bool in_stack(const char *stack, const char *section)
{
    size_t n = strlen(section);
    for (const char *at = stack; at; at = strchr(at, ',')) {
        at += strspn(at, ", ");
        if (strncmp(at, section, n) == 0 && at[n] == ':')
            return true;
    }
    return false;
}

struct layout {
    const char *stack;
    struct cadre_text text;
};

/* Options of the stack's plugins that differ from their defaults. */
static void add_choice(void *arg, const char *section,
                       const struct cadre_option *option, const char *value)
{
    struct layout *layout = arg;
    if (in_stack(layout->stack, section) && strcmp(value, option->def) != 0)
        cadre_text_printf(&layout->text, ", %s.%s = %s", section, option->key, value);
}

cadre_status cadre_arrange_describe(struct cadre_compared_run *run,
                                    struct cadre_error *err)
{
    struct layout layout = {.stack = run->strategy};
    const char *as = run->ranks == 1                                  ? ""
                     : run->processes || run->instances == run->ranks ? "s as processes"
                                                                      : "s as threads";
    if (run->instances)
        cadre_text_printf(&layout.text, "%d independent runs, ", run->instances);
    cadre_text_printf(&layout.text,
                      "%d rank%s, %d core%s each, micro_batch %" PRId64 "%s",
                      run->ranks, as, run->threads, run->threads == 1 ? "" : "s",
                      run->micro_batch, run->exact ? ", exact" : "");
    cadre_options_each(run->options, add_choice, &layout);
    free(run->layout);
    run->layout =
        layout.text.failed ? NULL : cadre_strdup(cadre_text_str(&layout.text));
    cadre_text_fini(&layout.text);
    if (!run->layout)
        return cadre_no_memory(err, "the layout");
    return CADRE_OK;
}

static cadre_status find_baseline(const struct arranging *a, struct cadre_error *err)
{
    struct cadre_comparison *c = a->c;
    const char *wanted = a->config[0].compare.baseline;
    for (size_t i = 0; i < c->n && *wanted; i++) {
        if (strcasecmp(c->run[i].name, wanted) == 0) {
            c->baseline = i;
            return CADRE_OK;
        }
    }
    if (*wanted)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s: compare.baseline = %s is not one of the runs compared: "
                          "expected one of them, such as %s",
                          cadre_options_source(c->run[0].options, "compare.baseline"),
                          wanted, c->run[0].name);
    return CADRE_OK;
}

/* Perturbations are needed only if some run is compared with limits. */
static bool needs_limits(const struct cadre_comparison *c)
{
    for (size_t i = 0; i < c->n; i++) {
        const struct cadre_compared_run *run = &c->run[i];
        const struct cadre_compared_run *base = &c->run[cadre_seeds_baseline(c, i)];
        if (run != base && cadre_compared_same_training(c, i) && !run->instances &&
            !cadre_compared_same_bits(base, run))
            return true;
    }
    return false;
}

/* First another micro-batch if possible, then moved parameters. A baseline of several
 * ranks keeps its micro-batch, which its stack may depend on. */
static cadre_status choose_perturbations(const struct arranging *a,
                                         struct cadre_error *err)
{
    struct cadre_comparison *c = a->c;
    const struct cadre_compared_run *base = &c->run[c->baseline];
    const struct cadre_config *config = &a->config[c->baseline];
    if (base->instances || !needs_limits(c))
        return CADRE_OK;
    if (!config->compare.perturb) {
        snprintf(c->note, sizeof c->note, "compare.perturb = yes measures them");
        return CADRE_OK;
    }
    size_t n = (size_t)config->compare.perturbations;
    c->perturbation = cadre_calloc(n, sizeof *c->perturbation);
    if (!c->perturbation)
        return cadre_no_memory(err, "perturbations");
    c->n_perturbations = n;
    if (base->ranks == 1)
        c->perturbation[0].micro_batch =
            cadre_arrange_perturbation(config->train.global_batch, base->micro_batch);
    for (size_t i = c->perturbation[0].micro_batch ? 1 : 0; i < n; i++)
        c->perturbation[i].seed = (int64_t)i + 1;
    return CADRE_OK;
}

static int64_t greatest_divisor(int64_t a, int64_t b)
{
    while (b > 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Steps after which the work of every run repeats, and `asked` ones. */
static int64_t common_period(const struct cadre_comparison *c, int64_t asked)
{
    int64_t period = asked;
    for (size_t i = 0; i < c->n; i++) {
        int64_t own = (int64_t)c->run[i].changes.period;
        period = period / greatest_divisor(period, own) * own;
    }
    return period;
}

/* A step takes no other time under another seed: of the runs that compare.vary makes
 * for seeds, one is timed. */
static void leave_out_seeds(const struct arranging *a)
{
    struct cadre_comparison *c = a->c;
    if (!*a->config[0].compare.vary)
        return;
    for (size_t i = 0; i < c->n; i++) {
        struct cadre_compared_run *run = &c->run[i];
        const struct cadre_compared_run *timed = &c->run[c->baseline];
        for (size_t k = 0; k < i && !cadre_seeds_differ(timed, run); k++)
            timed = &c->run[k];
        if (i != c->baseline && cadre_seeds_differ(timed, run) && !*timed->untimed)
            snprintf(run->untimed, sizeof run->untimed,
                     "it is %s with another seed, and that one is timed", timed->name);
    }
}

static cadre_status relate(struct arranging *a, struct cadre_arrangement *out,
                           struct cadre_error *err)
{
    struct cadre_comparison *c = a->c;
    const struct cadre_config *config = &a->config[0];
    CADRE_TRY(find_baseline(a, err));
    CADRE_TRY(same_threads(a, out, err));
    for (size_t i = 0; i < c->n; i++) {
        CADRE_TRY(find_other_training(a, i, err));
        CADRE_TRY(cadre_arrange_describe(&c->run[i], err));
        if (!a->config[i].compare.time)
            snprintf(c->run[i].untimed, sizeof c->run[i].untimed, "compare.time is no");
    }
    leave_out_seeds(a);
    c->warmup = config->compare.warmup;
    c->margin = config->compare.margin;
    c->target = config->compare.target;
    CADRE_TRY(cadre_timetable_read(&out->timetable, c->run[0].options, config, err));
    out->timetable.period = common_period(c, out->timetable.period);
    out->resume = strcmp(config->checkpoint.resume, "auto") == 0;
    return choose_perturbations(a, err);
}

/* run.name of the file, which its runs take over with names of their own; else the
 * file's name. */
static char *name_comparison(const struct cadre_arrange_request *request)
{
    const char *name = cadre_options_raw(request->options, "run.name");
    return cadre_strdup(name && *name ? name : cadre_path_basename(request->conf));
}

cadre_status cadre_arrange(const struct cadre_arrange_request *request,
                           struct cadre_comparison *c,
                           struct cadre_arrangement *arrangement,
                           struct cadre_error *err)
{
    cadre_status rc;
    char **names = NULL;
    size_t n = 0;
    struct arranging a = {.request = request, .c = c};
    *arrangement = (struct cadre_arrangement){0};
    CADRE_TRY_OR(cadre_options_list_runs(request->options, &names, &n, err), fail);
    c->title = name_comparison(request);
    c->command = request->command ? cadre_strdup(request->command) : NULL;
    c->run = cadre_calloc(n, sizeof *c->run);
    c->cores = cadre_cores();
    a.config = cadre_calloc(n, sizeof *a.config);
    if (!c->title || (request->command && !c->command) || !c->run || !a.config) {
        rc = cadre_no_memory(err, "%zu runs", n);
        goto fail;
    }
    c->n = n;
    for (size_t i = 0; i < n; i++)
        CADRE_TRY_OR(arrange_run(&a, i, names[i], err), fail);
    rc = relate(&a, arrangement, err);
fail:
    free(a.config);
    free(names);
    return rc;
}
