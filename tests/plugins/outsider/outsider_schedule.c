/* SPDX-License-Identifier: Apache-2.0 */
/* A schedule of one stage that does one thing wrong, the one that its option `misuse`
 * names: what the core must not let a schedule do. */
#include <stdlib.h>
#include <string.h>

#include <cadre/helpers.h>

struct cadre_self {
    const struct cadre_host *host;
    const struct cadre_model_svc *model;
    const char *misuse;
};

static const struct cadre_service services[] = {
    CADRE_SERVICE(model, MODEL, backward),
    {NULL, 0, 0},
};

static int is(const struct cadre_self *s, const char *name)
{
    return strcmp(s->misuse, name) == 0;
}

static cadre_status create(const struct cadre_create *made, struct cadre_self **out)
{
    struct cadre_self *s;
    CADRE_TRY(cadre_self_create(made->host, services, sizeof *s, &s));
    s->host = made->host;
    s->misuse = made->values->str(made->values->h, "misuse");
    *out = s;
    return CADRE_OK;
}

static cadre_status plan(struct cadre_self *s, const struct cadre_plan *p)
{
    uint32_t begin = is(s, "unit_missing") ? 1 : 0;
    uint32_t end = is(s, "unit_beyond") ? p->n_units + 1 : p->n_units;
    uint32_t live = is(s, "live_less") ? 1 : (uint32_t)p->rank_microbatches;
    CADRE_TRY(p->use_axis(p->h, p->axis, CADRE_BATCH_SAME));
    CADRE_TRY(p->claim(p->h, "schedule.order", p->axis, 0));
    for (int i = 0; is(s, "many_chunks") && i < CADRE_MAX_CHUNKS; i++)
        (void)p->chunk(p->h, 0, 1, 1, 0);
    (void)p->chunk(p->h, begin, end, live, is(s, "chunk_flag") ? 128 : 0);
    return CADRE_OK;
}

static cadre_status on_bind(struct cadre_self *s, const struct cadre_bind *at)
{
    (void)s, (void)at;
    return CADRE_OK;
}

static cadre_status pass(const struct cadre_self *s, uint32_t microbatch, uint32_t what)
{
    const struct cadre_pass_args args = {
        .struct_size = sizeof args,
        .microbatch = microbatch,
        .what = what,
        .chunk = is(s, "chunk_9") ? 9 : 0,
        .next_unit = -1,
    };
    return what ? s->model->backward(s->host->ctx, &args)
                : s->model->forward(s->host->ctx, &args);
}

static cadre_status step(struct cadre_self *s, const struct cadre_step *at,
                         const struct cadre_next *next)
{
    (void)next;
    uint32_t n = at->n_microbatches;
    uint32_t forward = is(s, "forward_missing") ? n - 1 : n;
    uint32_t backward = is(s, "backward_missing") ? n - 1 : n;
    if (is(s, "backward_first"))
        CADRE_TRY(pass(s, 0, CADRE_PASS_BOTH));
    for (uint32_t m = 0; m < forward; m++)
        CADRE_TRY(pass(s, m, 0));
    if (is(s, "forward_twice"))
        CADRE_TRY(pass(s, 0, 0));
    for (uint32_t m = 0; m < backward && !(at->flags & CADRE_STEP_FORWARD); m++) {
        uint32_t microbatch = is(s, "backward_falling") ? n - 1 - m : m;
        CADRE_TRY(pass(s, microbatch,
                       is(s, "weight_first") ? CADRE_PASS_WEIGHT : CADRE_PASS_BOTH));
    }
    return CADRE_OK;
}

static cadre_status on_sync(struct cadre_self *s, const struct cadre_sync *at)
{
    (void)s, (void)at;
    return CADRE_OK;
}

static void destroy(struct cadre_self *s, const struct cadre_end *at)
{
    (void)at;
    free(s);
}

static const struct cadre_option options[] = {
    CADRE_OPTION(.type = CADRE_OPTION_STR, .key = "misuse", .def = "none",
                 .help = "what to do wrong, of table.tsv"),
};

static const struct cadre_strategy_ops ops = {
    .struct_size = sizeof ops,
    .create = create,
    .plan = plan,
    .bind = on_bind,
    .step = step,
    .sync = on_sync,
    .destroy = destroy,
};

CADRE_PLUGIN(.role = CADRE_ROLE_SCHEDULE, .id = "org.cadre.test.outsider_schedule",
             .version = "0.1.0", .summary = "misuses of a schedule, on demand",
             .axis = "pp", CADRE_OPTIONS(options), .services = services, .ops = &ops)
