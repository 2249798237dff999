/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/check/rehearsed.h"

#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <cadre/helpers.h>

#define NOTES 64u /* bytes of its block */

struct cadre_self {
    const struct cadre_host *host;
    const struct cadre_values *values;
    const struct cadre_mesh_svc *mesh;
    const struct cadre_comm_svc *comm;
    const struct cadre_model_svc *model;
    const struct cadre_param_svc *param;
    const struct cadre_mem_svc *mem;
    enum rehearsed_wrong wrong;
    struct cadre_axis *axis;
    int32_t rank, ranks;
    uint32_t plans, states;
    uint64_t step, steps_done;
    cadre_event last;
    char *notes;
};

static const struct cadre_service services[] = {
    CADRE_SERVICE(mesh, MESH, size),    CADRE_SERVICE(comm, COMM, stream_wait),
    CADRE_SERVICE(model, MODEL, param), CADRE_SERVICE(param, PARAM, reduced),
    CADRE_SERVICE(mem, MEM, free),      {NULL, 0, 0},
};

/* ---- life ---- */

static cadre_status create(const struct cadre_create *at, struct cadre_self **out)
{
    struct cadre_self *s;
    CADRE_TRY(cadre_self_create(at->host, services, sizeof *s, &s));
    s->host = at->host;
    s->values = at->values;
    s->wrong = (enum rehearsed_wrong)at->values->i64(at->values->h, "wrong");
    *out = s;
    return CADRE_OK;
}

static void destroy(struct cadre_self *s, const struct cadre_end *end)
{
    (void)end;
    if (s->notes)
        s->mem->free(s->host->ctx, s->notes);
    free(s);
}

static void on_abort(struct cadre_self *s, const struct cadre_end *end)
{
    (void)s, (void)end;
}

static cadre_status plan(struct cadre_self *s, const struct cadre_plan *p)
{
    uint32_t level = s->wrong == PLANS_OTHERWISE_LATER ? s->plans : 0;
    uint64_t bytes = s->wrong == TAKES_MORE_MEMORY ? NOTES / 2 : NOTES;
    s->plans++;
    s->axis = s->mesh->axis(s->host->ctx,
                            s->wrong == ASKS_FOR_AN_UNKNOWN_AXIS ? "nowhere" : p->axis);
    if (!s->axis)
        return CADRE_E_INVALID;
    s->rank = s->mesh->rank(s->axis);
    s->ranks = s->mesh->size(s->axis);
    if (s->wrong == REFUSES)
        return cadre_refuse(s->host, CADRE_E_UNSUPPORTED, "today is no day for this");
    if (s->wrong == ALLOCATES_IN_PLAN)
        (void)s->mem->alloc(s->host->ctx, CADRE_SPACE_HOST, 8, "early");
    if (s->wrong == ASKS_FOR_AN_UNKNOWN_OPTION)
        (void)s->values->i64(s->values->h, "right");
    CADRE_TRY(p->use_axis(p->h, p->axis, CADRE_BATCH_SPLIT));
    CADRE_TRY(p->reduces(p->h, p->axis, level));
    if (s->wrong == PLANS_OTHERWISE_ON_A_RANK)
        CADRE_TRY(p->period(p->h, 1 + (uint64_t)s->rank));
    if (s->wrong == PLACES_WITHOUT_A_CLAIM)
        CADRE_TRY(p->place_range(p->h, 0, CADRE_KIND_OPT, 0, 16, CADRE_SPACE_DEVICE));
    return p->memory(p->h, CADRE_SPACE_HOST, bytes, "notes");
}

static cadre_status on_bind(struct cadre_self *s, const struct cadre_bind *at)
{
    (void)at;
    s->notes = s->mem->alloc(s->host->ctx, CADRE_SPACE_HOST, NOTES, "notes");
    if (!s->notes && s->wrong == CRASHES_WITHOUT_MEMORY)
        return CADRE_OK;
    if (!s->notes)
        return cadre_refuse(s->host, CADRE_E_RESOURCE, "no memory for notes");
    memset(s->notes, 0, s->wrong == WRITES_BEYOND_A_BLOCK ? NOTES + 1 : NOTES);
    return CADRE_OK;
}

/* ---- a step ---- */

static void *ask(void *arg)
{
    struct cadre_self *s = arg;
    struct cadre_buf buf;
    (void)s->param->data(s->host->ctx, 0, &buf);
    return NULL;
}

static cadre_status step(struct cadre_self *s, const struct cadre_step *at,
                         const struct cadre_next *next)
{
    pthread_t thread;
    sigset_t term;
    struct cadre_buf buf;
    if (at->flags & CADRE_STEP_FORWARD)
        return next->run(next->h, at);
    s->step = at->step;
    if (s->wrong == CALLS_FROM_A_THREAD && pthread_create(&thread, NULL, ask, s) == 0)
        pthread_join(thread, NULL);
    if (s->wrong == IGNORES_A_REFUSAL)
        (void)s->param->data(s->host->ctx, 10000, &buf);
    if (s->wrong == SAYS_NOTHING)
        return CADRE_E_INTERNAL;
    if (s->wrong == FAILS_IN_STEP && s->rank == s->ranks - 1)
        return cadre_refuse(s->host, CADRE_E_INTERNAL, "nothing goes today");
    if (s->wrong == BLOCKS_A_SIGNAL) {
        sigemptyset(&term);
        sigaddset(&term, SIGTERM);
        pthread_sigmask(SIG_BLOCK, &term, NULL);
    }
    if (s->wrong == CHANGES_ROUNDING)
        fesetround(FE_TOWARDZERO);
    return next->run(next->h, at);
}

static cadre_status sum(struct cadre_self *s, struct cadre_buf *buf,
                        struct cadre_post *post)
{
    return s->comm->all_reduce(s->axis, buf, buf, CADRE_SUM, post);
}

