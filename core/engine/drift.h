/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that hold the same values hold equal ones: replicas that have drifted apart
 * train on in silence, so they are compared whenever nothing is in flight. */
#ifndef CADRE_ENGINE_DRIFT_H
#define CADRE_ENGINE_DRIFT_H

#include "core/engine/layout/mesh.h"
#include "core/engine/layout/store.h"

/* [collective: the axes along which values are replicated; after sync(DRAIN)] Compare,
 * unit by unit, the sums of the values' squares, in chunks of a fixed size: equal
 * values have equal bits of it. Parameters that are placed in ranges are left out along
 * the axis that shards them, and all along an axis of diverging replicas. Cost: one
 * read of the parameters and 8 bytes a unit from each rank. Errors: CADRE_E_INTERNAL,
 * recorded, naming unit, axis and ranks; those of the device and the communicator. */
cadre_status cadre_drift_check(const struct cadre_store *store, struct cadre_mesh *mesh,
                               struct cadre_error *why);

/* [local] Along the axis, do ranks that share all other coordinates hold the same
 * values? */
bool cadre_drift_replicated(const struct cadre_store *store,
                            const struct cadre_axis *axis);

/* [collective: the axis] Compare hashes (2 * units: of each unit without its experts,
 * then of its experts, which are left out along the axis that divides these) of what
 * the ranks keep, `what` in words. Errors: as cadre_drift_check; of three ranks and
 * more it names the one that is not as most are. */
cadre_status cadre_drift_compare(const struct cadre_store *store,
                                 const struct cadre_axis *axis, const uint64_t *hash,
                                 const char *what, struct cadre_error *why);

#endif
