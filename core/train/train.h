/* SPDX-License-Identifier: Apache-2.0 */
/* A training run from start to end: ranks, resume, loop, checkpoints, summary. */
#ifndef CADRE_TRAIN_TRAIN_H
#define CADRE_TRAIN_TRAIN_H

#include "core/launch/launch.h"
#include "core/run/spec.h"
#include "core/train/predict.h"

/* The place of this process among the ranks. */
struct cadre_train_place {
    char *const *argv; /* of this program: process ranks run it again */
    bool child; /* started by Cadre's own launcher */
    int rank;
    int segment_fd;
    struct cadre_launch_external
        external; /* started as one rank by an external launcher */
};

/* Train. Writes the files of a run into spec->out (config.ini, metrics.jsonl,
 * summary.json, checkpoints/). [main] Errors: those of the parts; CADRE_E_STOPPED
 * after a signal, once a checkpoint is written; CADRE_E_NUMERIC. If run.elastic
 * restarts ranks, *spec is replaced by the spec of the last start. */
cadre_status cadre_train(struct cadre_spec **spec,
                         const struct cadre_train_place *place,
                         struct cadre_error *err);

/* Plan without training (--dry-run): print placement and memory of every rank of this
 * machine to `out`, NULL for nowhere, and add up what they take. Costs are measured if
 * the plan needs them. `external` is NULL where cadre starts the ranks. Errors:
 * CADRE_E_INVALID, also where the run would not fit into memory. */
cadre_status cadre_train_dry_run(struct cadre_spec *spec,
                                 const struct cadre_launch_external *external,
                                 FILE *out, struct cadre_prediction *prediction,
                                 struct cadre_error *err);

/* What makes the run's sums differ from those of `single`, and what its strategies
 * change by design: cadre_rank_reduction_signature, cadre_rank_changes. Plans rank 0.
 */
cadre_status cadre_train_signature(const struct cadre_spec *spec,
                                   char out[CADRE_SIGNATURE_CHARS],
                                   struct cadre_changes *changes,
                                   struct cadre_error *err);

/* The folder of parameters for `from`: the latest complete checkpoint of a run, or
 * `from` itself (a checkpoint, a Hugging Face folder). *out is the caller's. */
cadre_status cadre_train_find_params(const char *from, char **out,
                                     struct cadre_error *err);

/* A bound single rank with the parameters of model.init, or initial ones if it is
 * empty. For eval and generate; cadre_rank_fini ends it. spec must have one rank. */
cadre_status cadre_train_load_rank(const struct cadre_spec *spec,
                                   struct cadre_rank *rank, struct cadre_error *err);

#endif
