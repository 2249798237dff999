/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cli/cli.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/cli/result.h"
#include "core/launch/launch.h"
#include "core/run/bench.h"
#include "core/run/record.h"
#include "core/sweep/sweep.h"
#include "core/train/train.h"

/* The target, and how it was reached. */
static void tell_target(const struct cadre_spec *spec, const struct cadre_bench *bench,
                        char *out, size_t size)
{
    const double target = spec->config.bench.target;
    if (target <= 0)
        out[0] = '\0';
    else if (bench->reached)
        snprintf(out, size, ", loss %g reached at step %lld after %.6g s", target,
                 (long long)bench->target_step, bench->window[0].seconds);
    else
        snprintf(out, size, ", loss %g not reached", target);
}

/* What a benchmark found. */
static cadre_status bench_line(const struct cadre_spec *spec, struct cadre_error *err)
{
    struct cadre_bench bench;
    char target[96];
    CADRE_TRY(cadre_bench_read(spec->out, &bench, err));
    tell_target(spec, &bench, target, sizeof target);
    const double step_s = cadre_bench_step_s(&bench);
    if (printf("%s: %lld steps with %s timed%s, %.6g s a step, %.6g tokens/s, in "
               "'%s'\n",
               spec->name, (long long)bench.n * (long long)bench.steps, spec->stack,
               target, step_s, bench.tokens / step_s, spec->out) < 0)
        return cadre_fail(err, CADRE_E_IO, "cannot write to stdout");
    return CADRE_OK;
}

/* " (MFU 31 %, 0.02 J/token)", as far as the summary knows. */
static void tell_efficiency(const struct cadre_spec *spec, char *out, size_t size)
{
    struct cadre_record record = {0};
    char mfu[32] = "", joules[32] = "";
    if (cadre_record_read_summary(spec->out, &record, NULL) == CADRE_OK) {
        const double share = cadre_record_number(&record, "mfu");
        const double used = cadre_record_number_in(&record, "energy", "j_per_token");
        if (isfinite(share))
            snprintf(mfu, sizeof mfu, "MFU %.3g %%", 100 * share);
        if (isfinite(used))
            snprintf(joules, sizeof joules, "%.3g J/token", used);
    }
    cadre_record_fini(&record);
    out[0] = '\0';
    if (*mfu || *joules)
        snprintf(out, size, " (%s%s%s)", mfu, *mfu && *joules ? ", " : "", joules);
}

static cadre_status finish_line(const struct cadre_spec *spec, struct cadre_error *err)
{
    char efficiency[80];
    if (cadre_bench_wanted(&spec->config.bench))
        return bench_line(spec, err);
    tell_efficiency(spec, efficiency, sizeof efficiency);
    if (printf("%s: %lld step%s with %s done, in '%s'%s\n", spec->name,
               (long long)spec->steps, spec->steps == 1 ? "" : "s", spec->stack,
               spec->out, efficiency) < 0)
        return cadre_fail(err, CADRE_E_IO, "cannot write to stdout");
    return CADRE_OK;
}

/* One of several instances puts its number into all its messages. */
static void name_instance(char *out, size_t size)
{
    const char *instance = getenv("CADRE_INSTANCE");
    out[0] = '\0';
    if (!instance || !*instance || strspn(instance, "0123456789") != strlen(instance))
        return;
    snprintf(out, size, "instance %.9s", instance);
    cadre_log_set_process(out);
}

/* A launcher that gives no local rank usually starts ranks machine by machine. */
static int device_of(const struct cadre_train_place *place)
{
    const struct cadre_launch_external *external = &place->external;
    if (!external->launcher)
        return place->child ? place->rank : 0;
    return external->local_rank >= 0 ? external->local_rank : external->rank;
}

