/* SPDX-License-Identifier: Apache-2.0 */
/* Independent runs: several trainings at the same time, one for each index of an axis
 * that a plugin claims with CADRE_BATCH_INDEPENDENT (`mig`, mode = independent). The
 * ranks of different instances never connect. Each instance is another `cadre train`, a
 * process (and its ranks) with the stack without that axis, with the CPUs and the
 * environment that the plugin requested for its ranks, and with its values of the
 * plugin's `sweep`. So each has its own hash of options, world, folder DIR/instance-K
 * and checkpoints, and a failure of one does not affect the others.
 *
 * DIR gets config.ini, instances.json (a list: instance, folder, options, status,
 * summary) and summary.json: ranks, tokens, comm_bytes and tokens_per_s are sums over
 * the instances, time_s and comm_exposed_s the largest, peak_bytes the list of all
 * ranks. Losses are those of the best instance, by valid_loss if all have one, else by
 * loss_last; `best` is its number. */
#ifndef CADRE_SWEEP_SWEEP_H
#define CADRE_SWEEP_SWEEP_H

#include "core/launch/supervise.h"
#include "core/run/record.h"
#include "core/run/spec.h"
#include "core/sweep/sweep_values.h"

struct json_t;

/* How an instance ended. */
enum cadre_sweep_status {
    CADRE_SWEEP_WAITING, /* it has not run */
    CADRE_SWEEP_DONE,
    CADRE_SWEEP_STOPPED, /* by a signal, after a checkpoint */
    CADRE_SWEEP_FAILED,
};

/* Texts are owned. */
struct cadre_sweep_instance {
    char *folder; /* DIR/instance-K */
    char *options; /* "optim.lr = 1e-3, optim.beta2 = 0.95", "" without a sweep */
    char **argv; /* of its process, NULL-terminated */
    size_t argc;
    char **variable; /* "NAME=value" of its environment, NULL-terminated */
    size_t n_variables;
    bool pinned; /* to `cpus` */
    cpu_set_t cpus; /* of all its ranks together */
    int ranks, threads; /* CPU threads of each rank */
    int64_t steps;
    enum cadre_sweep_status status;
    bool before; /* done before this resume */
    struct cadre_process_end end;
    struct json_t *summary; /* of the instance; NULL: none */
};

struct cadre_sweep {
    const char *plugin; /* the instance that has the axis; lives as long as spec */
    char stack[256]; /* of an instance */
    const struct cadre_spec *spec; /* of the whole; borrowed */
    struct cadre_sweep_values values;
    size_t n;
    struct cadre_sweep_instance *instance;
};

/* Input of the user. Borrowed. */
struct cadre_sweep_request {
    const struct cadre_options *options; /* loaded, not resolved */
    const char *conf, *run; /* the file; --run, or NULL */
    char *const *sets; /* of --set, NULL-terminated; may be NULL */
};

/* If the stack of `spec` has such an axis, *out is its sweep, which the caller
 * destroys; else *out is NULL, also if the stack cannot be planned, which training
 * reports. All user errors in an instance are found here. [main] Errors:
 * CADRE_E_INVALID naming the sweep, the instance or the plugin. */
cadre_status cadre_sweep_create(const struct cadre_sweep_request *request,
                                const struct cadre_spec *spec, struct cadre_sweep **out,
                                struct cadre_error *err);
void cadre_sweep_destroy(struct cadre_sweep *sweep);

/* Train all instances at once and write the files of DIR; the table goes to `out`. A
 * resumed run skips instances that are done. [main] Errors: CADRE_E_INVALID for a
 * folder that holds a run; CADRE_E_ABORTED if an instance failed, after the others have
 * ended; CADRE_E_STOPPED. */
cadre_status cadre_sweep_train(struct cadre_sweep *sweep, FILE *out,
                               struct cadre_error *err);

/* Print the plan of each instance with its options (--dry-run). [main] */
cadre_status cadre_sweep_dry_run(struct cadre_sweep *sweep, FILE *out,
                                 struct cadre_error *err);

/* "done", "stopped", "failed", "waiting". */
const char *cadre_sweep_status_name(enum cadre_sweep_status status);

/* Write DIR/instances.json with the present states. */
cadre_status cadre_sweep_write_instances(const struct cadre_sweep *sweep,
                                         struct cadre_error *err);

/* Write DIR/summary.json from the summaries of the instances; nothing without any. */
cadre_status cadre_sweep_write_summary(const struct cadre_sweep *sweep,
                                       struct cadre_error *err);

/* The table: a line per instance, and the aggregate. */
void cadre_sweep_table(const struct cadre_sweep *sweep, struct cadre_text *out);

#endif
