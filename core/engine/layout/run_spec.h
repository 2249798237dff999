/* SPDX-License-Identifier: Apache-2.0 */
/* Description of a run: the same on every rank. Borrowed by its ranks. */
#ifndef CADRE_ENGINE_LAYOUT_RUN_SPEC_H
#define CADRE_ENGINE_LAYOUT_RUN_SPEC_H

#include "core/config/config.h"
#include "core/data/dataset.h"
#include "core/engine/layout/mesh.h"
#include "core/model/model.h"
#include "core/optim/optimizer.h"
#include "core/plugin/plugin.h"
#include "core/plugin/stack.h"

struct cadre_run_spec {
    const struct cadre_options *options; /* resolved */
    const struct cadre_config *config; /* their typed values */
    const char *stack_text;
    int n_plugins; /* in the order of strategy.stack */
    const struct cadre_plugin_handle *plugin[CADRE_MAX_STACK];
    struct cadre_axis_request axis[CADRE_MAX_STACK];
    int ranks;
    struct cadre_model_config model;
    struct cadre_optimizer_config optim;
    struct cadre_device_config device;
    const struct cadre_dataset *dataset; /* NULL: plan only */
    int64_t global_batch, micro_batch, time, prefetch;
    uint64_t seed;
    bool exact, recompute;
    double loss_scale; /* first loss scale under fp16; 0: CADRE_LOSS_SCALE_FIRST */
    bool pinned; /* batches go through page-locked memory */
    const double *unit_seconds; /* measured, by unit; NULL: not measured */
    uint64_t
        fingerprint; /* of build, plugins, options and data: must agree on all ranks */
};

#endif