/* A file of a comparison trains here too, as what all its runs have in common. */
static void warn_of_runs(const struct cadre_options *options)
{
    char **names = NULL;
    size_t n = 0;
    const char *vary = cadre_options_raw(options, "compare.vary");
    if (cadre_options_list_runs(options, &names, &n, NULL) == CADRE_OK || *vary)
        cadre_log(CADRE_LOG_WARN, "train",
                  "the file has the runs of a comparison, and none of them is trained: "
                  "name one by --run NAME, or train all by `cadre compare`");
    free(names);
}

/* What this process does. */
struct training {
    const struct cadre_cli_args *args;
    struct cadre_train_place place;
    struct cadre_prediction plan; /* of --dry-run */
    bool planned;
};

/* Is it the process that tells the result: no rank of another one? */
static bool is_teller(const struct training *t)
{
    return !t->place.child && t->place.external.rank == 0;
}

/* Text for people; with --json stdout has the object alone. */
static FILE *text_of(const struct training *t)
{
    return t->args->json ? stderr : stdout;
}

static cadre_status plan(struct training *t, struct cadre_spec *spec,
                         struct cadre_error *err)
{
    const struct cadre_launch_external *external = &t->place.external;
    if (external->rank > 0)
        return CADRE_OK; /* rank 0 prints it for all */
    cadre_status rc = cadre_train_dry_run(spec, external->launcher ? external : NULL,
                                          t->args->json ? NULL : stdout, &t->plan, err);
    t->planned = t->plan.ranks > 0;
    return rc;
}

/* The ranks of one world. */
static cadre_status train_one(struct training *t, struct cadre_spec **spec,
                              struct cadre_error *err)
{
    if (t->args->dry_run)
        return plan(t, *spec, err);
    cadre_status rc = cadre_train(spec, &t->place, err);
    if (rc == CADRE_OK && is_teller(t) && !t->args->json)
        rc = finish_line(*spec, err);
    return rc;
}

/* Several worlds, at the same time. */
static cadre_status train_sweep(const struct training *t, const struct cadre_spec *spec,
                                struct cadre_sweep *sweep, struct cadre_error *err)
{
    const bool dry = t->args->dry_run, json = t->args->json;
    if (t->place.external.launcher)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "strategy.stack = %s makes %zu independent runs, which "
            "ranks that an external launcher started cannot be; let `cadre "
            "train` start them, or use a job array of single runs",
            spec->stack, sweep->n);
    if (dry && json)
        return cadre_fail(err, CADRE_E_INVALID,
                          "strategy.stack = %s makes %zu independent runs, whose plans "
                          "are text: leave out --json or --dry-run",
                          spec->stack, sweep->n);
    cadre_status rc = dry ? cadre_sweep_dry_run(sweep, stdout, err)
                          : cadre_sweep_train(sweep, text_of(t), err);
    return rc == CADRE_OK && !dry && !json ? finish_line(spec, err) : rc;
}

static void tell_folder(const struct cadre_cli_args *args)
{
    if (args->out == args->folder)
        cadre_log(CADRE_LOG_INFO, "train",
                  "continuing the run in '%s' by its config.ini", args->folder);
    else
        cadre_log(CADRE_LOG_INFO, "train",
                  "repeating the run of '%s' by its config.ini", args->folder);
}

/* Instances start from the options as they were loaded. */
static cadre_status find_sweep(const struct cadre_cli_args *args,
                               const struct cadre_options *loaded,
                               const struct cadre_spec *spec,
                               const struct cadre_train_place *place,
                               struct cadre_sweep **out, struct cadre_error *err)
{
    const struct cadre_sweep_request request = {.options = loaded,
                                                .conf = args->conf,
                                                .run = args->run,
                                                .sets = args->set.item};
    *out = NULL;
    return place->child ? CADRE_OK : cadre_sweep_create(&request, spec, out, err);
}

/* One object on stdout, also after a failure. */
static cadre_status tell_json(const struct training *t, const struct cadre_spec *spec,
                              cadre_status rc, struct cadre_error *err)
{
    const struct cadre_cli_result result = {
        .command = "train",
        .name = spec ? spec->name : NULL,
        .folder = spec ? spec->out : t->args->out,
        .rc = rc,
        .error = err->text,
        .plan = t->planned ? &t->plan : NULL,
    };
    return t->args->json && is_teller(t) ? cadre_cli_result_print(&result, err) : rc;
}

