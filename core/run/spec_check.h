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

#endif
