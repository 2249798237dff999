/* SPDX-License-Identifier: Apache-2.0 */
/* Says that its work repeats every 5 steps, and does none. */
#include <cadre/helpers.h>

struct cadre_self {
    int unused;
};

static cadre_status create(const struct cadre_create *c, struct cadre_self **out)
{
    return cadre_self_create(c->host, NULL, sizeof **out, out);
}

static cadre_status plan(struct cadre_self *s, const struct cadre_plan *p)
{
    (void)s;
    return p->period(p->h, 5);
}

static cadre_status bind(struct cadre_self *s, const struct cadre_bind *at)
{
    (void)s, (void)at;
    return CADRE_OK;
}

static cadre_status sync(struct cadre_self *s, const struct cadre_sync *at)
{
    (void)s, (void)at;
    return CADRE_OK;
}

static void destroy(struct cadre_self *s, const struct cadre_end *end)
{
    (void)end;
    free(s);
}

static const struct cadre_strategy_ops ops = {
    .struct_size = sizeof ops,
    .create = create,
    .plan = plan,
    .bind = bind,
    .sync = sync,
    .destroy = destroy,
};

CADRE_PLUGIN(.role = CADRE_ROLE_OBSERVER, .id = "org.cadre.test.period",
             .version = "0.1.0", .summary = "has a period of 5 steps", .axis = "period",
             .ops = &ops)
