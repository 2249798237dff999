/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the mig plugin: one instance of the strategy. */
#ifndef CADRE_PLUGINS_MIG_MIG_H
#define CADRE_PLUGINS_MIG_MIG_H

#include <cadre/helpers.h>

#include "plugins/mig/sizes.h"

struct cadre_self {
    const struct cadre_host *host;
    struct cadre_ctx *ctx;
    const struct cadre_mesh_svc *mesh;
    int averages, pin, share; /* options */
    uint32_t mps; /* MIG_MPS_* */
    const char *profile, *instances;
    struct mig_sizes sizes;
    uint32_t size, index; /* along its axis */
};

#define MIG_MPS_ANY 0u /* as the machine is */
#define MIG_MPS_YES 1u
#define MIG_MPS_NO 2u

/* ---- place.c: where ranks run ---- */

/* [main] Request the rank's MIG instance or core set. Errors: CADRE_E_INVALID for
 * options, CADRE_E_UNSUPPORTED where there are no instances. */
cadre_status mig_place(struct cadre_self *self, const struct cadre_place *place);

#endif
