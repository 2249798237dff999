/* SPDX-License-Identifier: Apache-2.0 */
/* Which weights of a block have adapters: a bit for each row of the form's table. */
#ifndef CADRE_TUNE_MODULES_H
#define CADRE_TUNE_MODULES_H

#include "core/model/model.h"

/* The module of the i-th weight that adapters may have, as Hugging Face names it within
 * a block ("self_attn.q_proj", "attn.c_attn"); NULL after the last. *position: the
 * row of the weight in the form's table of a block. */
const char *cadre_modules_name(enum cadre_arch arch, int i, uint32_t *position);

/* The value of tune.targets: `all`, or names of modules between commas, each one whole
 * ("mlp.c_proj"), its last part ("c_proj": all that end so), without "_proj" ("q"), or
 * the first part ("mlp"). Errors: CADRE_E_INVALID names what is unknown. */
cadre_status cadre_modules_parse(enum cadre_arch arch, const char *text,
                                 uint32_t *targets, struct cadre_error *err);

/* A module as PEFT compares it: a whole name, or its end behind a dot. 0: none. */
uint32_t cadre_modules_find(enum cadre_arch arch, const char *name);

#endif
