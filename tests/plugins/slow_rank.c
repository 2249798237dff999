/* SPDX-License-Identifier: Apache-2.0 */
/* A rank that is slower by a known time: on rank slow_rank.rank every unit of every
 * pass takes slow_rank.us microseconds more. Trains what the rest of the stack trains.
 */
#include <stdlib.h>
#include <time.h>

#include <cadre/helpers.h>

struct cadre_self {
    uint32_t rank;
    uint32_t slow;
    struct timespec more;
};

static cadre_status create(const struct cadre_create *in, struct cadre_self **out)
{
    const struct cadre_values *values = in->values;
    struct cadre_self *self;
    CADRE_TRY(cadre_self_create(in->host, NULL, sizeof *self, &self));
    self->rank = (uint32_t)values->i64(values->h, "rank");
    self->more.tv_nsec = 1000 * (long)values->i64(values->h, "us");
    *out = self;
    return CADRE_OK;
}

static cadre_status plan(struct cadre_self *self, const struct cadre_plan *p)
{
    self->slow = p->rank == self->rank;
    return CADRE_OK;
}

static cadre_status bind(struct cadre_self *self, const struct cadre_bind *in)
{
    (void)self, (void)in;
    return CADRE_OK;
}

static cadre_status on_block(struct cadre_self *self, const struct cadre_block_ev *ev)
{
    if (self->slow &&
        (ev->kind == CADRE_BEFORE_FORWARD || ev->kind == CADRE_BEFORE_BACKWARD))
        nanosleep(&self->more, NULL);
    return CADRE_OK;
}

static cadre_status sync(struct cadre_self *self, const struct cadre_sync *in)
{
    (void)self, (void)in;
    return CADRE_OK;
}

static void destroy(struct cadre_self *self, const struct cadre_end *end)
{
    (void)end;
    free(self);
}

static const struct cadre_option options[] = {
    CADRE_OPTION(.type = CADRE_OPTION_I64, .key = "rank", .def = "0", .max = 1e6,
                 .help = "the slow rank"),
    CADRE_OPTION(.type = CADRE_OPTION_I64, .key = "us", .def = "0", .max = 1e5,
                 .help = "microseconds more of a unit's pass"),
};

static const struct cadre_strategy_ops ops = {
    .struct_size = sizeof ops,
    .create = create,
    .plan = plan,
    .bind = bind,
    .sync = sync,
    .on_block = on_block,
    .destroy = destroy,
};

CADRE_PLUGIN(.role = CADRE_ROLE_OBSERVER, .id = "org.cadre.test.slow_rank",
             .version = "0.1.0", .summary = "a rank that is slower by a known time",
             .axis = "slow", CADRE_OPTIONS(options), .ops = &ops)
