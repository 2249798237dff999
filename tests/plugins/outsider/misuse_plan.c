/* SPDX-License-Identifier: Apache-2.0 */
/* Misuses of create, plan and bind. Statuses are ignored: the host must fail the
 * callback all the same. */
#include <string.h>

#include "tests/plugins/outsider/outsider.h"

#define LONG_EFFECT                                                                    \
    "com.example.an_effect_whose_name_is_longer_than_the_sixty_four_characters_it_may"

/* ---- options and services, in create ---- */

static cadre_status unknown_key(struct cadre_self *s)
{
    (void)s->values->i64(s->values->h, "no_such_key");
    return CADRE_OK;
}

static cadre_status other_type(struct cadre_self *s)
{
    (void)s->values->f64(s->values->h, "misuse");
    return CADRE_OK;
}

static cadre_status alloc_early(struct cadre_self *s)
{
    (void)s->mem->alloc(s->ctx, CADRE_SPACE_DEVICE, 64, "early");
    return CADRE_OK;
}

static cadre_status mesh_early(struct cadre_self *s)
{
    (void)s->mesh->axis(s->ctx, NULL);
    return CADRE_OK;
}

/* ---- axes ---- */

static cadre_status no_axis(struct cadre_self *s)
{
    (void)s->plan.use_axis(s->plan.h, NULL, CADRE_BATCH_SPLIT);
    return CADRE_OK;
}

static cadre_status no_handle(struct cadre_self *s)
{
    return s->plan.use_axis(NULL, s->plan.axis, CADRE_BATCH_SPLIT);
}

static cadre_status batch_9(struct cadre_self *s)
{
    (void)s->plan.use_axis(s->plan.h, s->plan.axis, 9);
    return CADRE_OK;
}

static cadre_status batch_free(struct cadre_self *s)
{
    (void)s->plan.use_axis(s->plan.h, s->plan.axis, CADRE_BATCH_FREE);
    return CADRE_OK;
}

static cadre_status reduces_typo(struct cadre_self *s)
{
    (void)s->plan.reduces(s->plan.h, "pd", CADRE_REDUCE_OUTER);
    return CADRE_OK;
}

static cadre_status map_9(struct cadre_self *s)
{
    (void)s->plan.microbatch_map(s->plan.h, 9, NULL);
    return CADRE_OK;
}

static cadre_status ranges_null(struct cadre_self *s)
{
    (void)s->plan.microbatch_map(s->plan.h, CADRE_MICROBATCHES_RANGES, NULL);
    return CADRE_OK;
}

static cadre_status ranges_short(struct cadre_self *s)
{
    const uint64_t first[CADRE_MAX_AXES + 1] = {0, 1, 1, 1, 1, 1, 1, 1, 1};
    (void)s->plan.microbatch_map(s->plan.h, CADRE_MICROBATCHES_RANGES, first);
    return CADRE_OK;
}

static cadre_status period_0(struct cadre_self *s)
{
    (void)s->plan.period(s->plan.h, 0);
    return CADRE_OK;
}

/* ---- claims ---- */

static cadre_status no_effect(struct cadre_self *s)
{
    (void)s->plan.claim(s->plan.h, NULL, s->plan.axis, 0);
    return CADRE_OK;
}

static cadre_status misspelt_effect(struct cadre_self *s)
{
    (void)s->plan.claim(s->plan.h, "opt.shrad", s->plan.axis, 0);
    return CADRE_OK;
}

static cadre_status long_effect(struct cadre_self *s)
{
    (void)s->plan.claim(s->plan.h, LONG_EFFECT, s->plan.axis, 0);
    return CADRE_OK;
}

static cadre_status unknown_flag(struct cadre_self *s)
{
    (void)s->plan.claim(s->plan.h, "com.example.thing", s->plan.axis, 128);
    return CADRE_OK;
}

