/* SPDX-License-Identifier: Apache-2.0 */
/* A known difference of speed: each step computes on for slow_step.percent of the time
 * that it took so far. Trains what the rest of the stack trains. */
#include <stdlib.h>
#include <time.h>

#include <cadre/helpers.h>

struct cadre_self {
    double part;
};

static cadre_status create(const struct cadre_create *in, struct cadre_self **out)
{
    const struct cadre_values *values = in->values;
    struct cadre_self *self;
    CADRE_TRY(cadre_self_create(in->host, NULL, sizeof *self, &self));
    self->part = values->f64(values->h, "percent") / 100;
    *out = self;
    return CADRE_OK;
}

static cadre_status plan(struct cadre_self *self, const struct cadre_plan *p)
{
    (void)self;
    return p->use_axis(p->h, p->axis, CADRE_BATCH_SAME);
}

static cadre_status bind(struct cadre_self *self, const struct cadre_bind *in)
{
    (void)self, (void)in; /* needs no storage of its own */
    return CADRE_OK;
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static cadre_status step(struct cadre_self *self, const struct cadre_step *in,
                         const struct cadre_next *next)
{
    const double begin = now_s();
    CADRE_TRY(next->run(next->h, in));
    const double end = now_s(), until = end + self->part * (end - begin);
    while (now_s() < until)
        continue;
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
    CADRE_OPTION(.type = CADRE_OPTION_F64, .key = "percent", .def = "0",
                 .help = "how much longer a step takes"),
};

static const struct cadre_strategy_ops ops = {
    .struct_size = sizeof ops,
    .create = create,
    .plan = plan,
    .bind = bind,
    .step = step,
    .sync = sync,
    .destroy = destroy,
};

CADRE_PLUGIN(.role = CADRE_ROLE_OBSERVER, .id = "org.cadre.test.slow_step",
             .version = "0.1.0", .summary = "steps that take longer by a known part",
             .axis = "slow", CADRE_OPTIONS(options), .ops = &ops)
