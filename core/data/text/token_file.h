/* SPDX-License-Identifier: Apache-2.0 */
/* The field's token files: uint16 little-endian ids, bare (nanoGPT's .bin) or behind
 * llm.c's header of 256 int32 (magic 20240520, version 1, number of tokens). */
#ifndef CADRE_DATA_TEXT_TOKEN_FILE_H
#define CADRE_DATA_TEXT_TOKEN_FILE_H

#include <stdint.h>

#include "core/base/error.h"
#include "core/data/cache/mapping.h"

struct cadre_token_file {
    struct cadre_mapping map;
    const uint16_t *tokens; /* (count), mapped */
    uint64_t count;
};

/* Map the file; on success the caller frees with cadre_token_file_fini, on failure
 * *file is untouched. [any thread] Errors: CADRE_E_IO; CADRE_E_INVALID (odd size, a
 * header that does not fit the file, 32-bit tokens); CADRE_E_RESOURCE. Source: llm.c
 * dev/data. */
cadre_status cadre_token_file_init(const char *path, struct cadre_token_file *file,
                                   struct cadre_error *err);

/* Safe on a zeroed file. */
void cadre_token_file_fini(struct cadre_token_file *file);

#endif
