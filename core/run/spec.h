/* SPDX-License-Identifier: Apache-2.0 */
/* From options to a run: loads plugins, resolves options, opens data, and checks sizes
 * against each other. All errors of the user are found here, before any rank starts. */
#ifndef CADRE_RUN_SPEC_H
#define CADRE_RUN_SPEC_H

#include "core/comm/local.h"
#include "core/config/config.h"
#include "core/engine/rank.h"

struct cadre_tokenizer_files;

/* What struct cadre_instance borrows. */
struct cadre_instance_text {
    char name[32 + CADRE_AXIS_CHARS]; /* "ddp@site" */
    char axis[CADRE_AXIS_CHARS];
};

/* The run of one command; owns what `run` borrows. */
struct cadre_spec {
    struct cadre_run_spec run;
    struct cadre_instance_text instance[CADRE_MAX_INSTANCES];
    int n_stacked; /* of run.n_plugins: those that strategy.stack names */
    struct cadre_options *options; /* resolved; owned */
    struct cadre_config config; /* what they say; borrows their texts */
    struct cadre_dataset *data; /* NULL when not asked for */
    struct cadre_dataset_info data_info;
    struct cadre_tokenizer_files *tokenizer; /* of data.tokenizer, for checkpoints */
    struct cadre_local_config local; /* ranks, threads or processes, link, time limit */
    char name[64];
    /* canonical text of the stack: names and sizes, an axis where it is another than
     * the plugin's own */
    char stack[CADRE_MAX_STACK * (32 + CADRE_AXIS_CHARS + 8)];
    char out[1024]; /* the run's folder */
    int64_t steps; /* optimizer steps of the whole run */
    double *unit_seconds; /* owned; `run` has it too; NULL: not measured, see costs.h */
    double *cut_seconds; /* owned; of run.recut, in place of these; NULL: these */
    uint32_t n_unit_seconds;
    bool gpu; /* device.kind is a GPU */
    uint64_t device_free; /* its free bytes, before the run; 0: not known */
};

#define CADRE_RUN_RANKS 1024 /* most that a run has */

/* Inputs of a command for its spec. */
struct cadre_spec_request {
    const char *out; /* --out, or NULL: run.out/NAME, of a benchmark NAME-bench */
    const char *name; /* of the run if run.name is empty: the file's */
    int given_ranks; /* ranks that an external launcher started, 0: none */
    int local_ranks; /* of them on this machine, 0: all */
    int device_index; /* of this process, modulo the number of devices */
    bool need_data; /* open the data set */
    int most_ranks; /* that there may be; 0: CADRE_RUN_RANKS */
};

/* Build *out from loaded, unresolved options, which it takes ownership of, also on
 * failure. [main] Errors: CADRE_E_INVALID and what the parts give; one line each. */
cadre_status cadre_spec_create(struct cadre_options *options_take,
                               const struct cadre_spec_request *request,
                               struct cadre_spec **out, struct cadre_error *err);
void cadre_spec_destroy(struct cadre_spec *spec);

/* device.pace, where it is given: some ranks are simulated slow ones. Else NULL. */
const char *cadre_spec_pace(const struct cadre_spec *spec);

#endif
