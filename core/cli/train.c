/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/launch/launch.h"
#include "core/run/bench.h"
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

static cadre_status finish_line(const struct cadre_spec *spec, struct cadre_error *err)
{
    if (cadre_bench_wanted(&spec->config.bench))
        return bench_line(spec, err);
    if (printf("%s: %lld steps with %s done, in '%s'\n", spec->name,
               (long long)spec->steps, spec->stack, spec->out) < 0)
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

/* The ranks of one world. */
static cadre_status train_one(struct cadre_spec **spec,
                              const struct cadre_train_place *place, bool dry,
                              struct cadre_error *err)
{
    if (dry && place->external.rank > 0)
        return CADRE_OK; /* rank 0 prints it for all */
    cadre_status rc =
        dry ? cadre_train_dry_run(*spec, stdout, err) : cadre_train(spec, place, err);
    if (rc == CADRE_OK && !dry && !place->child && place->external.rank == 0)
        rc = finish_line(*spec, err);
    return rc;
}

/* Several worlds, at the same time. */
static cadre_status train_sweep(const struct cadre_spec *spec,
                                struct cadre_sweep *sweep,
                                const struct cadre_train_place *place, bool dry,
                                struct cadre_error *err)
{
    if (place->external.launcher)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "strategy.stack = %s makes %zu independent runs, which "
            "ranks that an external launcher started cannot be; let `cadre "
            "train` start them, or use a job array of single runs",
            spec->stack, sweep->n);
    cadre_status rc = dry ? cadre_sweep_dry_run(sweep, stdout, err)
                          : cadre_sweep_train(sweep, stdout, err);
    return rc == CADRE_OK && !dry ? finish_line(spec, err) : rc;
}

/* Instances start from the options as they were loaded. */
static cadre_status find_sweep(const struct cadre_cli_args *args,
                               const struct cadre_options *loaded,
                               const struct cadre_spec *spec,
                               const struct cadre_train_place *place,
                               struct cadre_sweep **out, struct cadre_error *err)
{
    const struct cadre_sweep_request request = {
        .options = loaded, .conf = args->conf, .run = args->run, .sets = args->set};
    *out = NULL;
    return place->child ? CADRE_OK : cadre_sweep_create(&request, spec, out, err);
}

cadre_status cadre_cli_train(const struct cadre_cli_args *args, struct cadre_error *err)
{
    struct cadre_train_place place = {.argv = args->argv};
    struct cadre_options *options = NULL, *loaded = NULL;
    struct cadre_sweep *sweep = NULL;
    struct cadre_spec *spec = NULL;
    enum cadre_log_level level;
    char name[64], instance[32];
    int size = 0;
    cadre_status rc;
    name_instance(instance, sizeof instance);
    CADRE_TRY_OR(
        cadre_launch_child(&place.child, &place.rank, &size, &place.segment_fd, err),
        fail);
    CADRE_TRY_OR(cadre_launch_external(&place.external, err), fail);
    CADRE_TRY_OR(cadre_cli_load(args, &options, err), fail);
    if (cadre_log_parse_level(cadre_options_raw(options, "log.level"), &level))
        cadre_log_set_level(level);
    if (place.child)
        cadre_log_set_rank(place.rank, size);
    cadre_cli_run_name(args, name, sizeof name);
    struct cadre_spec_request request = {
        .out = args->out,
        .name = name,
        .given_ranks = place.external.size,
        .local_ranks = place.external.local_size,
        .device_index = device_of(&place),
        .need_data = true,
    };
    loaded = cadre_options_clone(options);
    if (!loaded) {
        cadre_options_destroy(options);
        rc = cadre_no_memory(err, "the options");
        goto fail;
    }
    CADRE_TRY_OR(cadre_spec_create(options, &request, &spec, err), fail);
    CADRE_TRY_OR(find_sweep(args, loaded, spec, &place, &sweep, err), fail);
    rc = sweep ? train_sweep(spec, sweep, &place, args->dry_run, err)
               : train_one(&spec, &place, args->dry_run, err);
fail:
    if (rc != CADRE_OK && instance[0] && err->text[0])
        cadre_error_prefix(err, "%s", instance);
    cadre_sweep_destroy(sweep);
    cadre_spec_destroy(spec);
    cadre_options_destroy(loaded);
    return rc;
}
