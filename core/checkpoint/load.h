/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's parameters and optimizer states from a checkpoint, or its parameters from a
 * Hugging Face folder. Each rank reads what it holds. */
#ifndef CADRE_CHECKPOINT_LOAD_H
#define CADRE_CHECKPOINT_LOAD_H

#include "core/engine/rank.h"

/* Would cadre_load work on a rank that is only planned? Reads every byte once. [one
 * rank, before ranks start] Errors: as cadre_load. */
cadre_status cadre_load_check(const struct cadre_rank *rank, const char *path,
                              struct cadre_error *err);

/* The same for cadre_load_model: names, shapes, and checksums if there are any. */
cadre_status cadre_load_model_check(const struct cadre_rank *rank, const char *dir,
                                    struct cadre_error *err);

/* Fill a bound rank from checkpoint `path`. Every rank of a resumed run calls it.
 * Errors: CADRE_E_INVALID: damaged, another model, optimizer or global batch. */
cadre_status cadre_load(struct cadre_rank *rank, const char *path,
                        struct cadre_error *err);

/* Fill a bound rank's parameters from a Hugging Face folder (model.init), and its
 * adapters from tune.adapter. Where one of both is empty, those keep their values. */
cadre_status cadre_load_model(struct cadre_rank *rank, const char *dir,
                              struct cadre_error *err);

#endif
