/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks of a run must have in common before its first step: the run itself,
 * what their plans share, and the matrix multiplication algorithms of their devices. */
#ifndef CADRE_ENGINE_LAYOUT_AGREE_H
#define CADRE_ENGINE_LAYOUT_AGREE_H

#include "core/comm/comm.h"
#include "core/device/device.h"
#include "core/engine/layout/rank_plan.h"

/* Matrix multiplication of a rank's device. */
struct cadre_tuning {
    char library[320]; /* name and version, and the processor: tuning_library */
    char algorithms[17]; /* hash of the algorithms chosen by timing, in hex; "": none */
};

/* [collective: world] Compare the ranks' fingerprints of the run; the error names the
 * first rank that differs from rank 0. `world` is NULL for one rank. Errors:
 * CADRE_E_INVALID, those of the communicator. */
cadre_status cadre_agree_run(struct cadre_comm *world, uint64_t fingerprint,
                             struct cadre_error *err);

/* [collective: world, before the mesh is connected] Compare what must be equal in the
 * plans of all ranks: axes, claims, reducers, the map of micro-batches, periods,
 * designs; frozen and stored parameters among ranks that run the same units. The error
 * names plugin, part and ranks. `world` is NULL for one rank. Errors:
 * CADRE_E_UNSUPPORTED, CADRE_E_RESOURCE, those of the communicator. */
cadre_status cadre_agree_plan(struct cadre_comm *world,
                              const struct cadre_rank_plan *plan,
                              struct cadre_error *err);

/* [collective: the axis of opt.shard, once it is connected] Do the OPT ranges of its
 * ranks have each element of every trained parameter exactly once? The error names
 * plugin, parameter, ranks and elements. Errors as cadre_agree_plan. */
cadre_status cadre_agree_ranges(const struct cadre_rank_plan *plan,
                                struct cadre_error *err);

/* [collective: world, before it is given the device] Every rank takes over the
 * algorithms that rank 0 read from its file; *out is filled. Under run.exact nothing is
 * timed afterwards, and a rank whose library, version or processor differs from rank
 * 0's is refused. Without run.exact such a rank keeps its own algorithms, which is
 * logged. Errors: CADRE_E_INVALID, CADRE_E_RESOURCE, those of the communicator. */
cadre_status cadre_agree_tuning(struct cadre_comm *world, struct cadre_device *device,
                                int index, bool exact, struct cadre_tuning *out,
                                struct cadre_error *err);

/* The current state of a device. Errors: CADRE_E_RESOURCE. */
cadre_status cadre_agree_read_tuning(struct cadre_device *device,
                                     struct cadre_tuning *out);

#endif
