/* SPDX-License-Identifier: Apache-2.0 */
/* Independent runs: runs of their own, at the same time, one for each place
 * along an axis that a plugin claims with CADRE_BATCH_INDEPENDENT (`mig`, mode =
 * independent). The world is split before its ranks agree on anything: each instance is
 * `cadre train` once more, as a process (and its ranks) with the stack without that
 * axis, the CPUs and the environment that the plugin requested its ranks, and the
 * values that the plugin's `sweep` gives it. So each has a hash of options, a world
 * that fails as one, a folder DIR/instance-K and checkpoints of its own, and what
 * becomes of one touches no other.
 *
 * DIR gets config.ini, instances.json (a list: instance, folder, options, status,
 * summary) and summary.json: ranks and tokens_per_s are sums over the instances, tokens
 * and comm_bytes too, time_s and comm_exposed_s the largest, peak_bytes the list of all
 * ranks; losses are those of the best instance, by valid_loss where all have one, else
 * by loss_last, and `best` says which. */
#ifndef CADRE_SWEEP_SWEEP_H
#define CADRE_SWEEP_SWEEP_H

#include "core/sweep/sweep_values.h"
#include "core/run/record.h"
#include "core/launch/supervise.h"
#include "core/run/spec.h"

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
    bool before; /* it was done before */
    struct cadre_process_end end;
    struct json_t *summary; /* that it left; NULL: none */
};

struct cadre_sweep {
    const char *plugin; /* who made the axis; of the process */
    char stack[256]; /* of an instance */
    const struct cadre_spec *spec; /* of the whole; borrowed */
    struct cadre_sweep_values values;
    size_t n;
    struct cadre_sweep_instance *instance;
};

/* What the user gave. Borrowed. */
struct cadre_sweep_request {
    const struct cadre_options *options; /* loaded, not resolved */
    const char *conf, *run; /* the file; --run, or NULL */
    char *const *sets; /* of --set, NULL-terminated; may be NULL */
};

/* Does the stack of `spec` have such an axis? Then *out is what becomes of it, which
 * the caller destroys; else *out is NULL, also where the stack cannot be planned, which
 * training tells. Everything a user can get wrong in an instance is found here. [main]
 * Errors: CADRE_E_INVALID naming the sweep, the instance or the plugin. */
cadre_status cadre_sweep_create(const struct cadre_sweep_request *request,
                                const struct cadre_spec *spec, struct cadre_sweep **out,
                                struct cadre_error *err);
void cadre_sweep_destroy(struct cadre_sweep *sweep);

/* Train all instances at once, and write what DIR gets; the table goes to `out`. Those
 * that a resumed run finds done are not begun again. [main] Errors: CADRE_E_INVALID for
 * a folder that holds a run; CADRE_E_ABORTED where an instance failed, after the others
 * have ended; CADRE_E_STOPPED. */
cadre_status cadre_sweep_train(struct cadre_sweep *sweep, FILE *out,
                               struct cadre_error *err);

/* Print the plan of each instance with its options (--dry-run). [main] */
cadre_status cadre_sweep_dry_run(struct cadre_sweep *sweep, FILE *out,
                                 struct cadre_error *err);

/* "done", "stopped", "failed", "waiting". */
const char *cadre_sweep_status_name(enum cadre_sweep_status status);

/* DIR/instances.json as it stands. */
cadre_status cadre_sweep_write_instances(const struct cadre_sweep *sweep,
                                         struct cadre_error *err);

/* DIR/summary.json, from the instances that left one; nothing where none did. */
cadre_status cadre_sweep_write_summary(const struct cadre_sweep *sweep,
                                       struct cadre_error *err);

/* The table: a line an instance, and the aggregate. */
void cadre_sweep_table(const struct cadre_sweep *sweep, struct cadre_text *out);

#endif
