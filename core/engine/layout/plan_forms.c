/* SPDX-License-Identifier: Apache-2.0 */
/* Stored forms in a plan: tune.base, and whether shards and cuts fit them. */
#include "core/engine/layout/rank_plan.h"
#include "core/model/init.h"
#include "core/tensor/nf4.h"

cadre_status cadre_rank_plan_store_base(struct cadre_rank_plan *plan,
                                        const struct cadre_plan_request *request,
                                        struct cadre_error *err)
{
    uint32_t n = 0;
    for (uint32_t i = 0; request->nf4_base && i < plan->n_params; i++) {
        struct cadre_plan_param *at = &plan->param[i];
        if (!at->frozen || !cadre_model_is_block_matrix(plan->model, i))
            continue;
        n++;
        if (at->stored)
            continue;
        at->form = CADRE_FORM_NF4;
        at->stored = "tune.base";
    }
    if (n > 0 || !request->nf4_base)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_INVALID,
                      "tune.base = nf4 stores the frozen matrices of blocks in 4 bits, "
                      "and none of them is frozen; train with a method that freezes "
                      "them, or set tune.base = full");
}

/* Tensor parallelism may leave a rank runs of the whole parameter that split blocks. */
static cadre_status check_cut(const struct cadre_rank_plan *plan, uint32_t i,
                              struct cadre_error *err)
{
    const struct cadre_model *model = plan->model;
    const struct cadre_param *p = &model->params[i];
    uint64_t whole;
    const uint64_t run = cadre_param_run(p, model->tp_rank, model->tp_size, 0, &whole);
    if (plan->param[i].form != CADRE_FORM_NF4 || model->tp_size == 1 ||
        p->split == CADRE_SHARD_NONE || run % CADRE_NF4_BLOCK == 0)
        return CADRE_OK;
    return cadre_fail(err, CADRE_E_UNSUPPORTED,
                      "strategy.stack: %d tensor ranks cut '%s', which '%s' stores in "
                      "nf4, into runs of %llu elements, expected whole blocks of %d; "
                      "use fewer tensor ranks, or set tune.base = full",
                      model->tp_size, p->name, plan->param[i].stored,
                      (unsigned long long)run, CADRE_NF4_BLOCK);
}

cadre_status cadre_rank_plan_check_form(const struct cadre_rank_plan *plan, uint32_t i,
                                        bool final, struct cadre_error *err)
{
    const struct cadre_plan_param *at = &plan->param[i];
    const struct cadre_share *share = &at->share[CADRE_KIND_PARAM];
    const char *name = plan->model->params[i].name;
    uint32_t elements, bytes;
    if (at->form == CADRE_FORM_PLAIN)
        return CADRE_OK;
    if (!at->frozen)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "plugin '%s' in plan: store('%s'): it is trained, and only "
                          "frozen parameters can be stored in another form; call "
                          "train('%s', 0) too",
                          at->stored, name, name);
    CADRE_TRY(check_cut(plan, i, err));
    cadre_rank_plan_block(plan, i, &elements, &bytes);
    uint64_t size = cadre_rank_plan_stored(plan, i);
    if (final && share->placed &&
        (share->begin % bytes != 0 || share->count % bytes != 0 ||
         share->begin > size || share->count > size - share->begin))
        return cadre_fail(
            err, CADRE_E_UNSUPPORTED,
            "plugin '%s' in plan: range [%llu, +%llu) of '%s', which '%s' stores in "
            "another form; expected whole blocks of its %llu bytes, %u each",
            at->placer[CADRE_KIND_PARAM], (unsigned long long)share->begin,
            (unsigned long long)share->count, name, at->stored,
            (unsigned long long)size, bytes);
    return CADRE_OK;
}
