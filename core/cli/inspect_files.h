/* SPDX-License-Identifier: Apache-2.0 */
/* What `cadre inspect` knows besides records and tokens: JSON, JSON lines, ini files,
 * images, tokenizers and models of others. */
#ifndef CADRE_CLI_INSPECT_FILES_H
#define CADRE_CLI_INSPECT_FILES_H

#include <stdbool.h>

#include "core/base/error.h"
#include "core/base/memory.h"

/* Say which file of a run, a comparison, a model or of instruction data it is, with its
 * main figures. Errors: CADRE_E_INVALID for a file that is damaged or no JSON;
 * CADRE_E_RESOURCE. */
cadre_status cadre_inspect_json(const char *path, struct cadre_error *err);

/* Append what the report.json of a comparison concludes, or which runs that of `cadre
 * report` has. *certified: certificates lie beside it. Errors as above. */
cadre_status cadre_inspect_comparison(const char *path, struct cadre_text *out,
                                      bool *certified, struct cadre_error *err);

/* Say whose lines they are, how many, and what the last one says; one that is no JSON
 * object is named. Errors as above. */
cadre_status cadre_inspect_lines(const char *path, struct cadre_error *err);

/* Say what an ini file sets. Errors: CADRE_E_INVALID naming the line, CADRE_E_IO. */
cadre_status cadre_inspect_ini(const char *path, struct cadre_error *err);

/* Say what the images or labels of an idx file are. *is: it is such a file, or called
 * like one; else nothing is said. Errors: those of cadre_idx_init. */
cadre_status cadre_inspect_idx(const char *path, bool *is, struct cadre_error *err);

/* Say what the tokenizer in a folder is. Errors: those of cadre_tokenizer_open. */
cadre_status cadre_inspect_tokenizer(const char *folder, struct cadre_error *err);

/* Say what a SentencePiece tokenizer.model has. Errors: CADRE_E_INVALID. */
cadre_status cadre_inspect_pieces(const char *path, struct cadre_error *err);

/* Say what the tokenizer or model of llama2.c is; false where it is neither. */
bool cadre_inspect_llama2c(const char *path);

#endif
