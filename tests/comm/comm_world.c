/* SPDX-License-Identifier: Apache-2.0 */
/* The world of `local`. */
#include "tests/comm/comm_cases.h"

cadre_status comm_with_world(comm_body run, void *arg, int rank,
                             struct cadre_local_segment *segment)
{
    struct world w = {.rank = rank};
    struct cadre_error err;
    CADRE_TRY(cadre_local_open(segment, rank, &w.comm, &err));
    w.size = w.comm->size;
    w.device = comm_device();
    cadre_status rc = cadre_comm_use_device(w.comm, w.device, &err);
    if (rc == CADRE_OK)
        rc = run(&w, arg);
    if (w.comm)
        cadre_comm_destroy(w.comm);
    if (w.device)
        w.device->ops->destroy(w.device);
    return rc;
}
