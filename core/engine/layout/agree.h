/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks of a run have to have in common before its first step: what they run,
 * and the algorithms by which their devices multiply. */
#ifndef CADRE_ENGINE_LAYOUT_AGREE_H
#define CADRE_ENGINE_LAYOUT_AGREE_H

#include "core/comm/comm.h"
#include "core/device/device.h"

/* How a rank's device multiplies. */
struct cadre_tuning {
    char library[320]; /* name and version, and the processor: tuning_library */
    char algorithms[17]; /* hash of what was chosen by timing, in hex; "" for nothing */
};

/* [collective: world] Every rank shows its fingerprint of the run; the first odd one is
 * named. `world` is NULL for one rank. Errors: CADRE_E_INVALID, those of the
 * communicator. */
cadre_status cadre_agree_run(struct cadre_comm *world, uint64_t fingerprint,
                             struct cadre_error *err);

/* [collective: world, before it is given the device] Every rank takes over the
 * algorithms that rank 0 has from its file, and *out is filled. Under run.exact nothing
 * is timed afterwards, and a rank whose library, version or processor is not that of
 * rank 0 is refused; else it keeps its own, which is logged.
 * Errors: CADRE_E_INVALID, CADRE_E_RESOURCE, those of the communicator. */
cadre_status cadre_agree_tuning(struct cadre_comm *world, struct cadre_device *device,
                                int index, bool exact, struct cadre_tuning *out,
                                struct cadre_error *err);

/* How a device multiplies by now. Errors: CADRE_E_RESOURCE. */
cadre_status cadre_agree_read_tuning(struct cadre_device *device,
                                     struct cadre_tuning *out);

#endif
