/* SPDX-License-Identifier: Apache-2.0 */
/* The tokenizer of a run: by default that of the folder it starts from. */
#ifndef CADRE_RUN_TOKENIZER_SETUP_H
#define CADRE_RUN_TOKENIZER_SETUP_H

#include "core/config/config.h"
#include "core/config/options.h"
#include "core/data/tokenizer/tokenizer.h"

/* Where data.tokenizer is not given and the folder model.init has a tokenizer, set
 * data.tokenizer to that folder; ECG records have none. Where data.template is not
 * given and the tokenizer of instruction data has a chat template beside it, set it to
 * model. *config is filled again.
 * Errors: those of the options. */
cadre_status cadre_tokenizer_setup(struct cadre_options *options,
                                   struct cadre_config *config,
                                   struct cadre_error *err);

/* The marks of a tokenizer that lies in files; of "byte", which is named by default for
 * token files too, nothing is known. Errors: those of cadre_tokenizer_open. */
cadre_status cadre_tokenizer_find_marks(const char *spec,
                                        struct cadre_tokenizer_marks *marks,
                                        struct cadre_error *err);

#endif
