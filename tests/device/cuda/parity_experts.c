/* SPDX-License-Identifier: Apache-2.0 */
/* The ops of experts, which are the CPU's alone: the device refuses them. */
#include "tests/device/cuda/parity.h"

static void refuses(struct parity *p, int entry, uint32_t dtype, cadre_status rc)
{
    parity_expect(p, entry, dtype, rc == CADRE_E_UNSUPPORTED,
                  "the ops of experts return CADRE_E_UNSUPPORTED");
}

void parity_experts(struct parity *p)
{
    const struct cadre_device_ops *ops = p->gpu->ops;
    for (int i = 0; i < 4; i++) {
        const uint32_t t = parity_dtypes[i];
        const struct cadre_route route = {.dtype = t, .experts = 2};
        const struct cadre_rows rows = {.dtype = t, .channels = 2};
        refuses(p, PARITY_ENTRY(route_fwd), t, ops->route_fwd(p->gpu, &route));
        refuses(p, PARITY_ENTRY(route_bwd), t, ops->route_bwd(p->gpu, &route));
        refuses(p, PARITY_ENTRY(rows_take), t, ops->rows_take(p->gpu, &rows));
        refuses(p, PARITY_ENTRY(rows_put), t, ops->rows_put(p->gpu, &rows));
        refuses(p, PARITY_ENTRY(rows_dot), t, ops->rows_dot(p->gpu, &rows));
    }
}
