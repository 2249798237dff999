/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters that are stored in another form than they are computed in (CADRE_FORM_* of
 * <cadre/types.h>): decoded before each run of the unit that they belong to, into space
 * that all units share. */
#ifndef CADRE_ENGINE_LAYOUT_FORMS_H
#define CADRE_ENGINE_LAYOUT_FORMS_H

#include "core/engine/layout/store.h"

/* Bytes of the decoded parameters of that unit of this rank which has most; 0 where all
 * are plain. */
uint64_t cadre_forms_bytes(const struct cadre_model *model,
                           const struct cadre_rank_plan *plan);

/* [stream] Decode the parameters of a unit and point the model at them, until the next
 * call. Errors: CADRE_E_INTERNAL (logged) the storage of one is detached; the
 * device's. */
cadre_status cadre_forms_decode(struct cadre_store *store, uint32_t unit);

/* [stream] Decode elements [begin, begin + count) of a parameter's local part, which
 * begin with a block, from their bytes `from` to `to` of `dtype`. Errors: the device's.
 */
cadre_status cadre_forms_decode_range(const struct cadre_store *store, uint32_t param,
                                      const void *from, uint64_t begin, uint64_t count,
                                      uint32_t dtype, void *to);

#endif