static cadre_status leave_flag(struct cadre_self *s)
{
    (void)s->plan.claim(s->plan.h, "param.diverges", s->plan.axis, CADRE_CLAIM_LEAVE);
    return CADRE_OK;
}

static cadre_status many_claims(struct cadre_self *s)
{
    char effect[CADRE_EFFECT_CHARS];
    for (int i = 0; i <= CADRE_MAX_CLAIMS; i++) {
        snprintf(effect, sizeof effect, "com.example.effect_%d", i);
        (void)s->plan.claim(s->plan.h, effect, s->plan.axis, 0);
    }
    return CADRE_OK;
}

/* Ranks must agree on what is planned. */
static cadre_status other_claim(struct cadre_self *s)
{
    return s->plan.claim(s->plan.h, s->rank ? "com.example.one" : "com.example.two",
                         s->plan.axis, 0);
}

static cadre_status other_frozen(struct cadre_self *s)
{
    return s->plan.train(s->plan.h, 0, s->rank == 0);
}

static cadre_status equal_null(struct cadre_self *s)
{
    (void)s->plan.by_design(s->plan.h, NULL);
    return CADRE_OK;
}

static cadre_status equal_nonsense(struct cadre_self *s)
{
    (void)s->plan.by_design(s->plan.h, "as everywhere else");
    return CADRE_OK;
}

/* What it says is not so: it trains otherwise under that setting as well. */
static cadre_status equal_untrue(struct cadre_self *s)
{
    return s->plan.by_design(s->plan.h, "level=0");
}

/* ---- storage ---- */

static cadre_status chunk(struct cadre_self *s)
{
    (void)s->plan.chunk(s->plan.h, 0, s->plan.n_units, 1, 0);
    return CADRE_OK;
}

static cadre_status opt_state(struct cadre_self *s)
{
    const struct cadre_opt_state state = {
        .struct_size = sizeof state,
        .key = "mine",
        .dtype = CADRE_F32,
        .extent = CADRE_OPT_ELEMENTS,
        .block = 1,
    };
    (void)s->plan.opt_state(s->plan.h, &state);
    return CADRE_OK;
}

static cadre_status kind_9(struct cadre_self *s)
{
    (void)s->plan.place_range(s->plan.h, 0, 9, 0, 0, CADRE_SPACE_DEVICE);
    return CADRE_OK;
}

static cadre_status param_999(struct cadre_self *s)
{
    (void)s->plan.place_range(s->plan.h, 999, CADRE_KIND_OPT, 0, 0, CADRE_SPACE_DEVICE);
    return CADRE_OK;
}

static cadre_status range_beyond(struct cadre_self *s)
{
    (void)s->plan.place_range(s->plan.h, 0, CADRE_KIND_OPT, 0, UINT64_C(1) << 40,
                              CADRE_SPACE_DEVICE);
    return CADRE_OK;
}

static cadre_status param_in_host(struct cadre_self *s)
{
    (void)s->plan.place_range(s->plan.h, 0, CADRE_KIND_PARAM, 0, 0, CADRE_SPACE_HOST);
    return CADRE_OK;
}

/* OPT ranges along the axis: rank 0 has `mine` of each parameter, the others `others`.
 */
static cadre_status place_all(struct cadre_self *s, int mine, int others)
{
    struct cadre_param_info info;
    int has = s->rank == 0 ? mine : others;
    (void)s->plan.claim(s->plan.h, "opt.shard", s->plan.axis, 0);
    for (cadre_param_id id = 0; cadre_param_next(s->host, s->model, &id, &info); id++)
        (void)s->plan.place_range(s->plan.h, id, CADRE_KIND_OPT, 0,
                                  has ? info.count : 0, CADRE_SPACE_DEVICE);
    return CADRE_OK;
}

static cadre_status opt_overlap(struct cadre_self *s)
{
    return place_all(s, 1, 1);
}

static cadre_status opt_gap(struct cadre_self *s)
{
    return place_all(s, 0, 0);
}