static cadre_status find_place(struct training *t, int *size, struct cadre_error *err)
{
    struct cadre_train_place *place = &t->place;
    CADRE_TRY(
        cadre_launch_child(&place->child, &place->rank, size, &place->segment_fd, err));
    return cadre_launch_external(&place->external, err);
}

static cadre_status train(const struct cadre_cli_args *args, struct cadre_error *err)
{
    struct training t = {.args = args, .place = {.argv = args->argv}};
    const struct cadre_train_place *place = &t.place;
    struct cadre_options *options = NULL, *loaded = NULL;
    struct cadre_sweep *sweep = NULL;
    struct cadre_spec *spec = NULL;
    enum cadre_log_level level;
    char name[64], instance[32];
    int size = 0;
    cadre_status rc;
    name_instance(instance, sizeof instance);
    CADRE_TRY_OR(find_place(&t, &size, err), fail);
    CADRE_TRY_OR(cadre_cli_load(args, &options, err), fail);
    if (cadre_log_parse_level(cadre_options_raw(options, "log.level"), &level))
        cadre_log_set_level(level);
    if (place->child)
        cadre_log_set_rank(place->rank, size);
    cadre_cli_run_name(args, name, sizeof name);
    struct cadre_spec_request request = {
        .out = args->out,
        .name = name,
        .given_ranks = place->external.size,
        .local_ranks = place->external.local_size,
        .device_index = device_of(place),
        .need_data = true,
    };
    loaded = cadre_options_clone(options);
    if (!loaded) {
        cadre_options_destroy(options);
        rc = cadre_no_memory(err, "the options");
        goto fail;
    }
    if (args->folder && is_teller(&t))
        tell_folder(args);
    if (!args->run && is_teller(&t))
        warn_of_runs(options);
    CADRE_TRY_OR(cadre_spec_create(options, &request, &spec, err), fail);
    CADRE_TRY_OR(find_sweep(args, loaded, spec, place, &sweep, err), fail);
    rc = sweep ? train_sweep(&t, spec, sweep, err) : train_one(&t, &spec, err);
fail:
    if (rc != CADRE_OK && instance[0] && err->text[0])
        cadre_error_prefix(err, "%s", instance);
    rc = tell_json(&t, spec, rc, err);
    cadre_sweep_destroy(sweep);
    cadre_spec_destroy(spec);
    cadre_options_destroy(loaded);
    return rc;
}

static const struct cadre_cli_option options[] = {
    CADRE_CLI_OPTION_SET,
    CADRE_CLI_OPTION_OUT,
    {.name = "--run",
     .argument = "NAME",
     .kind = CADRE_CLI_RUN,
     .field = CADRE_CLI_FIELD(run),
     .help = "with the settings of [run:NAME] of a comparison"},
    {.name = "--dry-run",
     .field = CADRE_CLI_FIELD(dry_run),
     .help = "print placement and memory of each rank, train nothing"},
    {.name = "--json",
     .field = CADRE_CLI_FIELD(json),
     .help = "print one JSON object at the end: folder, status, main figures"},
    {0},
};

const struct cadre_cli_command cadre_command_train = {
    .name = "train",
    .synopsis = "CONF [--set SECTION.KEY=VALUE]... [--out DIR] [--run NAME] "
                "[--dry-run] [--json]",
    .summary = "train; --dry-run prints placement and memory, and trains nothing",
    .argument = "CONF",
    .kind = CADRE_CLI_CONF,
    .least = 1,
    .most = 1,
    .continues = true,
    .details =
        "Where CONF is the folder of a run, its config.ini is read, and the run "
        "goes on in that folder from its last checkpoint; with --out OTHER it is "
        "trained again from its beginning.",
    .options = options,
    .run = train,
};
