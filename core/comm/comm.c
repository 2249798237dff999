/* SPDX-License-Identifier: Apache-2.0 */
#include "core/comm/comm.h"

void cadre_comm_set_step(struct cadre_comm *comm, uint64_t step)
{
    comm->ops->set_step(comm, step);
}

void cadre_comm_observe(struct cadre_comm *comm, cadre_comm_observer tell, void *arg)
{
    comm->ops->observe(comm, tell, arg);
}

cadre_status cadre_comm_failure(const struct cadre_comm *comm, struct cadre_error *err)
{
    return comm->ops->failure(comm, err);
}
