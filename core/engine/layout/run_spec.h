/* SPDX-License-Identifier: Apache-2.0 */
/* Description of a run: the same on every rank. Borrowed by its ranks. */
#ifndef CADRE_ENGINE_LAYOUT_RUN_SPEC_H
#define CADRE_ENGINE_LAYOUT_RUN_SPEC_H

#include "core/config/config.h"
#include "core/data/dataset.h"
#include "core/engine/layout/mesh.h"
#include "core/engine/layout/rank_plan.h"
#include "core/model/model.h"
#include "core/optim/optimizer.h"
#include "core/plugin/plugin.h"
#include "core/plugin/stack.h"

struct cadre_tokenizer_files;

/* A plugin in the stack. Texts are borrowed, for as long as the run. */
struct cadre_instance {
    const char *name; /* "ddp"; "ddp@site" where the stack names another axis */
    const char *axis; /* that it owns; NULL: none */
};

/* Of tune.method = dpo: see core/engine/execute/preference.h. */
struct cadre_preference_config {
    bool on;
    double beta, smoothing;
};

struct cadre_run_spec {
    const struct cadre_options *options; /* resolved */
    const struct cadre_config *config; /* their typed values */
    const char *stack_text;
    /* in the order of strategy.stack; then ddp of mig.mode = average, then an optimizer
     * plugin, which optim.name names */
    int n_plugins;
    const struct cadre_plugin_handle *plugin[CADRE_MAX_INSTANCES];
    struct cadre_instance instance[CADRE_MAX_INSTANCES];
    struct cadre_axis_request axis[CADRE_MAX_INSTANCES];
    int ranks;
    int node; /* adjacent ranks that are a node; 0: all; or CADRE_NODES_ARE_HOSTS */
    struct cadre_model_config model;
    struct cadre_optimizer_config optim;
    struct cadre_device_config device;
    const struct cadre_dataset *dataset; /* NULL: plan only */
    const struct cadre_tokenizer_files
        *tokenizer; /* saved with the model; NULL: none */
    struct cadre_tokenizer_marks marks; /* of it, for the model's config.json */
    int64_t global_batch, micro_batch, time, prefetch;
    uint64_t seed;
    bool exact, recompute;
    int64_t verify; /* every so many steps; 0: never. See core/engine/verify.h */
    int64_t recheck; /* likewise; see core/engine/execute/recheck.h */
    struct cadre_preference_config preference;
    bool nf4_base; /* frozen matrices of blocks are stored in nf4 */
    double loss_scale; /* first loss scale under fp16; 0: CADRE_LOSS_SCALE_FIRST */
    bool pinned; /* batches go through page-locked memory */
    uint64_t base_sum; /* of the frozen weights of a run with adapters, or of
                          dpo's reference */
    const double *unit_seconds; /* measured, by unit; NULL: not measured */
    uint64_t
        fingerprint; /* of build, plugins, options and data: must agree on all ranks */
};

#endif
