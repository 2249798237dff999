/* SPDX-License-Identifier: Apache-2.0 */
/* Strict reading of a config.json's keys. Private to the files of this noun. */
#ifndef CADRE_CHECKPOINT_FORMAT_HF_PRIVATE_H
#define CADRE_CHECKPOINT_FORMAT_HF_PRIVATE_H

#include <jansson.h>

#include "core/checkpoint/format/hf.h"

/* An object of a file, or one in it. */
struct cadre_hf_source {
    const char *path;
    const json_t *root;
    struct cadre_error *err;
};

/* null is an absent key: Hugging Face writes null for "the default". Errors of all: the
 * file, the key, what is expected and found. */
const json_t *cadre_hf_get(const struct cadre_hf_source *in, const char *key);
cadre_status cadre_hf_bad_key(const struct cadre_hf_source *in, const char *key,
                              cadre_status status, const char *expected);
/* An integer from 1 to 2^31 - 1; fallback < 0: the key is required. */
cadre_status cadre_hf_get_size(const struct cadre_hf_source *in, const char *key,
                               int64_t fallback, int64_t *out);
/* A positive number; fallback <= 0: the key is required. */
cadre_status cadre_hf_get_number(const struct cadre_hf_source *in, const char *key,
                                 double fallback, double *out);
cadre_status cadre_hf_get_bool(const struct cadre_hf_source *in, const char *key,
                               bool fallback, bool *out);
/* A form that Cadre does not have: the value must be `needed`, or the key absent. */
cadre_status cadre_hf_need_bool(const struct cadre_hf_source *in, const char *key,
                                bool fallback, bool needed);
cadre_status cadre_hf_need_absent(const struct cadre_hf_source *in, const char *key);
cadre_status cadre_hf_need_activation(const struct cadre_hf_source *in, const char *key,
                                      const char *name, const char *alias);

/* hf_keys.c: every key of the file is one that is read, or is known to change nothing
 * that Cadre computes; a dropout that is not 0 is told. CADRE_E_UNSUPPORTED names the
 * first other one. */
cadre_status cadre_hf_check_keys(const struct cadre_hf_source *in,
                                 enum cadre_hf_family family);

/* hf_rope.c: rope_theta, and rope_parameters or rope_scaling. */
cadre_status cadre_hf_read_rope(const struct cadre_hf_source *in,
                                struct cadre_rotary *rotary);

#endif
