/* SPDX-License-Identifier: Apache-2.0 */
/* A slow rank: on rank slow_rank.rank every unit of every pass takes slow_rank.us
 * microseconds more, and slow_rank.times as long again as it took, which a busy machine
 * and instrumented code do not hide. Trains what the rest of the stack trains. */
#include <stdlib.h>
#include <time.h>

#include <cadre/helpers.h>

struct cadre_self {
    uint32_t rank;
    uint32_t slow;
    double more_s, times;
    double begin_s; /* of the unit's pass */
};

static cadre_status create(const struct cadre_create *in, struct cadre_self **out)
{
    const struct cadre_values *values = in->values;
    struct cadre_self *self;
    CADRE_TRY(cadre_self_create(in->host, NULL, sizeof *self, &self));
    self->rank = (uint32_t)values->i64(values->h, "rank");
    self->more_s = 1e-6 * (double)values->i64(values->h, "us");
    self->times = values->f64(values->h, "times");
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

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void pause_s(double s)
{
    const time_t whole = (time_t)s;
    nanosleep(&(struct timespec){whole, (long)(1e9 * (s - (double)whole))}, NULL);
}

static cadre_status on_block(struct cadre_self *self, const struct cadre_block_ev *ev)
{
    if (!self->slow)
        return CADRE_OK;
    if (ev->kind == CADRE_BEFORE_FORWARD || ev->kind == CADRE_BEFORE_BACKWARD)
        self->begin_s = now_s();
    else
        pause_s(self->more_s + self->times * (now_s() - self->begin_s));
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
    CADRE_OPTION(.type = CADRE_OPTION_F64, .key = "times", .def = "0", .max = 1e3,
                 .help = "how many times a unit's pass is waited again"),
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
