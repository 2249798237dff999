/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a tokenizer, kept so that checkpoints have them byte for byte whatever
 * becomes of the folder that they are from. */
#ifndef CADRE_DATA_TOKENIZER_TOKENIZER_FILES_H
#define CADRE_DATA_TOKENIZER_TOKENIZER_FILES_H

#include "core/base/error.h"

struct cadre_tokenizer_files; /* immutable once open */

/* Read the files of the tokenizer `spec` (see cadre_tokenizer_open) and what lies
 * beside them: settings and chat templates. None for "byte". The caller closes *out.
 * [any thread] Errors: CADRE_E_IO, CADRE_E_INVALID, CADRE_E_RESOURCE. */
cadre_status cadre_tokenizer_files_open(const char *spec,
                                        struct cadre_tokenizer_files **out,
                                        struct cadre_error *err);

/* NULL is accepted. */
void cadre_tokenizer_files_close(struct cadre_tokenizer_files *files);

/* Write them into a folder under the names by which cadre_tokenizer_open finds them
 * there. NULL is no files. [any thread] Errors: CADRE_E_IO, CADRE_E_RESOURCE. */
cadre_status cadre_tokenizer_files_write(const struct cadre_tokenizer_files *files,
                                         const char *folder, struct cadre_error *err);

#endif
