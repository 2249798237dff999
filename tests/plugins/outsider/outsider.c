/* SPDX-License-Identifier: Apache-2.0 */
/* The strategy itself, which is right with misuse = none: gradients are summed over the
 * axis while backward runs, at the reduction level of the option `level`. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/plugins/outsider/outsider.h"

#ifndef OUTSIDER_ID
#define OUTSIDER_ID "org.cadre.test.outsider"
#endif
#ifndef OUTSIDER_MINOR
#define OUTSIDER_MINOR CADRE_ABI_MINOR
#endif
#ifndef OUTSIDER_ROLE
#define OUTSIDER_ROLE CADRE_ROLE_DATA
#define OUTSIDER_AXIS "dp"
#endif
#define REDUCES (OUTSIDER_ROLE == CADRE_ROLE_DATA)
#define TAG "sums"

int outsider_is(const struct cadre_self *s, const char *name)
{
    return strcmp(s->misuse, name) == 0;
}

/* ---- what may happen in any callback ---- */

static cadre_status crash(struct cadre_self *s)
{
    /* a page that nothing is mapped to: of NULL a sanitizer says more */
    volatile int *volatile nothing = (volatile int *)(uintptr_t)64;
    *nothing = s->ranks;
    return CADRE_OK;
}

static cadre_status hang(struct cadre_self *s)
{
    while (s->misuse)
        pause();
    return CADRE_OK;
}

static cadre_status spin(struct cadre_self *s)
{
    volatile uint64_t turns = 0;
    while (s->misuse)
        turns = turns + 1;
    return CADRE_OK;
}

static cadre_status end(struct cadre_self *s)
{
    (void)s;
    exit(0);
}

static cadre_status quit(struct cadre_self *s)
{
    (void)s;
    _exit(0);
}

static cadre_status silent(struct cadre_self *s)
{
    (void)s;
    return CADRE_E_INTERNAL;
}

static const struct outsider_misuse anywhere[] = {
    {"crash", NULL, crash}, {"hang", NULL, hang}, {"spin", NULL, spin},
    {"exit", NULL, end},    {"quit", NULL, quit}, {"silent", NULL, silent},
    {NULL, NULL, NULL},
};

/* Does "NAME" or "NAME@CALLBACK" name the misuse in this callback? */
static int matches(const struct cadre_self *s, const struct outsider_misuse *misuse,
                   const char *callback)
{
    size_t n = strlen(misuse->name);
    if (strncmp(s->misuse, misuse->name, n) != 0)
        return 0;
    if (misuse->callback)
        return !s->misuse[n] && strcmp(misuse->callback, callback) == 0;
    return s->misuse[n] == '@' && strcmp(s->misuse + n + 1, callback) == 0;
}

static cadre_status search(struct cadre_self *s, const struct outsider_misuse *list,
                           const char *callback)
{
    for (; list->name; list++)
        if (matches(s, list, callback)) {
            s->made = 1;
            return list->make(s);
        }
    return CADRE_OK;
}

cadre_status outsider_act(struct cadre_self *s, const char *callback)
{
    if (s->made)
        return CADRE_OK;
    if (s->rank == 1 || !s->n_params)
        CADRE_TRY(search(s, anywhere, callback));
    CADRE_TRY(search(s, outsider_plan_misuses, callback));
    return search(s, outsider_run_misuses, callback);
}

/* The same in a callback of a step. */
static cadre_status act_in_step(struct cadre_self *s, const char *callback)
{
    return s->step == OUTSIDER_STEP ? outsider_act(s, callback) : CADRE_OK;
}

/* ---- life ---- */

static const struct cadre_service services[] = {
    CADRE_SERVICE(mesh, MESH, size),
    CADRE_SERVICE(comm, COMM, recv_any),
    CADRE_SERVICE(model, MODEL, boundary_count),
    CADRE_SERVICE(param, PARAM, reduced),
    CADRE_SERVICE(mem, MEM, free),
    CADRE_SERVICE(ops, OPS, dot),
    {NULL, 0, 0},
};

static cadre_status create(const struct cadre_create *made, struct cadre_self **out)
{
    struct cadre_self *s;
    CADRE_TRY(cadre_self_create(made->host, services, sizeof *s, &s));
    s->host = made->host;
    s->ctx = made->host->ctx;
    s->values = made->values;
    s->misuse = made->values->str(made->values->h, "misuse");
    s->reads = made->values->i64(made->values->h, "reads") != 0;
    s->keeps = made->values->i64(made->values->h, "keeps") != 0;
    cadre_status rc = outsider_act(s, "create");
    if (rc != CADRE_OK) {
        free(s);
        return rc;
    }
    *out = s;
    if (outsider_is(s, "no_instance")) {
        free(s);
        *out = NULL;
    }
    return CADRE_OK;
}

/* Elements of the state: at most those of the parameters, in plan; in bind those of
 * this rank's OPT ranges, whoever placed them. */
