/* SPDX-License-Identifier: Apache-2.0 */
/* gold_obs: watches a training and changes nothing.
 *
 * It is complete as it stands: it counts what runs on this rank and logs the counts
 * when the run ends or is saved. `FILL IN` marks the places where yours does something
 * else. docs/abi.md of Cadre says which service may be called in which callback,
 * <cadre/strategy.h> is the reference. */
#include <stdlib.h>

#include <cadre/helpers.h>

struct cadre_self {
    const struct cadre_host *host;
    /* since the last line of the log */
    uint64_t steps, forwards, backwards, gradients;
};

/* FILL IN: the services that you use, as CADRE_SERVICE(model, MODEL, param), and
 * members of those names in struct cadre_self. */
static const struct cadre_service services[] = {
    {NULL, 0, 0},
};

static cadre_status create(const struct cadre_create *made, struct cadre_self **out)
{
    struct cadre_self *s;
    CADRE_TRY(cadre_self_create(made->host, services, sizeof *s, &s));
    s->host = made->host;
    *out = s;
    return CADRE_OK;
}

/* It has no axis and claims nothing. */
static cadre_status plan(struct cadre_self *s, const struct cadre_plan *p)
{
    (void)s, (void)p;
    return CADRE_OK;
}

static cadre_status on_bind(struct cadre_self *s, const struct cadre_bind *at)
{
    (void)s, (void)at;
    return CADRE_OK;
}

/* Around each unit of the model: embedding, blocks, head. In evaluation too, where no
 * step runs. */
static cadre_status on_block(struct cadre_self *s, const struct cadre_block_ev *ev)
{
    s->forwards += ev->kind == CADRE_AFTER_FORWARD;
    s->backwards += ev->kind == CADRE_AFTER_BACKWARD;
    return CADRE_OK;
}

/* Once for each gradient and micro-batch. Read ev->grad only after a wait for
 * ev->ready, and leave both as they are. */
static cadre_status on_grad(struct cadre_self *s, struct cadre_grad_ev *ev)
{
    (void)ev;
    s->gradients++;
    return CADRE_OK;
}

static void report(const struct cadre_self *s)
{
    char text[160];
    snprintf(text, sizeof text,
             "%llu steps, units run %llu times forward and %llu times backward, %llu "
             "gradients",
             (unsigned long long)s->steps, (unsigned long long)s->forwards,
             (unsigned long long)s->backwards, (unsigned long long)s->gradients);
    s->host->log(s->host->ctx, 2, text);
}

/* METRICS is the end of a step; DRAIN comes before an evaluation, a checkpoint and the
 * end. FILL IN: what you measure. */
static cadre_status on_sync(struct cadre_self *s, const struct cadre_sync *at)
{
    s->steps += at->what == CADRE_SYNC_METRICS;
    if (at->what != CADRE_SYNC_DRAIN || s->steps == 0)
        return CADRE_OK;
    report(s);
    s->steps = s->forwards = s->backwards = s->gradients = 0;
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
    .bind = on_bind,
    .sync = on_sync,
    .on_block = on_block,
    .on_grad = on_grad,
    .destroy = destroy,
};

CADRE_PLUGIN(.role = CADRE_ROLE_OBSERVER, .id = "org.example.gold_obs",
             .version = "0.1.0", .summary = "counts passes and gradients",
             .services = services, .ops = &ops)
