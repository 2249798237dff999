/* SPDX-License-Identifier: Apache-2.0 */
/* Conditions between keys, and between keys and the data. */
#ifndef CADRE_RUN_SPEC_CHECK_H
#define CADRE_RUN_SPEC_CHECK_H

#include "core/run/spec.h"

/* Refuse a spec whose options contradict each other or the data. Its ranks do not exist
 * yet. Pure. Errors: CADRE_E_INVALID names the keys and what to change. */
cadre_status cadre_spec_check(const struct cadre_spec *spec,
                              const struct cadre_spec_request *request,
                              struct cadre_error *err);

/* A model of others (model.init is no checkpoint of a run) has token ids of its own:
 * refuse to feed it the bytes of data.tokenizer's default, of `tokens` ids, unless its
 * vocabulary is as large. Of text alone. Errors: CADRE_E_INVALID. */
cadre_status cadre_spec_check_tokens(const struct cadre_spec *spec, int64_t tokens,
                                     struct cadre_error *err);

#endif
