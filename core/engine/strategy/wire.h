/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers whose values travel encoded, by the plugin that claims wire.codec on the axis
 * (quantised gathers: Wang et al., ZeRO++, 2023, section 3.1). Each rank encodes its
 * slice, the codes are gathered, and all slices are decoded when the operation is
 * waited for, the own one too: all ranks get the same values. */
#ifndef CADRE_ENGINE_STRATEGY_WIRE_H
#define CADRE_ENGINE_STRATEGY_WIRE_H

#include "core/engine/strategy/host.h"

/* An encoded gather in flight, or its buffer for the next one. */
struct cadre_wire_job {
    struct cadre_wire_job *next;
    cadre_event done; /* 0: not in flight */
    uint32_t kind;
    struct cadre_buf out;
    uint64_t *offsets, *coded; /* (R + 1) of elements and of bytes */
    void *codes;
    uint64_t room; /* bytes of codes */
};

struct cadre_wire {
    struct cadre_ctx *codec;
    const struct cadre_axis *axis;
    struct cadre_wire_job *jobs;
};

/* Does a gather of this kind travel encoded along the axis? */
bool cadre_wire_encodes(const struct cadre_axis *axis, uint32_t kind, uint32_t dtype);

/* [exec] all_gather of cadre.comm, checked. Errors: CADRE_E_UNSUPPORTED, recorded,
 * where `in` lies inside `out`: the owner's exact values would be lost. */
cadre_status cadre_wire_all_gather(struct cadre_axis *axis, const struct cadre_buf *in,
                                   const struct cadre_buf *out, const uint64_t *offsets,
                                   struct cadre_post *post, cadre_event after);

/* [exec] The event has happened: decode what it belongs to, if it is an encoded gather.
 * */
cadre_status cadre_wire_finish(struct cadre_services *services, cadre_event event);

/* Free all jobs; their codes are the ledger's. Accepts a zeroed one. */
void cadre_wire_fini(struct cadre_wire *wire);

#endif