static cadre_status count_sums(struct cadre_self *s, int placed)
{
    struct cadre_param_info info;
    s->n_sums = 0;
    for (cadre_param_id id = 0; cadre_param_next(s->host, s->model, &id, &info); id++) {
        uint64_t begin, count = info.count;
        if (placed)
            CADRE_TRY(s->param->range(s->ctx, id, CADRE_KIND_OPT, &begin, &count));
        s->n_sums += count;
    }
    return CADRE_OK;
}

static cadre_status plan(struct cadre_self *s, const struct cadre_plan *p)
{
    uint32_t batch = REDUCES && !outsider_is(s, "split_as_same") ? CADRE_BATCH_SPLIT
                                                                 : CADRE_BATCH_SAME;
    s->plan = *p;
    s->rank = p->rank;
    CADRE_TRY(p->use_axis(p->h, p->axis, batch));
    if (REDUCES && !outsider_is(s, "no_reducer") && !outsider_is(s, "second_sum"))
        CADRE_TRY(
            p->reduces(p->h, p->axis, (uint32_t)s->values->i64(s->values->h, "level")));
    s->n_params = s->model->n_params(s->ctx);
    s->made = 0; /* plans repeat */
    CADRE_TRY(outsider_act(s, "plan"));
    CADRE_TRY(count_sums(s, 0));
    return p->memory(p->h, CADRE_SPACE_DEVICE, s->n_sums * sizeof(float), TAG);
}

static cadre_status on_bind(struct cadre_self *s, const struct cadre_bind *at)
{
    (void)at;
    s->axis = s->mesh->axis(s->ctx, NULL);
    s->ranks = s->mesh->size(s->axis);
    s->done = calloc((size_t)s->n_params + 1, sizeof *s->done);
    CADRE_TRY(count_sums(s, 1));
    if (s->keeps && s->n_sums)
        s->sums =
            s->mem->alloc(s->ctx, CADRE_SPACE_DEVICE, s->n_sums * sizeof(float), TAG);
    if (!s->done || (s->keeps && s->n_sums && !s->sums))
        return cadre_refuse(s->host, CADRE_E_RESOURCE, "no memory for %u entries",
                            s->n_params);
    s->made = 0;
    return outsider_act(s, "bind");
}

static void destroy(struct cadre_self *s, const struct cadre_end *at)
{
    (void)at;
    if (s->step) {
        s->made = 0;
        (void)outsider_act(s, "destroy");
    }
    free(s->done);
    free(s);
}

/* ---- steps ---- */

static cadre_status step(struct cadre_self *s, const struct cadre_step *at,
                         const struct cadre_next *next)
{
    s->step = at->step;
    s->at = *at;
    s->next = *next;
    s->made = 0;
    CADRE_TRY(act_in_step(s, "step"));
    if (outsider_is(s, "next_never") && s->step == OUTSIDER_STEP)
        return CADRE_OK;
    CADRE_TRY(next->run(next->h, at));
    if (outsider_is(s, "next_twice") && s->step == OUTSIDER_STEP)
        (void)next->run(next->h, at);
    return CADRE_OK;
}

static cadre_status on_block(struct cadre_self *s, const struct cadre_block_ev *ev)
{
    (void)ev;
    return act_in_step(s, "on_block");
}

/* The sum of an entry over the axis, as the misuses of training want it. */
static cadre_status add_up(struct cadre_self *s, const struct cadre_buf *grad,
                           cadre_event after, cadre_event *done)
{
    int twice = outsider_is(s, "double_sum") || outsider_is(s, "equal_untrue");
    int times = twice ? 2 : outsider_is(s, "no_sum") ? 0 : 1;
    struct cadre_post post = cadre_post("outsider", CADRE_TRAFFIC_GRAD, after);
    post.done = after;
    for (int i = 0; i < times; i++) {
        post.after = post.done;
        CADRE_TRY(s->comm->all_reduce(s->axis, grad, grad, CADRE_SUM, &post));
    }
    *done = post.done;
    if (!outsider_is(s, "mean"))
        return CADRE_OK;
    CADRE_TRY(s->comm->stream_wait(s->axis, *done));
    return s->ops->scale(s->ctx, grad, 1.0 / s->ranks);
}

static cadre_status on_grad(struct cadre_self *s, struct cadre_grad_ev *ev)
{
    CADRE_TRY(act_in_step(s, "on_grad"));
    int ends_sum =
        (ev->flags & CADRE_GRAD_FINAL) || ev->map == CADRE_MICROBATCHES_CYCLIC;
    if (s->ranks == 1 || !ends_sum || outsider_is(s, "no_reducer"))
        return CADRE_OK;
    cadre_event done = 0;
    CADRE_TRY(add_up(s, ev->grad, ev->ready, &done));
    if (outsider_is(s, "second_sum")) { /* of what another plugin reduces */
        ev->ready = done;
        return CADRE_OK;
    }
    if (outsider_is(s, "no_wait"))
        return s->param->reduced(s->ctx, ev->param, ev->grad, 0);
    s->done[ev->param] = ev->ready = done;
    if (outsider_is(s, "reduced_never"))
        return CADRE_OK;
    if (outsider_is(s, "reduced_twice"))
        (void)s->param->reduced(s->ctx, ev->param, ev->grad, done);
    return s->param->reduced(s->ctx, ev->param, ev->grad, done);
}

