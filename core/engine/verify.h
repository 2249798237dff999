/* SPDX-License-Identifier: Apache-2.0 */
/* run.verify: what a rank keeps from one update to the next, and nothing may write in
 * between. A hash (XXH64) of each range is taken when a step ends, and compared before
 * the next update reads or replaces it: so a bit that memory, a driver or a plugin has
 * changed ends the run before it reaches an update. Ranks that keep the same ranges
 * then compare their hashes, and all ranks the checksums of their messages
 * (core/comm/checksum.h).
 *
 * The ranges: values and optimizer states of the OPT ranges, master values, and frozen
 * parameters as they are stored. Not covered: gradients, activations, and what an
 * update itself computes wrongly, unless replicas show it. */
#ifndef CADRE_ENGINE_VERIFY_H
#define CADRE_ENGINE_VERIFY_H

#include "core/device/memory_hash.h"
#include "core/engine/layout/mesh.h"
#include "core/engine/layout/store.h"

struct cadre_verify {
    const struct cadre_store *store;
    struct cadre_mesh *mesh;
    int64_t every; /* steps; 0: nothing is done */
    bool noted; /* `sum` is of what lies there now */
    size_t n; /* ranges */
    uint64_t *sum; /* (n) */
    uint64_t *unit; /* (2 * units) of the ranges without experts, then of experts */
    struct cadre_memory_hash hash;
};

/* [local] Store and mesh, which is connected, are borrowed; from now on its
 * communicators keep checksums. Errors: CADRE_E_RESOURCE. */
cadre_status cadre_verify_init(struct cadre_verify *verify,
                               const struct cadre_store *store, struct cadre_mesh *mesh,
                               int64_t every, struct cadre_error *err);
/* Accepts a zeroed one. */
void cadre_verify_fini(struct cadre_verify *verify);

/* [local] After the last change of step `step`: note the hashes, where the next step
 * compares them. Waits for the device. Errors: those of the device. */
cadre_status cadre_verify_note(struct cadre_verify *verify, uint64_t step);

/* [local] Has nothing changed since they were noted? Waits for the device. Errors:
 * CADRE_E_INTERNAL, recorded, naming the range; those of the device. */
cadre_status cadre_verify_rest(struct cadre_verify *verify, struct cadre_error *why);

/* [local] After sync(DRAIN) behind step `step`, which may have changed values: note
 * them again, where they were noted. Not where replicas diverge: their plugin gives
 * each its own values back when the next step begins. Errors: as cadre_verify_note. */
cadre_status cadre_verify_drained(struct cadre_verify *verify, uint64_t step);

/* [collective: the axes] Before an update: the same, then the hashes of ranks that keep
 * the same ranges, then what was sent along each axis since the mesh was connected.
 * Nothing is noted after it. */
cadre_status cadre_verify_check(struct cadre_verify *verify, struct cadre_error *why);

#endif
