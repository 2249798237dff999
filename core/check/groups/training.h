/* SPDX-License-Identifier: Apache-2.0 */
/* Real trainings of a check: a small odd model on text that the kit writes, by this
 * program as a child, as a user would start it. */
#ifndef CADRE_CHECK_GROUPS_TRAINING_H
#define CADRE_CHECK_GROUPS_TRAINING_H

#include <limits.h>

#include "core/check/groups/groups.h"
#include "core/check/kit/process.h"

#define CADRE_TRIAL_SETS 20

/* "s.k=v" settings of a run. */
struct cadre_sets {
    int n;
    char text[CADRE_TRIAL_SETS][256];
};

/* Add one, as printf. A later setting of a key wins. Beyond the room, ignored. */
void cadre_sets_add(struct cadre_sets *sets, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* How a run of this program ended. */
struct cadre_trained {
    bool ended; /* by itself, within its time */
    int status, signal; /* exit status; or the signal that ended it */
    double cpu_s;
    char text[512]; /* the line of the error, or the end of its output */
};

/* What a plugin is in trainings; found by a plan in this process. */
struct cadre_subject {
    const struct cadre_plugin_handle *plugin;
    char stack[PATH_MAX + 8]; /* its name in a stack: short, or an absolute path */
    bool by_design, diverges, keeps;
    bool time; /* it splits the time of samples */
    uint64_t period;
    char equal[256];
    bool exact; /* it trains in exact mode; else, or by design, within limits */
};

/* Fill it and write the data and the ini file into the case's folder; false, with a
 * verdict, where the plugin takes no part in trainings. */
bool cadre_subject_take(struct cadre_case *c, struct cadre_subject *out);

/* Its stack over `ranks` ranks, and with an optimizer plugin the option that names
 * it. A baseline has ranks 0: `single`, with the same optimizer. */
void cadre_subject_stack(const struct cadre_subject *subject, int ranks,
                         struct cadre_sets *sets);

/* The setting of by_design: keys with a section go into both. */
void cadre_subject_equal(const struct cadre_subject *subject, struct cadre_sets *base,
                         struct cadre_sets *run);

/* Does the plugin have this option? */
bool cadre_subject_has(const struct cadre_subject *subject, const char *key);

/* `cadre train` into FOLDER/out; `dry` prints the plan and trains nothing. file_kib
 * limits the files that it writes, 0: not. False, with a verdict:
 * a fault of the kit. */
struct cadre_training {
    const char *out; /* a name */
    const struct cadre_sets *sets;
    bool dry;
    long file_kib;
    double limit_s; /* 0: 20 */
};
bool cadre_train_once(struct cadre_case *c, const struct cadre_training *training,
                      struct cadre_trained *out);

/* This program with other arguments; NULL-terminated. How: limits. */
bool cadre_check_program(struct cadre_case *c, const char *const *argv,
                         const struct cadre_check_process *how,
                         struct cadre_trained *out);

/* ---- runs that are compared ---- */

struct cadre_trial {
    char name[32]; /* [a-z0-9-] */
    struct cadre_sets sets;
    /* Its settings are those of by_design. Else one that is by design is judged by the
     * runs of `cadre compare` under its setting. */
    bool settled;
    /* filled */
    bool refused; /* in one line, before anything trained */
    bool alike; /* exact or within limits */
    char text[512]; /* why it was refused, or is not alike */
};

#define CADRE_TRIALS 12

/* A baseline and its trials, which begin with the settings of `base`. */
struct cadre_trial_table {
    struct cadre_subject subject;
    struct cadre_sets base;
    struct cadre_trial trial[CADRE_TRIALS];
    int n;
};

/* An empty table with the case's plugin and its baseline, in exact mode where the
 * plugin trains in it. False, with a verdict, as cadre_subject_take. */
bool cadre_trials_begin(struct cadre_case *c, struct cadre_trial_table *t);

/* Add a trial, at most CADRE_TRIALS; the caller gives it its stack. By design it is
 * compared under the setting in which it must be the same. */
struct cadre_trial *cadre_trials_add(struct cadre_trial_table *t, const char *name);

/* Compare each trial with the baseline by `cadre compare`, all on top of the kit's ini
 * file. A trial that is not alike fails the case. One that is refused is no failure;
 * where all are, that is the verdict. */
void cadre_trials_compare(struct cadre_case *c, struct cadre_trial_table *t);

/* Are the two runs of this case the same: losses, parameters, states of the optimizer
 * and, with `states`, of plugins? `bits`: all bits, else to 1e-3 of the largest value.
 * Fails the case with what differs. */
bool cadre_runs_alike(struct cadre_case *c, const char *a, const char *b, bool bits,
                      bool states);

#endif