/* Another plugin may have said that a parameter is complete later: reading it waits.
 * The line says what was read, and what the state adds up to. */
static cadre_status read_params(struct cadre_self *s)
{
    double total = 0, sums = 0;
    char text[128];
    struct cadre_param_info info;
    for (cadre_param_id id = 0; cadre_param_next(s->host, s->model, &id, &info); id++) {
        struct cadre_buf x;
        double one = 0;
        CADRE_TRY(s->param->data(s->ctx, id, &x));
        if (x.data)
            CADRE_TRY(s->ops->dot(s->ctx, &x, &x, &one));
        total += one;
    }
    for (uint64_t i = 0; s->keeps && i < s->n_sums; i++)
        sums += s->sums[i];
    snprintf(text, sizeof text, "outsider read %.17g and %g at step %llu on rank %u",
             total, sums, (unsigned long long)s->step, s->rank);
    s->host->log(s->ctx, 1, text); /* below it rank 0 alone is heard */
    return CADRE_OK;
}

static void count_step(struct cadre_self *s)
{
    for (uint64_t i = 0; s->keeps && i < s->n_sums; i++)
        s->sums[i] += (float)s->step;
}

static cadre_status on_sync(struct cadre_self *s, const struct cadre_sync *at)
{
    if (at->what == CADRE_SYNC_GRADS) {
        CADRE_TRY(act_in_step(s, "sync"));
        for (uint32_t i = 0; i < s->n_params; i++) {
            cadre_event done = s->done[i];
            s->done[i] = 0;
            if (done)
                CADRE_TRY(s->comm->stream_wait(s->axis, done));
        }
    }
    if (at->what == CADRE_SYNC_UPDATE)
        CADRE_TRY(act_in_step(s, "update"));
    if (at->what == CADRE_SYNC_METRICS)
        count_step(s);
    return at->what == CADRE_SYNC_PARAMS && s->reads ? read_params(s) : CADRE_OK;
}

/* The state is sharded as the optimizer's: a rank describes its own ranges. */
static cadre_status state(struct cadre_self *s, const struct cadre_state_sink *sink)
{
    uint64_t at = 0, begin, count;
    struct cadre_param_info info;
    s->sink = *sink;
    s->made = 0;
    CADRE_TRY(outsider_act(s, "state"));
    for (cadre_param_id id = 0;
         s->keeps && cadre_param_next(s->host, s->model, &id, &info); id++) {
        CADRE_TRY(s->param->range(s->ctx, id, CADRE_KIND_OPT, &begin, &count));
        struct cadre_buf sums =
            cadre_buf_of(s->sums + at, count, CADRE_F32, CADRE_SPACE_DEVICE);
        if (count)
            CADRE_TRY(
                sink->tensor(sink->h, "sums", id, CADRE_STATE_SAME, begin, &sums));
        at += count;
    }
    return CADRE_OK;
}

/* ---- descriptor ---- */

static const struct cadre_option options[] = {
    CADRE_OPTION(.type = CADRE_OPTION_STR, .key = "misuse", .def = "none",
                 .help = "what to do wrong, of table.tsv"),
    CADRE_OPTION(.type = CADRE_OPTION_I64, .key = "level", .def = "0", .max = 255,
                 .help = "of reduction"),
    CADRE_OPTION(.type = CADRE_OPTION_BOOL, .key = "reads", .def = "no",
                 .help = "read all parameters in sync(PARAMS)"),
    CADRE_OPTION(.type = CADRE_OPTION_BOOL, .key = "keeps", .def = "no",
                 .help = "keep a state in checkpoints"),
};

static const struct cadre_strategy_ops ops = {
    .struct_size = sizeof ops,
    .create = create,
    .plan = plan,
    .bind = on_bind,
    .step = step,
    .sync = on_sync,
    .on_block = on_block,
    .on_grad = on_grad,
    .state = state,
    .destroy = destroy,
};

#ifdef OUTSIDER_ENDS_WHEN_LOADED
__attribute__((constructor)) static void leave(void)
{
    _exit(0);
}
#endif

CADRE_EXPORT const struct cadre_plugin *CADRE_ENTRY(void)
{
    static const struct cadre_plugin plugin = {
        .magic = CADRE_MAGIC,
        .struct_size = sizeof plugin,
        .abi_major = CADRE_ABI_MAJOR,
        .abi_minor = OUTSIDER_MINOR,
        .min_host_minor = CADRE_ABI_MINOR,
        .role = OUTSIDER_ROLE,
        .id = OUTSIDER_ID,
        .version = "0.1.0",
        .summary = "misuses of the ABI, on demand",
        .axis = OUTSIDER_AXIS,
        CADRE_OPTIONS(options),
        .services = services,
        .ops = &ops,
    };
    return &plugin;
}
