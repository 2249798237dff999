/* SPDX-License-Identifier: Apache-2.0 */
/* What the executor does between the ranks with a block's experts. */
#include "core/base/clock.h"
#include "core/engine/execute/executor_private.h"

cadre_status cadre_executor_exchange_counts(void *arg, const int32_t *mine,
                                            int32_t *all, int64_t n)
{
    const struct cadre_executor *exec = arg;
    const struct cadre_axis *axis = cadre_rank_plan_expert_axis(exec->config.plan);
    const double begin = cadre_now_s();
    const cadre_status rc = cadre_comm_gather_records(
        axis->comm, "rows of experts", mine, all, (size_t)n * sizeof *mine);
    cadre_timeline_add(exec->config.timeline, CADRE_SPAN_WAIT, axis->name, begin);
    return rc;
}

cadre_status cadre_executor_redistribute_rows(void *arg, uint32_t point, bool backward,
                                              const void *in,
                                              const uint64_t *in_offsets, void *out,
                                              const uint64_t *offsets)
{
    struct cadre_executor *exec = arg;
    const struct cadre_model *model = exec->config.model;
    const uint32_t dtype = model->config.dtype;
    /* the ABI's buffers carry no const; a redistribution reads `in` only */
    struct cadre_buf from = {.data = (void *)(uintptr_t)in,
                             .count = in_offsets[model->ep_size],
                             .dtype = dtype};
    struct cadre_buf to = {
        .data = out, .count = offsets[model->ep_size], .dtype = dtype};
    struct cadre_redistribute_ev ev = {
        .struct_size = sizeof ev,
        .point = point,
        .unit = exec->unit,
        .microbatch = exec->microbatch,
        .backward = backward,
        .form = CADRE_REDISTRIBUTE_ALL_TO_ALL_V,
        .in = &from,
        .out = &to,
        .offsets = offsets,
        .in_offsets = in_offsets,
    };
    return cadre_chain_redistribute(exec->config.chain, &ev);
}