static cadre_status long_tag(struct cadre_self *s)
{
    (void)s->plan.memory(s->plan.h, CADRE_SPACE_DEVICE, 64,
                         "a tag that is longer than thirty-one characters");
    return CADRE_OK;
}

static cadre_status form_9(struct cadre_self *s)
{
    (void)s->plan.store(s->plan.h, 0, 9);
    return CADRE_OK;
}

static cadre_status product_typo(struct cadre_self *s)
{
    (void)s->plan.product_axis(s->plan.h, "dp*pd");
    return CADRE_OK;
}

static cadre_status split_3(struct cadre_self *s)
{
    (void)s->plan.split_axis(s->plan.h, s->plan.axis, 3);
    return CADRE_OK;
}

/* ---- bind ---- */

static cadre_status plan_late(struct cadre_self *s)
{
    (void)s->plan.memory(s->plan.h, CADRE_SPACE_DEVICE, 64, "late");
    return CADRE_OK;
}

static cadre_status axis_typo(struct cadre_self *s)
{
    struct cadre_axis *axis = s->mesh->axis(s->ctx, "pd");
    (void)s->mesh->size(axis);
    return CADRE_OK;
}

static cadre_status memory_unplanned(struct cadre_self *s)
{
    (void)s->mem->alloc(s->ctx, CADRE_SPACE_DEVICE, 1 << 20, "unannounced");
    return CADRE_OK;
}

static cadre_status memory_beyond(struct cadre_self *s)
{
    (void)s->mem->alloc(s->ctx, CADRE_SPACE_DEVICE, UINT64_C(1) << 30, "sums");
    return CADRE_OK;
}

static cadre_status free_foreign(struct cadre_self *s)
{
    s->mem->free(s->ctx, s);
    return CADRE_OK;
}

const struct outsider_misuse outsider_plan_misuses[] = {
    {"unknown_key", "create", unknown_key},
    {"other_type", "create", other_type},
    {"alloc_in_create", "create", alloc_early},
    {"mesh_in_create", "create", mesh_early},
    {"alloc_in_plan", "plan", alloc_early},
    {"no_axis", "plan", no_axis},
    {"no_handle", "plan", no_handle},
    {"batch_9", "plan", batch_9},
    {"batch_free", "plan", batch_free},
    {"reduces_typo", "plan", reduces_typo},
    {"map_9", "plan", map_9},
    {"ranges_null", "plan", ranges_null},
    {"ranges_short", "plan", ranges_short},
    {"period_0", "plan", period_0},
    {"no_effect", "plan", no_effect},
    {"misspelt_effect", "plan", misspelt_effect},
    {"long_effect", "plan", long_effect},
    {"unknown_flag", "plan", unknown_flag},
    {"leave_flag", "plan", leave_flag},
    {"many_claims", "plan", many_claims},
    {"other_claim", "plan", other_claim},
    {"other_frozen", "plan", other_frozen},
    {"equal_null", "plan", equal_null},
    {"equal_nonsense", "plan", equal_nonsense},
    {"equal_untrue", "plan", equal_untrue},
    {"chunk", "plan", chunk},
    {"opt_state", "plan", opt_state},
    {"kind_9", "plan", kind_9},
    {"param_999", "plan", param_999},
    {"range_beyond", "plan", range_beyond},
    {"param_in_host", "plan", param_in_host},
    {"opt_overlap", "plan", opt_overlap},
    {"opt_gap", "plan", opt_gap},
    {"long_tag", "plan", long_tag},
    {"form_9", "plan", form_9},
    {"product_typo", "plan", product_typo},
    {"split_3", "plan", split_3},
    {"plan_late", "bind", plan_late},
    {"axis_typo", "bind", axis_typo},
    {"memory_unplanned", "bind", memory_unplanned},
    {"memory_beyond", "bind", memory_beyond},
    {"free_foreign", "bind", free_foreign},
    {NULL, NULL, NULL},
};
