/* SPDX-License-Identifier: Apache-2.0 */
/* A known difference of speed: each step begins with a spin of slow_step.percent of the
 * time from the spin before to this one, so of all that a step does. Trains what the
 * rest of the stack trains. */
#include <stdlib.h>
#include <time.h>

#include <cadre/helpers.h>

struct cadre_self {
    double part;
    double spun; /* when the last spin ended; 0: none yet */
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
    const double until = begin + (self->spun ? self->part * (begin - self->spun) : 0);
    while (now_s() < until)
        continue;
    self->spun = now_s();
    return next->run(next->h, in);
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
