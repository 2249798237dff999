/* SPDX-License-Identifier: Apache-2.0 */
/* The second level of parameters that are stored in nf4 (core/tensor/nf4.h): found from
 * the whole parameter, however much of it a rank stores, and kept whole on each rank
 * that runs it, 4 bytes for 16384 elements and 4 more. So every rank encodes and
 * decodes a block alike. */
#ifndef CADRE_ENGINE_LAYOUT_SCALES_H
#define CADRE_ENGINE_LAYOUT_SCALES_H

#include "core/engine/layout/store.h"

/* Record the memory of a rank's scales, or take it. Errors: CADRE_E_RESOURCE. */
void cadre_scales_note(const struct cadre_model *model,
                       const struct cadre_rank_plan *plan, struct cadre_ledger *ledger);
cadre_status cadre_scales_init(struct cadre_store *store, struct cadre_error *err);

/* Gives elements [begin, begin + count) of a whole parameter, in the store's wide
 * dtype.
 */
typedef cadre_status (*cadre_scales_read)(void *arg, uint32_t param, uint64_t begin,
                                          uint64_t count, void *out,
                                          struct cadre_error *err);

/* Before values of a parameter are put: find its scales from all of its values. Nothing
 * where it is not stored in nf4. Errors: those of `read`; CADRE_E_INVALID a value is
 * not finite; the device's. */
cadre_status cadre_scales_find(struct cadre_store *store, uint32_t param,
                               cadre_scales_read read, void *arg,
                               struct cadre_error *err);

/* Numbers of a parameter's scales, 0 where it is not stored in nf4; and the scales as
 * numbers of the wide dtype: of values that were decoded, which keep their bits; got on
 * the host. Errors: the device's, CADRE_E_RESOURCE. */
uint64_t cadre_scales_count(const struct cadre_model *model,
                            const struct cadre_rank_plan *plan, uint32_t param);
cadre_status cadre_scales_set(struct cadre_store *store, uint32_t param,
                              const void *wide);
cadre_status cadre_scales_get(const struct cadre_store *store, uint32_t param,
                              void *wide);

/* Encode the values of cadre_store_elements, host, to their bytes `target` on the
 * device. Waits for it. Errors: the device's, CADRE_E_RESOURCE. */
cadre_status cadre_scales_encode(struct cadre_store *store, uint32_t param,
                                 char *target, const void *host);

#endif