/* One more than the others, or a step before: of its own notes. */
static cadre_status sum_notes(struct cadre_self *s)
{
    struct cadre_post post = cadre_post("notes", CADRE_TRAFFIC_OTHER, 0);
    struct cadre_buf notes =
        cadre_buf_of(s->notes, NOTES / 4, CADRE_F32, CADRE_SPACE_HOST);
    CADRE_TRY(sum(s, &notes, &post));
    return s->comm->stream_wait(s->axis, post.done);
}

static cadre_status on_grad(struct cadre_self *s, struct cadre_grad_ev *ev)
{
    struct cadre_post post = cadre_post("gradient", CADRE_TRAFFIC_GRAD, ev->ready);
    struct cadre_buf grad;
    bool first = ev->param == 0 || s->wrong == SUMS_NOTHING;
    if (!(ev->flags & CADRE_GRAD_FINAL) || s->ranks == 1)
        return CADRE_OK;
    grad = *ev->grad;
    if (s->wrong == REPORTS_NEVER && first)
        return CADRE_OK;
    if (s->wrong == LEAVES_A_RANK_OUT && first && s->rank == 1)
        return s->param->reduced(s->host->ctx, ev->param, &grad, ev->ready);
    if (s->wrong == SUMS_NOTHING)
        return s->param->reduced(s->host->ctx, ev->param, &grad, ev->ready);
    CADRE_TRY(sum(s, &grad, &post));
    if (s->wrong == SUMS_TWICE && first) {
        post.after = post.done;
        CADRE_TRY(sum(s, &grad, &post));
    }
    if (s->wrong == WRITES_IN_FLIGHT && first)
        memset(grad.data, 0, 4);
    s->last = post.done;
    for (int n = s->wrong == REPORTS_TWICE && first ? 2 : 1; n > 0; n--)
        CADRE_TRY(s->param->reduced(s->host->ctx, ev->param, &grad, post.done));
    return CADRE_OK;
}

/* The notes are needed no more, before their sum was waited for. */
static cadre_status free_notes(struct cadre_self *s)
{
    struct cadre_post post = cadre_post("notes", CADRE_TRAFFIC_OTHER, 0);
    struct cadre_buf notes =
        cadre_buf_of(s->notes, NOTES / 4, CADRE_F32, CADRE_SPACE_HOST);
    CADRE_TRY(sum(s, &notes, &post));
    s->mem->free(s->host->ctx, s->notes);
    s->notes = NULL;
    return s->comm->stream_wait(s->axis, post.done);
}

static cadre_status at_grads(struct cadre_self *s)
{
    if (s->wrong == POSTS_ONE_MORE_ON_A_RANK && s->rank == 1)
        CADRE_TRY(sum_notes(s));
    if (s->wrong == SENDS_MORE_LATER && s->step == 3)
        CADRE_TRY(sum_notes(s));
    if (s->wrong == FREES_IN_FLIGHT && s->notes)
        CADRE_TRY(free_notes(s));
    return s->comm->stream_wait(s->axis, s->last);
}

static cadre_status at_update(struct cadre_self *s)
{
    struct cadre_buf value;
    bool drifts = s->wrong == REPLICAS_DRIFT && s->rank == 1;
    if (s->wrong != CHANGES_A_PARAMETER && !drifts)
        return CADRE_OK;
    CADRE_TRY(s->param->owned(s->host->ctx, 2, &value));
    *(float *)value.data += 1;
    return CADRE_OK;
}

static cadre_status on_sync(struct cadre_self *s, const struct cadre_sync *at)
{
    if (at->what == CADRE_SYNC_GRADS && s->ranks > 1)
        return at_grads(s);
    if (at->what == CADRE_SYNC_UPDATE)
        return at_update(s);
    if (at->what == CADRE_SYNC_METRICS)
        s->steps_done++;
    return CADRE_OK;
}

/* ---- state ---- */

static cadre_status state(struct cadre_self *s, const struct cadre_state_sink *sink)
{
    const char *key = "steps";
    if (s->wrong == DESCRIBES_OTHER_STATE && s->states++ > 0)
        key = "counter";
    for (int n = s->wrong == SAVES_A_STATE_TWICE ? 2 : 1; n > 0; n--)
        CADRE_TRY(sink->blob(sink->h, key, 1, CADRE_BLOB_REPLICATED, &s->steps_done,
                             sizeof s->steps_done));
    return CADRE_OK;
}

/* ---- descriptor ---- */

static const struct cadre_option options[] = {
    CADRE_OPTION(.type = CADRE_OPTION_I64, .key = "wrong", .def = "0",
                 .max = REHEARSED - 1, .help = "the mistake that it makes"),
};

static const struct cadre_strategy_ops ops = {
    .struct_size = sizeof ops,
    .create = create,
    .plan = plan,
    .bind = on_bind,
    .step = step,
    .sync = on_sync,
    .on_grad = on_grad,
    .state = state,
    .abort = on_abort,
    .destroy = destroy,
};

const struct cadre_plugin_handle *rehearsed_plugin(void)
{
    static struct cadre_plugin_handle handle = {
        .name = "rehearsed",
        .desc = {.magic = CADRE_MAGIC,
                 .struct_size = sizeof handle.desc,
                 .abi_major = CADRE_ABI_MAJOR,
                 .abi_minor = CADRE_ABI_MINOR,
                 .role = CADRE_ROLE_DATA,
                 .id = "org.cadre.test.rehearsed",
                 .version = "0.1.0",
                 .summary = "sums",
                 .axis = "dp",
                 CADRE_OPTIONS(options),
                 .services = services},
    };
    handle.ops = ops;
    return &handle;
}
