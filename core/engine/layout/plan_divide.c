/* SPDX-License-Identifier: Apache-2.0 */
/* Micro-batches of data ranks by balance.micro_batches: the core's own use of RANGES.
 */
#include "core/base/memory.h"
#include "core/engine/layout/rank_plan.h"

/* What cannot have micro-batches by balance.micro_batches. */
static cadre_status check_divided(const struct cadre_rank_plan *plan,
                                  const struct cadre_division *division,
                                  struct cadre_error *err)
{
    const char *diverges = cadre_rank_plan_claimed(plan, "param.diverges");
    const char *order = cadre_rank_plan_claimed(plan, "schedule.order");
    const struct cadre_axis *experts = cadre_rank_plan_expert_axis(plan);
    if (plan->map_owner)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "balance.micro_batches = %s gives data ranks different "
                          "numbers of micro-batches, and plugin '%s' asks for a map of "
                          "its own (%s); set balance.micro_batches = off",
                          division->text, plan->map_owner,
                          plan->map == CADRE_MICROBATCHES_BLOCK ? "as many on each rank"
                          : plan->cyclic                        ? "in turn"
                                                                : "ranges");
    if (diverges)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "balance.micro_batches = %s, but replicas of plugin '%s' "
                          "each train on samples of their own (param.diverges), as "
                          "many on each; set balance.micro_batches = off",
                          division->text, diverges);
    if (experts)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "balance.micro_batches = %s, but the ranks along '%s' run "
                          "their micro-batches together (experts), as many on each; "
                          "set balance.micro_batches = off",
                          division->text, experts->name);
    if (order && cadre_division_changes(division))
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "balance.micro_batches = %s changes the micro-batches of a "
                          "rank between steps, and the schedule of plugin '%s' is made "
                          "for one number of them; give the shares of the data ranks, "
                          "as 2, 1",
                          division->text, order);
    return CADRE_OK;
}

cadre_status cadre_rank_plan_divide(struct cadre_rank_plan *plan,
                                    const struct cadre_plan_request *request,
                                    struct cadre_error *err)
{
    const int n = cadre_mesh_data_size(plan->mesh);
    const int index = cadre_mesh_data_index(plan->mesh);
    CADRE_TRY(check_divided(plan, request->division, err));
    uint64_t *first = cadre_calloc((size_t)n + 1, sizeof *first);
    if (!first)
        return cadre_no_memory(err, "the micro-batches of %d ranks", n);
    plan->first = first;
    plan->n_first = n + 1;
    plan->map = CADRE_MICROBATCHES_RANGES;
    plan->divided = true;
    CADRE_TRY(
        cadre_division_at(request->division, 1, request->microbatches, n, first, err));
    if (cadre_division_changes(request->division))
        plan->most = cadre_division_most(request->division, request->microbatches, n);
    plan->first_microbatch = (int64_t)first[index];
    plan->n_microbatches = (int64_t)(first[index + 1] - first[index]);
    return CADRE_OK;
}
