/* SPDX-License-Identifier: Apache-2.0 */
/* A training run from start to end: ranks, resume, loop, checkpoints, summary. */
#ifndef CADRE_TRAIN_TRAIN_H
#define CADRE_TRAIN_TRAIN_H

#include "core/train/spec.h"

/* Where this process stands among the ranks. */
struct cadre_train_place {
    char *const *argv; /* of this program: process ranks run it again */
    bool child; /* started by a launcher of ours */
    int rank;
    int segment_fd;
};

/* Train. Leaves the files of a run in spec->out (design: config.ini, metrics.jsonl,
 * summary.json, checkpoints/). [main] Errors: what the parts give; CADRE_E_STOPPED after a
 * signal, once a checkpoint is written; CADRE_E_NUMERIC. */
cadre_status cadre_train(const struct cadre_spec *spec,
                         const struct cadre_train_place *place,
                         struct cadre_error *err);

/* Print what every rank would do and take, without training (--dry-run). */
cadre_status cadre_train_dry_run(const struct cadre_spec *spec, FILE *out,
                                 struct cadre_error *err);

/* A bound single rank over spec's model with the parameters of `from`: a checkpoint, a run
 * folder (its latest checkpoint), a Hugging Face folder, or NULL for initial values. For
 * eval and generate; cadre_rank_fini ends it. spec must be of one rank. */
cadre_status cadre_train_load_rank(const struct cadre_spec *spec, const char *from,
                                   struct cadre_rank *rank, struct cadre_error *err);

#endif
