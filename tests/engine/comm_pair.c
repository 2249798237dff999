/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/comm_pair.h"

cadre_status comm_pair_open(struct comm_pair *pair, int rank, struct cadre_comm *world)
{
    const struct cadre_device_config config = {.kind = "cpu", .threads = 1};
    *pair = (struct comm_pair){0};
    CADRE_TRY(cadre_device_open(&config, &pair->device, &pair->failure));
    pair->ledger.device = pair->device;
    pair->services = (struct cadre_services){
        .failure = &pair->failure,
        .device = pair->device,
        .ledger = &pair->ledger,
        .world = world,
        .inside = &pair->ctx,
    };
    pair->ctx = (struct cadre_ctx){
        .services = &pair->services,
        .plugin = &pair->plugin,
        .name = "pair",
        .in = CADRE_IN_STEP,
    };
    pair->axis = (struct cadre_axis){
        .name = "x",
        .size = 2,
        .index = rank,
        .comm = world,
        .services = &pair->services,
    };
    return CADRE_OK;
}

void comm_pair_close(struct comm_pair *pair)
{
    cadre_device_close(pair->device);
    pair->device = NULL;
}
