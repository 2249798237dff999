/* SPDX-License-Identifier: Apache-2.0 */
/* What a checkpoint was trained on that a later evaluation meets: a loss on it says
 * nothing of data that the model has not seen. */
#ifndef CADRE_CHECKPOINT_TRAINED_H
#define CADRE_CHECKPOINT_TRAINED_H

#include "core/base/memory.h"
#include "core/data/dataset.h"

/* Of the validation split of a data set. */
struct cadre_met {
    struct cadre_text records; /* wfdb: "100, 101"; the caller calls its fini */
    double share; /* of other data: 0 to 1 of its bytes, tokens, images or records */
    double fraction; /* where share > 0: the data.valid_fraction of the run that saw
                        most */
};

/* What a run on `set` (may be NULL) trains on, and what the checkpoint that it starts
 * from, `init` ("": none), was trained on: append "100, 101", names of ECG records, and
 * of other data the lines of cadre_holdout_write, "; " between them. */
void cadre_trained_list(const struct cadre_dataset *set, const char *init,
                        struct cadre_text *records, struct cadre_text *holdouts);

/* What of the validation split of `set` DIR was trained on, by its run or by those that
 * it started from. Nothing where DIR is a Hugging Face folder, a checkpoint of an
 * earlier build that kept no such values, or one of other contents. *out is written
 * also on failure. Errors: as cadre_checkpoint_open. */
cadre_status cadre_trained_find(const char *dir, const struct cadre_dataset *set,
                                struct cadre_met *out, struct cadre_error *err);

/* Warn as `area`, the name of a command, of what DIR was trained on, which `option`
 * ("model.init = ", or "") names; nothing where it is nothing. */
void cadre_trained_warn(const char *area, const char *option, const char *dir,
                        const struct cadre_met *met);

#endif
